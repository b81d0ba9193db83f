// The source of the rows: the registry, and for all other locks the keys themselves, a few at a time. It sends few commands: keys that
// the registry settles are not inspected, and many keys are inspected in one command. Few rows are read often, so that changes show
// at once. Many rows cost less than one command per second in the long run, whatever each read costs.
import { LockBackendError } from '../../core/errors';
import { lockKey } from '../../core/keys';
import { foreignHolders, type StoreKind } from '../../core/lock-state';
import { settle } from '../../core/options';
import { setImmediate } from '../../core/real-timers';
import type { RedisLike } from '../../core/redis-like';
import type { Registered, RegisteredHold, RegisteredLoss } from '../../inspect/process-record';
import { type SeenLock, Snapshot } from '../../inspect/snapshot';
import { hear } from '../../queue/wake-ups';
import type { Store } from '../../store/contract';
import { storeOf } from '../../store/open';
import { changedChannel, type Operator } from '../../store/operator';

/** The locks that a read found, and the coverage in words. */
export interface PageSnapshot {
  /** Set if the locks were not read shortly before. */
  readonly isFirst: boolean;
  /** The time of the read, in ms of the epoch by the store's clock. */
  readonly atMs: number;
  readonly locks: readonly SeenLock[];
  /** The keys of the locks that have a holder whose process is silent. */
  readonly silent: ReadonlySet<string>;
  /** Losses of the last hour that processes still report, and the losses of silent holders since the last read. */
  readonly losses: readonly RegisteredLoss[];
  readonly coverage: string;
}

/** Keys that one command inspects. */
const keysInCommand = 100;
/** Unregistered keys that each read inspects. More keys take turns. The first read inspects all that were found. */
const keysInRead = 100;
/** The maximum of unregistered keys that are remembered. */
const maxOthers = 2000;
/** Steps of the scan that belong to the first read. */
const firstSteps = 5;
/** The maximum of rows that are few. */
const fewRows = 200;
const quietMs = { few: 1000, many: 4000 };
/** Longest pause. The pause in ms is at least the number of rows, because a read of very many rows takes long; with news a tenth. */
const maxQuietMs = 60_000;
const newsMs = 100;
const newsShare = 1 / 10;
const commandsPerSecond = { few: 8, many: 0.9 };

export class Source {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #timeoutMs: number;
  readonly #operator: Operator;
  /** The holds that were registered at the last read. */
  #holds: readonly RegisteredHold[] = [];
  /** The holds whose processes fell silent without releasing them. `isShown`: a read has found the hold since then. */
  readonly #silent = new Map<string, RegisteredHold & { isShown?: boolean }>();
  /** Keys that no process has registered, as they were when they were last inspected. */
  readonly #others = new Map<string, SeenLock | undefined>();
  #sweep: AsyncGenerator<void, never> | undefined;
  /** Lists the keys of the server; undefined if that is not needed or not possible. */
  #keys: Operator['keys'];
  #isSwept = false;
  #isFirst = true;
  /** The rows and the commands of the last read, and the time at which it began. */
  #rows = 0;
  #commands = 0;
  #readAtMs = 0;

  constructor(redis: RedisLike | readonly RedisLike[], prefix: string) {
    const settings = settle({ redis, prefix });
    this.#store = storeOf(settings.redis!);
    this.#operator = this.#store.operator;
    this.#prefix = this.#store.keyPrefix + settings.prefix;
    this.#timeoutMs = settings.commandTimeoutMs;
  }

  get kind(): StoreKind {
    return this.#store.kind;
  }

