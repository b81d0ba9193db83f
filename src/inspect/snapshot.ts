// All locks of a store: those that processes have registered (the registry), or those of every key of the server (`scan`).
//
// The registry settles a key if it names one unexpired holder, or several holders that may hold the key together. All other keys of
// the registry, and all keys that a scan finds, are inspected in the store.

import { abortReason } from '../acquire/spec';
import { LockBackendError } from '../core/errors';
import type { HolderState, ListedLock, LockState, WaiterState } from '../core/lock-state';
import { maxShown, type Operator } from '../store/operator';
import { type ProcessRecord, type RegisteredHold, type RegisteredWait, recordsOf } from './process-record';

/** A lock, and the facts about it that only its process knows. */
export interface Listed {
  readonly lock: ListedLock;
  /** The time for which the lock has been held, and its fence; null if no process has registered it. */
  readonly heldMs: number | null;
  readonly fence: number | null;
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
export async function* listLocks(
  operator: Operator,
  search: Search,
  coverage: Coverage,
): AsyncGenerator<readonly Listed[], void> {
  const { prefix, signal, commandTimeoutMs } = search;
  if (signal?.aborted) throw abortReason(signal);
  const processes = await operator.processes(commandTimeoutMs);
  const records = recordsOf(processes);
  coverage.processes = records.length;
  const known = byKey(records, prefix);
  const isScan = search.scan || operator.isLocal;
  const others: string[] = [];
  if (!isScan) yield* settled(known, processes.atMs, others);
  const seen = new Set<string>();
  for await (const some of isScan ? scanned(operator, search) : parts(others)) {
    if (signal?.aborted) throw abortReason(signal);
    const fresh = some.filter((key) => !seen.has(key));
    const states = await operator.inspect(fresh, commandTimeoutMs);
    if (signal?.aborted) throw abortReason(signal);
    const locks = states.flatMap(
      (state, n) => inspected(fresh[n]!, state, entryOf(known.get(fresh[n]!)), processes.atMs) ?? [],
    );
    for (const { lock } of locks) seen.add(lock.key);
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

/** The registered holders and waiters of one key. */
class KeyReports {
  readonly held: RegisteredHold[];
  readonly waiting: RegisteredWait[];

  constructor(held: RegisteredHold[], waiting: RegisteredWait[] = []) {
    this.held = held;
    this.waiting = waiting;
  }
}

/** Reports by key. A key with one holder and no waiters maps to the hold itself: 100,000 report objects would otherwise be kept alive. */
type Known = Map<string, RegisteredHold | KeyReports>;

function byKey(records: readonly ProcessRecord[], prefix: string): Known {
  const known: Known = new Map();
  for (const { held, waiting } of records) {
    for (const each of held) if (each.key.startsWith(prefix)) addHold(known, each);
    for (const each of waiting) if (each.key.startsWith(prefix)) entryIn(known, each.key).waiting.push(each);
  }
  return known;
}

/** Adds a hold once. A record that is being written in parts may contain the same hold twice. */
function addHold(known: Known, hold: RegisteredHold): void {
  if (!known.has(hold.key)) {
    known.set(hold.key, hold);
    return;
  }
  const { held } = entryIn(known, hold.key);
  if (!held.some(({ id }) => id === hold.id)) held.push(hold);
}

function entryIn(known: Known, key: string): KeyReports {
  const before = known.get(key);
  if (before instanceof KeyReports) return before;
  const entry = entryOf(before);
  known.set(key, entry);
  return entry;
}

function entryOf(known: RegisteredHold | KeyReports | undefined): KeyReports {
  if (known instanceof KeyReports) return known;
  return new KeyReports(known === undefined ? [] : [known]);
}

/** Tells if the registry settles the key. An expired end does not, because the lease may have been renewed since it was registered. */
function isSettled({ held }: KeyReports, atMs: number): boolean {
  if (held.some(({ until }) => until !== null && until <= atMs)) return false;
  return held.length === 1 || (held.length > 1 && held.every(({ kind }) => kind === 'read' || kind === 'permits'));
}

/** Yields the locks that the registry settles. @param others Receives the keys that it does not settle. */
function* settled(known: Known, atMs: number, others: string[]): Generator<readonly Listed[], void> {
  let locks: Listed[] = [];
  for (const [key, each] of known) {
    const entry = entryOf(each);
    if (isSettled(entry, atMs)) locks.push(listedOf(key, entry, atMs));
    else others.push(key);
    if (locks.length < locksAtOnce) continue;
    yield locks;
    locks = [];
  }
  if (locks.length > 0) yield locks;
}

function* parts(keys: readonly string[]): Generator<readonly string[], void> {
  for (let n = 0; n < keys.length; n += locksAtOnce) yield keys.slice(n, n + locksAtOnce);
}

function listedOf(key: string, { held, waiting }: KeyReports, atMs: number): Listed {
  const last = held.length === 1 ? held[0]! : held.reduce((a, b) => (endOf(a) >= endOf(b) ? a : b));
  const { owner, kind: mode } = last;
  const remaining = endOf(last) - atMs;
  const fence = fenceOf(held);
  const shown = held.length > maxShown ? held.slice(0, maxShown) : held;
  const holders = shown.map((each) => holderOf(each, atMs));
  const queue = queueOf(waiting, atMs);
  const lock = { key, locked: true, owner, remaining, waiters: waiting.length, fence, mode, holders, queue };
  return { lock, fence, heldMs: heldMs(held, atMs) };
}

function holderOf(hold: RegisteredHold, atMs: number): HolderState {
  const { id, owner, kind, permits } = hold;
  return { id, owner, kind, permits, remaining: endOf(hold) - atMs };
}

function fenceOf(held: readonly RegisteredHold[]): number {
  return held.reduce((most, { fence }) => Math.max(most, fence), 0);
}

function queueOf(waiting: readonly RegisteredWait[], atMs: number): WaiterState[] {
  if (waiting.length === 0) return [];
  return waiting
    .map(({ owner, kind, since }) => ({ owner, kind, waitingMs: Math.max(atMs - since, 0) }))
    .sort((a, b) => b.waitingMs - a.waitingMs)
    .slice(0, maxShown);
}

/** The lock of an inspected key; undefined if it is no lock, or neither held nor waited for. Callers that poll are only in the registry. */
function inspected(
  key: string,
  seen: LockState | LockBackendError,
  { held, waiting }: KeyReports,
  atMs: number,
): Listed | undefined {
  if (seen instanceof LockBackendError) return undefined;
  const isMore = waiting.length > seen.waiters;
  const state = isMore ? { ...seen, waiters: waiting.length, queue: queueOf(waiting, atMs) } : seen;
  if (!state.locked && state.waiters === 0) return undefined;
  const ours = held.filter(({ id }) => state.holders.some((each) => each.id === id));
  const fence = ours.length === 0 ? null : fenceOf(ours);
  return { lock: { key, ...state }, fence, heldMs: ours.length === 0 ? null : heldMs(ours, atMs) };
}

function heldMs(held: readonly RegisteredHold[], atMs: number): number {
  return held.reduce((most, { since }) => Math.max(most, atMs - since), 0);
}

function endOf({ until }: Pick<RegisteredHold, 'until'>): number {
  return until ?? Number.POSITIVE_INFINITY;
}
