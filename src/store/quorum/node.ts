// One node of a quorum, and what is known of it: whether it answers, which run of which server it is, and which releases are
// pending there. A node that was silent is probed in the background until it answers, and costs no request anything meanwhile.
import { LockBackendError } from '../../core/errors';
import { noLock, warn } from '../../core/events';
import type { Key } from '../../core/keys';
import type { Moment, Node, ReleaseRequest } from '../contract';

/** Time, handed in so that a simulation can own it. Timers keep no process alive. */
export interface QuorumClock {
  now(): Moment;
  setTimer(work: () => void, ms: number): unknown;
  clearTimer(timer: any): void;
}

const firstProbeMs = 20;
const maxProbeMs = 1000;
const lastForMs = 5000;
/** Releases beyond this are not kept for a silent node: the lifetimes free those keys. */
const maxPendingReleases = 1000;

export class QuorumNode {
  readonly store: Node;
  readonly name: string;
  isSilent = false;
  /** Until then others are asked first, because it was late or had no vote; 0: never. */
  lastUntilMs = 0;
  /** '' where it is not known. */
  runId = '';
  /** How often the server has been identified. */
  identifications = 0;
  /** An operator has said that this run is its server's first. */
  isMarkedNew = false;
  /** It has nothing to forget: so was said of all nodes while they were young. */
  isFirstRun = false;
  readonly #clock: QuorumClock;
  /** The latest moment at which this run can have begun. */
  #startedMs = Number.NEGATIVE_INFINITY;
  /** The connection over which that run was identified. */
  #generation: number | undefined;
  /** The server does not permit INFO. */
  #isIdentityHidden = false;
  #silence: LockBackendError | undefined;
  #pendingReleases = new Map<string, { request: ReleaseRequest; untilMs: number }>();
  #probe: unknown;

  constructor(store: Node, name: string, clock: QuorumClock) {
    this.store = store;
    this.name = name;
    this.#clock = clock;
  }

  /** Whether another server may be behind the connection than the one that was identified. */
  get mayHaveChanged(): boolean {
    return (
      !this.#isIdentityHidden && this.store.generation !== undefined && this.store.generation() !== this.#generation
    );
  }

  /** Resolves once the server is identified; undefined when it is. If connections cannot be told apart, it is identified each time. */
  identify(timeoutMs: number): Promise<void> | undefined {
    if (this.#isIdentityHidden || (this.store.generation !== undefined && !this.mayHaveChanged)) return undefined;
    return this.#identify(timeoutMs);
  }

  /** After a grant: resolves once it is known which server has granted; undefined when it is. */
  confirm(identified: Promise<void> | undefined, timeoutMs: number): Promise<void> | undefined {
    if (identified === undefined && !this.mayHaveChanged) return undefined;
    return Promise.resolve(identified).then(() => (this.mayHaveChanged ? this.identify(timeoutMs) : undefined));
  }

  async #identify(timeoutMs: number): Promise<void> {
    const generation = this.store.generation?.();
    try {
      const { runId, uptimeMs, isNew } = await this.store.identify(timeoutMs);
      if (runId !== this.runId) this.isFirstRun = false;
      this.runId = runId;
      this.isMarkedNew = isNew;
      this.#startedMs = this.#clock.now().monoMs - uptimeMs;
      this.#generation = generation;
      this.identifications += 1;
    } catch (error) {
      const { redisCode, retryable } = error as LockBackendError;
      if (redisCode === undefined || retryable) throw error;
      if (this.#isIdentityHidden) return;
      this.#isIdentityHidden = true;
      const message = `${this.name} does not permit INFO: a restart in which it forgot its locks cannot be noticed`;
      warn({ code: 'no-restart-guard', message, ...noLock('quorum'), error });
    }
  }

  /** Why it has no vote: it may have forgotten, in a restart, a lock of one of the lifetimes in use. */
  restartGuard(longestMs: number, key: Key): LockBackendError | undefined {
    const missingMs = this.#guardedForMs(longestMs);
    if (missingMs <= 0 || this.isFirstRun) return undefined;
    const message = `${this.name} was started less than a lifetime ago: it has no vote for another ${Math.ceil(missingMs)} ms`;
    return new LockBackendError(message, { key });
  }

  /** Whether it was started less than a lifetime ago. */
  isYoung(longestMs: number): boolean {
    return this.#guardedForMs(longestMs) > 0;
  }

  #guardedForMs(longestMs: number): number {
    return this.#startedMs + longestMs - this.#clock.now().monoMs;
  }

  /** Others are asked first, for a while. */
  wasLate(nowMs: number): void {
    this.lastUntilMs = nowMs + lastForMs;
  }

  /** A node that did not reply at all is skipped from now on. */
  failed(error: LockBackendError): void {
    if (error.redisCode !== undefined || this.isSilent) return;
    this.isSilent = true;
    const { message, retryable } = error;
    this.#silence = new LockBackendError(`${this.name} was silent before: ${message}`, { retryable });
    const warning = `${this.name} is skipped until it answers again`;
    warn({ code: 'node-silent', message: warning, ...noLock('quorum'), error });
    this.#probeIn(firstProbeMs);
  }

  /** Why it is skipped. The same for every request: making an error takes as long as asking a node. */
  get silence(): LockBackendError {
    return this.#silence!;
  }

  /** Makes sure that a token holds nothing there, as soon as the node can be asked. */
  abandon(request: ReleaseRequest, untilMs: number): void {
    if (!this.isSilent) void this.store.abandon(request, untilMs);
    else if (this.#pendingReleases.size < maxPendingReleases) {
      this.#pendingReleases.set(request.token, { request, untilMs });
    }
  }

  /** Ends the background work: no scope uses the node any more. */
  reset(): void {
    this.#clock.clearTimer(this.#probe);
    this.isSilent = false;
    this.#pendingReleases.clear();
  }

  #probeIn(ms: number): void {
    this.#probe = this.#clock.setTimer(() => {
      this.#identify(maxProbeMs).then(
        () => this.#recovered(),
        () => this.isSilent && this.#probeIn(Math.min(2 * ms, maxProbeMs)),
      );
    }, ms);
  }

  #recovered(): void {
    this.isSilent = false;
    const releases = [...this.#pendingReleases.values()];
    this.#pendingReleases.clear();
    for (const { request, untilMs } of releases) this.abandon(request, untilMs);
  }
}
