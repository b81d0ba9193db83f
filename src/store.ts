// The contract between waiting and holding above and one place where locks live below: three verbs and a look.
// A store promises: what it grants is exclusive until `sent` + lifetime; a `false` is Redis's own word; anything it does
// not know for certain is a LockBackendError, with `unknown` set where the script may have run all the same.
import type { LockBackendError } from './errors';
import type { Key } from './keys';

/** A moment on both clocks: the monotonic one stands still while a virtual machine sleeps, the wall clock can be set. */
export interface Moment {
  readonly monoMs: number;
  readonly wallMs: number;
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
  /** Asked just before it is sent: false when nobody waits for it any more, and then it must not be sent. */
  readonly begin: () => boolean;
  /** Fences to mint, for a line that passes the lock on by itself. Default 1. */
  readonly fences?: number | undefined;
  /** Given by who stands in line when it is busy. */
  readonly place?: Place | undefined;
  /** For one of a quorum, instead of a place: the least that the fence may be. */
  readonly leastFence?: number | undefined;
}

/** Where a process stands in line: its own channel, and the entry that it waits with. */
export interface Place {
  readonly channel: string;
  readonly id: string;
  /** What it was given when it first stood there; 0: it has not stood there yet. */
  readonly ticket: number;
}

/** How somebody stands in line. */
export interface Stand {
  readonly ticket: number;
  /** How many stand before. */
  readonly before: number;
  /** The holder came by another door: its release wakes nobody. */
  readonly outside: boolean;
}

/** Busy says how long others still have (-1: no end); a grant says from when it counts, and how many others wait in line. */
export type AcquireReply =
  | { readonly granted: true; readonly fence: number; readonly sent: Moment; readonly others?: number }
  | { readonly granted: false; readonly leftMs: number; readonly stand?: Stand | undefined };

export interface ExtendRequest {
  readonly keys: Key;
  readonly token: string;
  /** `null`: for ever. */
  readonly lifetimeMs: number | null;
  /** Set this end even if it is sooner; otherwise the end only ever moves later. */
  readonly exact: boolean;
  /** Monotonic ms at which the holder stops believing: a script that runs later must change nothing. */
  readonly validUntilMs: number;
  readonly commandTimeoutMs: number;
  /** Asked just before it is sent: false when it was given back or lost meanwhile, and then it must not be sent. */
  readonly begin: () => boolean;
}

/** `late`: it was not sent any more, or ran after the holder's validity had ended; nothing was changed. */
export type ExtendReply =
  | { readonly outcome: 'extended'; readonly sent: Moment }
  | { readonly outcome: 'missing' | 'taken' | 'late' };

export interface ReleaseRequest {
  readonly keys: Key;
  readonly token: string;
  readonly commandTimeoutMs: number;
  /** How long the lock is left free for callers outside its line, when it is their turn. Default 0: not at all. */
  readonly restMs?: number | undefined;
  /** The ticket that the token stands in line with; -1 where that is not known. Default 0: it stands nowhere. */
  readonly ticket?: number | undefined;
}

export interface RaiseRequest {
  readonly keys: Key;
  readonly token: string;
  /** What every later fence must exceed. */
  readonly fence: number;
  readonly commandTimeoutMs: number;
}

export type ReleaseReply = 'released' | 'missing' | 'taken';

export interface LockState {
  /** Whether somebody holds the key now. */
  locked: boolean;
  /** The holder's `owner` label; null where it has none, or is not one of ours. */
  owner: string | null;
  /** Ms until Redis frees the key by itself; Infinity where it never does; 0 when free. */
  remaining: number;
  /** How many processes stand in the key's queue. */
  waiters: number;
  /** The last fence minted for this key; 0 where none is remembered. */
  fence: number;
  /** How the key is held; null when free. */
  mode: 'exclusive' | 'read' | 'write' | 'permits' | null;
}

/** An open ear. */
export interface Listening {
  close(): void;
}

export interface Store {
  /** Part of every full key, before the caller's own prefix: what the client was told to put there. */
  readonly keyPrefix: string;
  acquire(request: AcquireRequest): Promise<AcquireReply>;
  extend(request: ExtendRequest): Promise<ExtendReply>;
  release(request: ReleaseRequest): Promise<ReleaseReply>;
  /** Gives a lock back, and asks for it again with another token, in one go. */
  releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]>;
  /**
   * Makes sure that the token holds nothing and stands in no line, without anybody waiting for that: releases now, and again
   * once no request sent before `untilMs` (monotonic) can take effect any more. The token must never be used again.
   */
  abandon(request: ReleaseRequest, untilMs: number): Promise<void>;
  /** Hears what is told to a channel; undefined where this store can wake nobody. `onGap`: something may have been missed. */
  readonly listen:
    | ((channel: string, onMessage: (text: string) => void, onGap: () => void) => Promise<Listening>)
    | undefined;
  inspect(key: string, commandTimeoutMs: number): Promise<LockState>;
  /** One more scope uses this store. */
  join(): void;
  /**
   * One scope less. The last to leave closes what the store opened. Resolves once every abandoned token was released after
   * the last moment at which it could take anything, or Redis was silent about that.
   */
  leave(): Promise<void>;
  /**
   * An attempt that fails leaves releases behind, so that each needs a token of its own; and who asks again after the same
   * pause as the others would meet them again.
   */
  readonly isQuorum?: boolean | undefined;
  /** Why these keys can never be locked in this mode; absent where all can. */
  refuses?(keys: Key, mode: { readonly kind: string; readonly most: number } | undefined): LockBackendError | undefined;
}

/** A store that can be one of a quorum. */
export interface Node extends Store {
  /** False: not all of the keys are the token's any more, and nothing was changed. */
  raise(request: RaiseRequest): Promise<boolean>;
  /** Who answers, without waiting for a connection. Rejects with a `redisCode` where the server does not tell. */
  identify(timeoutMs: number): Promise<Identity>;
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
}

/** Share of a lifetime that is not trusted: clocks may run at different rates. */
const clockRateShare = 1 / 1000;

/** For how long a lock is believed to be ours, from before what Redis confirmed was sent. */
export function trustedMs(lifetimeMs: number): number {
  return lifetimeMs * (1 - clockRateShare);
}

/** How long a lock is left free for callers outside its line, when it is their turn: one pause of theirs. */
export function restMs(retryTimeoutMs: number): number {
  return Math.max(1, Math.ceil(retryTimeoutMs));
}

/** Now, on both clocks. */
export function now(): Moment {
  return { monoMs: performance.now(), wallMs: Date.now() };
}
