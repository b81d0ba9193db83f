// The contract between waiting and holding above and the place below where locks live: three verbs, and inspecting.
// A store promises: what it grants is exclusive until `sent` + lifetime; a `false` is Redis's own word; anything it does
// not know for certain is a LockBackendError, with `unknown` set where the script may have run all the same.
import { type Clock, type Moment, now, systemClock } from '../core/clock';
import type { LockBackendError } from '../core/errors';
import type { Key } from '../core/keys';
import type { LockState, Slot, StoreKind } from '../core/lock-state';
import type { Operator } from './operator';

export { type Clock, type LockState, type Moment, now, type Slot };

/**
 * How a key is to be held that several may hold; without it, a key is a mutex. A holder that upgrades or downgrades keeps its
 * token: that is a change in place.
 */
export interface Mode {
  /** A reader, which shares; a writer, which excludes all; or a holder of permits. */
  readonly kind: 'shared' | 'exclusive' | 'counted';
  readonly prefer: 'writer' | 'reader' | 'fair';
  /** Readers share with their own group; permits on a quorum: the places that they are (`placesText`). */
  readonly group: string;
  /** How many are wanted; 1 for readers and writers. */
  readonly permits: number;
  /** How many there are at all; 0 for readers and writers. */
  readonly most: number;
  /** 0: a new holder. Else the number of this change in place: one that was overtaken by a later one changes nothing. */
  readonly step: number;
}

/** The slots of a job that runs once in each. */
export interface Slots {
  readonly everyMs: number;
  /** Where some slot begins, in ms of the epoch. */
  readonly offsetMs: number;
  /** The slot counts as done with the grant; otherwise a release says so. */
  readonly marks: boolean;
}

/** How a key is held that several may hold. */
export interface HeldMode {
  readonly mode: Mode;
  /** -1 where it is not known. */
  readonly fence: number;
}

export interface AcquireRequest {
  /** Full keys, prefix included. */
  readonly keys: Key;
  readonly token: string;
  /** `null` never ends: acquired with a short life first, made permanent once our reply was read. */
  readonly lifetimeMs: number | null;
  readonly fencing: boolean;
  readonly minReplicas: number;
  readonly commandTimeoutMs: number;
  /** Called just before it is sent: false when its caller has given up, and then it must not be sent. */
  readonly begin: () => boolean;
  /** Fences to mint, for a queue that hands the lock off by itself. Default 1. */
  readonly fences?: number | undefined;
  /** Of a caller that is to be queued when it is busy. */
  readonly queueAs?: QueueEntry | undefined;
  /** Of a caller that polls: ms until it tries again if the lock is busy, so that a queue beside it yields for so long. */
  readonly pauseMs?: number | undefined;
  /** Not for a mutex. One key only. */
  readonly mode?: Mode | undefined;
  /** For one of a quorum, which is not queued: the least that the fence may be. */
  readonly minFence?: number | undefined;
  /** Of a quorum: all nodes at once, not a bare majority first. */
  readonly asksAll?: boolean | undefined;
  /** Of a reader that shares a member: that member. While it is there, there is room beside it, even while others wait. */
  readonly beside?: { readonly token: string; readonly held: HeldMode } | undefined;
  /** For a job that runs once a slot: nothing is granted in a slot that is done. One key only, of a mutex, and no place. */
  readonly slots?: Slots | undefined;
}

/** What a process is queued as: its own channel, and the id of the entry that it waits with. */
export interface QueueEntry {
  readonly channel: string;
  readonly id: string;
  /** What it was given when it was first queued; 0: it was not queued yet; -1, not for a mutex: perhaps, but no answer came. */
  readonly ticket: number;
  /** Ms without a sign after which it expires: not less than by its position, for a mutex. Default 0: by its position. */
  readonly silenceMs?: number | undefined;
  /** Whose entry it is, on a quorum, where each attempt has a token of its own. Default: the token of the request. */
  readonly token?: string | undefined;
}

/** The channel of an entry that cannot be notified: its waiter polls. */
export const noChannel = '-';

