// Where the rows come from: what processes have written down (the registry), and for the rest the keys themselves, some at a time.
// Few commands: what the registry settles is not asked for, many keys are inspected in one command, and where there are many rows
// a read waits until it may cost what it does.
import { LockBackendError } from '../../core/errors';
import { lockKey } from '../../core/keys';
import { asForeign, isForeign, type LockState, type StoreKind } from '../../core/lock-state';
import { settle } from '../../core/options';
import { setImmediate } from '../../core/real-timers';
import type { RedisLike } from '../../core/redis-like';
import { recordsOf } from '../../inspect/process-record';
import { listLocks } from '../../inspect/snapshot';
import type { Store } from '../../store/contract';
import { storeOf } from '../../store/open';
import { changedChannel, type Operator, type Processes } from '../../store/operator';
import { Budget } from './budget';
import { type Loss, Records } from './records';

/** A holder, as it was read. */
export interface SeenHolder {
  readonly id: string;
  readonly owner: string | null;
  readonly kind: string;
  readonly permits: number;
  /** Ms that Redis still keeps it; Infinity: for ever. */
  readonly remaining: number;
  /** For how many ms it has been held, where that is known. */
  readonly heldMs?: number | undefined;
}

export interface SeenWaiter {
  readonly owner: string | null;
  readonly kind: string;
  readonly waitingMs: number;
}

export interface SeenLock {
  readonly key: string;
  readonly kind: string;
  readonly holders: readonly SeenHolder[];
  readonly queue: readonly SeenWaiter[];
  readonly waiters: number;
  /** It was not taken with this library. */
  readonly isForeign: boolean;
  /** The process that holds it was known, and is silent. */
  readonly isSilent: boolean;
}

/** What was found, and where it was looked for. */
export interface PageSnapshot {
  readonly locks: readonly SeenLock[];
  /** Locks that holders lost in the last hour, as far as their processes still tell. */
  readonly losses: readonly Loss[];
  /** For people. */
  readonly coverage: string;
}

export interface Source {
  readonly kind: StoreKind;
  /** Somebody looks: `onNews` is called when something may have changed. The function that it returns ends that. */
  look(onNews: () => void): () => void;
  /** Rejects with a LockBackendError. */
  read(): Promise<PageSnapshot>;
  /** How long to wait before the next read, without news and with it. */
  pauseMs(isNews: boolean): number;
  /**
   * Takes a lock from the holder with this id, if that still has it: the lock's whole key; undefined: nothing was changed.
   *
   * @param key As it is shown, or without the prefix.
   */
  free(key: string, id: string): Promise<string | undefined>;
}

/** A key that no process tells of, as it was when it was inspected last. */
interface Other {
  readonly state: LockState | undefined;
  readonly atMs: number;
}

/** So many keys that no process tells of are inspected with each read; more take turns. With the first read all that are found. */
const keysInRead = 100;
/** So many are known at all. */
const maxOthers = 2000;
/** So many steps through all keys belong to the first read. */
const firstSteps = 5;
const soonMs = 100;

export function openSource(redis: RedisLike | readonly RedisLike[], prefix: string): Source {
  const settings = settle({ redis, prefix });
  return new StoreSource(storeOf(settings.redis!), settings.prefix, settings.commandTimeoutMs);
}

class StoreSource implements Source {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #timeoutMs: number;
  readonly #operator: Operator;
  readonly #budget = new Budget();
  readonly #records = new Records();
  readonly #others = new Map<string, Other>();
  #sweep: AsyncIterator<readonly string[], unknown> | undefined;
  #isFirst = true;
  #isSwept = false;
  #isSweepRefused = false;
  #rows = 0;

  constructor(store: Store, prefix: string, timeoutMs: number) {
    this.#store = store;
    this.#prefix = store.keyPrefix + prefix;
    this.#timeoutMs = timeoutMs;
    this.#operator = watched(store.operator, this.#budget, this.#records);
  }

  get kind(): StoreKind {
    return this.#store.kind;
  }

