// Tokens of requests whose outcome is not known: each is released until Redis has answered after the last moment at which the
// token could still take anything.
import type { LockBackendError } from '../core/errors';
import { startIdleTimer } from '../core/timers';
import { now, type ReleaseReply, type ReleaseRequest } from './contract';

/** A Redis that is silent for longer has let the key end by itself. */
const keepReleasingMs = 60_000;
/** A late request is surely too late this long after its `notAfter`: two clocks are read in whole milliseconds. */
const clockStepMs = 2;

export class Abandoned {
  readonly #release: (request: ReleaseRequest) => Promise<ReleaseReply>;
  readonly #pending = new Set<Promise<void>>();

  constructor(release: (request: ReleaseRequest) => Promise<ReleaseReply>) {
    this.#release = release;
  }

  /** Resolves once a release was tried after `untilMs`; it goes on by itself while Redis is silent. */
  add(request: ReleaseRequest, untilMs: number): Promise<void> {
    const work = this.#releaseTwice(request, untilMs).finally(() => this.#pending.delete(work));
    this.#pending.add(work);
    return work;
  }

  /** Resolves once that is so for every token. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  async #releaseTwice(request: ReleaseRequest, untilMs: number): Promise<void> {
    const release = async (): Promise<boolean> =>
      this.#release(request).then(
        () => true,
        (error: LockBackendError) => !error.retryable,
      );
    const isReleased = await release();
    const leftMs = untilMs - now().monoMs;
    if (isReleased && leftMs <= 0) return; // H8b
    // A late request that ran before the first release is undone by it; one that runs after it, and in time, by the second.
    await pause(leftMs + clockStepMs);
    if (!(await release())) void keepReleasing(release, request.commandTimeoutMs);
  }
}

async function keepReleasing(release: () => Promise<boolean>, pauseMs: number): Promise<void> {
  const endMs = now().monoMs + keepReleasingMs;
  do await pause(pauseMs);
  while (!(await release()) && now().monoMs < endMs);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => startIdleTimer(resolve, ms));
}