/** Where an entry is in the queue. */
export interface QueuePosition {
  readonly ticket: number;
  /** How many are before it. */
  readonly before: number;
  /** The holder is a client that does not know queues: its release wakes nobody. */
  readonly outside: boolean;
}

/**
 * Busy says how long others still have (Infinity: no end); a grant says from when it counts, and how many others are queued.
 * A change in place may also be `impossible`: another holder is upgrading (`deadlock`), or this one is no holder any more (`gone`).
 */
export type AcquireReply =
  | {
      readonly granted: true;
      readonly fence: number;
      readonly sent: Moment;
      readonly others?: number;
      readonly slot?: Slot | undefined;
      /** How it is held, where the store knows more than was asked for. */
      readonly mode?: Mode | undefined;
    }
  | {
      readonly granted: false;
      readonly leftMs: number;
      readonly position?: QueuePosition | undefined;
      /** Of a queued process: what it is granted later counts at least from then. */
      readonly sent?: Moment | undefined;
      readonly impossible?: 'deadlock' | 'gone' | undefined;
      /** The slot that it is, where slots were asked for; and whether its job has run. */
      readonly slot?: Slot | undefined;
      readonly isDone?: boolean | undefined;
    };

export interface ExtendRequest {
  readonly keys: Key;
  readonly token: string;
  /** `null`: for ever. */
  readonly lifetimeMs: number | null;
  /** Monotonic ms at which the validity ended, where being late is no matter: it counts as if it had come in time. */
  readonly endedMs?: number | undefined;
  /** Set this end even if it is sooner; otherwise the end only ever moves later. */
  readonly exact: boolean;
  /** Monotonic ms at which the holder's validity ends: a script that runs later must change nothing. */
  readonly validUntilMs: number;
  readonly commandTimeoutMs: number;
  /** Called just before it is sent: false when it was released or lost meanwhile, and then it must not be sent. */
  readonly begin: () => boolean;
  /** Not for a mutex. */
  readonly held?: HeldMode | undefined;
  /** For one of a quorum: a writer that is not held as one there is `missing`. */
  readonly strictly?: boolean | undefined;
}

/** `late`: it was not sent any more, or ran after the holder's validity had ended; nothing was changed. */
export type ExtendReply =
  | { readonly outcome: 'extended'; readonly sent: Moment }
  | { readonly outcome: 'missing' | 'taken' | 'late' };

export interface ReleaseRequest {
  readonly keys: Key;
  readonly token: string;
  readonly commandTimeoutMs: number;
  /** The yield window: how long the lock is free for callers outside its queue alone, when it is their turn. Default 0. */
  readonly yieldMs?: number | undefined;
  /** The ticket that the token is queued with; -1 where that is not known. Default 0: it is not queued. */
  readonly ticket?: number | undefined;
  /** The token was confirmed as the holder, and no acquire of it is on its way any more: the release may overtake others. */
  readonly isConfirmed?: boolean | undefined;
  /** Not for a mutex. */
  readonly held?: HeldMode | undefined;
  /** The job of this slot is done: that is written down first, if the lock is still the token's. One key only. */
  readonly done?: Slot | undefined;
  /** In Redis: called with how many of the keys were released, if not all of them. */
  readonly counted?: ((released: number) => void) | undefined;
}

export interface RaiseRequest {
  readonly keys: Key;
  readonly token: string;
  /** What every later fence must exceed. */
  readonly fence: number;
  readonly commandTimeoutMs: number;
  /** Not for a mutex. */
  readonly mode?: Mode | undefined;
}

export type ReleaseReply = 'released' | 'missing' | 'taken';

export interface ValueRequest {
  readonly key: string;
  readonly token: string;
  readonly text: string;
  readonly ttlMs: number;
  readonly commandTimeoutMs: number;
}

export interface ProclaimRequest {
  readonly key: string;
  readonly token: string;
  /** What is written down; '': what was is taken back. */
  readonly text: string;
  readonly ttlMs: number;
  /** Where those that observe the lock hear that there is something new. */
  readonly channel: string;
  readonly commandTimeoutMs: number;
}

