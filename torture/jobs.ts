/**
 * The work of callers with locks: every kind of lock, every way to wait, every way to end. Each job writes down the answers
 * that it gets, when it gets them, and never a conclusion of its own.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../src/index';
import { draw } from './draw';
import type { Diary } from './history';
import { Operation } from './operation';
import { cachedMs, commandTimeoutMs, type Order, permitsInAll } from './order';

type Job = (job: string) => Promise<void>;
interface Weighted {
  readonly name: string;
  readonly weight: number;
  readonly job: Job;
}
type Mode = 'at-most-once' | 'until-success';

const preferences = ['writer', 'reader', 'fair'] as const;
const mutexes = ['{m}:1', '{m}:2', '{m}:3'];
const waitMs = 4000;
/** No lock is held longer than that, if nothing is wrong. */
const drainMs = 5000;

export class Jobs {
  readonly #redis: redisExpLock.LockOptions['redis'];
  readonly #withLock: redisExpLock.WithLock;
  readonly #order: Order;
  readonly #diary: Diary;
  readonly #random: () => number;
  readonly #stop = new AbortController();
  readonly #semaphore: redisExpLock.Semaphore;
  readonly #rwLocks: { prefer: string; group: string; lock: redisExpLock.RWLock }[];
  readonly #election: redisExpLock.Election | undefined;
  readonly #jobs: readonly Weighted[];
  #number = 0;
  #leading: Promise<void> | undefined;

