// The base of redis-semaphore's classes. A caller attempts once each retryInterval until acquireTimeout ends, and whenever a release in
// this process wakes it. A held lock is refreshed until it is released or its loss is noticed.
// A held lock of the library counts the validity, and has the signal. It neither renews nor releases: redis-semaphore refreshes and
// releases by methods that a subclass may replace.
import { type Alarm, clearAlarm, systemClock } from '../../core/clock';
import { LockBackendError, NotAcquiredLockError } from '../../core/errors';
import { peerKey } from '../../core/keys';
import { defaults } from '../../core/options';
import type { RedisLike } from '../../core/redis-like';
import { newToken } from '../../core/token';
import { HeldLock } from '../../hold/held-lock';
import { type AcquireRequest, type ExtendRequest, type Grant, now, type Store } from '../../store/contract';
import { commandTimeoutMs, connectIfLazy } from '../stores';
import { oneByOne, PollingCall } from '../waiters';

/** acquire() got no lock within acquireTimeout, or its attempts. Nothing is held. */
export class TimeoutError extends Error {}

/** A refresh found the lock gone, or Redis was silent until its end. */
export class LostLockError extends Error {}

export interface TimeoutOptions {
  /** Ms without a refresh after which the lock ends. Default 10000. */
  lockTimeout?: number;
  /** Longest wait of acquire() in ms. Default 10000. */
  acquireTimeout?: number;
  /** Maximum of attempts of acquire(). Default Infinity. */
  acquireAttemptsLimit?: number;
  /** Ms between two attempts. Default 10. */
  retryInterval?: number;
  /** Ms between two refreshes; 0: none. Default 0.8 × lockTimeout. */
  refreshInterval?: number;
}

export type LockLostCallback = (this: PeerLock, err: LostLockError) => void;

export interface PeerLockOptions extends TimeoutOptions {
  /** @deprecated Use `identifier` and `acquiredExternally: true`. */
  externallyAcquiredIdentifier?: string;
  /** @deprecated Use `identifier`. */
  identifierSuffix?: string;
  /** The value of the key in Redis. Must be unique among holders. Default: a random UUID. */
  identifier?: string;
  /** Says that the lock is already held under `identifier`: acquire() refreshes it. */
  acquiredExternally?: true;
  /** Called when a loss is noticed. Default: throws, which ends as an unhandled rejection. */
  onLockLost?: LockLostCallback;
}

export const defaultTimeoutOptions = {
  lockTimeout: 10_000,
  acquireTimeout: 10_000,
  acquireAttemptsLimit: Number.POSITIVE_INFINITY,
  retryInterval: 10,
};

type AcquireOptions = Readonly<typeof defaultTimeoutOptions> & { readonly identifier: string };

/** @internal The fence is 0 if none was minted. */
export type PeerGrant = Pick<Grant, 'fence' | 'sent'>;

const refreshShare = 0.8;
const minRetryMs = 10;
/** The error of two clocks that are read in whole milliseconds. */
const clockStepMs = 2;

function throwIt(error: LostLockError): never {
  throw error;
}

export abstract class PeerLock {
  protected abstract _kind: string;
  protected abstract _key: string;
  protected _identifier: string;
  protected _acquireOptions: AcquireOptions;
  protected _refreshTimeInterval: number;
  protected _refreshing = false;
  protected _acquired = false;
  protected _acquiredExternally = false;
  protected _onLockLost: LockLostCallback;
  /** The client, or all clients of a lock that is granted by a majority. */
  readonly #at: RedisLike | RedisLike[];
  readonly #isShared: boolean;
  /** The present lock, or the last one. */
  #held: HeldLock | undefined;
  /** The next refresh of a held lock; undefined when refreshing has stopped. */
  #nextRefresh: Alarm | undefined;
  /** The number of acquire() calls in progress. */
  #acquiring = 0;
  /** Monotonic ms until which a request of unknown outcome may still take the lock. */
  #mayExecuteUntilMs = 0;
  #retracting: Promise<void> | undefined;
  /** The refresh in flight, or the last one. */
  #refreshed: Promise<void> | undefined;