  look(onNews: () => void): () => void {
    this.#others.clear();
    this.#isSwept = this.#isSweepRefused = false;
    this.#isFirst = true;
    const listening = this.#store.listensAlone ? undefined : this.#store.listen?.(changedChannel, onNews, onNews);
    listening?.catch(() => {}); // what changes is seen with the next read
    return () => {
      listening?.then(
        ({ close }) => close(),
        () => {},
      );
      this.#sweep?.return?.().catch(() => {});
      this.#sweep = undefined;
    };
  }

  pauseMs(isNews: boolean): number {
    return this.#budget.pauseMs(isNews ? soonMs : undefined, this.#rows);
  }

  async free(key: string, id: string): Promise<string | undefined> {
    const names = key.startsWith(this.#prefix) ? [key] : [];
    if (this.#prefix !== '') names.push(this.#prefix + key);
    for (const name of names) if (await this.#operator.free(lockKey(name, ''), id, this.#timeoutMs)) return name;
    return undefined;
  }

  async read(): Promise<PageSnapshot> {
    this.#budget.begin(this.#isFirst);
    const [{ locks, processes }] = await Promise.all([this.#registered(), this.#findOthers()]);
    if (!this.#operator.isLocal) await this.#inspectOthers(locks);
    this.#rows = locks.size;
    this.#isFirst = false;
    return { locks: [...locks.values()], losses: this.#records.losses, coverage: this.#coverage(processes) };
  }

  async #registered(): Promise<{ locks: Map<string, SeenLock>; processes: number }> {
    const coverage = { processes: 0, scanned: false };
    const search = { prefix: this.#prefix, scan: false, commandTimeoutMs: this.#timeoutMs };
    const locks = new Map<string, SeenLock>();
    for await (const some of listLocks(this.#operator, search, coverage)) {
      for (const { lock } of some) locks.set(lock.key, this.#seen(lock));
      // Others of this process have their turns.
      await new Promise(setImmediate);
    }
    return { locks, processes: coverage.processes };
  }

  /** A step through all keys: those that may be locks are inspected from now on. */
  async #findOthers(): Promise<void> {
    const { keys, isLocal } = this.#operator;
    if (keys === undefined || isLocal || this.#isSweepRefused) return;
    try {
      for (let n = this.#isFirst ? firstSteps : 1; n > 0 && !(this.#isFirst && this.#isSwept); n -= 1) {
        this.#sweep ??= keys(this.#prefix, this.#timeoutMs)[Symbol.asyncIterator]();
        this.#found(await this.#sweep.next());
      }
    } catch {
      this.#sweep = undefined;
      this.#isSweepRefused = true; // SCAN is a right of its own
    }
  }

  #found({ done, value }: IteratorResult<readonly string[], unknown>): void {
    if (done) {
      this.#isSwept = true;
      this.#sweep = undefined;
      return;
    }
    for (const key of value) {
      if (!this.#others.has(key) && this.#others.size < maxOthers) this.#others.set(key, unseen);
    }
  }

  /** What no process tells of: what the sweep found, and what a silent process held. */
  async #inspectOthers(locks: Map<string, SeenLock>): Promise<void> {
    for (const key of this.#records.orphans()) {
      const lock = locks.get(key);
      if (lock !== undefined) this.#records.settle(key, lock.holders);
      else if (!this.#others.has(key)) this.#others.set(key, unseen);
    }
    for (const key of locks.keys()) this.#others.delete(key);
    const due = [...this.#others]
      .sort(([, a], [, b]) => a.atMs - b.atMs)
      .slice(0, this.#isFirst ? maxOthers : keysInRead);
    const keys = due.map(([key]) => key);
    const states = keys.length === 0 ? [] : await this.#inspect(keys);
    for (const [n, state] of states.entries()) this.#remember(keys[n]!, state);
    for (const [key, { state, atMs }] of this.#others) {
      if (state !== undefined) locks.set(key, this.#seen({ key, ...aged(state, Date.now() - atMs) }));
    }
  }

  /** A user without the right to one of these keys is refused all: then the registry is all there is. */
  async #inspect(keys: readonly string[]): Promise<readonly (LockState | LockBackendError)[]> {
    try {
      return await this.#operator.inspect(keys, this.#timeoutMs);
    } catch (error) {
      if (!(error instanceof LockBackendError) || error.redisCode !== 'NOPERM') throw error;
      this.#others.clear();
      this.#isSweepRefused = true;
      return [];
    }
  }

  #remember(key: string, found: LockState | LockBackendError): void {
    const state = found instanceof LockBackendError || !this.#isLock(found) ? undefined : found;
    if (state === undefined) this.#others.delete(key);
    else this.#others.set(key, { state, atMs: Date.now() });
    this.#records.settle(key, state?.holders ?? []);
  }

  /** Without a prefix, a string of somebody else's is none. */
  #isLock(state: LockState): boolean {
    return state.waiters > 0 || (state.locked && (this.#prefix !== '' || !state.holders.some(isForeign)));
  }

  #seen(lock: LockState & { readonly key: string }): SeenLock {
    const { key, holders, queue, waiters, mode } = lock;
    const known = this.#records;
    return {
      key,
      kind: mode ?? queue[0]?.kind ?? 'exclusive',
      holders: holders.map((holder) => ({ ...holder, heldMs: known.heldMs(holder.id) })),
      queue,
      waiters,
      isForeign: holders.some(isForeign),
      isSilent: holders.some(({ id }) => known.isSilent(key, id)),
    };
  }

  #coverage(processes: number): string {
    if (this.#operator.isLocal) return 'All locks of this store.';
    const registry = `${processes} ${processes === 1 ? 'process registers' : 'processes register'} held locks`;
    if (this.#isSweepRefused || this.#operator.keys === undefined) return `${registry}; keys are not scanned.`;
    return `${registry}; ${this.#isSwept ? 'all keys were scanned' : 'keys are being scanned'}.`;
  }
}

const unseen: Other = { state: undefined, atMs: 0 };

/** As it will be some ms after it was inspected, if nothing happens. */
function aged(state: LockState, ms: number): LockState {
  return {
    ...state,
    holders: state.holders.map((holder) => {
      const older = { ...holder, remaining: Math.max(0, holder.remaining - ms) };
      return isForeign(holder) ? asForeign(older) : older;
    }),
    queue: state.queue.map((waiter) => ({ ...waiter, waitingMs: waiter.waitingMs + ms })),
  };
}

/** Counts what is asked, and remembers what processes have written down. */
function watched(operator: Operator, budget: Budget, records: Records): Operator {
  const { isLocal, keys } = operator;
  return {
    isLocal,
    offsetMs: 0,
    // The budget is what paces it.
    keys: keys && ((prefix, timeoutMs) => counted(keys.call(operator, prefix, timeoutMs, false), budget)),
    inspect: (some, timeoutMs) => {
      budget.spend(Math.ceil(some.length / 100));
      return operator.inspect(some, timeoutMs);
    },
    processes: async (timeoutMs): Promise<Processes> => {
      const processes = await operator.processes(timeoutMs);
      // A command for the list of them, and one for each record: of each process, so that many are read as often as one.
      budget.spend(1 + Math.ceil(processes.texts.length / Math.max(recordsOf(processes).length, 1)));
      records.update(processes);
      return processes;
    },
    free: (key, id, timeoutMs) => operator.free(key, id, timeoutMs),
    register: (registration, timeoutMs) => operator.register(registration, timeoutMs),
  };
}

async function* counted(
  steps: AsyncIterable<readonly string[]>,
  budget: Budget,
): AsyncGenerator<readonly string[], void> {
  for await (const step of steps) {
    budget.spend(1);
    yield step;
  }
}

export function isFreeable(key: unknown, id: unknown): boolean {
  return typeof key === 'string' && key !== '' && typeof id === 'string' && /^[0-9a-f]{8}$/.test(id);
}
