/** One call of one caller, from its beginning to its end, as it goes into the diary. */
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import redisExpLock from '../src/index';
import { type Diary, type HoldKind, nowMs } from './history';

interface Terms {
  readonly id: string;
  readonly job: string;
  readonly keys: readonly string[];
  readonly boundMs: number;
  readonly queued: boolean;
  readonly diary: Diary;
  readonly random: () => number;
}

interface Held {
  readonly kind?: HoldKind;
  readonly fence: number;
  readonly group?: string;
  readonly permits?: number;
  readonly untilMs: number;
  readonly overMs?: number;
}

export class Operation {
  readonly id: string;
  readonly #diary: Diary;
  readonly #random: () => number;

  constructor({ diary, random, ...asked }: Terms) {
    this.id = asked.id;
    this.#diary = diary;
    this.#random = random;
    diary.write({ e: 'ask', ...asked });
  }

  /** Every outcome is written down. */
  async through(work: () => Promise<string>): Promise<void> {
    let outcome: string;
    try {
      outcome = await work();
    } catch (error) {
      outcome = outcomeOf(error);
    }
    this.#diary.write({ e: 'done', id: this.id, outcome });
  }

  nowMs(): number {
    return nowMs();
  }

  /** The earliest time at which the lease may cease to be valid; 0 if it is not valid now. */
  until(lease: redisExpLock.Lease): number {
    const beforeMs = nowMs();
    const leftMs = lease.remaining();
    return leftMs > 0 ? beforeMs + leftMs : 0;
  }

  hold({ kind = 'mutex', fence, group = '', permits = 0, untilMs, overMs }: Held): void {
    this.#diary.write({ e: 'hold', id: this.id, kind, fence, group, permits, until: untilMs, over: overMs });
  }

  check(until: number): void {
    this.#diary.write({ e: 'check', id: this.id, until });
  }

  end(): void {
    this.#diary.write({ e: 'end', id: this.id });
  }

  slot(mode: string, slot: number, done: boolean): void {
    this.#diary.write({ e: 'slot', id: this.id, mode, slot, done });
  }

  value(value: string, loaded: boolean): void {
    this.#diary.write({ e: 'value', id: this.id, value, loaded });
  }

  listen(lease: redisExpLock.Lease): void {
    if (this.#random() < 0.5) return;
    lease.signal.addEventListener('abort', () => {
      const { reason } = lease.signal.reason as redisExpLock.LockLostError;
      this.#diary.write({ e: 'lost', id: this.id, reason });
    });
  }

  /** Mostly short; now and then longer than a lifetime. */
  pause(): Promise<unknown> {
    const dice = this.#random();
    if (dice < 0.4) return turn();
    return sleep(dice < 0.9 ? this.#random() * 10 : dice < 0.98 ? this.#random() * 120 : this.#random() * 800);
  }

  /** Works under the lease, and releases it; or not, if it ends by itself. */
  async use(lease: redisExpLock.Lease, { isHeld = false, isRenewed = false } = {}): Promise<string> {
    await this.work(lease, isHeld);
    const dice = this.#random();
    if (dice < 0.02 && !isRenewed) return 'forgotten';
    this.end();
    if (dice < 0.1) void lease.release().catch(() => {}); // twice is once
    return (await lease.release()) ? 'released' : 'gone';
  }

  async work(lease: redisExpLock.Lease, isHeld = false): Promise<void> {
    if (!isHeld) {
      this.hold({ fence: lease.fence, untilMs: this.until(lease) });
      this.listen(lease);
    }
    await this.pause();
    this.check(this.until(lease));
    if (this.#random() < 0.1) {
      const lifetime = this.#random() < 0.5 ? undefined : 100 + Math.floor(this.#random() * 500);
      // It may get shorter, but no shorter than it will be when nothing is answered.
      if (lifetime !== undefined) this.check(Math.min(this.until(lease), nowMs() + lifetime * 0.99));
      await lease.extend(lifetime).catch(() => false);
      this.check(this.until(lease));
    }
    await this.pause();
    this.check(this.until(lease));
  }

  /**
   * A while under a signal. It counts as held when it has not aborted, although all timers that are due have run: those are the ones
   * that the event loop finds when it next reads the clock, a turn later.
   */
  async watch(signal: AbortSignal): Promise<void> {
    await sleep(10);
    const atMs = nowMs();
    await turn();
    await turn();
    if (!signal.aborted) this.check(atMs);
  }
}

function outcomeOf(error: unknown): string {
  const { code, redisCode, message, stack } = error as {
    code?: string;
    redisCode?: string;
    message: string;
    stack: string;
  };
  if (redisExpLock.LockError.is(error)) return redisCode === undefined ? code! : `${code} ${redisCode}`;
  return /the job fails|the round is over|aborted due to timeout/.test(message) ? message : `unexpected: ${stack}`;
}
