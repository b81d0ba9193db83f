// The contract between those that wait together for a key that several may hold, and what they wait with: a place, where members are
// fetched for them (readers.ts, permits.ts).
import type { LockBackendError } from '../core/errors';
import type { Granted } from '../hold/shared-member';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  Grant,
  Holder,
  Mode,
  ReleaseRequest,
} from '../store/contract';
import type { Position, QueueKey, Waiter } from './queue';

/** What is the same for all that wait in one place. */
export interface MemberTerms extends QueueKey {
  readonly mode: Mode;
}

/** A caller that waits in such a place. */
export interface ShareWaiter extends Waiter {
  granted(grant: Granted): Holder;
  /** Begins to fetch a member, as this caller would wait for it, until it is granted or given up. Answers later, never at once. */
  fetch(fetcher: Fetcher): Fetch;
}

export interface Fetch {
  giveUp(error: unknown): void;
}

/** What a fetched member is for. */
export interface Fetcher {
  /** `others` are queued for the same key. */
  granted(fetch: Fetch, grant: Grant, others: number): void;
  /** Nothing was granted, nor will be. */
  failed(fetch: Fetch, error: LockBackendError): void;
  /** An attempt was in vain: the key is busy, or Redis could not be reached. The fetch goes on. */
  busy(error: LockBackendError | undefined): void;
}

/** Where a waiter is. */
export interface SharePosition extends Position {
  before: SharePosition | undefined;
  after: SharePosition | undefined;
  readonly queue: WaitGroup;
  readonly waiter: ShareWaiter;
}

export interface WaitGroup {
  readonly terms: MemberTerms;
  /** Whether one more may join now. */
  accepts(): boolean;
  /** May grant at once. */
  join(position: SharePosition): void;
  leave(position: SharePosition): void;
  /** A caller that is not to be passed waits for the same key. */
  close(): void;
}

/** What members need of their store. Everything answers later, never within the call. */
export interface MemberPort {
  nowMs(): number;
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  extend(request: ExtendRequest): Promise<ExtendReply>;
  abandon(request: ReleaseRequest, untilMs: number): void;
}