  constructor(at: RedisLike | RedisLike[], options: PeerLockOptions = {}) {
    checkIdentity(options);
    this.#at = at;
    const {
      lockTimeout = defaultTimeoutOptions.lockTimeout,
      acquireTimeout = defaultTimeoutOptions.acquireTimeout,
      acquireAttemptsLimit = defaultTimeoutOptions.acquireAttemptsLimit,
      retryInterval = defaultTimeoutOptions.retryInterval,
      refreshInterval = Math.round(lockTimeout * refreshShare),
      onLockLost = throwIt,
      externallyAcquiredIdentifier,
      identifierSuffix,
      identifier,
      acquiredExternally,
    } = options;
    const given = identifier || externallyAcquiredIdentifier;
    this.#isShared = given !== undefined && given !== '';
    this._identifier = given || newToken(undefined) + (identifierSuffix ? `-${identifierSuffix}` : '');
    this._acquiredExternally = !!acquiredExternally || !!externallyAcquiredIdentifier;
    const limits = { lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval };
    this._acquireOptions = { identifier: this._identifier, ...limits };
    this._refreshTimeInterval = refreshInterval;
    this._onLockLost = onLockLost;
  }

  /** The value of the key in Redis while this object holds the lock. */
  get identifier(): string {
    return this._identifier;
  }

  /** True while the lock is surely held; false from the moment at which it may have ended. */
  get isAcquired(): boolean {
    return this._acquired && this.#held!.check();
  }

  /** The fencing token of the current or last lock, larger with each grant of the key; 0 in a semaphore, or if acquired externally. */
  get fence(): number {
    return this.#held?.fence ?? 0;
  }

