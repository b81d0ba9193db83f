// All locks of a store: by what processes have written down (the registry), or by every key there is (`scan`).
//
// The registry is trusted where it settles a key: one holder, or several that may be beside each other. What it does not
// settle, and whatever a scan finds, is inspected.
import { LockBackendError } from './errors';
import { mostShown, type Operator } from './operator';
import { type ProcessRecord, type RegisteredHold, type RegisteredWait, recordsOf } from './record';
import type { HolderState, ListedLock, LockState, WaiterState } from './state';
import { abortReason } from './wanted';

/** A lock, and what only its process knows of it. */
export interface Listed {
  readonly lock: ListedLock;
  /** For how long it has been held, and under which fence; null where no process has written that down. */
  readonly heldMs: number | null;
  readonly fence: number | null;
}

export interface Coverage {
  /** How many processes have written down what they hold. */
  processes: number;
  /** Whether every key was looked at. */
  scanned: boolean;
}

export interface Search {
  /** What each key begins with. */
  readonly prefix: string;
  readonly scan: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly commandTimeoutMs: number;
}

const locksAtOnce = 1000;

/**
 * Each lock once, as it was when it was looked at; some at a time, since each turn of an iterator costs more than a lock.
 *
 * @param coverage Says at the end what was looked at.
 * @throws {LockBackendError} the store could not be asked, or cannot list its keys; or the signal's reason.
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
  if (!isScan) yield* settled(known, processes.atMs);
  const seen = new Set<string>();
  for await (const some of isScan ? scanned(operator, search) : unsettled(known, processes.atMs)) {
    if (signal?.aborted) throw abortReason(signal);
    const fresh = some.filter((key) => !seen.has(key));
    const states = await operator.inspect(fresh, commandTimeoutMs);
    if (signal?.aborted) throw abortReason(signal);
    const locks = states.flatMap((state, n) => inspected(fresh[n]!, state, known.get(fresh[n]!), processes.atMs) ?? []);
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

/** What processes say of one key. */
interface Entry {
  readonly held: RegisteredHold[];
  waiting: RegisteredWait[];
}

/** One list for all keys that nobody waits for. It stays empty. */
const none: never[] = [];

function byKey(records: readonly ProcessRecord[], prefix: string): Map<string, Entry> {
  const known = new Map<string, Entry>();
  for (const { held, waiting } of records) {
    for (const each of held) if (each.key.startsWith(prefix)) addHold(known, each);
    for (const each of waiting) if (each.key.startsWith(prefix)) addWait(known, each);
  }
  return known;
}

/** Once, although a record that is just being written in parts may say it twice. */
function addHold(known: Map<string, Entry>, hold: RegisteredHold): void {
  const entry = known.get(hold.key);
  if (entry === undefined) known.set(hold.key, { held: [hold], waiting: none });
  else if (!entry.held.some(({ id }) => id === hold.id)) entry.held.push(hold);
}

function addWait(known: Map<string, Entry>, wait: RegisteredWait): void {
  const entry = known.get(wait.key);
  if (entry === undefined) known.set(wait.key, { held: [], waiting: [wait] });
  else if (entry.waiting === none) entry.waiting = [wait];
  else entry.waiting.push(wait);
}

/** A short lease may have been renewed since it was written down. */
function isSettled({ held }: Entry, atMs: number): boolean {
  if (held.some(({ until }) => until !== null && until <= atMs)) return false;
  return held.length === 1 || (held.length > 1 && held.every(({ kind }) => kind === 'read' || kind === 'permits'));
}

function* settled(known: ReadonlyMap<string, Entry>, atMs: number): Generator<readonly Listed[], void> {
  let locks: Listed[] = [];
  for (const [key, entry] of known) {
    if (!isSettled(entry, atMs)) continue;
    locks.push(listedOf(key, entry, atMs));
    if (locks.length < locksAtOnce) continue;
    yield locks;
    locks = [];
  }
  if (locks.length > 0) yield locks;
}

function* unsettled(known: ReadonlyMap<string, Entry>, atMs: number): Generator<readonly string[], void> {
  const keys: string[] = [];
  for (const [key, entry] of known) if (!isSettled(entry, atMs)) keys.push(key);
  for (let n = 0; n < keys.length; n += locksAtOnce) yield keys.slice(n, n + locksAtOnce);
}

function listedOf(key: string, { held, waiting }: Entry, atMs: number): Listed {
  const last = held.length === 1 ? held[0]! : held.reduce((a, b) => (endOf(a) >= endOf(b) ? a : b));
  const { owner, kind: mode } = last;
  const remaining = endOf(last) - atMs;
  const fence = fenceOf(held);
  const holders = held.slice(0, mostShown).map((each) => holderOf(each, atMs));
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
  return waiting
    .map(({ owner, kind, since }) => ({ owner, kind, waitingMs: Math.max(atMs - since, 0) }))
    .sort((a, b) => b.waitingMs - a.waitingMs)
    .slice(0, mostShown);
}

/** undefined: it is no lock, or nobody holds it or waits for it. Those that poll are in no queue: their processes know of them. */
function inspected(
  key: string,
  seen: LockState | LockBackendError,
  entry: Entry | undefined,
  atMs: number,
): Listed | undefined {
  if (seen instanceof LockBackendError) return undefined;
  const { held = [], waiting = [] } = entry ?? {};
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
