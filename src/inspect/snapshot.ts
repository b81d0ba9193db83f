// The locks of a store, read once, for everything that shows them: `list`, the command line and the live page. They are those that
// processes have registered (the registry), or those of every key of the server (`scan`).
//
// The registry settles a key if it names one unexpired holder, or several holders that may hold the key together. All other keys of
// the registry, and all keys that a scan finds, are inspected in the store.

import { abortReason } from '../acquire/refusals';
import { LockBackendError } from '../core/errors';
import type { HolderState, ListedLock, LockState, WaiterState } from '../core/lock-state';
import { maxShown, type Operator, type Processes } from '../store/operator';
import { type Registered, type RegisteredHold, type RegisteredWait, registeredIn } from './process-record';

/** A lock as it was read. */
export interface SeenLock {
  readonly lock: ListedLock;
  /** The holds of this lock that processes have registered. */
  readonly holds: readonly RegisteredHold[];
  /** The time of the read, in ms of the epoch by the store's clock. */
  readonly atMs: number;
}

/** The ms for which the lock has been held; null if no process has registered it. */
export function heldMsOf({ holds, atMs }: SeenLock): number | null {
  return holds.length === 0 ? null : holds.reduce((max, { since }) => Math.max(max, atMs - since), 0);
}

/** The fence that a process has registered for the lock; null if none has. */
export function fenceOf({ holds }: Pick<SeenLock, 'holds'>): number | null {
  return holds.length === 0 ? null : holds.reduce((max, { fence }) => Math.max(max, fence), 0);
}

/** The number of processes with a record, and if every key was scanned. */
export interface Coverage {
  readonly processes: number;
  readonly scanned: boolean;
}

interface Search {
  /** The prefix of the keys. */
  readonly prefix: string;
  readonly scan?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly commandTimeoutMs: number;
}

const locksAtOnce = 1000;

/** Reads the registry. @throws {LockBackendError} the store could not be read. @throws the reason of the signal. */
export async function readSnapshot(operator: Operator, search: Search): Promise<Snapshot> {
  throwIfAborted(search);
  return new Snapshot(operator, search, await operator.processes(search.commandTimeoutMs));
}

/** The registry at one moment. */
export class Snapshot {
  /** The time of the registry, in ms of the epoch by the store's clock. */
  readonly atMs: number;
  readonly registered: Registered;
  readonly coverage: Coverage;
  /** The registered keys that have to be inspected. */
  readonly unsettled: string[] = [];
  readonly #settled: string[] = [];
  readonly #operator: Operator;
  readonly #search: Search;
  readonly #held = new Map<string, RegisteredHold[]>();
  readonly #waiting = new Map<string, RegisteredWait[]>();