/** The holder of a lock, and what is kept beside it. */
export interface HolderText {
  readonly token: string;
  /** Infinity: no end. */
  readonly leftMs: number;
  readonly text: string | null;
}

/** Begins the message to observers of a lock, before its key. */
export const newsOf = 'news';

/** What a held lock begins with. */
export interface Grant {
  readonly token: string;
  readonly fence: number;
  /** Before what Redis confirmed was sent: from then on the lifetime counts. */
  readonly sent: Moment;
  /** Monotonic ms until which a request of this token, of unknown outcome, may still execute. */
  readonly mayExecuteUntilMs: number;
  /** It was granted by message: it is valid for so many ms, unless the store confirms it. */
  readonly provisionalMs?: number | undefined;
}

/** A held lock, as what granted it sees it. */
export interface Holder {
  readonly token: string;
  readonly fence: number;
  /** Ms of validity left. */
  leftMs(): number;
  /**
   * When Redis last confirmed the lifetime that was asked for at first; undefined where it is lost, where it may be another by
   * now, or where more is on its way to Redis.
   */
  confirmed(): Moment | undefined;
  /** What releases it. */
  releaseRequest(): ReleaseRequest;
}

/** Where a grant came from, and so what a held lock is released to. */
export interface GrantSource {
  /**
   * Releases `held`: to the store, or to the next waiter of this process. Never throws; rejects with a LockBackendError. The
   * reply itself where it is known when the call returns: a promise costs more than a lock in memory.
   */
  release(held: Holder): ReleaseReply | Promise<ReleaseReply>;
  /** `held` was lost, and is not released: others may go on. */
  lost(held: Holder): void;
}

/** A subscription. */
export interface Listening {
  close(): void;
}

/** A held lock, which notices its end, or renews itself. */
export interface Checkable {
  check(): unknown;
}

/** Locks that are renewed. Before any command on one of their keys they are checked. */
export interface Renewed {
  add(keys: Key, held: Checkable): void;
  remove(keys: Key, held: Checkable): void;
}

export interface Store {
  readonly kind: StoreKind;
  /** What waits, validity and expiry go by here; absent: the clocks of this process. */
  readonly clock?: Clock | undefined;
  /** Here a renewed lock is not lost while this process is paused, because no other process can take it. */
  readonly renewed?: Renewed | undefined;
  /** Why these keys can never be locked together, or never in this mode; absent where all can. Checked before each wait. */
  refuses?(keys: Key, mode: Mode | undefined): LockBackendError | undefined;
  /** Part of every full key, before the caller's own prefix: what the client was made to put there. */
  readonly keyPrefix: string;
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  /**
   * The same where the answer is known when the call returns: throws what `acquire` rejects with. With `releaseNow`, a pair in
   * memory takes 1.9 µs; without both, 2.3.
   */
  acquireNow?(request: AcquireRequest): AcquireReply;
  extend(request: ExtendRequest): Promise<ExtendReply>;
  /** Where there is `renewed`. */
  extendNow?(request: ExtendRequest): ExtendReply;
  release(request: ReleaseRequest): Promise<ReleaseReply>;
  releaseNow?(request: ReleaseRequest): ReleaseReply;
  /** Releases a lock, and requests it again with another token, in one call. */
  releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]>;
  /**
   * Makes sure that the token holds nothing and is not queued, without a caller waiting for that: releases now, and again
   * once no request sent before `untilMs` (monotonic) can take effect any more. The token must never be used again.
   */
  abandon(request: ReleaseRequest, untilMs: number): Promise<void>;
  /**
   * Subscribes to a channel; undefined where this store has no messages. `onGap`: something may have been missed.
   * `onClosed`: nothing will come any more, because the client was closed.
   */
  readonly listen:
    | ((
        channel: string,
        onMessage: (text: string) => void,
        onGap: () => void,
        onClosed?: () => void,
      ) => Promise<Listening>)
    | undefined;
  /** With a token also whether that holds the key. */
  inspect(key: string, commandTimeoutMs: number, token?: string): Promise<LockState & { owned?: boolean }>;
  /** What an operator does here, and what is written down for one. */
  readonly operator: Operator;
  /** How many permits are out, by the server's clock. */
  permitsOut(key: string, commandTimeoutMs: number): Promise<number>;
  /** What is cached beside a lock; null: nothing. */
  readValue(key: string, commandTimeoutMs: number): Promise<string | null>;
  /** Caches a text beside a lock while the token holds it. False: it does not, and nothing changed. */
  writeValue(request: ValueRequest): Promise<boolean>;
  /** Writes a text beside a lock while the token holds it, and tells a channel. False: it does not, and nothing changed. */
  proclaim(request: ProclaimRequest): Promise<boolean>;
  /** The holder of a lock; null: none. */
  readHolder(key: string, commandTimeoutMs: number): Promise<HolderText | null>;
  /** Only one can listen to a channel, of all processes. */
  readonly listensAlone?: boolean | undefined;
  /** One more scope uses this store. */
  join(): void;
  /**
   * One scope less. The last to leave closes what the store opened. Resolves once every abandoned token was released after
   * the last moment at which it could take anything, or Redis was silent about that.
   */
  leave(): Promise<void>;
  /**
   * An attempt that fails leaves releases behind, so that each needs a token of its own; and callers that
   * retry after equal pauses would meet again.
   */
  readonly isQuorum?: boolean | undefined;
}

