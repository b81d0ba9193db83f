// Loading a value once for all callers: read, lock, read again, load, store, release. A caller that waits for the lock finds the value
// when it is granted the lock. Callers of one process share one such load. The value is stored beside the lock by a script that
// compares the holder's token, so a loader that lost the lock to another stores nothing. If a loader throws, nothing is stored and the
// next caller loads.

import { acquireLease, runUnder } from '../acquire/run';
import { clearAlarm } from '../core/clock';
import { optionError } from '../core/errors';
import { onAbort } from '../core/on-abort';
import type { CachedOptions } from '../core/option-types';
import { endless, integer, type Settings, settlerWith } from '../core/options';
import type { Lease } from '../hold/lease';
import { perScopeAndStore, type Scope } from '../hold/scope';
import type { Clock } from '../store/contract';
import { valuesOf } from '../store/values';

const settleCached = settlerWith<CachedOptions>({ ttl: { ...integer(1), required: true }, emptyTtl: integer(0) });

/** The stored text for `undefined`. No JSON text is empty. */
const nothing = '';

type Load<T> = (lease: Lease) => T | undefined | PromiseLike<T | undefined>;

interface Loaded<T> {
  readonly value: T | undefined;
  /** The value as it is stored. */
  readonly text: string;
}

/** The loads in progress of one scope on one store, by key. Another store may hold other values. */
const flightsOf = perScopeAndStore(() => new Map<string, Promise<Loaded<unknown>>>());

/** Implements `WithLock.cached`. */
export async function cached<T>(
  key: string,
  options: unknown,
  load: Load<T>,
  base: Settings,
  scope: Scope,
): Promise<T | undefined> {
  if (typeof load !== 'function') throw optionError('load', 'a function, as the last argument', load);
  const [own, given] = settleCached(options, base);
  const settings = endless(given);
  const store = scope.store(settings.redis);
  const full = scope.fullKey(key, settings); // H75b
  const ours = flightsOf(scope, store); // H75
  const { clock } = store;
  const endMs = clock.nowMs() + (settings.timeoutMs ?? Number.POSITIVE_INFINITY);

  for (let flight = ours.get(full); flight !== undefined; flight = ours.get(full)) {
    const landed = await within(flight, settings.signal, endMs, clock).catch(() => undefined);
    if (landed !== undefined) return parsed<T>(landed.text)!.value;
    // The shared load failed, so the next caller's load is tried. If this caller's own wait is over, it reads for itself once.
    if (settings.signal?.aborted || clock.nowMs() >= endMs) break;
  }
  const flight = readOrLoad<T>(key, full, settings, endMs, own, load, scope);
  // A call whose wait is over leaves the load in progress to the others.
  if (!ours.has(full)) ours.set(full, flight);
  try {
    return (await flight).value;
  } finally {
    if (ours.get(full) === flight) ours.delete(full);
  }
}

/** Reads the stored value. If there is none, loads and stores it under the lock, unless another has stored it by then. */
async function readOrLoad<T>(
  key: string,
  full: string,
  settings: Settings,
  endMs: number,
  { ttl, emptyTtl = 0 }: CachedOptions,
  load: Load<T>,
  scope: Scope,
): Promise<Loaded<T>> {
  const store = scope.store(settings.redis);
  const { commandTimeoutMs } = settings;
  const values = valuesOf(store, full, 'a cached value', key);
  const readStored = async (): Promise<Loaded<T> | undefined> => {
    const text = await scope.ask(key, settings, () => values.read(full, commandTimeoutMs));
    return text === null ? undefined : parsed<T>(text);
  };
  const found = await readStored();
  if (found !== undefined) return found;
  const lease = await acquireLease(key, settings, scope, { autoExtend: true, endMs });
  let loaded: Loaded<T> | undefined;
  await runUnder(lease, async () => {
    loaded = await readStored();
    if (loaded !== undefined) return;
    const value = await load(lease);
    loaded = { value, text: value === undefined ? nothing : asJson(value) };
    const ttlMs = value === undefined ? emptyTtl : ttl;
    if (ttlMs === 0) return;
    await values.write({ key: full, token: lease.token, text: loaded.text, ttlMs, commandTimeoutMs });
  }).catch((error) => {
    // A loaded value is returned even if the lock was lost or the value could not be stored.
    if (loaded === undefined) throw error;
  });
  return loaded!;
}

/** Parses a stored text. Returns undefined, as if nothing were cached, for a text that is not JSON. The next value replaces it. */
function parsed<T>(text: string): Loaded<T> | undefined {
  if (text === nothing) return { value: undefined, text };
  // H82f
  try {
    return { value: JSON.parse(text), text };
  } catch {
    return undefined;
  }
}

function asJson(value: unknown): string {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`what was loaded cannot be kept as JSON: ${typeof value}`);
  return text;
}

/** Settles with `work`. Rejects when the signal aborts or the caller's timeout ends. */
function within<T>(work: Promise<T>, signal: AbortSignal | undefined, endMs: number, clock: Clock): Promise<T> {
  if (signal === undefined && endMs === Number.POSITIVE_INFINITY) return work;
  return new Promise((resolve, reject) => {
    const over = (): void => reject(new Error('the wait is over'));
    const timeout = clock.setAlarm(over, endMs - clock.nowMs());
    const stopListening = signal && onAbort(signal, over);
    const end = (): void => {
      clearAlarm(timeout);
      stopListening?.();
    };
    work.then(resolve, reject).then(end);
  });
}