  constructor(operator: Operator, search: Search, { atMs, texts }: Processes) {
    this.#operator = operator;
    this.#search = search;
    this.atMs = atMs;
    this.registered = registeredIn(texts);
    const { processes, held, waiting } = this.registered;
    this.coverage = { processes: processes.size, scanned: search.scan === true || operator.isLocal };
    for (const hold of held) if (hold.key.startsWith(search.prefix)) this.#addHold(hold);
    for (const wait of waiting) if (wait.key.startsWith(search.prefix)) addTo(this.#waiting, wait.key, wait);
    for (const key of this.#held.keys()) (this.#isSettled(key) ? this.#settled : this.unsettled).push(key);
    for (const key of this.#waiting.keys()) if (!this.#held.has(key)) this.unsettled.push(key);
  }

  /**
   * Yields each lock once, as it was when it was read. Yields locks in batches, because one step of an iterator costs more than one lock.
   *
   * @throws {LockBackendError} the store could not be read, or cannot list its keys.
   * @throws the reason of the signal.
   */
  async *locks(): AsyncGenerator<readonly SeenLock[], void> {
    const { scanned } = this.coverage;
    if (!scanned) for (const keys of parts(this.#settled)) yield keys.map((key) => this.#lockOf(key));
    const found = new Set<string>();
    for await (const some of scanned ? this.#scanned() : parts(this.unsettled)) {
      throwIfAborted(this.#search);
      const locks = await this.inspected(some.filter((key) => !found.has(key)));
      throwIfAborted(this.#search);
      for (const { lock } of locks) found.add(lock.key);
      if (locks.length > 0) yield locks;
    }
  }

  #scanned(): AsyncIterable<readonly string[]> {
    const { prefix, commandTimeoutMs } = this.#search;
    if (this.#operator.keys !== undefined) return this.#operator.keys(prefix, commandTimeoutMs);
    const message = 'this client cannot list the keys of its server: use another, or the registry';
    throw new LockBackendError(message, { retryable: false });
  }

  /** Tells if the registry settles the key. An expired end does not, because the lease may have been renewed since it was registered. */
  #isSettled(key: string): boolean {
    const held = this.#held.get(key)!;
    if (held.some(({ until }) => until !== null && until <= this.atMs)) return false;
    return held.length === 1 || held.every(({ kind }) => kind === 'read' || kind === 'permits');
  }

  /** Inspects keys. Returns those that are held or waited for. Callers that poll are only in the registry. */
  async inspected(keys: readonly string[]): Promise<SeenLock[]> {
    const states = await this.#operator.inspect(keys, this.#search.commandTimeoutMs);
    return states.flatMap((state, n) => {
      if (state instanceof LockBackendError) return [];
      const seen = this.seen(keys[n]!, state);
      const waiting = this.#waiting.get(keys[n]!) ?? [];
      if (waiting.length > seen.lock.waiters) {
        Object.assign(seen.lock, { waiters: waiting.length, queue: queueOf(waiting, this.atMs) });
      }
      return seen.lock.locked || seen.lock.waiters > 0 ? [seen] : [];
    });
  }

  /** An inspected lock, with what the processes of its holders have registered. */
  seen(key: string, state: LockState): SeenLock {
    const held = this.#held.get(key) ?? [];
    const holds = held.filter(({ id }) => state.holders.some((each) => each.id === id));
    return { lock: { key, ...state }, holds, atMs: this.atMs };
  }

  /** Adds a hold once. A record that is being written in parts may contain the same hold twice. */
  #addHold(hold: RegisteredHold): void {
    if (!this.#held.get(hold.key)?.some(({ id }) => id === hold.id)) addTo(this.#held, hold.key, hold);
  }

  #lockOf(key: string): SeenLock {
    const { atMs } = this;
    const held = this.#held.get(key)!;
    const waiting = this.#waiting.get(key) ?? [];
    const all = held.map((hold) => holderOf(hold, atMs));
    const { owner, kind: mode, remaining } = all.reduce((a, b) => (a.remaining >= b.remaining ? a : b));
    const fence = fenceOf({ holds: held })!;
    const holders = all.slice(0, maxShown);
    const queue = queueOf(waiting, atMs);
    const lock = { key, locked: true, owner, remaining, waiters: waiting.length, fence, mode, holders, queue };
    return { lock, holds: held, atMs };
  }
}

function addTo<T>(lists: Map<string, T[]>, key: string, each: T): void {
  const others = lists.get(key);
  if (others === undefined) lists.set(key, [each]);
  else others.push(each);
}

function* parts(keys: readonly string[]): Generator<readonly string[], void> {
  for (let n = 0; n < keys.length; n += locksAtOnce) yield keys.slice(n, n + locksAtOnce);
}

function throwIfAborted({ signal }: Search): void {
  if (signal?.aborted) throw abortReason(signal);
}

function holderOf({ id, owner, kind, permits, until }: RegisteredHold, atMs: number): HolderState {
  return { id, owner, kind, permits, remaining: (until ?? Number.POSITIVE_INFINITY) - atMs };
}

function queueOf(waiting: readonly RegisteredWait[], atMs: number): WaiterState[] {
  return waiting
    .map(({ owner, kind, since }) => ({ owner, kind, waitingMs: Math.max(atMs - since, 0) }))
    .sort((a, b) => b.waitingMs - a.waitingMs)
    .slice(0, maxShown);
}
