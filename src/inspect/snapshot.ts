// The locks of a store, read once, for everything that shows them: `list`, the command line and the live page. They are those that
// processes have registered (the registry), or those of every key of the server (`scan`).
//
// The registry settles a key if it names one unexpired holder, or several holders that may hold the key together. All other keys of
// the registry, and all keys that a scan finds, are inspected in the store.

import { abortReason } from '../acquire/refusals';
import { LockBackendError } from '../core/errors';
import type { HolderState, ListedLock, LockState, WaiterState } from '../core/lock-state';
import { maxShown, type Operator, type Processes } from '../store/operator';
import { type ProcessRecord, type RegisteredHold, type RegisteredWait, recordsOf } from './process-record';

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

export interface Coverage {
  /** The number of processes with a record. */
  processes: number;
  /** Set if every key was scanned. */
  scanned: boolean;
}

export interface Search {
  /** The prefix of the keys. */
  readonly prefix: string;
  readonly scan: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly commandTimeoutMs: number;
}

const locksAtOnce = 1000;

/**
 * Yields each lock once, as it was when it was read. Yields locks in batches, because one step of an iterator costs more than one lock.
 *
 * @param coverage Filled in by the end of the iteration.
 * @throws {LockBackendError} the store could not be read, or cannot list its keys.
 * @throws the reason of the signal.
 */
export async function* readLocks(
  operator: Operator,
  search: Search,
  coverage: Coverage = { processes: 0, scanned: false },
): AsyncGenerator<readonly SeenLock[], void> {
  const { prefix, signal, commandTimeoutMs } = search;
  if (signal?.aborted) throw abortReason(signal);
  const snapshot = new Snapshot(await operator.processes(commandTimeoutMs), prefix);
  coverage.processes = snapshot.records.length;
  const isScan = search.scan || operator.isLocal;
  const unsettled: string[] = [];
  if (!isScan) yield* snapshot.settled(unsettled);
  const found = new Set<string>();
  for await (const some of isScan ? scanned(operator, search) : parts(unsettled)) {
    if (signal?.aborted) throw abortReason(signal);
    const keys = some.filter((key) => !found.has(key));
    const locks = snapshot.inspected(keys, await operator.inspect(keys, commandTimeoutMs));
    if (signal?.aborted) throw abortReason(signal);
    for (const { lock } of locks) found.add(lock.key);
    if (locks.length > 0) yield locks;
  }
  coverage.scanned = isScan;
}

function scanned(operator: Operator, { prefix, commandTimeoutMs }: Search): AsyncIterable<readonly string[]> {
  if (operator.keys !== undefined) return operator.keys(prefix, commandTimeoutMs);
  throw new LockBackendError('this client cannot list the keys of its server: use another, or the registry', {
    retryable: false,
  });
}

function* parts(keys: readonly string[]): Generator<readonly string[], void> {
  for (let n = 0; n < keys.length; n += locksAtOnce) yield keys.slice(n, n + locksAtOnce);
}

/** The registered holders and waiters of one key. */
interface Reports {
  readonly held: RegisteredHold[];
  readonly waiting: RegisteredWait[];
}

const nothing: Reports = { held: [], waiting: [] };

/** The registry at one moment, by key. */
export class Snapshot {
  /** The time of the registry, in ms of the epoch by the store's clock. */
  readonly atMs: number;
  readonly records: readonly ProcessRecord[];
  readonly #reports = new Map<string, Reports>();

  constructor({ atMs, texts }: Processes, prefix: string) {
    this.atMs = atMs;
    this.records = recordsOf(texts);
    for (const { held, waiting } of this.records) {
      for (const hold of held) if (hold.key.startsWith(prefix)) this.#addHold(hold);
      for (const wait of waiting) if (wait.key.startsWith(prefix)) this.#reportsOf(wait.key).waiting.push(wait);
    }
  }

  /** Yields the locks that the registry settles. @param unsettled Receives the keys that it does not settle. */
  *settled(unsettled: string[]): Generator<readonly SeenLock[], void> {
    let locks: SeenLock[] = [];
    for (const [key, reports] of this.#reports) {
      if (isSettled(reports, this.atMs)) locks.push(lockOf(key, reports, this.atMs));
      else unsettled.push(key);
      if (locks.length < locksAtOnce) continue;
      yield locks;
      locks = [];
    }
    if (locks.length > 0) yield locks;
  }

  /** The locks among inspected keys: those that are held or waited for. Callers that poll are only in the registry. */
  inspected(keys: readonly string[], states: readonly (LockState | LockBackendError)[]): SeenLock[] {
    return states.flatMap((state, n) => {
      if (state instanceof LockBackendError) return [];
      const { lock, holds, atMs } = this.seen(keys[n]!, state);
      const { waiting } = this.#reports.get(lock.key) ?? nothing;
      if (waiting.length > lock.waiters) {
        Object.assign(lock, { waiters: waiting.length, queue: queueOf(waiting, atMs) });
      }
      return lock.locked || lock.waiters > 0 ? [{ lock, holds, atMs }] : [];
    });
  }

  /** An inspected lock, with what the processes of its holders have registered. */
  seen(key: string, state: LockState): SeenLock {
    const { held } = this.#reports.get(key) ?? nothing;
    const holds = held.filter(({ id }) => state.holders.some((each) => each.id === id));
    return { lock: { key, ...state }, holds, atMs: this.atMs };
  }

  /** Adds a hold once. A record that is being written in parts may contain the same hold twice. */
  #addHold(hold: RegisteredHold): void {
    const { held } = this.#reportsOf(hold.key);
    if (!held.some(({ id }) => id === hold.id)) held.push(hold);
  }

  #reportsOf(key: string): Reports {
    let reports = this.#reports.get(key);
    if (reports === undefined) {
      reports = { held: [], waiting: [] };
      this.#reports.set(key, reports);
    }
    return reports;
  }
}

/** Tells if the registry settles the key. An expired end does not, because the lease may have been renewed since it was registered. */
function isSettled({ held }: Reports, atMs: number): boolean {
  if (held.some(({ until }) => until !== null && until <= atMs)) return false;
  return held.length === 1 || (held.length > 1 && held.every(({ kind }) => kind === 'read' || kind === 'permits'));
}

function lockOf(key: string, { held, waiting }: Reports, atMs: number): SeenLock {
  const holders = held.map((hold) => holderOf(hold, atMs));
  const { owner, kind: mode, remaining } = holders.reduce((a, b) => (a.remaining >= b.remaining ? a : b));
  const [fence, waiters, queue] = [fenceOf({ holds: held })!, waiting.length, queueOf(waiting, atMs)];
  const shown = holders.slice(0, maxShown);
  const lock = { key, locked: true, owner, remaining, waiters, fence, mode, holders: shown, queue };
  return { lock, holds: held, atMs };
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