  /** Begins to call `onNews` when something may have changed. The returned function ends that. */
  look(onNews: () => void): () => void {
    this.#others.clear();
    this.#keys = this.#operator.isLocal ? undefined : this.#operator.keys;
    this.#isSwept = false;
    this.#isFirst = true;
    const stop = hear(this.#store, changedChannel, onNews);
    return () => {
      stop();
      this.#sweep?.return(undefined as never).catch(() => {});
      this.#sweep = undefined;
    };
  }

  /** Ms until the next read, which is sooner after news, and later after a read that cost more. The first read is free. */
  pauseMs(isNews: boolean): number {
    const size = this.#rows > fewRows ? 'many' : 'few';
    const largeMs = Math.min(this.#rows, maxQuietMs);
    const minMs = isNews ? Math.max(newsMs, largeMs * newsShare) : Math.max(quietMs[size], largeMs);
    const costMs = (this.#commands / commandsPerSecond[size]) * 1000;
    return Math.max(minMs, this.#readAtMs + costMs - performance.now());
  }

  /**
   * Takes a lock from the holder with this id. Resolves with the full key, or undefined if this holder no longer has the lock.
   *
   * @param key The key as it is shown, or without the prefix.
   */
  async free(key: string, id: string): Promise<string | undefined> {
    const names = key.startsWith(this.#prefix) ? [key] : [];
    if (this.#prefix !== '') names.push(this.#prefix + key);
    for (const name of names) if (await this.#operator.free(lockKey(name, ''), id, this.#timeoutMs)) return name;
    return undefined;
  }

  /** Rejects with a LockBackendError. */
  async read(): Promise<PageSnapshot> {
    this.#commands = 0;
    this.#readAtMs = performance.now();
    const [snapshot] = await Promise.all([this.#registry(), this.#findOthers()]);
    const locks = new Map<string, SeenLock>();
    for await (const some of snapshot.locks()) {
      for (const seen of some) locks.set(seen.lock.key, seen);
      // Other work of this process gets its turn.
      await new Promise(setImmediate);
    }
    const { isLocal } = this.#operator;
    this.#commands += Math.ceil((isLocal ? locks.size : snapshot.unsettled.length) / keysInCommand);
    if (!isLocal) await this.#inspectOthers(snapshot, locks);
    const losses = snapshot.registered.lost.filter(({ key }) => key.startsWith(this.#prefix));
    const silent = this.#silentIn(locks, ({ key, id }) => losses.push({ key, id, at: snapshot.atMs }));
    this.#rows = locks.size;
    const isFirst = this.#isFirst;
    if (isFirst) this.#commands = 0;
    this.#isFirst = false;
    return {
      isFirst,
      atMs: snapshot.atMs,
      locks: [...locks.values()],
      silent,
      losses,
      coverage: this.#coverage(snapshot.registered.processes.size),
    };
  }

  async #registry(): Promise<Snapshot> {
    const processes = await this.#operator.processes(this.#timeoutMs);
    const search = { prefix: this.#prefix, commandTimeoutMs: this.#timeoutMs };
    const snapshot = new Snapshot(this.#operator, search, processes);
    this.#noticeSilence(snapshot.registered);
    // One command reads the list, and one command each record. The cost is that of one process, so that many are read as often as one.
    this.#commands += 1 + Math.ceil(processes.texts.length / Math.max(snapshot.registered.processes.size, 1));
    return snapshot;
  }

  /** Takes a step of the scan. Keys that may be locks are inspected from now on. */
  async #findOthers(): Promise<void> {
    if (this.#keys === undefined) return;
    try {
      for (let n = this.#isFirst ? firstSteps : 1; n > 0 && !(this.#isFirst && this.#isSwept); n -= 1) {
        this.#sweep ??= this.#sweeps(this.#keys);
        await this.#sweep.next();
      }
    } catch (error) {
      // The next read begins a new scan, unless Redis refuses: the user may lack the right to SCAN.
      this.#sweep = undefined;
      if (!(error instanceof LockBackendError && error.retryable)) this.#keys = undefined;
    }
  }

  /** Scans all keys again and again, one command a step. `pauseMs` paces the scan, so the scan itself does not pause. */
  async *#sweeps(keys: NonNullable<Operator['keys']>): AsyncGenerator<void, never> {
    for (;;) {
      for await (const some of keys(this.#prefix, this.#timeoutMs, false)) {
        this.#commands += 1;
        for (const key of some) {
          if (!this.#others.has(key) && this.#others.size < maxOthers) this.#others.set(key, undefined);
        }
        yield;
      }
      this.#isSwept = true;
      yield;
    }
  }

  /** Inspects the keys that no process registers: keys that the scan found, and keys that a silent process held. */
  async #inspectOthers(snapshot: Snapshot, locks: Map<string, SeenLock>): Promise<void> {
    for (const { key } of this.#silent.values()) if (!this.#others.has(key)) this.#others.set(key, undefined);
    for (const key of locks.keys()) this.#others.delete(key);
    const due = [...this.#others]
      .sort(([, a], [, b]) => (a?.atMs ?? 0) - (b?.atMs ?? 0))
      .slice(0, this.#isFirst ? maxOthers : keysInRead)
      .map(([key]) => key);
    this.#commands += Math.ceil(due.length / keysInCommand);
    const found = await this.#unlessRefused(snapshot.inspected(due));
    for (const key of due) this.#others.delete(key);
    for (const seen of found.filter((each) => this.#isLock(each))) this.#others.set(seen.lock.key, seen);
    for (const [key, seen] of this.#others) if (seen !== undefined) locks.set(key, seen);
  }

  /** The holds of a process without a record are silent from now on, until a process has registered them. */
  #noticeSilence({ processes, held }: Registered): void {
    for (const hold of this.#holds) if (!processes.has(hold.process)) this.#silent.set(nameOf(hold), hold);
    this.#holds = held.filter(({ key }) => key.startsWith(this.#prefix));
    if (this.#silent.size > 0) for (const hold of held) this.#silent.delete(nameOf(hold));
  }

  /** Returns the keys with silent holders, and forgets the silent holds that are over: `lose` hears of losses, which nobody reports. */
  #silentIn(locks: ReadonlyMap<string, SeenLock>, lose: (hold: RegisteredHold) => void): Set<string> {
    const keys = new Set<string>();
    for (const [name, hold] of this.#silent) {
      const { key, id, isShown } = hold;
      if (locks.get(key)?.lock.holders.some((holder) => holder.id === id)) {
        hold.isShown = true;
        keys.add(key);
      } else if (locks.has(key) || !this.#others.has(key)) {
        this.#silent.delete(name);
        if (isShown && !this.#isFirst) lose(hold);
      }
    }
    return keys;
  }

  /** Redis refuses to inspect any key if the user lacks the right to one. From then on only the registry is read. */
  async #unlessRefused(inspecting: Promise<readonly SeenLock[]>): Promise<readonly SeenLock[]> {
    return inspecting.catch((error) => {
      if (!(error instanceof LockBackendError) || error.redisCode !== 'NOPERM') throw error;
      this.#others.clear();
      this.#keys = undefined;
      return [];
    });
  }

  /** Tells if an inspected key is a lock. Without a prefix, a string that another program wrote is not. */
  #isLock({ lock }: SeenLock): boolean {
    return lock.waiters > 0 || this.#prefix !== '' || !lock.holders.some((each) => foreignHolders.has(each));
  }

  #coverage(processes: number): string {
    if (this.#operator.isLocal) return 'All locks of this store.';
    const registry = `${processes} ${processes === 1 ? 'process registers' : 'processes register'} held locks`;
    if (this.#keys === undefined) return `${registry}; keys are not scanned.`;
    return `${registry}; ${this.#isSwept ? 'all keys were scanned' : 'keys are being scanned'}.`;
  }
}

function nameOf({ key, id }: Pick<RegisteredHold, 'key' | 'id'>): string {
  return `${id} ${key}`;
}
