// Tokens of requests with an unknown outcome. Each is released until Redis has answered after the last moment at which the
// token could still take a lock.

import { now, systemClock } from '../core/clock';
import type { LockBackendError } from '../core/errors';
import type { LateRequest } from './late-request';

/** The maximum time of releasing: if Redis is silent for longer, the key has ended by itself. */
const keepReleasingMs = 60_000;
/** The margin after `notAfter` beyond which a late request is surely too late: two clocks are read in whole milliseconds. */
const clockStepMs = 2;

export class Abandoned {
  readonly #pending = new Set<Promise<void>>();

  /** Resolves once a release was tried after the late request; further releases follow, each after a pause, while Redis is silent. */
  add(send: () => Promise<unknown>, pauseMs: number, late?: LateRequest): Promise<void> {
    const release = (): Promise<boolean> =>
      send().then(
        () => true,
        (error: LockBackendError) => !error.retryable,
      );
    const work = releaseTwice(release, pauseMs, late).finally(() => this.#pending.delete(work));
    this.#pending.add(work);
    return work;
  }

  /** Resolves once every pending token was tried. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }
}

async function releaseTwice(release: () => Promise<boolean>, pauseMs: number, late?: LateRequest): Promise<void> {
  const isReleased = await release();
  const nowMs = now().monoMs;
  const leftMs = (late?.untilMs ?? nowMs) - nowMs;
  if (isReleased && leftMs <= 0) return; // H8b
  // The first release undoes a late request that ran before it; the second undoes one that ran, in time, after the first.
  await pause(leftMs + clockStepMs);
  if (!(await release())) void keepReleasing(release, pauseMs);
}

async function keepReleasing(release: () => Promise<boolean>, pauseMs: number): Promise<void> {
  const endMs = now().monoMs + keepReleasingMs;
  do await pause(pauseMs);
  while (!(await release()) && now().monoMs < endMs);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => systemClock.setIdleAlarm(resolve, ms));
}
