/** What there is to know of a lock from outside. */
export interface LockState {
  /** Whether somebody holds the key now. */
  locked: boolean;
  /** The holder's `owner` label; null where it has none, or is not one of ours. */
  owner: string | null;
  /** Ms until Redis frees the key by itself; Infinity where it never does; 0 when free. */
  remaining: number;
  /** How many processes are in the key's queue. */
  waiters: number;
  /** The last fence minted for this key; 0 where none is remembered. */
  fence: number;
  /** How the key is held; null when free. */
  mode: 'exclusive' | 'read' | 'write' | 'permits' | null;
}

/** What keeps the locks. */
export type StoreKind = 'redis' | 'quorum' | 'memory' | 'shared-memory';

/** A piece of the server's time, in ms of the epoch. */
export interface Slot {
  readonly index: number;
  readonly start: number;
  readonly end: number;
}
