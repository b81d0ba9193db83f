/** What there is to know of a lock from outside. */
export interface LockState {
  /** Whether somebody holds the key now. */
  locked: boolean;
  /** The holder's `owner` label; null where it has none, or is not one of ours. */
  owner: string | null;
  /** Ms until Redis frees the key by itself; Infinity where it never does; 0 when free. */
  remaining: number;
  /** How many are in the key's queue: processes for a mutex, waiters for a key that several may hold. */
  waiters: number;
  /** The last fence minted for this key; 0 where none is remembered. */
  fence: number;
  /** How the key is held; null when free. */
  mode: HoldKind | null;
  /** Those that hold it, the first 256 of them. */
  holders: readonly HolderState[];
  /** Those in its queue, in order, the first 256 of them. A caller that polls a mutex is in no queue. */
  queue: readonly WaiterState[];
}

/** How a key is held, or waited for. */
export type HoldKind = 'exclusive' | 'read' | 'write' | 'permits';

/** A holder, as it is seen from outside. */
export interface HolderState {
  /** The first 8 hex digits of the SHA-1 of its token: what `withLock.free` takes. */
  id: string;
  /** Its `owner` label, if it has one. */
  owner: string | null;
  kind: HoldKind;
  /** How many permits it has; 1 unless it holds a semaphore. */
  permits: number;
  /** Ms until Redis ends it; Infinity: never. */
  remaining: number;
}

const foreign = new WeakSet<HolderState>();

/** @internal Marks a holder that has a key by other means than this library: its release wakes nobody. No field of what is shown. */
export function asForeign(holder: HolderState): HolderState {
  foreign.add(holder);
  return holder;
}

/** @internal */
export function isForeign(holder: HolderState): boolean {
  return foreign.has(holder);
}

/** A waiter, as it is seen from outside. */
export interface WaiterState {
  owner: string | null;
  kind: HoldKind;
  /** Ms since it was queued, by the clock of the store; 0 for a reader that waits to become a writer. */
  waitingMs: number;
}

/** One of the locks that `withLock.list` finds. */
export interface ListedLock extends LockState {
  /** As it is in the store: the prefix included. */
  key: string;
}

/** What keeps the locks. */
export type StoreKind = 'redis' | 'quorum' | 'memory' | 'shared-memory';

/** A piece of the server's time, in ms of the epoch. */
export interface Slot {
  readonly index: number;
  readonly start: number;
  readonly end: number;
}
