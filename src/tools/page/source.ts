// The source of the rows: the registry, and for all other locks the keys themselves, a few at a time. It sends few commands: keys that
// the registry settles are not inspected, many keys are inspected in one command, and a read of many rows waits for its budget.
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

/** A holder as it was read. */
export interface SeenHolder {
  readonly id: string;
  readonly owner: string | null;
  readonly kind: string;
  readonly permits: number;
  /** Ms until Redis ends the hold; Infinity: never. */
  readonly remaining: number;
  /** Ms since the grant; undefined if that is unknown. */
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
  /** True if the lock was not taken with this library. */
  readonly isForeign: boolean;
  /** True if the holder's process was known and is silent. */
  readonly isSilent: boolean;
}

/** The locks that a read found, and its coverage. */
export interface PageSnapshot {
  readonly locks: readonly SeenLock[];
  /** Losses of the last hour that processes still report. */
  readonly losses: readonly Loss[];
  /** The coverage in words. */
  readonly coverage: string;
}

export interface Source {
  readonly kind: StoreKind;
  /** Begins to call `onNews` when something may have changed. The returned function ends that. */
  look(onNews: () => void): () => void;
  /** Rejects with a LockBackendError. */
  read(): Promise<PageSnapshot>;
  /** Ms until the next read, which is sooner after news. */
  pauseMs(isNews: boolean): number;
  /**
   * Takes a lock from the holder with this id. Resolves with the full key, or undefined if this holder no longer has the lock.
   *
   * @param key The key as it is shown, or without the prefix.
   */
  free(key: string, id: string): Promise<string | undefined>;
}

/** A key that no process has registered, as it was when it was last inspected. */
interface Other {
  readonly state: LockState | undefined;
  readonly atMs: number;
}

/** Unregistered keys that each read inspects. More keys take turns. The first read inspects all that were found. */
const keysInRead = 100;
/** The maximum of unregistered keys that are remembered. */
const maxOthers = 2000;
/** Steps of the scan that belong to the first read. */
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
    listening?.catch(() => {}); // The next read shows the changes.
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
      // Other work of this process gets its turn.
      await new Promise(setImmediate);
    }
    return { locks, processes: coverage.processes };
  }

  /** Takes a step of the scan. Keys that may be locks are inspected from now on. */
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
      this.#isSweepRefused = true; // The user may lack the right to SCAN.
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

  /** Inspects the keys that no process registers: keys that the scan found, and keys that a silent process held. */
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

  /** Inspects keys. Redis refuses all of them if the user lacks the right to one; from then on only the registry is read. */
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

  /** Tells if an inspected key is a lock. Without a prefix, a string that another program wrote is not. */
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

/** The state some ms after it was inspected, if nothing has happened. */
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

/** Counts the commands of an operator, and remembers the records of processes. */
function watched(operator: Operator, budget: Budget, records: Records): Operator {
  const { isLocal, keys } = operator;
  return {
    isLocal,
    offsetMs: 0,
    // The budget paces the scan, so the scan itself does not pause.
    keys: keys && ((prefix, timeoutMs) => counted(keys.call(operator, prefix, timeoutMs, false), budget)),
    inspect: (some, timeoutMs) => {
      budget.spend(Math.ceil(some.length / 100));
      return operator.inspect(some, timeoutMs);
    },
    processes: async (timeoutMs): Promise<Processes> => {
      const processes = await operator.processes(timeoutMs);
      // One command reads the list, and one command each record. The cost is that of one process, so that many are read as often as one.
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
