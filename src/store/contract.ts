// The contract between the layers above (queue, hold, acquire) and the place that keeps the locks. A store promises: a grant is
// exclusive from its `sent` until `sent` + lifetime. A `false` is a statement of Redis itself. If an outcome is uncertain, the
// store reports a LockBackendError, with `unknown` set when the script may have run all the same.
import { type Clock, type Moment, now } from '../core/clock';
import type { LockBackendError } from '../core/errors';
import type { Key } from '../core/keys';
import type { LockState, Slot, StoreKind } from '../core/lock-state';
import type { LateRequest } from './late-request';
import type { Operator, OwnedState } from './operator';
import type { Slots } from './slots';
import type { Values } from './values';

export { type Clock, type LockState, type Moment, now, type Slot };

/** The mode of a key that can have several holders; a mutex has none. A change in place (up- or downgrade) keeps the token. */
export interface Mode {
  /** A reader shares the key; a writer excludes all others; a counted holder has permits. */
  readonly kind: 'shared' | 'exclusive' | 'counted';
  readonly prefer: 'writer' | 'reader' | 'fair';
  /** Readers share only with readers of the same group. For permits on a quorum: the places that the holder takes (`placesText`). */
  readonly group: string;
  /** Permits wanted; 1 for readers and writers. */
  readonly permits: number;
  /** Permits of the whole semaphore; 0 for readers and writers. */
  readonly total: number;
  /** 0: a new holder. Otherwise the number of this change in place: a change that a later one has overtaken has no effect. */
  readonly step: number;
}

/** The mode and the fence of a holder that may have others beside it. */
export interface HeldMode {
  readonly mode: Mode;
  /** Absent: not known. */
  readonly fence?: number | undefined;
}

/** A request in the name of a token. */
interface TokenRequest {
  /** Full keys, prefix included. */
  readonly keys: Key;
  readonly token: string;
  readonly commandTimeoutMs: number;
}

export interface AcquireRequest extends TokenRequest {
  /** `null`: no end. The lock starts with a short life and becomes permanent once our side has read the reply. */
  readonly lifetimeMs: number | null;
  /** The number of fences to mint: 0, 1, or more for a queue that hands the lock off by itself. */
  readonly fences: number;
  readonly minReplicas: number;
  /** Called just before the request is sent; false if its caller has given up: then the request must not be sent. */
  readonly begin: () => boolean;
  /** The queue entry of the caller, if the caller is to be queued when the lock is busy. */
  readonly queueAs?: QueueEntry | undefined;
  /** Ms until a polling caller tries again if the lock is busy; a queue beside it yields for that time. */
  readonly pauseMs?: number | undefined;
  /** The mode of a single key; absent for a mutex. */
  readonly mode?: Mode | undefined;
  /** The minimum fence; only for a node of a quorum, whose caller is not queued. */
  readonly minFence?: number | undefined;
  /** Receives the votes of a quorum. All nodes are then asked at once, not a bare majority first. */
  readonly votes?: NodeVotes | undefined;
  /** The member that a reader shares: while it holds the key, a new reader has room beside it, even if others wait. */
  readonly beside?: { readonly token: string; readonly held: HeldMode } | undefined;
  /** The slots of a job that runs once a slot: nothing is granted in a slot that is done. Only for a mutex with one key and no queue entry. */
  readonly slots?: Slots | undefined;
}

/** The queue entry of a process: its channel, and the id of the entry. */
export interface QueueEntry {
  readonly channel: string;
  readonly id: string;
  /** The ticket from the first queueing; 0: none is known; `unknownTicket` (never for a mutex): perhaps queued, because no answer came. */
  readonly ticket: number;
  /** For a mutex, monotonic ms at which the first request was sent: without a ticket, only later entries can be that of its token. */
  readonly sinceMs?: number | undefined;
  /** Ms without a sign after which the entry expires; for a mutex at least the time for its position. Default 0: the time for its position. */
  readonly silenceMs?: number | undefined;
  /** The token of the entry, if it differs from the request's: on a quorum each attempt has a token of its own. */
  readonly token?: string | undefined;
}

/** The ticket of a token that may be queued, where no answer has told its ticket. */
export const unknownTicket = -1;

/** The channel of an entry that cannot be notified: its waiter polls. */
export const noChannel = '-';

export interface QueuePosition {
  readonly ticket: number;
  /** The number of entries before it. */
  readonly before: number;
  /** The holder is a client without queues: its release wakes nobody. */
  readonly outside: boolean;
}

/**
 * A grant tells the moment from which it counts, and the number of queued waiters. A busy reply tells how long others still
 * have (Infinity: no end). A change in place may also be `impossible`: another holder is upgrading (`deadlock`), or this caller
 * no longer holds the lock (`gone`).
 */
