// The registry: what a process holds and waits for, written down for others (`register: true`). A process has one key on each store,
// written soon after a change and every 2 s, with a TTL. Nothing is written while the process neither holds nor waits. A record
// that is too long for one write is split into parts, each a record of its own under the id of the process and a number. Only
// the parts that changed are written again.
//
// Invariant: what is written is for people to read. No lock depends on it, and no failure of it is a failure of a lock.
import { v4 as uuid } from 'uuid';
import { type Alarm, clearAlarm, systemClock } from '../core/clock';
import { type Key, listOf } from '../core/keys';
import { kindOfMode } from '../core/lock-state';
import type { Settings } from '../core/options';
import { perObject } from '../core/per-object';
import { hostName, pid } from '../core/runtime';
import { idOf, ownerOf } from '../core/token';
import { HeldLock } from '../hold/held-lock';
import { type Cancellable, Scope, type ScopeObserver } from '../hold/scope';
import { queuesOf } from '../queue/queues';
import type { Mode, Store } from '../store/contract';
import type { RegisteredLoss } from './process-record';

/** Ms from a change until it is written. */
const delayMs = 100;
/** Ms after which the record is written again, changed or not. Without that it expires. */
const everyMs = 2000;
const ttlMs = 6000;
const commandTimeoutMs = 2000;
/** The number of parts of a long record that are written together. */
const partsAtOnce = 8;
/** The ms for which a loss is registered, and the maximum number of losses. */
const lossMs = 3_600_000;
const maxLosses = 100;
/** Times of the store's clock are written anew if they differ by more. */
const maxDriftMs = 50;

/** A held lock or a wait, as it was last written. Most stay the same, and 100,000 texts take a fifth of a second to make. */
interface RecordEntry {
  /** The monotonic ms at which the lock was granted, or the wait began. */
  readonly sinceMs: number;
  /** The part of the record that has this entry, by the remainder. */
  readonly place: number;
  /** JSON for each of its keys, with commas. */
  text: string;
  since?: number;
  until?: number | null;
  token?: string;
  id?: string;
  fence?: number;
  mode?: Mode | undefined;
}

/** The present entry of a held lock. @param offsetMs The store's time minus the monotonic time. */
function entryOfHold(held: HeldLock, entry: RecordEntry, offsetMs: number): RecordEntry {
  const { clock, mode, storedToken: token, fence } = held;
  const leftMs = held.leftMs();
  const end = leftMs === Number.POSITIVE_INFINITY ? null : Math.floor(clock.nowMs() + leftMs + offsetMs);
  // Two clocks say when the lock ends, and they drift apart.
  const until = end !== null && Math.abs(end - (entry.until ?? 0)) <= maxDriftMs ? entry.until! : end;
  const since = Math.round(entry.sinceMs + offsetMs);
  const isSame = entry.token === token && entry.fence === fence && entry.mode === mode;
  if (isSame && entry.since === since && entry.until === until) return entry;
  const id = entry.token === token ? entry.id : idOf(token);
  const text = textOf(held.keys, mode, { fence, since, id, owner: ownerOf(token), permits: mode?.permits ?? 1, until });
  return Object.assign(entry, { since, until, token, id, fence, mode, text });
}

function entryOfWait({ awaited }: Cancellable, entry: RecordEntry, offsetMs: number): RecordEntry {
  const { keys, mode, settings } = awaited;
  const since = Math.round(entry.sinceMs + offsetMs);
  if (entry.since === since) return entry;
  const text = textOf(keys, mode, { since, owner: settings.owner ?? null, permits: mode?.permits ?? 1 });
  return Object.assign(entry, { since, text });
}

function textOf(keys: Key, mode: Mode | undefined, rest: object): string {
  const kind = mode === undefined ? 'exclusive' : kindOfMode[mode.kind];
  return listOf(keys)
    .map((key) => JSON.stringify({ key, kind, ...rest }))
    .join();
}

/** The maximum length of a part. Reading or writing it blocks the server for a fraction of a ms. */
const maxLength = 2 ** 18;

/** The number of parts for a record of this length: a power of two, so that most entries stay in their parts, and rarely a smaller one. */
function partsFor(length: number, before: number): number {
  let parts = before;
  while (length / parts > maxLength) parts *= 2;
  while (parts > 1 && length / parts < maxLength / 8) parts /= 2;
  return parts;
}

function divided(all: readonly RecordEntry[], parts: number): string[] {
  const texts: string[][] = Array.from({ length: parts }, () => []);
  for (const { text, place } of all) texts[place % parts]!.push(text);
  return texts.map((part) => part.join());
}

/** The registry of this process on a store. */
const registryOf = perObject((store: Store) => new Registry(store));

/** The scope of a factory or a lock object. With `register: true`, what it holds and waits for is registered. */
export function scopeFor({ register }: Pick<Settings, 'register'>): Scope {
  return new Scope(register ? registryOf : undefined);
}

