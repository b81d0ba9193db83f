/** The state of a lock, as it is seen from outside. */
export interface LockState {
  /** True if the key is held now. */
  locked: boolean;
  /** The holder's `owner` label; null if it has none, or is a client of another library. */
  owner: string | null;
  /** Ms until Redis frees the key by itself; Infinity if it never does; 0 if the key is free. */
  remaining: number;
  /** The length of the key's queue: processes for a mutex, waiters for an RWLock or a Semaphore. */
  waiters: number;
  /** The last fence minted for this key; 0 if none is remembered. */
  fence: number;
  /** The kind of its holders; null if the key is free. */
  mode: HoldKind | null;
  /** The first 256 holders. */
  holders: readonly HolderState[];
  /** The first 256 waiters of the queue, in order. A caller that polls a mutex is in no queue. */
  queue: readonly WaiterState[];
}

/** The way in which a key is held or waited for. */
export type HoldKind = 'exclusive' | 'read' | 'write' | 'permits';

/** @internal The `HoldKind` of a mode. */
export const kindOfMode = { shared: 'read', exclusive: 'write', upgrade: 'write', counted: 'permits' } as const;

/** A holder, as it is seen from outside. */
export interface HolderState {
  /** The first 8 hex digits of the SHA-1 of the holder's token, for `withLock.free`. */
  id: string;
  /** The holder's `owner` label; null if it has none. */
  owner: string | null;
  kind: HoldKind;
  /** The number of permits; 1 unless the key is a semaphore. */
  permits: number;
  /** Ms until the holder's lifetime ends; Infinity: never. */
  remaining: number;
}

/** @internal The holders that do not use this library: their release wakes nobody. They are marked here, not in a public field. */
export const foreignHolders = new WeakSet<HolderState>();

/** A waiter, as it is seen from outside. */
export interface WaiterState {
  owner: string | null;
  kind: HoldKind;
  /** Ms since the waiter was queued, by the clock of the store; 0 for a reader that waits to become a writer. */
  waitingMs: number;
}

/** One of the locks that `withLock.list` finds. */
export interface ListedLock extends LockState {
  /** The full key, prefix included. */
  key: string;
}

/** The kind of store that keeps the locks. */
export type StoreKind = 'redis' | 'quorum' | 'memory' | 'shared-memory';

/** A slot of a once-job: a stretch of the server's time, in ms of the epoch. */
export interface Slot {
  readonly index: number;
  readonly start: number;
  readonly end: number;
}
