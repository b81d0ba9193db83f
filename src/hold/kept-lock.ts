// A held lock (held-lock.ts) as seen by the parts that work on it: its shared member, its keeper, its extensions and its observers.
import type { LockLostError, LossReason } from '../core/errors';
import type { LockKind, ObservedHold } from '../core/events';
import type { Key } from '../core/keys';
import type { Settings } from '../core/options';
import type {
  Clock,
  ExtendReply,
  ExtendRequest,
  Grant,
  GrantSource,
  HeldMode,
  Holder,
  Mode,
  Moment,
  Store,
} from '../store/contract';
import type { Validity } from './validity';

/** The locks that are wanted, and then held. */
export interface LockSpec {
  /** The key as it was given. */
  readonly key: Key;
  /** Full keys, prefix included. */
  readonly keys: Key;
  /** The mode of an RWLock or a Semaphore; undefined for a mutex. */
  readonly mode: Mode | undefined;
  /** Set when the mutex backs an election or a once-job. */
  readonly kind: LockKind | undefined;
  readonly settings: Settings;
  readonly store: Store;
}

export interface Granted extends Grant {
  /** The shared member; undefined if the holder has its own. */
  readonly member?: Member | undefined;
}

/** The entry in Redis of a holder of an RWLock or a Semaphore. Readers share a member; a permit is handed off with its member. */
export interface Member extends GrantSource {
  readonly token: string;
  readonly fence: number;
  /** Extends the member for all its holders. */
  extend(request: ExtendRequest): Promise<ExtendReply>;
  /** Gives `held` its own member. No extension of `held` may be in flight. If there is no answer, rejects and changes nothing. */
  part(held: SharingHolder): Promise<void>;
}

export interface SharingHolder extends Holder {
  /** Notices the end of the validity. True while the lock is held. */
  check(): boolean;
  lose(reason: LossReason): void;
  /** The holder now has its own member, with this token and fence. It lasts for its lifetime from `sent` at least. */
  parted(token: string, fence: number, sent: Moment): void;
}

/** A held lock that can be extended and observed. */
export interface KeptLock extends SharingHolder, Pick<LockSpec, 'key' | 'keys' | 'mode'> {
  readonly storedToken: string;
  readonly context: Pick<LockSpec, 'kind' | 'settings' | 'store'>;
  readonly clock: Clock;
  readonly member: Member | undefined;
  /** True once the lock was released or is known to be lost. Does not read the clocks. */
  readonly ended: boolean;
  readonly isLost: boolean;
  readonly loss: LockLostError | undefined;
  /** False while a grant by message is not yet confirmed. */
  readonly isConfirmed: boolean;
  validity: Validity;
  readonly observation: Observation | undefined;
  held(): HeldMode | undefined;
  /** Records that Redis confirmed `lifetimeMs` from `sent` on. Unless `exact`, a later end stays. */
  confirm(sent: Moment, lifetimeMs: number | null, exact: boolean): void;
  releaseQuietly(): Promise<unknown>;
}

/** The report to observers of a lock that was granted while somebody listened. */
export interface Observation {
  readonly sinceMs: number;
  /** Set if our own instruments listened. */
  readonly hold: ObservedHold | undefined;
  endMs: number | undefined;
}
