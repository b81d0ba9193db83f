// A majority's view of a lock, without changing the lock.
import type { HolderState, LockState } from '../../core/lock-state';
import type { Nodes } from './nodes';

/** The state of a lock: held if a majority holds it, for as long as a majority will, under the last fence that a majority knows. */
export async function inspectMajority(nodes: Nodes, key: string, commandTimeoutMs: number): Promise<LockState> {
  const { replies, errors } = await nodes.askAll(key, ({ store }) => store.inspect(key, commandTimeoutMs));
  const states = [...replies.values()];
  const locked = states.filter((state) => state.locked).sort((a, b) => b.remaining - a.remaining);
  const isFree = nodes.isMinority(states.length - locked.length);
  if (locked.length < nodes.majority && !isFree) throw nodes.noMajority(errors, key);
  const fences = states.map((state) => state.fence).sort((a, b) => b - a);
  const fence = fences[states.length < nodes.size ? 0 : nodes.majority - 1]!;
  const last = locked[nodes.majority - 1];
  const holders = holdersOf(states, nodes.majority);
  if (last !== undefined) return { ...last, fence, holders };
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
