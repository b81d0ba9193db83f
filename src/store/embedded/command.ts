// The requests and replies of the machine: the arguments and replies of the scripts, as data.
import type { Mode, QueueEntry, QueuePosition, Slots } from '../contract';

export interface AcquireCommand {
  readonly keys: readonly string[];
  readonly token: string;
  readonly lifetimeMs: number;
  /** Server time in ms after which the command changes nothing. */
  readonly notAfterMs: number;
  /** Fences to mint: 0 none, 1, or as many as a queue hands out by itself. */
  readonly fences: number;
  /** For one of a quorum: the least that the fence may be. */
  readonly minFence?: number | undefined;
  /** Of a caller that is to be queued when the lock is busy. One key only. */
  readonly queueAs?: QueueEntry | undefined;
  /** Of a caller that polls instead: ms until it tries again if the lock is busy. */
  readonly pauseMs?: number | undefined;
  /** The token of a member that this reader has shared: while that is there, there is room for its own. */
  readonly beside?: string | undefined;
  /** For a key that several may hold. One key only. */
  readonly mode?: Mode | undefined;
  /** For a job that runs once a slot. One key only. */
  readonly slots?: Slots | undefined;
}

export interface ReleaseCommand {
  readonly keys: readonly string[];
  readonly token: string;
  /** The ticket that the token is queued with; 0 where it never was queued, -1 where its ticket is not known. */
  readonly ticket: number;
  /** How long the key yields to callers outside the queue, when it is their turn. */
  readonly yieldMs: number;
  /** What the same process is queued with from now on. One key only. */
  readonly next?: LockRequest | undefined;
  /** How it was held, where several may hold the key. */
  readonly mode?: Mode | undefined;
}

/** What is requested, by a command or by an entry of the queue. */
export type LockRequest = Pick<AcquireCommand, 'token' | 'lifetimeMs' | 'fences' | 'queueAs'>;

export type CommandOutcome =
  | { readonly outcome: 'granted'; readonly fence: number; readonly others: number }
  | { readonly outcome: 'busy'; readonly leftMs: number; readonly position?: QueuePosition | undefined }
  | { readonly outcome: 'late' }
  /** The job of the slot has run. */
  | { readonly outcome: 'done' }
  /** A change in place that can never be: another holder is upgrading, or this one is no holder any more. */
  | { readonly outcome: 'deadlock' | 'gone' };

export type Extended = 'extended' | 'missing' | 'taken' | 'late';

export type Released = 'released' | 'missing' | 'taken';

/** Notifies the process that listens to a channel: a lock was granted to one of its entries, or may be tried again. */
export type Publish = (channel: string, id: string, key: string) => void;