  constructor(redis: redisExpLock.LockOptions['redis'], order: Order, diary: Diary, random: () => number) {
    const common = { redis, commandTimeout: commandTimeoutMs, owner: order.name };
    this.#redis = redis;
    this.#order = order;
    this.#diary = diary;
    this.#random = random;
    this.#withLock = redisExpLock(common);
    this.#semaphore = new redisExpLock.Semaphore('permits', permitsInAll, { ...common, lifetime: 500 });
    this.#rwLocks = preferences.flatMap((prefer) =>
      ['', 'b'].map((group) => {
        const options = { ...common, lifetime: 400, prefer, readers: group };
        return { prefer, group, lock: new redisExpLock.RWLock(`rw-${prefer}`, options) };
      }),
    );
    const { kind } = order.address;
    if (kind !== 'quorum') this.#election = new redisExpLock.Election('leader', { ...common, lifetime: 500 });
    this.#jobs = this.#all();
  }

  /** Resolves when one job, drawn by its weight, is done. */
  async one(): Promise<void> {
    const { name, job } = draw(this.#jobs, this.#random);
    await job.call(this, name);
  }

  /** No leader goes on. */
  stop(): void {
    this.#stop.abort(new Error('the round is over'));
  }

  async close(): Promise<void> {
    const all = [this.#withLock, this.#semaphore, this.#election, ...this.#rwLocks.map(({ lock }) => lock)];
    await Promise.all([this.#leading, ...all.map((each) => each?.close({ drain: drainMs }))]);
  }

  #all(): Weighted[] {
    const { kind } = this.#order.address;
    const everywhere = [
      { name: 'queued', weight: 20, job: this.#queued },
      { name: 'polling', weight: 6, job: this.#polling },
      { name: 'tryLock', weight: 4, job: this.#tryLock },
      { name: 'run', weight: 6, job: this.#run },
      { name: 'Lock', weight: 6, job: this.#lockObject },
      { name: 'several keys', weight: 4, job: this.#severalKeys },
      { name: 'adopt', weight: 2, job: this.#adopt },
    ];
    const shared = [
      { name: 'read', weight: 14, job: this.#read },
      { name: 'write', weight: 8, job: this.#write },
      { name: 'permits', weight: 14, job: this.#permits },
    ];
    if (kind === 'quorum') return [...everywhere, ...shared];
    const ofOneStore = [
      { name: 'cached', weight: 4, job: this.#cached },
      { name: 'once', weight: 2, job: this.#once },
      { name: 'lead', weight: 1, job: this.#lead },
    ];
    const ofHosts = kind === 'shared-memory' ? [{ name: 'HostLock', weight: 4, job: this.#host }] : [];
    return [...everywhere, ...shared, ...ofOneStore, ...ofHosts];
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#random() * from.length)]!;
  }

  /** Mostly the same, so that callers of a process share a queue. */
  #lifetime(): number {
    return this.#random() < 0.8 ? 400 : this.#pick([120, 250, 900]);
  }

  #ask(job: string, keys: readonly string[], boundMs: number, queued = false): Operation {
    const id = `${this.#order.name}.${this.#number++}`;
    return new Operation({ id, job, keys, boundMs, queued, diary: this.#diary, random: this.#random });
  }

  async #queued(job: string): Promise<void> {
    const key = this.#pick(mutexes);
    const timeout = this.#random() < 0.15 ? Math.ceil(this.#random() * 100) : waitMs;
    const isRenewed = this.#random() < 0.15;
    const options = { timeout, lifetime: this.#lifetime(), autoExtend: isRenewed };
    const op = this.#ask(job, [key], timeout, timeout === waitMs);
    const leaves = this.#random() < 0.1 ? AbortSignal.timeout(Math.ceil(this.#random() * 100)) : undefined;
    await op.through(async () =>
      op.use(await this.#withLock.promise(key, { ...options, signal: leaves }), { isRenewed }),
    );
  }

  async #polling(job: string): Promise<void> {
    const key = this.#pick(mutexes);
    const retryTimeout = this.#pick([2, 10, 40]);
    const more = this.#random() < 0.3 ? { timeout: 500 } : {};
    const options = { maxRetries: 20, retryTimeout, lifetime: this.#lifetime(), jitter: 0.5, ...more };
    const op = this.#ask(job, [key], 21 * (retryTimeout + commandTimeoutMs));
    await op.through(async () => op.use(await this.#withLock.promise(key, options)));
  }

  async #tryLock(job: string): Promise<void> {
    const key = this.#pick(mutexes);
    const op = this.#ask(job, [key], commandTimeoutMs);
    await op.through(async () => {
      const lease = await this.#withLock.tryLock(key, { lifetime: this.#lifetime() });
      return lease === null ? 'busy' : op.use(lease);
    });
  }

  async #run(job: string): Promise<void> {
    const key = this.#pick(mutexes);
    const op = this.#ask(job, [key], waitMs, true);
    const options = { timeout: waitMs, lifetime: this.#lifetime() };
    await op.through(() =>
      this.#withLock.run(key, options, async (lease) => {
        await op.work(lease);
        op.end();
        return 'released';
      }),
    );
  }

  async #lockObject(job: string): Promise<void> {
    const key = this.#pick(mutexes);
    const lifetime = this.#lifetime();
    const wait = this.#random() < 0.5 ? { timeout: waitMs } : { maxRetries: 30, retryTimeout: 10 };
    const lock = new redisExpLock.Lock(key, {
      redis: this.#redis,
      commandTimeout: commandTimeoutMs,
      lifetime,
      ...wait,
    });
    const op = this.#ask(job, [key], Math.max(waitMs, 31 * (10 + commandTimeoutMs)), 'timeout' in wait);
    await op.through(async () => {
      const askedMs = op.nowMs();
      if (this.#random() < 0.2 && !(await lock.tryLock())) return 'busy';
      if (!lock.locked) await lock.lock();
      // It does not say for how long it is valid, but that it is: at that moment, and as long as it does not extend.
      op.hold({ fence: lock.fence, untilMs: lock.locked ? op.nowMs() : askedMs, overMs: op.nowMs() + lifetime });
      await op.pause();
      if (lock.locked) op.check(op.nowMs());
      op.end();
      return (await lock.unlock()) ? 'released' : 'gone';
    });
    void lock.close({ drain: false });
  }

  async #severalKeys(job: string): Promise<void> {
    const keys = this.#random() < 0.5 ? [mutexes[0]!, mutexes[1]!] : [mutexes[1]!, mutexes[0]!, mutexes[2]!];
    const op = this.#ask(job, keys, 1500);
    await op.through(async () =>
      op.use(await this.#withLock.promise(keys, { timeout: 1500, retryTimeout: 10, lifetime: this.#lifetime() })),
    );
  }

  /** The lock leaves one holder without being released, and comes back to another of this process. */
  async #adopt(job: string): Promise<void> {
    const key = this.#pick(mutexes);
    const op = this.#ask(job, [key], waitMs, true);
    await op.through(async () => {
      const lease = await this.#withLock.promise(key, { timeout: waitMs, lifetime: 400 });
      op.hold({ fence: lease.fence, untilMs: op.until(lease) });
      await op.pause();
      op.end();
      if (lease.remaining() === 0) return 'gone';
      const adopted = await this.#withLock.adopt(lease.detach(), { lifetime: 400 });
      return adopted === null ? 'gone' : op.use(adopted);
    });
  }

  async #read(job: string): Promise<void> {
    const { prefer, group, lock } = this.#pick(this.#rwLocks);
    const { options, boundMs, queued } = this.#waiting();
    const op = this.#ask(job, [`rw-${prefer}`], boundMs, queued);
    await op.through(async () => {
      const isRenewed = this.#random() < 0.5;
      const lease = await lock.acquireRead({ ...options, autoExtend: isRenewed });
      op.hold({ kind: 'read', group, fence: lease.fence, untilMs: op.until(lease) });
      op.listen(lease);
      if (this.#random() >= 0.15) return op.use(lease, { isHeld: true, isRenewed });
      await op.pause();
      try {
        await lease.upgrade({ timeout: 200 });
        op.hold({ kind: 'write', fence: lease.fence, untilMs: op.until(lease) });
      } catch (error) {
        if (!redisExpLock.LockError.is(error)) throw error;
      }
      return op.use(lease, { isHeld: true, isRenewed });
    });
  }

  async #write(job: string): Promise<void> {
    const { prefer, group, lock } = this.#pick(this.#rwLocks);
    const { options, boundMs, queued } = this.#waiting();
    const op = this.#ask(job, [`rw-${prefer}`], boundMs, queued);
    await op.through(async () => {
      const isRenewed = this.#random() < 0.5;
      const lease = await lock.acquireWrite({ ...options, autoExtend: isRenewed });
      op.hold({ kind: 'write', fence: lease.fence, untilMs: op.until(lease) });
      op.listen(lease);
      if (this.#random() < 0.15) {
        await op.pause();
        op.end();
        // It may be a reader from now on, also where the reply is lost: others may then share its fence.
        op.hold({ kind: 'read', group, fence: lease.fence, untilMs: 0 });
        await lease.downgrade();
        op.hold({ kind: 'read', group, fence: lease.fence, untilMs: op.until(lease) });
      }
      return op.use(lease, { isHeld: true, isRenewed });
    });
  }

  async #permits(job: string): Promise<void> {
    const permits = 1 + Math.floor(this.#random() * 3);
    const { options, boundMs, queued } = this.#waiting();
    const op = this.#ask(job, ['permits'], boundMs, queued);
    await op.through(async () => {
      const lease = await this.#semaphore.acquire(permits, options);
      op.hold({ kind: 'permits', permits, fence: lease.fence, untilMs: op.until(lease) });
      op.listen(lease);
      return op.use(lease, { isHeld: true });
    });
  }

  #waiting(): { options: redisExpLock.Options; boundMs: number; queued: boolean } {
    if (this.#random() < 0.7) return { options: { timeout: waitMs }, boundMs: waitMs, queued: true };
    const options = { maxRetries: 20, retryTimeout: 10 };
    return { options, boundMs: 21 * (10 + commandTimeoutMs), queued: false };
  }

  async #cached(job: string): Promise<void> {
    const op = this.#ask(job, ['cached'], 2 * waitMs);
    await op.through(async () => {
      const load = async (lease: redisExpLock.Lease): Promise<string> => {
        op.hold({ fence: lease.fence, untilMs: op.until(lease) });
        await op.pause();
        op.value(op.id, true);
        op.end();
        return op.id;
      };
      const value = await this.#withLock.cached('cached', { ttl: cachedMs, lifetime: 500, timeout: waitMs }, load);
      op.value(value!, false);
      return 'value';
    });
  }

  async #once(job: string): Promise<void> {
    const mode = this.#pick<Mode>(['at-most-once', 'until-success']);
    const op = this.#ask(job, [`once-${mode}`], 4 * commandTimeoutMs + 100);
    await op.through(async () => {
      let index = 0;
      const fails = this.#random() < 0.3;
      const work = async (lease: redisExpLock.Lease, slot: redisExpLock.Slot): Promise<void> => {
        index = slot.index;
        op.slot(mode, index, false);
        op.hold({ fence: lease.fence, untilMs: op.until(lease) });
        await op.pause();
        op.end();
        if (fails) throw new Error('the job fails');
      };
      const result = await this.#withLock.once(`once-${mode}`, { every: 1000, mode, lifetime: 400 }, work);
      if (result.ran) op.slot(mode, index, true);
      return result.ran ? 'ran' : result.reason;
    });
    await sleep(20);
  }

  /** Runs one candidate in each process, beside its callers. */
  async #lead(job: string): Promise<void> {
    if (this.#leading !== undefined) return;
    const lead = async (): Promise<void> => {
      const op = this.#ask(job, ['leader'], Number.MAX_SAFE_INTEGER);
      await op.through(async () => {
        await this.#election!.lead(
          async (term) => {
            op.hold({ kind: 'term', fence: term.fence, untilMs: op.nowMs() });
            for (let left = this.#random() * 30; left > 0 && !term.signal.aborted; left--) {
              await op.watch(term.signal);
            }
            op.end();
          },
          { signal: this.#stop.signal },
        );
        return 'led';
      });
      this.#leading = undefined;
    };
    this.#leading = lead();
  }

  async #host(job: string): Promise<void> {
    const { address } = this.#order;
    if (address.kind !== 'shared-memory') return;
    const lock = new redisExpLock.HostLock(address.name, { lifetime: 400, timeout: 300 });
    const op = this.#ask(job, ['host'], 300);
    await op.through(async () => {
      const askedMs = op.nowMs();
      await lock.lock('host');
      op.hold({ fence: 0, untilMs: askedMs + 399 });
      await op.pause();
      op.end();
      return (await lock.unlock()) ? 'released' : 'gone';
    });
  }
}
