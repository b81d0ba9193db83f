// The operator's view of a quorum. A lock is what a majority of the nodes says of it, and free once a majority has freed it.
// The records of processes are on all nodes that can be reached.
import type { LockBackendError } from '../../core/errors';
import type { HolderState, LockState } from '../../core/lock-state';
import type { Operator } from '../operator';
import type { Nodes } from './nodes';
import { placesOut } from './places';

export function quorumOperator(nodes: Nodes): Operator {
  const operators = (): Operator[] => nodes.responsive.map(({ store }) => store.operator);
  return {
    isLocal: false,
    get offsetMs() {
      return nodes.all[0]!.store.operator.offsetMs;
    },
    get keys() {
      if (operators().some(({ keys }) => keys === undefined)) return undefined;
      return async function* (...args) {
        for (const each of operators()) yield* each.keys!(...args);
      } satisfies Operator['keys'];
    },
    inspect(keys, commandTimeoutMs, token) {
      const states = keys.map((key) => inspectMajority(nodes, key, commandTimeoutMs, token));
      return Promise.all(states.map((state) => state.catch((error: LockBackendError) => error)));
    },
    permitsOut: (key, commandTimeoutMs) => placesOut(nodes, key, commandTimeoutMs),
    async free(key, id, commandTimeoutMs) {
      const asked = nodes.askAll(key, ({ store }) => store.operator.free(key, id, commandTimeoutMs));
      const { replies, errors } = await asked;
      const freed = [...replies.values()].filter((each) => each).length;
      if (freed >= nodes.majority) return true;
      if (nodes.isMinority(replies.size - freed)) return false;
      throw nodes.noMajority(errors, key, true);
    },
    async register(registration, commandTimeoutMs) {
      const all = operators().map((each) => each.register(registration, commandTimeoutMs).catch(() => true));
      return (await Promise.all(all)).every((isThere) => isThere);
    },
    async processes(commandTimeoutMs) {
      const seen = await Promise.allSettled(operators().map((each) => each.processes(commandTimeoutMs)));
      const answers = seen.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
      if (answers.length === 0) throw (seen[0] as PromiseRejectedResult).reason;
      const texts = new Set(answers.flatMap((each) => each.texts));
      return { atMs: answers[0]!.atMs, texts: [...texts] };
    },
  };
}

/**
 * The state of a lock: held if a majority holds it, for as long as a majority will, under the last fence that a majority knows. With a
 * token, `owned` if a majority has that token as its holder.
 */
export async function inspectMajority(
  nodes: Nodes,
  key: string,
  commandTimeoutMs: number,
  token?: string,
): Promise<LockState & { owned?: boolean }> {
  const { replies, errors } = await nodes.askAll(key, ({ store }) => store.inspect(key, commandTimeoutMs, token));
  const states = [...replies.values()];
  const locked = states.filter((state) => state.locked).sort((a, b) => b.remaining - a.remaining);
  const isFree = nodes.isMinority(states.length - locked.length);
  if (locked.length < nodes.majority && !isFree) throw nodes.noMajority(errors, key);
  const fences = states.map((state) => state.fence).sort((a, b) => b - a);
  const fence = fences[states.length < nodes.size ? 0 : nodes.majority - 1]!;
  const last = locked[nodes.majority - 1];
  const holders = holdersOf(states, nodes.majority);
  const owned = states.filter((state) => state.owned).length >= nodes.majority;
  if (last !== undefined) return { ...last, fence, holders, ...(token !== undefined && { owned }) };
  return { locked: false, owner: null, remaining: 0, waiters: 0, fence, mode: null, holders, queue: [] };
}

/** The holders that a majority knows, each with the time for which a majority will know it. */
function holdersOf(states: readonly LockState[], majority: number): HolderState[] {
  const byId = new Map<string, HolderState[]>();
  for (const holder of states.flatMap((state) => state.holders)) {
    byId.set(holder.id, [...(byId.get(holder.id) ?? []), holder]);
  }
  return [...byId.values()].flatMap((same) => same.sort((a, b) => b.remaining - a.remaining)[majority - 1] ?? []);
}
