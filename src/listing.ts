// All locks of a store: by what processes have written down (the registry), or by every key there is (`scan`).
//
// The registry is trusted where it settles a key: one holder, or several that may be beside each other. What it does not
// settle, and whatever a scan finds, is inspected.
import { LockBackendError } from './errors';
import type { Operator } from './operator';
import { type ProcessRecord, type RegisteredHold, type RegisteredWait, readRecord } from './registry';
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

const keysAtOnce = 1000;

/**
 * Each lock once, as it was when it was looked at.
 *
 * @param coverage Says at the end what was looked at.
 * @throws {LockBackendError} the store could not be asked, or cannot list its keys; or the signal's reason.
 */
export async function* listLocks(operator: Operator, search: Search, coverage: Coverage): AsyncGenerator<Listed, void> {
  const { prefix, signal, commandTimeoutMs } = search;
  if (signal?.aborted) throw abortReason(signal);
  const { atMs, texts } = await operator.processes(commandTimeoutMs);
  const records = texts.flatMap((text) => readRecord(text) ?? []);
  coverage.processes = records.length;
  const known = byKey(records, prefix);
  const keys = search.scan || operator.isLocal ? scanned(operator, search) : unsettled(known, atMs);
  if (!search.scan && !operator.isLocal) {
    for (const [key, entry] of known) if (isSettled(entry, atMs)) yield listedOf(key, entry, atMs);
  }
  const seen = new Set<string>();
  for await (const some of keys) {
    if (signal?.aborted) throw abortReason(signal);
    const fresh = some.filter((key) => !seen.has(key));
    const states = await operator.inspect(fresh, commandTimeoutMs);
    if (signal?.aborted) throw abortReason(signal);
    for (const [n, state] of states.entries()) {
      const listed = inspected(fresh[n]!, state, known.get(fresh[n]!), atMs);
      if (listed === undefined) continue;
      seen.add(listed.lock.key);
      yield listed;
    }
  }
  coverage.scanned = search.scan || operator.isLocal;
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
  readonly waiting: RegisteredWait[];
}

function byKey(records: readonly ProcessRecord[], prefix: string): Map<string, Entry> {
  const known = new Map<string, Entry>();
  const entryOf = (key: string): Entry => {
    let entry = known.get(key);
    if (entry === undefined) {
      entry = { held: [], waiting: [] };
      known.set(key, entry);
    }
    return entry;
  };
  for (const { held, waiting } of records) {
    for (const each of held) if (each.key.startsWith(prefix)) entryOf(each.key).held.push(each);
    for (const each of waiting) if (each.key.startsWith(prefix)) entryOf(each.key).waiting.push(each);
  }
  return known;
}

/** A short lease may have been renewed since it was written down. */
function isSettled({ held }: Entry, atMs: number): boolean {
  if (held.some(({ until }) => until !== null && until <= atMs)) return false;
  return held.length === 1 || (held.length > 1 && held.every(({ kind }) => kind === 'read' || kind === 'permits'));
}

function* batches(known: ReadonlyMap<string, Entry>, atMs: number): Generator<readonly string[], void> {
  const keys = [...known].flatMap(([key, entry]) => (isSettled(entry, atMs) ? [] : [key]));
  for (let n = 0; n < keys.length; n += keysAtOnce) yield keys.slice(n, n + keysAtOnce);
}

async function* unsettled(known: ReadonlyMap<string, Entry>, atMs: number): AsyncGenerator<readonly string[], void> {
  yield* batches(known, atMs);
}

function listedOf(key: string, { held, waiting }: Entry, atMs: number): Listed {
  const last = held.reduce((a, b) => (endOf(a) >= endOf(b) ? a : b));
  const holders = held.map(
    ({ id, owner, kind, permits, ...each }): HolderState => ({
      id,
      owner,
      kind,
      permits,
      remaining: endOf(each) - atMs,
    }),
  );
  const fence = Math.max(...held.map((each) => each.fence));
  const { owner, kind: mode } = last;
  const remaining = endOf(last) - atMs;
  const queue = queueOf(waiting, atMs);
  const lock = { key, locked: true, owner, remaining, waiters: queue.length, fence, mode, holders, queue };
  return { lock, fence, heldMs: heldMs(held, atMs) };
}

function queueOf(waiting: readonly RegisteredWait[], atMs: number): WaiterState[] {
  return waiting
    .map(({ owner, kind, since }) => ({ owner, kind, waitingMs: Math.max(atMs - since, 0) }))
    .sort((a, b) => b.waitingMs - a.waitingMs);
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
  const fence = ours.length === 0 ? null : Math.max(...ours.map((each) => each.fence));
  return { lock: { key, ...state }, fence, heldMs: ours.length === 0 ? null : heldMs(ours, atMs) };
}

function heldMs(held: readonly RegisteredHold[], atMs: number): number {
  return Math.max(atMs - Math.min(...held.map(({ since }) => since)), 0);
}

function endOf({ until }: Pick<RegisteredHold, 'until'>): number {
  return until ?? Number.POSITIVE_INFINITY;
}
