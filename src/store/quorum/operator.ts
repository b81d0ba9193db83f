// The operator's view of a quorum. A lock is free once a majority of the nodes has freed it. The records of processes are on
// all nodes that can be reached.
import { LockBackendError } from '../../core/errors';
import type { LockState } from '../../core/lock-state';
import type { Operator, Processes, Registration } from '../operator';
import type { Nodes } from './nodes';
import { placesOut } from './places';

export class QuorumOperator implements Operator {
  readonly isLocal = false;
  readonly keys: Operator['keys'];
  readonly #nodes: Nodes;
  readonly #inspect: (key: string, timeoutMs: number) => Promise<LockState>;

  constructor(nodes: Nodes, inspect: (key: string, timeoutMs: number) => Promise<LockState>) {
    this.#nodes = nodes;
    this.#inspect = inspect;
    this.keys = this.#operators().every(({ keys }) => keys !== undefined)
      ? (...args) => this.#keys(...args)
      : undefined;
  }

  get offsetMs(): number {
    return this.#nodes.all[0]!.store.serverOffsetMs;
  }

  inspect(keys: readonly string[], commandTimeoutMs: number): Promise<(LockState | LockBackendError)[]> {
    const orError = (error: unknown): LockBackendError => {
      if (error instanceof LockBackendError) return error;
      throw error;
    };
    return Promise.all(keys.map((key) => this.#inspect(key, commandTimeoutMs).catch(orError)));
  }

  permitsOut(key: string, commandTimeoutMs: number): Promise<number> {
    return placesOut(this.#nodes, key, commandTimeoutMs);
  }

  free(key: string, id: string | undefined, commandTimeoutMs: number): Promise<boolean> {
    return this.#nodes.ask(
      ({ store }) => store.operator!.free(key, id, commandTimeoutMs),
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
    const all = this.#operators().map((each) => each.register(registration, commandTimeoutMs).catch(() => true));
    return (await Promise.all(all)).every((isThere) => isThere);
  }

  async processes(commandTimeoutMs: number): Promise<Processes> {
    const seen = await Promise.allSettled(this.#operators().map((each) => each.processes(commandTimeoutMs)));
    const answers = seen.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    if (answers.length === 0) throw (seen[0] as PromiseRejectedResult).reason;
    const texts = new Set(answers.flatMap((each) => each.texts));
    return { atMs: answers[0]!.atMs, texts: [...texts] };
  }

  async *#keys(...args: Parameters<NonNullable<Operator['keys']>>): AsyncGenerator<readonly string[], void> {
    for (const operator of this.#operators()) yield* operator.keys!(...args);
  }

  #operators(): Operator[] {
    return this.#nodes.responsive.flatMap(({ store }) => store.operator ?? []);
  }
}
