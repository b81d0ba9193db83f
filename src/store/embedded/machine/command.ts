// The commands and replies of the machine: the arguments and replies of the scripts, as data.
import type { AcquireRequest, ExtendRequest, QueuePosition, ReleaseRequest } from '../../contract';

/** An acquire. Only that of a mutex without a queue entry may have several keys. */
export interface AcquireCommand
  extends Omit<AcquireRequest, 'begin' | 'beside' | 'commandTimeoutMs' | 'minReplicas' | 'votes'> {
  /** Server time in ms after which the command changes nothing. Default: never. */
  readonly notAfterMs?: number;
  readonly beside?: { readonly token: string } | undefined;
}

export interface ExtendCommand
  extends Pick<ExtendRequest, 'exact' | 'held' | 'keys' | 'lifetimeMs' | 'strictly' | 'token'> {
  /** As for an acquire. */
  readonly notAfterMs?: number;
}

export interface ReleaseCommand extends Pick<ReleaseRequest, 'held' | 'keys' | 'ticket' | 'token' | 'yieldMs'> {
  /** The next queue entry of the same process. One key only. */
  readonly next?: LockRequest | undefined;
}

/** The request of a command or of a queue entry. */
export type LockRequest = Pick<AcquireCommand, 'token' | 'lifetimeMs' | 'fences' | 'queueAs' | 'minFence'>;

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