  /** Aborts with a LockLostError when the lock may have ended, but not when it is released. Each acquire makes a new signal. */
  get signal(): AbortSignal {
    if (this.#held !== undefined) return this.#held.signal;
    return AbortSignal.abort(new NotAcquiredLockError(`${this._key} was not acquired`, { key: this._key }));
  }

  /**
   * Waits for the lock, for at most acquireTimeout and acquireAttemptsLimit attempts.
   *
   * @throws {TimeoutError} the lock was held all the time. Nothing is held.
   * @throws {LockBackendError} Redis gave no usable reply. Nothing is held.
   * @throws the signal's reason.
   */
  async acquire(abortSignal?: AbortSignal): Promise<void> {
    if (!(await this.tryAcquire(abortSignal))) throw new TimeoutError(`Acquire ${this._kind} ${this._key} timeout`);
  }

  /** Acts as acquire() does, but resolves with false instead of throwing a TimeoutError. */
  async tryAcquire(abortSignal?: AbortSignal): Promise<boolean> {
    const grant = this._acquiredExternally ? await this.#adopt() : await this.#acquire(abortSignal);
    if (grant === undefined) return false;
    this._acquired = true;
    this._acquiredExternally = false;
    letGo(this.#held);
    this.#held = heldBy(this._key, this._store, grant, this._acquireOptions);
    this.stopRefresh();
    if (this._refreshTimeInterval > 0) this.#refreshIn(this._refreshTimeInterval);
    return true;
  }

  /**
   * Releases the lock. Does nothing if none is held.
   *
   * @throws {LockBackendError} Redis gave no usable reply. The release may be repeated; at worst the lock ends after lockTimeout.
   */
  async release(): Promise<void> {
    if (this._refreshTimeInterval > 0) this.stopRefresh();
    if (this._acquired || this._acquiredExternally) {
      letGo(this.#held);
      // A refresh in flight must not execute after the release.
      if (this._refreshing) await this.#refreshed?.catch(() => {});
      await this._release();
    }
    this._acquired = false;
    this._acquiredExternally = false;
  }

  /** Stops refreshing. The lock then ends lockTimeout ms after its last refresh. */
  stopRefresh(): void {
    clearAlarm(this.#nextRefresh);
    this.#nextRefresh = undefined;
  }

  /** @internal The store of the lock; that of the first client if a majority grants the lock. */
  protected abstract get _store(): Store;
  protected abstract _refresh(): Promise<boolean>;
  /** @internal Tells if the key holds our identifier. */
  protected abstract _isOurs(): Promise<boolean>;
  /** @internal Requests the lock. Resolves with false if another holder has it. */
  protected abstract _request(): Promise<PeerGrant | false>;
  protected abstract _release(): Promise<void>;

  protected _processRefresh = async (): Promise<void> => {
    if (this._refreshing) return;
    this._refreshing = true;
    this.#refreshed = this.#refreshOnce().finally(() => {
      this._refreshing = false;
    });
    await this.#refreshed;
  };

  async #refreshOnce(): Promise<void> {
    try {
      const sent = now(this._store.clock);
      if (!(await this._refresh())) this.#lose();
      else if (this.#held?.check()) this.#held.confirm(sent, this._acquireOptions.lockTimeout, false);
    } catch (error) {
      if (!(error instanceof LockBackendError)) throw error;
      const leftMs = this.#held!.remaining();
      if (leftMs <= 0) this.#lose();
      else if (this.#nextRefresh !== undefined) this.#refreshIn(Math.max(minRetryMs, leftMs / 4));
    }
  }

  /** Refreshes in `ms`, or at the interval if that is sooner, and then at each interval. */
  #refreshIn(ms: number): void {
    clearAlarm(this.#nextRefresh);
    const refresh = (): void => {
      this.#refreshIn(this._refreshTimeInterval);
      void this._processRefresh();
    };
    this.#nextRefresh = systemClock.setIdleAlarm(refresh, Math.min(ms, this._refreshTimeInterval));
  }

  /** @internal Makes one attempt, after all other requests under our identifier. Resolves with false if the lock is held. */
  protected _ask(): Promise<PeerGrant | false> {
    // Our identifier in the key must not be mistaken for a new grant.
    const mayBeOurs = this.#isShared || this._acquired || this.#acquiring > 1;
    return oneByOne(`${this._key} ${this._identifier}`, async () => {
      if (mayBeOurs && (await this._isOurs())) return false;
      return this._request();
    });
  }

  /** @internal Tells if the lock is held and no other request under its identifier can be in flight. */
  protected get _isConfirmed(): boolean {
    return this._acquired && !this.#isShared && this.#acquiring === 0;
  }

  /** @internal */
  protected _keysAt({ keyPrefix }: Store = this._store): string {
    return peerKey(this._key, keyPrefix);
  }

  /** @internal The request of an acquire, which has all that a release needs, too. */
  protected _requestTo(store?: Store, timeoutMs = commandTimeoutMs): AcquireRequest {
    const keys = this._keysAt(store);
    const { identifier: token, lockTimeout: lifetimeMs } = this._acquireOptions;
    return { keys, token, lifetimeMs, fences: 1, minReplicas: 0, commandTimeoutMs: timeoutMs, begin: () => true };
  }

  /** @internal */
  protected _extendRequest(store?: Store, timeoutMs?: number): ExtendRequest {
    const held = this._acquired ? this.#held : undefined;
    const validUntilMs = now(this._store.clock).monoMs + (held?.remaining() ?? commandTimeoutMs);
    const begin = (): boolean => held === undefined || held.check();
    return { ...this._requestTo(store, timeoutMs), exact: true, validUntilMs, begin };
  }

  /** @internal Notes a failed attempt. If its outcome is unknown, it may still take the lock for a while. */
  protected _failed(error: unknown): undefined {
    if ((error as LockBackendError).unknown) {
      this.#mayExecuteUntilMs = performance.now() + commandTimeoutMs + clockStepMs;
    }
  }

  async #adopt(): Promise<PeerGrant | undefined> {
    const sent = now(this._store.clock);
    return (await this._refresh()) ? { fence: 0, sent } : undefined;
  }

  async #acquire(signal: AbortSignal | undefined): Promise<PeerGrant | undefined> {
    if (this.#retracting !== undefined) await this.#retracting;
    const { acquireTimeout, acquireAttemptsLimit } = this._acquireOptions;
    if (!(acquireTimeout > 0 && acquireAttemptsLimit >= 1)) return undefined;
    signal?.throwIfAborted();
    this.#acquiring += 1;
    let grant: PeerGrant | undefined;
    try {
      connectIfLazy(this.#at);
      const call = new PollingCall<PeerGrant>(this.#at, this._key, this._kind === 'mutex');
      const ask = (): Promise<PeerGrant | false> => this._ask();
      grant = await attempts(call, ask, (error) => this._failed(error), this._acquireOptions, signal);
      return grant;
    } finally {
      this.#acquiring -= 1;
      // A lock that another holder may have under our identifier is left to its lockTimeout.
      if (grant !== undefined || this.#isShared || this._acquired) this.#mayExecuteUntilMs = 0;
      else if (this.#acquiring === 0 && this.#mayExecuteUntilMs > 0) this.#retracting = this.#retract();
    }
  }

  /**
   * Releases the lock that a request of unknown outcome may have taken, now and again when no such request can execute. Until then,
   * nothing is requested under this identifier. The second release undoes a request that executed between the two.
   */
  async #retract(): Promise<void> {
    const untilMs = this.#mayExecuteUntilMs;
    this.#mayExecuteUntilMs = 0;
    await this._release().catch(() => {});
    await new Promise<void>((resolve) => systemClock.setIdleAlarm(resolve, untilMs - performance.now()));
    await this._release().catch(() => {});
  }

  #lose(): void {
    const held = this.#held;
    if (held?.check()) held.lose('taken');
    if (!this._acquired || !held?.isLost) return;
    this._acquired = false;
    this.stopRefresh();
    this._onLockLost(new LostLockError(`Lost ${this._kind} for key ${this._key}`));
  }
}

/**
 * Attempts until an attempt succeeds. Resolves with undefined if no attempt succeeded.
 *
 * @throws {LockBackendError} the error of the last attempt; at once if the same call would fail again.
 * @throws the signal's reason.
 */
async function attempts(
  call: PollingCall<PeerGrant>,
  askOnce: () => Promise<PeerGrant | false>,
  onFailure: (error: unknown) => void,
  { acquireTimeout, acquireAttemptsLimit, retryInterval }: AcquireOptions,
  signal: AbortSignal | undefined,
): Promise<PeerGrant | undefined> {
  const endMs = performance.now() + acquireTimeout;
  let failure: LockBackendError | undefined;
  const ask = async (): Promise<PeerGrant | undefined> => {
    try {
      failure = undefined;
      return (await call.attempt(askOnce)) || undefined;
    } catch (error) {
      onFailure(error);
      if (!(error instanceof LockBackendError && error.retryable)) throw error;
      failure = error;
      return undefined;
    }
  };
  try {
    for (let made = 1; ; made += 1) {
      const grant = call.isKnownBusy() ? undefined : await ask();
      if (grant !== undefined) return grant;
      const leftMs = endMs - performance.now();
      if (made >= acquireAttemptsLimit || leftMs <= 0) break;
      const woken = await call.pause(Math.min(retryInterval, leftMs), ask, signal);
      if (woken !== undefined) return woken;
      if (performance.now() >= endMs) break;
    }
  } finally {
    call.end();
  }
  if (failure !== undefined) throw failure;
  return undefined;
}

function heldBy(key: string, store: Store, grant: PeerGrant, { identifier, lockTimeout }: AcquireOptions): HeldLock {
  const settings = { ...defaults, lifetimeMs: lockTimeout };
  const context = { settings, store, source: undefined, kind: undefined, onEnd: () => {} };
  const spec = { key, keys: store.keyPrefix + key, mode: undefined };
  return new HeldLock({ ...grant, token: identifier }, spec, context, 0);
}

function letGo(held: HeldLock | undefined): void {
  if (held?.check()) held.letGo();
}

function checkIdentity({ externallyAcquiredIdentifier, identifier, acquiredExternally }: PeerLockOptions): void {
  if (identifier !== undefined && (!identifier || typeof identifier !== 'string')) {
    throw new Error('identifier must be not empty random string');
  }
  if (acquiredExternally && !identifier) {
    throw new Error('acquiredExternally=true meanless without custom identifier');
  }
  if (externallyAcquiredIdentifier && (identifier || acquiredExternally)) {
    throw new Error('Invalid usage. Use custom identifier and acquiredExternally: true');
  }
}