export type AcquireReply =
  | {
      readonly granted: true;
      readonly fence: number;
      readonly sent: Moment;
      readonly others?: number;
      readonly slot?: Slot | undefined;
      /** The actual mode, if the store knows more than the request asked for. */
      readonly mode?: Mode | undefined;
    }
  | {
      readonly granted: false;
      readonly leftMs: number;
      readonly position?: QueuePosition | undefined;
      /** A moment before the request of a queued process was sent; a grant that follows by message counts from then or later. */
      readonly sent?: Moment | undefined;
      readonly impossible?: 'deadlock' | 'gone' | undefined;
      /** The current slot and whether its job has run, if the request named slots. */
      readonly slot?: Slot | undefined;
      readonly isDone?: boolean | undefined;
    };

/**
 * The vote of one node of a quorum: `true`, the number of keys if the request was applied to some only, an error, or the ms for
 * which the node has no vote, because it may have forgotten a lock in a restart.
 */
export type NodeVote = true | number | Error | { readonly guardedForMs: number };

/** Receives the vote of each node of a quorum that is asked. The node is identified by its position. */
export interface NodeVotes {
  asked(node: number, vote: Promise<NodeVote>): void;
}

export interface ExtendRequest extends TokenRequest {
  /** `null`: no end. */
  readonly lifetimeMs: number | null;
  /** Monotonic ms at which the validity ended, if a late extension is acceptable: it counts as if it had come in time. */
  readonly endedMs?: number | undefined;
  /** Sets this end even if it is sooner; without it the end only moves later. */
  readonly exact: boolean;
  /** Monotonic ms at which the holder's validity ends; a script that runs later must change nothing. */
  readonly validUntilMs: number;
  /** Called just before the request is sent; false if the lock was released or lost meanwhile: then the request must not be sent. */
  readonly begin: () => boolean;
  /** The holder's mode; absent for a mutex. */
  readonly held?: HeldMode | undefined;
  /** Counts a writer as `missing` if this node of a quorum does not hold it as a writer. */
  readonly strictly?: boolean | undefined;
  readonly votes?: NodeVotes | undefined;
}

/** `late`: the request was not sent, or ran after the holder's validity had ended. Nothing was changed. */
export type ExtendReply =
  | { readonly outcome: 'extended'; readonly sent: Moment }
  | { readonly outcome: 'missing' | 'taken' | 'late' };

export interface ReleaseRequest extends TokenRequest {
  /** The yield window: the time for which the lock is free only for callers outside its queue, when it is their turn. Default 0. */
  readonly yieldMs?: number | undefined;
  /** The ticket of the token in the queue, or `unknownTicket`. Default 0: not queued. */
  readonly ticket?: number | undefined;
  /** The token was confirmed as the holder, and none of its acquires is on its way: the release may overtake other requests. */
  readonly isConfirmed?: boolean | undefined;
  /** The holder's mode; absent for a mutex. */
  readonly held?: HeldMode | undefined;
  /** Monotonic ms at which the holder was last found to hold the lock. If only this process uses the store, the release counts from then. */
  readonly checkedMs?: number | undefined;
  /** The slot whose job is done. The slot is marked before the release, if the token still holds the lock. One key only. */
  readonly done?: Slot | undefined;
  /** Called, in Redis only, with the number of released keys if not all of them were released. */
  readonly counted?: ((released: number) => void) | undefined;
  readonly votes?: NodeVotes | undefined;
}

export interface RaiseRequest extends TokenRequest {
  /** Every later fence must exceed this one. */
  readonly fence: number;
  /** The mode; absent for a mutex. */
  readonly mode?: Mode | undefined;
}

export type ReleaseReply = 'released' | 'missing' | 'taken';

/** The start of a held lock. */
export interface Grant {
  readonly token: string;
  readonly fence: number;
  /** A moment before the confirmed request was sent; the lifetime counts from then. */
  readonly sent: Moment;
  /** A request with this token whose outcome is unknown. */
  readonly late?: LateRequest | undefined;
  /** Ms of validity of a grant by message, unless the store confirms it. */
  readonly provisionalMs?: number | undefined;
  /** The actual mode, if the store knows more than the request asked for. */
  readonly mode?: Mode | undefined;
}

/** A held lock, as its grant source sees it. */
export interface Holder {
  readonly token: string;
  readonly fence: number;
  /** Ms of validity left. */
  leftMs(): number;
  /**
   * The last moment at which Redis confirmed the lifetime that was first asked for. Undefined if the lock is lost, if its
   * lifetime may differ by now, or if a further request is on its way to Redis.
   */
  confirmed(): Moment | undefined;
  /** Confirms a grant by message in this turn, because a waiter of this process is next: no hand-off goes before the confirmation. */
  confirmNow(): void;
  /** The request that releases this lock. */
  releaseRequest(): ReleaseRequest;
}