class Registry implements ScopeObserver {
  readonly #id = uuid();
  readonly #store: Store;
  /** The scopes that have held or waited for a lock here, and are not closed. */
  readonly #scopes = new WeakSet<Scope>();
  /** Everything that is held and waited for. */
  readonly #entries = new Map<HeldLock | Cancellable, RecordEntry>();
  #places = 0;
  /** The losses, with the monotonic ms of each. */
  readonly #lost: (Omit<RegisteredLoss, 'at'> & { atMs: number })[] = [];
  #alarm: Alarm | undefined;
  #isSoon = false;
  #offsetMs = 0;
  /** The text of each part that was written last; '': the part does not exist, or its text is unknown. */
  readonly #written: string[] = [];
  #writing = Promise.resolve();

  constructor(store: Store) {
    this.#store = store;
  }

  began(scope: Scope, one: HeldLock | Cancellable): void {
    this.#entries.set(one, { sinceMs: this.#store.clock.nowMs(), place: this.#places++, text: '' });
    if (!this.#scopes.has(scope) && !scope.closed) this.#join(scope);
    this.#changed();
  }

  ended(scope: Scope, one: HeldLock | Cancellable): void {
    // A lost lock ends once more with its release.
    const isFirst = this.#entries.delete(one);
    if (isFirst && one instanceof HeldLock && one.isLost && !scope.closed) this.#lose(one);
    this.#changed();
  }

  /** Resolves once the record names none of the scope's locks. */
  async part(scope: Scope): Promise<void> {
    if (this.#scopes.delete(scope)) await this.#write();
  }

  /** From now on, the process of this scope hears that an operator took a lock away. */
  #join(scope: Scope): void {
    this.#scopes.add(scope);
    queuesOf(scope, this.#store)
      ?.wakeUps.open('')
      .catch(() => {});
  }

  /** A lost lock is reported for as long as anything is written down. */
  #lose({ keys, storedToken }: HeldLock): void {
    const atMs = this.#store.clock.nowMs();
    for (const key of listOf(keys)) this.#lost.push({ key, id: idOf(storedToken), atMs });
    while (this.#lost.length > maxLosses || atMs - this.#lost[0]!.atMs > lossMs) this.#lost.shift();
  }

  #changed(): void {
    if (!this.#isSoon) this.#schedule(delayMs);
  }

  #schedule(ms: number): void {
    this.#isSoon = ms < everyMs;
    clearAlarm(this.#alarm);
    this.#alarm = systemClock.setIdleAlarm(() => void this.#write(), ms);
  }

  /** Writes what has changed, one write at a time. */
  async #write(): Promise<void> {
    clearAlarm(this.#alarm);
    this.#isSoon = false;
    this.#writing = this.#writing.then(() => this.#writeNow()).catch(() => {});
    await this.#writing;
    if (!this.#isSoon && this.#written.length > 0) this.#schedule(everyMs);
  }

  async #writeNow(): Promise<void> {
    const texts = this.#texts();
    const before = this.#written.length;
    const parts = [...Array(Math.max(texts.length, before)).keys()];
    // An entry that moves is written to its new part before it is deleted from its old one.
    if (texts.length > before) parts.reverse();
    for (let n = 0; n < parts.length; n += partsAtOnce) {
      await Promise.all(parts.slice(n, n + partsAtOnce).map((part) => this.#writePart(part, texts[part] ?? '')));
    }
    this.#written.length = texts.length;
  }

  async #writePart(part: number, text: string): Promise<void> {
    const before = this.#written[part] ?? '';
    if (text === '' && before === '') return;
    this.#written[part] = '';
    const id = part === 0 ? this.#id : `${this.#id}:${part}`;
    const write = (changed: string | undefined): Promise<boolean> =>
      this.#store.operator.register({ id, text: changed, ttlMs }, commandTimeoutMs);
    const isStillThere = text === before && (await write(undefined));
    if (!isStillThere) await write(text);
    this.#written[part] = text;
  }

  /** The text of each part; none if nothing is held or waited for. A part without entries is not written, except for the first. */
  #texts(): string[] {
    // Times that did not change must read the same.
    const { offsetMs } = this.#store.operator;
    if (Math.abs(offsetMs - this.#offsetMs) > maxDriftMs) this.#offsetMs = offsetMs;
    const held: RecordEntry[] = [];
    const waiting: RecordEntry[] = [];
    for (const [one, entry] of this.#entries) {
      if (!(one instanceof HeldLock)) waiting.push(entryOfWait(one, entry, this.#offsetMs));
      else if (!one.ended) held.push(entryOfHold(one, entry, this.#offsetMs));
    }
    if (held.length + waiting.length === 0) return [];
    const length = [...held, ...waiting].reduce((sum, { text }) => sum + text.length, 0);
    const parts = partsFor(length, Math.max(this.#written.length, 1));
    const waits = divided(waiting, parts);
    const head = JSON.stringify({ id: this.#id, host: hostName(), pid }).slice(0, -1);
    return divided(held, parts).map((holds, n) => {
      if (n > 0 && holds === '' && waits[n] === '') return '';
      return `${head},"held":[${holds}],"waiting":[${waits[n]}]${n === 0 ? this.#losses() : ''}}`;
    });
  }

  #losses(): string {
    const nowMs = this.#store.clock.nowMs();
    const lost = this.#lost
      .filter(({ atMs }) => nowMs - atMs < lossMs)
      .map(({ key, id, atMs }) => ({ key, id, at: Math.round(atMs + this.#offsetMs) }));
    return lost.length > 0 ? `,"lost":${JSON.stringify(lost)}` : '';
  }
}
