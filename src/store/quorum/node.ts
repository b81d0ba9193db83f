// One node of a quorum and the state that is known of it: whether it answers, which run of which server it is, and its pending
// releases. A silent node is probed in the background until it answers, and costs no request anything meanwhile.
import { type Alarm, type Clock, clearAlarm } from '../../core/clock';
import { LockBackendError } from '../../core/errors';
import { noLock, warn } from '../../core/events';
import type { AcquireReply, AcquireRequest, Node, ReleaseRequest } from '../contract';
import type { LateRequest } from '../late-request';

const firstProbeMs = 20;
const maxProbeMs = 1000;
const lastForMs = 5000;
/** The maximum number of releases kept for a silent node; the lifetimes free the other keys. */
const maxPendingReleases = 1000;

export class QuorumNode {
  readonly store: Node;
  readonly name: string;
  /** The reason for which requests skip the node until it answers again. They share it: making an error takes as long as asking a node. */
  silence: LockBackendError | undefined;
  /** The end of the time in which other nodes are asked first, because this one was late or had no vote; 0: never. */
  lastUntilMs = 0;
  /** '': not known. */
  runId = '';
  /** True if an operator has said that this run is its server's first. */
  isMarkedNew = false;
  /** True if the node has nothing to forget: an operator said so of all nodes while they were young. */
  isFirstRun = false;
  readonly #clock: Clock;
  readonly #onIdentified: () => void;
  /** The latest moment at which this run can have begun. */
  #startedMs = Number.NEGATIVE_INFINITY;
  /** The connection over which this run was identified. */
  #generation: number | undefined;
  /** True if the server does not permit INFO. */
  #isIdentityHidden = false;
  #pendingReleases = new Map<string, { request: ReleaseRequest; late: LateRequest | undefined }>();
  #probe: Alarm | undefined;

  constructor(store: Node, name: string, clock: Clock, onIdentified: () => void) {
    this.store = store;
    this.name = name;
    this.#clock = clock;
    this.#onIdentified = onIdentified;
  }

  /** Requests a lock. A grant counts once the server that granted is identified. */
  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const identified = this.identify(request.commandTimeoutMs);
    identified?.catch(() => {}); // without a grant nobody waits for it
    const reply = await this.store.acquire(request);
    this.answered(); // H66g
    if (!reply.granted) return reply;
    if (identified !== undefined) await identified;
    // Another server may be behind the connection by now.
    const changed = this.store.generation && this.identify(request.commandTimeoutMs);
    if (changed !== undefined) await changed;
    return reply;
  }

  /** Identifies the server; undefined if it is identified already. If connections cannot be told apart, each call identifies it. */
  identify(timeoutMs: number): Promise<void> | undefined {
    const generation = this.store.generation?.();
    if (this.#isIdentityHidden || (generation !== undefined && generation === this.#generation)) return undefined;
    return this.#identify(timeoutMs);
  }

  async #identify(timeoutMs: number): Promise<void> {
    const generation = this.store.generation?.();
    try {
      const { runId, uptimeMs, isNew } = await this.store.identify(timeoutMs);
      if (runId !== this.runId) this.isFirstRun = false;
      this.runId = runId;
      this.isMarkedNew = isNew;
      this.#startedMs = this.#clock.nowMs() - uptimeMs;
      this.#generation = generation;
      this.#onIdentified();
    } catch (error) {
      const { redisCode, retryable } = error as LockBackendError;
      if (redisCode === undefined || retryable) throw error;
      if (this.#isIdentityHidden) return;
      this.#isIdentityHidden = true;
      const message = `${this.name} does not permit INFO: neither a restart in which it forgot its locks is noticed, nor a second name of it`;
      warn({ code: 'no-restart-guard', message, ...noLock('quorum'), error });
    }
  }

  /** The ms for which the node has no vote, if positive: in a restart it may have forgotten a lock of one of the lifetimes in use. */
  guardedForMs(longestMs: number): number {
    return this.isFirstRun ? 0 : this.youngForMs(longestMs);
  }

  /** The ms until the server has been running for a lifetime, if positive. */
  youngForMs(longestMs: number): number {
    return this.#startedMs + longestMs - this.#clock.nowMs();
  }

  /** Makes requests ask other nodes first, for a while. */
  wasLate(): void {
    this.lastUntilMs = this.#clock.nowMs() + lastForMs;
  }

  /** Skips the node from now on if it did not reply at all. */
  failed(error: LockBackendError): void {
    if (error.redisCode !== undefined || this.silence !== undefined) return;
    const { message, retryable } = error;
    this.silence = new LockBackendError(`${this.name} was silent before: ${message}`, { retryable });
    const warning = `${this.name} is skipped until it answers again`;
    warn({ code: 'node-silent', message: warning, ...noLock('quorum'), error });
    this.#probeIn(firstProbeMs);
  }

  /** Ends a silence. Each reply does, so that the release of a lock is sent to a node that has granted it. */
  answered(): void {
    if (this.silence === undefined) return;
    this.silence = undefined;
    clearAlarm(this.#probe);
    const releases = [...this.#pendingReleases.values()];
    this.#pendingReleases.clear();
    for (const { request, late } of releases) this.abandon(request, late);
  }

  /** Makes sure that a token holds nothing at this node, as soon as the node can be asked. */
  abandon(request: ReleaseRequest, late?: LateRequest): void {
    if (this.silence === undefined) void this.store.abandon(request, late);
    else if (this.#pendingReleases.size < maxPendingReleases) {
      this.#pendingReleases.set(request.token, { request, late });
    }
  }

  /** Ends the background work when the last scope has left the node. */
  reset(): void {
    clearAlarm(this.#probe);
    this.silence = undefined;
    this.#pendingReleases.clear();
  }

  #probeIn(ms: number): void {
    this.#probe = this.#clock.setIdleAlarm(() => {
      this.#identify(maxProbeMs).then(
        () => this.answered(),
        () => this.silence && this.#probeIn(Math.min(2 * ms, maxProbeMs)),
      );
    }, ms);
  }
}