/** The origin of a grant, to which the held lock is released. */
export interface GrantSource {
  /**
   * Releases `held` to the store, or to the next waiter of this process. Never throws; rejects with a LockBackendError. Returns
   * the reply itself if it is known at once: a promise costs more than a lock in memory.
   */
  release(held: Holder): ReleaseReply | Promise<ReleaseReply>;
  /** Called when `held` was lost without a release: others may go on. */
  lost(held: Holder): void;
}

export interface Channels {
  /** Subscribes to a channel. `onGap`: messages may have been missed. `onClosed`: the client was closed; no message will come. */
  listen(
    channel: string,
    onMessage: (text: string) => void,
    onGap: () => void,
    onClosed?: () => void,
  ): Promise<Listening>;
  /** A channel can have a single listener, over all processes. */
  readonly listensAlone: boolean;
}

export interface Listening {
  close(): void;
}

/** A held lock that notices its end or renews itself. */
export interface Checkable {
  check(): unknown;
}

/** The renewed locks of a store, which are checked before any command on one of their keys. */
export interface Renewed {
  add(keys: Key, held: Checkable): void;
  remove(keys: Key, held: Checkable): void;
}

/**
 * The verbs of a store without a server. Each has been carried out when it returns, and throws if the verb of the store would
 * reject. A pair in memory takes 1.9 µs with these, 2.3 µs with promises.
 */
export interface SynchronousVerbs {
  acquire(request: AcquireRequest): AcquireReply;
  extend(request: ExtendRequest): ExtendReply;
  release(request: ReleaseRequest): ReleaseReply;
  /** The locks that renew themselves, which are not lost while this process is paused: no other process can take them. */
  readonly renewed?: Renewed | undefined;
}

export interface Store {
  readonly kind: StoreKind;
  /** The clock of waits, validity and expiry. */
  readonly clock: Clock;
  /** The reason for which these keys can never be locked together, or never in this mode; absent if all keys can. Checked before each wait. */
  refuses?(keys: Key, mode: Mode | undefined): LockBackendError | undefined;
  /** The prefix that the client is configured to add; it precedes the caller's own prefix in every full key. */
  readonly keyPrefix: string;
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  extend(request: ExtendRequest): Promise<ExtendReply>;
  release(request: ReleaseRequest): Promise<ReleaseReply>;
  /** Sends the requests of this tick now, unless many are on their way. Absent if requests do not wait for each other. */
  flushIfQuiet?(): void;
  /** Releases a lock and requests it again with another token, in one call. Absent if there are no queues, which need channels. */
  releaseAndAcquire?(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]>;
  /**
   * Makes sure that the token holds nothing and is not queued; no caller waits for that. Releases now, and again once no
   * late request can still execute. The token must never be used again.
   */
  abandon(request: ReleaseRequest, late?: LateRequest): Promise<void>;
  readonly channels?: Channels | undefined;
  readonly synchronous?: SynchronousVerbs | undefined;
  readonly values?: Values | undefined;
  /** The state of a lock; with a token, also whether that token holds it. */
  inspect(key: string, commandTimeoutMs: number, token?: string): Promise<OwnedState>;
  /** The operator's view of this store, and the registry of processes. */
  readonly operator: Operator;
  /** Registers one more scope as a user of this store. */
  join(): void;
  /**
   * Unregisters a scope. The last one to leave closes the connections that the store opened. Resolves once every abandoned
   * token was released after the last moment at which it could still take a lock, or Redis did not answer.
   */
  leave(): Promise<void>;
  /** A failed attempt leaves releases behind, so each attempt needs its own token. Callers that retry after equal pauses would meet again. */
  readonly isQuorum?: boolean | undefined;
}

/** A store that can be a node of a quorum. */
export interface Node extends Store {
  /** Raises the fence. False: the token no longer holds all of the keys, and nothing was changed. */
  raise(request: RaiseRequest): Promise<boolean>;
  /** Identifies the answering server, without waiting for a connection. Rejects with a `redisCode` if the server does not tell. */
  identify(timeoutMs: number): Promise<Identity>;
  /** The places of each holder of a semaphore. */
  readPlaces(key: string, commandTimeoutMs: number): Promise<number[][]>;
  /** A counter that goes up with each new connection, behind which there may be another server; undefined if that cannot be told. */
  readonly generation: (() => number) | undefined;
}

/** A single run of a single server. */
export interface Identity {
  readonly runId: string;
  /** The minimum time for which the server has been running. */
  readonly uptimeMs: number;
  /** True if an operator has said that this run is its server's first, with no lock to forget. */
  readonly isNew: boolean;
}
