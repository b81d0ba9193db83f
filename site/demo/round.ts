// Three workers deposit 10 each to one account, under one lock of the library with its memory store. What they say happened is all that
// the page and the picture of the README draw.
import { memoryStore, redisExpLock } from 'redis-exp-lock/edge';
import { Account, type WriteOutcome } from './account';

export const workers = ['A', 'B', 'C'] as const;
export type Worker = (typeof workers)[number];

export const amount = 10;
const lifetime = 2500;
const workMs = 800;
/** Past the lifetime, and past the work of the two others. */
const pauseMs = 4500;
/** The time between one worker's call and the next worker's. */
const apartMs = 150;

export interface Happening {
  readonly worker: Worker;
  readonly kind: 'waits' | 'granted' | 'paused' | 'lost' | 'resumed' | WriteOutcome | 'released' | 'expired';
  /** The time since the beginning of the round. */
  readonly atMs: number;
  /** The worker's; 0 before its grant. */
  readonly fence: number;
  /** The balance of the account at that time. */
  readonly balance: number;
  readonly storedFence: number;
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export class Round {
  readonly account: Account;
  readonly #withLock = redisExpLock({ redis: memoryStore(), lifetime, timeout: 60_000 });
  readonly #tell: (happening: Happening) => void;
  readonly #startMs = performance.now();
  readonly #toPause = new Set<Worker>();

  constructor(comparesFences: boolean, tell: (happening: Happening) => void) {
    this.account = new Account(comparesFences);
    this.#tell = tell;
  }

  get elapsedMs(): number {
    return performance.now() - this.#startMs;
  }

  /** Resolves when each worker has written. */
  async run(): Promise<void> {
    await Promise.all(workers.map((worker, place) => this.#work(worker, place * apartMs)));
    await this.close();
  }

  /** Stops a worker in front of its next write for longer than its lock lives. */
  pause(worker: Worker): void {
    this.#toPause.add(worker);
  }

  /** Takes every lock back; what waits ends with a LockClosedError. */
  close(): Promise<void> {
    return this.#withLock.close({ drain: false });
  }

  async #work(worker: Worker, delayMs: number): Promise<void> {
    await sleep(delayMs);
    while ((await this.#deposit(worker)) === 'refused');
  }

  // #region deposit
  async #deposit(worker: Worker): Promise<WriteOutcome> {
    this.#say(worker, 'waits');
    const lease = await this.#withLock.promise('account');
    this.#say(worker, 'granted', lease.fence);
    lease.signal.addEventListener('abort', () => this.#say(worker, 'lost', lease.fence));

    const { balance } = this.account;
    await sleep(workMs);
    lease.signal.throwIfAborted();
    await this.#pauseOf(worker, lease.fence); // a process can be stopped here, after its last check
    const outcome = this.account.write(balance + amount, lease.fence);
    this.#say(worker, outcome, lease.fence);

    const released = await lease.release();
    this.#say(worker, released ? 'released' : 'expired', lease.fence);
    return outcome;
  }
  // #endregion deposit

  async #pauseOf(worker: Worker, fence: number): Promise<void> {
    if (!this.#toPause.delete(worker)) return;
    this.#say(worker, 'paused', fence);
    await sleep(pauseMs);
    this.#say(worker, 'resumed', fence);
  }

  #say(worker: Worker, kind: Happening['kind'], fence = 0): void {
    const { balance, fence: storedFence } = this.account;
    this.#tell({ worker, kind, atMs: this.elapsedMs, fence, balance, storedFence });
  }
}
