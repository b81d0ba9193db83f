// A member is the entry in Redis of one holder of an RWLock or a Semaphore. Readers of one process share a member, and a permit
// goes from one holder of the process to the next with its member. This is the contract between a held lock and such a member.
import type { LossReason } from '../core/errors';
import type { ExtendReply, ExtendRequest, Grant, Holder, Moment, ReleaseReply } from '../store/contract';

export interface Granted extends Grant {
  /** The shared member; undefined if the holder has its own. */
  readonly member?: Member | undefined;
}

export interface Member {
  readonly token: string;
  readonly fence: number;
  /** Ends `held`. Calls `send`, which releases the member in Redis, unless another holder has the member. */
  release(held: SharingHolder, send: () => ReleaseReply | Promise<ReleaseReply>): ReleaseReply | Promise<ReleaseReply>;
  /** Notes that `held` was lost and will not be released. Other holders may keep the member. */
  lost(held: SharingHolder): void;
  /** Extends the member for all its holders. */
  extend(request: ExtendRequest): Promise<ExtendReply>;
  /**
   * Gives `held` its own member; at once if no other holder shares this one. No extension of `held` may be in flight.
   *
   * @throws {LockBackendError} (rejects) no answer. `held` shares this member as before.
   */
  part(held: SharingHolder): Promise<void>;
}

/** A held lock, as its member sees it. */
export interface SharingHolder extends Holder {
  /** Notices the end of the validity. True while the lock is held. */
  check(): boolean;
  lose(reason: LossReason): void;
  /** The holder now has its own member, with this token and fence. It lasts for its lifetime from `sent` at least. */
  parted(token: string, fence: number, sent: Moment): void;
}
