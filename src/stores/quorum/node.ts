// One node of a quorum, and what is known of it: whether it answers, which run of which server it is, and which releases it is
// owed. A node that was silent is asked again in the background until it answers, and costs nobody anything meanwhile.
import type { LockBackendError } from '../../errors';
import { LockBackendError as BackendError } from '../../errors';
import { warn } from '../../events';
import type { Key } from '../../keys';
import type { Moment, Node, ReleaseRequest } from '../../store';

/** Time, handed in so that a simulation can own it. Timers keep no process alive. */
export interface Clock {
  now(): Moment;
  later(work: () => void, ms: number): unknown;
  never(timer: any): void;
}

const firstProbeMs = 20;
const longestProbeMs = 1000;
/** What a silent node is owed beyond this is left to the lifetimes. */
const mostOwed = 1000;

export class Member {
  readonly node: Node;
  readonly name: string;
  isSilent = false;
  /** '' where it is not known. */
  runId = '';
  readonly #clock: Clock;
  /** The latest moment at which this run can have begun. */
  #startedMs = Number.NEGATIVE_INFINITY;
  /** The connection behind which that run was met. */
  #generation: number | undefined;
  /** How often it was found out. */
  meetings = 0;
  #isReticent = false;
  #silence: LockBackendError | undefined;
  #owed = new Map<string, { request: ReleaseRequest; untilMs: number }>();
  #probe: unknown;

  constructor(node: Node, name: string, clock: Clock) {
    this.node = node;
    this.name = name;
    this.#clock = clock;
  }

  /** Whether another server may be behind the connection than the one that was met. */
  get isStrange(): boolean {
    return !this.#isReticent && this.node.generation !== undefined && this.node.generation() !== this.#generation;
  }

  /** Resolves once it is known who answers; undefined when it is. Where connections cannot be told apart, it asks each time. */
  meet(timeoutMs: number): Promise<void> | undefined {
    if (this.#isReticent || (this.node.generation !== undefined && !this.isStrange)) return undefined;
    return this.#meet(timeoutMs);
  }

  async #meet(timeoutMs: number): Promise<void> {
    const generation = this.node.generation?.();
    try {
      const { runId, uptimeMs } = await this.node.identify(timeoutMs);
      this.runId = runId;
      this.#startedMs = this.#clock.now().monoMs - uptimeMs;
      this.#generation = generation;
      this.meetings += 1;
    } catch (error) {
      const { redisCode, retryable } = error as LockBackendError;
      if (redisCode === undefined || retryable) throw error;
      if (this.#isReticent) return;
      this.#isReticent = true;
      const message = `${this.name} does not tell when it was started: that it forgot its locks in a restart cannot be seen`;
      warn({ code: 'no-restart-guard', message, key: null, error });
    }
  }

  /** Why it has no vote: it may have forgotten, in a restart, a lock of one of the lifetimes in use. */
  youth(longestMs: number, key: Key): LockBackendError | undefined {
    const missingMs = this.#startedMs + longestMs - this.#clock.now().monoMs;
    if (missingMs <= 0) return undefined;
    const message = `${this.name} was started less than a lifetime ago: it has no vote for another ${Math.ceil(missingMs)} ms`;
    return new BackendError(message, { key });
  }

  /** Whoever gave no answer at all is left alone from now on. */
  failed(error: LockBackendError): void {
    if (error.redisCode !== undefined || this.isSilent) return;
    this.isSilent = true;
    const { message, retryable } = error;
    this.#silence = new BackendError(`${this.name} was silent before: ${message}`, { retryable });
    warn({ code: 'node-silent', message: `${this.name} is left alone until it answers again`, key: null, error });
    this.#probeIn(firstProbeMs);
  }

  /** Why it was not asked. The same for every question: making an error takes as long as asking a node. */
  get silence(): LockBackendError {
    return this.#silence!;
  }

  /** Makes sure that a token holds nothing there, as soon as it can be told. */
  free(request: ReleaseRequest, untilMs: number): void {
    if (!this.isSilent) void this.node.abandon(request, untilMs);
    else if (this.#owed.size < mostOwed) this.#owed.set(request.token, { request, untilMs });
  }

  /** Nobody uses it any more. */
  rest(): void {
    this.#clock.never(this.#probe);
    this.isSilent = false;
    this.#owed.clear();
  }

  #probeIn(ms: number): void {
    this.#probe = this.#clock.later(() => {
      this.#meet(longestProbeMs).then(
        () => this.#isBack(),
        () => this.isSilent && this.#probeIn(Math.min(2 * ms, longestProbeMs)),
      );
    }, ms);
  }

  #isBack(): void {
    this.isSilent = false;
    const owed = [...this.#owed.values()];
    this.#owed.clear();
    for (const { request, untilMs } of owed) this.free(request, untilMs);
  }
}
