// What the classes of redis-semaphore have in common: attempts until acquireTimeout is over, refreshing while held, loss.
import { randomUUID } from 'node:crypto';
import { LockBackendError, NotAcquiredLockError } from '../../core/errors';
import { startIdleTimer } from '../../core/timers';
import { newToken } from '../../core/token';
import { type AcquireRequest, type ExtendRequest, type Moment, now, trustedMs } from '../../store/contract';
import { after, Tenure } from '../redlock/tenure';
import { commandTimeoutMs } from '../stores';
import { Beat } from './beat';
import { attempts, oneByOne, type Turn, type TurnGrant, type TurnOutcome } from './turns';

/** acquire() got no lock within acquireTimeout, or its attempts. Nothing is held. */
export class TimeoutError extends Error {}

/** A refresh found the lock gone, or Redis was silent until its end. */
export class LostLockError extends Error {}

export interface TimeoutOptions {
  /** Ms after which the lock ends that is not refreshed. Default 10000. */
  lockTimeout?: number;
  /** Longest wait of acquire() in ms. Default 10000. */
  acquireTimeout?: number;
  /** Attempts of acquire(). Default Infinity. */
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
  /** What the key holds in Redis. Must be unique between holders. Default: a random UUID. */
  identifier?: string;
  /** The lock is held under `identifier` already: acquire() refreshes it. */
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

interface AcquireOptions {
  readonly identifier: string;
  readonly lockTimeout: number;
  readonly acquireTimeout: number;
  readonly acquireAttemptsLimit: number;
  readonly retryInterval: number;
}

const refreshShare = 0.8;
const minRetryMs = 10;
/** Two clocks are read in whole milliseconds. */
const clockStepMs = 2;

const always = (): boolean => true;

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
  readonly #isShared: boolean;
  #tenure: Tenure | undefined;
  /** Refreshes while it is held. */
  #beat: Beat | undefined;
  /** Calls of acquire() under way. */
  #acquiring = 0;
  /** The last attempt that was begun. */
  #asking: Promise<TurnOutcome> | undefined;
  #isReleasing = false;
  #retry: NodeJS.Timeout | undefined;
  /** Monotonic ms until which a request of unknown outcome may still take the lock. */
  #mayExecuteUntilMs = 0;
  #retracting: Promise<void> | undefined;
  /** The refresh that is on its way, or the last one. */
  #refreshed: Promise<void> | undefined;

  constructor({
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
  }: PeerLockOptions = {}) {
    checkIdentity({ externallyAcquiredIdentifier, identifier, acquiredExternally });
    const given = identifier || externallyAcquiredIdentifier;
    this.#isShared = given !== undefined && given !== '';
    this._identifier = given || newIdentifier(identifierSuffix);
    this._acquiredExternally = !!acquiredExternally || !!externallyAcquiredIdentifier;
    const limits = { lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval };
    this._acquireOptions = { identifier: this._identifier, ...limits };
    this._refreshTimeInterval = refreshInterval;
    this._onLockLost = onLockLost;
  }

  /** What the key holds in Redis while this object holds the lock. */
  get identifier(): string {
    return this._identifier;
  }

  /** Whether the lock is surely held: false from the moment at which it may have ended. */
  get isAcquired(): boolean {
    return this._acquired && this.#tenure!.leftMs > 0;
  }

  /** The fencing token of what is or was held: larger with each grant of the key. 0 in a semaphore, and where it was acquired externally. */
  get fence(): number {
    return this.#tenure?.fence ?? 0;
  }