/** A store that can be one of a quorum. */
export interface Node
  extends Omit<Store, 'kind' | 'operator' | 'permitsOut' | 'readValue' | 'writeValue' | 'proclaim' | 'readHolder'> {
  readonly operator?: Operator;
  /** False: not all of the keys are the token's any more, and nothing was changed. */
  raise(request: RaiseRequest): Promise<boolean>;
  /** Which server answers, without waiting for a connection. Rejects with a `redisCode` where the server does not tell. */
  identify(timeoutMs: number): Promise<Identity>;
  /** Of each holder of a semaphore, the places that it has. */
  readPlaces(key: string, commandTimeoutMs: number): Promise<number[][]>;
  /** Goes up with each new connection, behind which there may be another server; undefined where that cannot be told. */
  readonly generation: (() => number) | undefined;
  /** Its clock less our monotonic one, in ms: never more than that really is. */
  readonly serverOffsetMs: number;
}

/** One run of one server. */
export interface Identity {
  readonly runId: string;
  /** For how long it has surely been running. */
  readonly uptimeMs: number;
  /** An operator has said of this very run that it is its server's first, with nothing to forget. */
  readonly isNew: boolean;
}

/** Share of a lifetime that is not trusted: clocks may run at different rates. */
const clockRateShare = 1 / 1000;

/** For how long a lock counts as ours, from before what Redis confirmed was sent. */
export function trustedMs(lifetimeMs: number): number {
  return lifetimeMs * (1 - clockRateShare); // B2
}

/** The yield window of a lock: one pause of the callers outside its queue. */
export function yieldMs(retryTimeoutMs: number): number {
  return Math.max(1, Math.ceil(retryTimeoutMs));
}

/** Places of a semaphore on a quorum, as they are kept with their holder. */
export function placesText(places: readonly number[]): string {
  return `,${places.join(',')},`;
}

export function placesOf(text: string): number[] {
  return (text.match(/\d+/g) ?? []).map(Number);
}

/** From when a grant counts whose end is kept in whole ms, and so comes up to `ms` too soon. */
export function earlier({ monoMs, wallMs }: Moment, ms: number): Moment {
  return { monoMs: monoMs - ms, wallMs: wallMs - ms };
}

/** The slot that it is at a time of the server. */
export function slotAt(serverMs: number, { everyMs, offsetMs }: Slots): Slot {
  const index = Math.floor((serverMs - offsetMs) / everyMs);
  const start = index * everyMs + offsetMs;
  return { index, start, end: start + everyMs };
}

export function clockOf({ clock }: Pick<Store, 'clock'>): Clock {
  return clock ?? systemClock;
}
