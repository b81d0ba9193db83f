// The commands and replies of the machine: the arguments and replies of the scripts, as data.
import type { AcquireRequest, Mode, QueuePosition } from '../../contract';

/** An acquire. Only that of a mutex without a queue entry may have several keys. */
export interface AcquireCommand
  extends Pick<AcquireRequest, 'token' | 'fences' | 'minFence' | 'queueAs' | 'pauseMs' | 'mode' | 'slots'> {
  readonly keys: readonly string[];
  readonly lifetimeMs: number;
  /** Server time in ms after which the command changes nothing. */
  readonly notAfterMs: number;
  /** The token of a member that this reader has shared: while that member is there, the reader's own has room. */
  readonly beside?: string | undefined;
}

export interface ReleaseCommand {
  readonly keys: readonly string[];
  readonly token: string;
  /** The ticket of the token in the queue; 0: never queued; -1: not known. */
  readonly ticket: number;
  /** The yield window: the time for which the key is free for callers outside the queue alone, when it is their turn. */
  readonly yieldMs: number;
  /** The next queue entry of the same process. One key only. */
  readonly next?: LockRequest | undefined;
  /** The mode in which the key was held, if it can have several holders. */
  readonly mode?: Mode | undefined;
}

/** The request of a command or of a queue entry. */
export type LockRequest = Pick<AcquireCommand, 'token' | 'lifetimeMs' | 'fences' | 'queueAs'>;

export type CommandOutcome =
  | { readonly outcome: 'granted'; readonly fence: number; readonly others: number }
  | { readonly outcome: 'busy'; readonly leftMs: number; readonly position?: QueuePosition | undefined }
  | { readonly outcome: 'late' }
  /** The job of the slot has run. */
  | { readonly outcome: 'done' }
  /** An impossible change in place: another holder is upgrading, or this token no longer holds the lock. */
  | { readonly outcome: 'deadlock' | 'gone' };

/** Notifies the listener of a channel: a lock was granted to one of its entries, or may be tried again. */
export type Publish = (channel: string, id: string, key: string) => void;