  /** Aborts with a LockLostError when the lock may have ended; not when it is released. One for each acquire. */
  get signal(): AbortSignal {
    if (this.#tenure !== undefined) return this.#tenure.signal;
    return AbortSignal.abort(new NotAcquiredLockError(`${this._key} was not acquired`, { key: this._key }));
  }

  /**
   * Waits for the lock, for acquireTimeout and as many attempts as are allowed.
   *
   * @throws {TimeoutError} somebody else held it all the time. Nothing is held.
   * @throws {LockBackendError} Redis gave no usable answer. Nothing is held.
   * @throws the signal's reason.
   */
  async acquire(abortSignal?: AbortSignal): Promise<void> {
    if (!(await this.tryAcquire(abortSignal))) throw new TimeoutError(`Acquire ${this._kind} ${this._key} timeout`);
  }

  /** As acquire(); resolves with false instead of a TimeoutError. */
  async tryAcquire(abortSignal?: AbortSignal): Promise<boolean> {
    const grant = this._acquiredExternally ? await this.#adopt() : await this.#acquire(abortSignal);
    if (grant === undefined) return false;
    this._acquired = true;
    this._acquiredExternally = false;
    this.#tenure = new Tenure(this._key, grant.fence, this.#endOf(grant.sent));
    this.stopRefresh();
    if (this._refreshTimeInterval > 0) {
      this.#beat ??= new Beat(() => void this._processRefresh());
      this.#beat.start(this._refreshTimeInterval);
    }
    return true;
  }

  /**
   * Releases the lock; does nothing where none is held.
   *
   * @throws {LockBackendError} Redis gave no usable answer. May be tried again; at worst lockTimeout frees it.
   */
  async release(): Promise<void> {
    if (this._refreshTimeInterval > 0) this.stopRefresh();
    if (this._acquired || this._acquiredExternally) {
      this.#tenure?.release();
      this.#isReleasing = true;
      try {
        // A refresh that is on its way must not come behind the release.
        if (this._refreshing) await this.#refreshed;
        await this._release();
      } finally {
        this.#isReleasing = false;
      }
    }
    this._acquired = false;
    this._acquiredExternally = false;
  }

  /** The lock ends by itself, lockTimeout ms after the last refresh. */
  stopRefresh(): void {
    this.#beat?.stop();
    if (this.#retry !== undefined) clearTimeout(this.#retry);
  }

  protected abstract _refresh(): Promise<boolean>;
  /** @internal One attempt. */
  abstract _ask(): Promise<TurnOutcome>;
  /** @internal */
  abstract _newTurn(): Turn;
  /** @internal A client that connects with its first command does so. */
  protected abstract _connect(): void;
  protected abstract _release(): Promise<void>;

  protected _processRefresh = async (): Promise<void> => {
    if (this._refreshing) return;
    this._refreshing = true;
    let done = (): void => {};
    this.#refreshed = new Promise((resolve) => {
      done = resolve;
    });
    try {
      const sent = now();
      if (await this._refresh()) this.#tenure?.confirm(this.#endOf(sent));
      else this.#lose();
    } catch (error) {
      if (!(error instanceof LockBackendError)) throw error;
      if (this.#tenure!.leftMs > 0) this.#refreshSoon();
      else this.#lose();
    } finally {
      this._refreshing = false;
      done();
    }
  };

  /** @internal Whether the key may hold our identifier already, so that it would be taken for a new grant. */
  protected get _mayBeOurs(): boolean {
    return this.#isShared || this._acquired || this.#acquiring > 1;
  }

  /** @internal What is asked for under our identifier, one after the other. */
  protected _oneByOne(ask: () => Promise<TurnOutcome>): Promise<TurnOutcome> {
    if (this.#isShared) return oneByOne(`${this._key} ${this._identifier}`, ask);
    const asking = this.#acquiring > 1 && this.#asking !== undefined ? this.#asking.then(ask, ask) : ask();
    this.#asking = asking;
    return asking;
  }

  /** @internal No request for it is on its way any more. */
  protected get _isConfirmed(): boolean {
    return this._acquired && !this.#isShared && this.#acquiring === 0;
  }

  /** @internal */
  protected _acquireRequest(keys: string, commandTimeoutMs: number): AcquireRequest {
    const { identifier: token, lockTimeout: lifetimeMs } = this._acquireOptions;
    return { keys, token, lifetimeMs, fencing: true, minReplicas: 0, commandTimeoutMs, begin: always };
  }

  /** @internal */
  protected _extendRequest(keys: string): Omit<ExtendRequest, 'commandTimeoutMs'> {
    const { identifier, lockTimeout } = this._acquireOptions;
    const tenure = this._acquired ? this.#tenure : undefined;
    const validUntilMs = tenure?.endMs ?? performance.now() + commandTimeoutMs;
    const begin = (): boolean => tenure === undefined || tenure.leftMs > 0;
    return { keys, token: identifier, lifetimeMs: lockTimeout, exact: true, validUntilMs, begin };
  }

  /** @internal An attempt failed: where its outcome is unknown, it may still take the lock for a while. */
  _failed(error: unknown): undefined {
    if ((error as LockBackendError).unknown) {
      this.#mayExecuteUntilMs = performance.now() + commandTimeoutMs + clockStepMs;
    }
  }

  async #adopt(): Promise<TurnGrant | undefined> {
    const sent = now();
    return (await this._refresh()) ? { fence: 0, sent } : undefined;
  }

  async #acquire(signal: AbortSignal | undefined): Promise<TurnGrant | undefined> {
    if (this.#retracting !== undefined) await this.#retracting;
    const { acquireTimeout, acquireAttemptsLimit } = this._acquireOptions;
    if (!(acquireTimeout > 0 && acquireAttemptsLimit >= 1)) return undefined;
    signal?.throwIfAborted();
    this.#acquiring += 1;
    let grant: TurnGrant | undefined;
    try {
      this._connect();
      grant = await attempts(this._acquireOptions, signal, this);
      return grant;
    } finally {
      this.#acquiring -= 1;
      if (grant !== undefined) this.#mayExecuteUntilMs = 0;
      else if (this.#mayExecuteUntilMs > 0) this.#retract();
    }
  }

  /**
   * Releases what a request of unknown outcome may have taken, now and when none can run any more. Until then, nothing is asked
   * for under this identifier. What others may hold under it is left to lockTimeout.
   */
  #retract(): void {
    const untilMs = this.#mayExecuteUntilMs;
    this.#mayExecuteUntilMs = 0;
    if (this._mayBeOurs) return;
    const release = (): Promise<void> => this._release().catch(() => {});
    this.#retracting = nowAndThen(release, untilMs).finally(() => {
      this.#retracting = undefined;
    });
  }

  /** Redis could not be asked: again, while the lock is surely ours. */
  #refreshSoon(): void {
    clearTimeout(this.#retry);
    const ms = Math.max(minRetryMs, this.#tenure!.leftMs / 4);
    this.#retry = startIdleTimer(this._processRefresh, ms);
  }

  #lose(): void {
    if (!this._acquired || this.#isReleasing) return;
    this._acquired = false;
    this.stopRefresh();
    this.#tenure!.lose('taken');
    this._onLockLost(new LostLockError(`Lost ${this._kind} for key ${this._key}`));
  }

  #endOf(sent: Moment): Moment {
    return after(sent, trustedMs(this._acquireOptions.lockTimeout));
  }
}

/** Releases twice: a request that came between the two is undone by the second. */
async function nowAndThen(release: () => Promise<void>, thenMs: number): Promise<void> {
  await release();
  await new Promise<void>((resolve) => startIdleTimer(resolve, thenMs - performance.now()));
  await release();
}

function newIdentifier(suffix: string | undefined): string {
  return suffix ? `${randomUUID()}-${suffix}` : newToken(undefined);
}

function checkIdentity({
  externallyAcquiredIdentifier,
  identifier,
  acquiredExternally,
}: Record<string, unknown>): void {
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
