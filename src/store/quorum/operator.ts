// The operator's view of a quorum. A lock is free once a majority of the nodes has freed it. The records of processes are on
// all nodes that can be reached.
import type { LockBackendError } from '../../core/errors';
import type { LockState } from '../../core/lock-state';
import type { Operator, Processes, Registration } from '../operator';
import type { Nodes } from './nodes';
import { placesOut } from './places';
import { inspectMajority } from './reads';

export class QuorumOperator implements Operator {
  readonly isLocal = false;
  readonly #nodes: Nodes;

  constructor(nodes: Nodes) {
    this.#nodes = nodes;
  }

  get keys(): Operator['keys'] {
    const operators = this.#operators;
    if (operators.some(({ keys }) => keys === undefined)) return undefined;
    return async function* (...args) {
      for (const operator of operators) yield* operator.keys!(...args);
    };
  }

  get offsetMs(): number {
    return this.#nodes.all[0]!.store.serverOffsetMs;
  }

  inspect(keys: readonly string[], commandTimeoutMs: number): Promise<(LockState | LockBackendError)[]> {
    const states = keys.map((key) => inspectMajority(this.#nodes, key, commandTimeoutMs));
    return Promise.all(states.map((state) => state.catch((error: LockBackendError) => error)));
  }

  permitsOut(key: string, commandTimeoutMs: number): Promise<number> {
    return placesOut(this.#nodes, key, commandTimeoutMs);
  }

  free(key: string, id: string | undefined, commandTimeoutMs: number): Promise<boolean> {
    return this.#nodes.ask(
      ({ store }) => store.operator.free(key, id, commandTimeoutMs),
      ({ replies, errors, open }) => {
        if (open > 0) return undefined;
        const freed = [...replies.values()].filter((each) => each).length;
        if (freed >= this.#nodes.majority) return true;
        if (this.#nodes.isMinority(replies.size - freed)) return false;
        throw this.#nodes.noMajority(errors, key, true);
      },
    );
  }

  async register(registration: Registration, commandTimeoutMs: number): Promise<boolean> {
    const all = this.#operators.map((each) => each.register(registration, commandTimeoutMs).catch(() => true));
    return (await Promise.all(all)).every((isThere) => isThere);
  }

  async processes(commandTimeoutMs: number): Promise<Processes> {
    const seen = await Promise.allSettled(this.#operators.map((each) => each.processes(commandTimeoutMs)));
    const answers = seen.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    if (answers.length === 0) throw (seen[0] as PromiseRejectedResult).reason;
    const texts = new Set(answers.flatMap((each) => each.texts));
    return { atMs: answers[0]!.atMs, texts: [...texts] };
  }

  get #operators(): Operator[] {
    return this.#nodes.responsive.map(({ store }) => store.operator);
  }
}
