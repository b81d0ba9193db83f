// A member: what Redis keeps of one holder of a key that several may hold. Readers of one process share one, and permits go from one
// holder of the process to the next with it. The contract between a held lock and the member that it has together with others.
import type { LossReason } from '../core/errors';
import type { ExtendReply, ExtendRequest, Grant, Holder, Moment, ReleaseReply } from '../store/contract';

export interface Granted extends Grant {
  /** Undefined: what is held has a member of its own. */
  readonly member?: Member | undefined;
}

export interface Member {
  readonly token: string;
  readonly fence: number;
  /** `held` ends. `send` releases the member in Redis: not while another holder has it. */
  release(held: SharingHolder, send: () => ReleaseReply | Promise<ReleaseReply>): ReleaseReply | Promise<ReleaseReply>;
  /** `held` was lost, and is not released: others may go on. */
  lost(held: SharingHolder): void;
  /** Extends it for all of them. */
  extend(request: ExtendRequest): Promise<ExtendReply>;
  /**
   * Gives `held` a member of its own; at once where it shares this one with no other. No extension of it is in flight.
   *
   * @throws {LockBackendError} (rejects) no answer. It shares this one as before.
   */
  part(held: SharingHolder): Promise<void>;
}

/** A held lock, as its member sees it. */
export interface SharingHolder extends Holder {
  /** Notices the end of its validity. True while it is held. */
  check(): boolean;
  lose(reason: LossReason): void;
  /** It shares no member any more: what Redis keeps has this token and fence, and lasts for its lifetime from `sent` at least. */
  parted(token: string, fence: number, sent: Moment): void;
}
