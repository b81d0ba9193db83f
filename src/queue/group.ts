// The contract between callers that wait together for a key with several holders, and their wait group, which fetches members for
// them (readers.ts, permits.ts).
import type { LockBackendError } from '../core/errors';
import type { Granted } from '../hold/kept-lock';
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
import type { LateRequest } from '../store/late-request';
import type { Position, QueueKey, Waiter } from './queue';

/** The settings that all callers in one wait group share. */
export interface MemberTerms extends QueueKey {
  readonly mode: Mode;
}

/** A caller that waits in a wait group. */
export interface ShareWaiter extends Waiter {
  granted(grant: Granted): Holder;
  /** Begins to fetch a member with this caller's options, until it is granted or given up. Never answers within the call. */
  fetch(fetcher: Fetcher): Fetch;
}

export interface Fetch {
  giveUp(error: unknown): void;
}

/** The receiver of a fetched member. */
export interface Fetcher {
  /** Receives the member. `others` is the number of entries still queued for the key. */
  granted(fetch: Fetch, grant: Grant, others: number): void;
  /** Reports that the fetch failed: nothing was granted, nor will be. */
  failed(fetch: Fetch, error: LockBackendError): void;
  /** Reports a failed attempt: the key is busy, or (with an error) Redis could not be reached. The fetch goes on. */
  busy(error: LockBackendError | undefined): void;
}

/** A caller's position in its wait group. */
export interface SharePosition extends Position {
  before: SharePosition | undefined;
  after: SharePosition | undefined;
  readonly queue: WaitGroup;
  readonly waiter: ShareWaiter;
}

export interface WaitGroup {
  readonly terms: MemberTerms;
  /** Tells if another caller may join now. */
  accepts(): boolean;
  /** Adds a caller. May grant within the call. */
  join(position: SharePosition): void;
  leave(position: SharePosition): void;
  /** Closes the group, because a caller outside it waits for the same key and must not be overtaken. */
  close(): void;
}

/** The commands that members send to their store. Replies never arrive within the call that sent them. */
export interface MemberPort {
  nowMs(): number;
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  extend(request: ExtendRequest): Promise<ExtendReply>;
  abandon(request: ReleaseRequest, late: LateRequest): void;
}
