// What a process holds and waits for, written down for others (`register: true`): one key for each process and store, soon after
// a change and every 2 s, with a TTL. Nothing is written while it neither holds nor waits.
//
// Invariant: what is written is for people to read. No lock depends on it, and no failure of it is a failure of a lock.
import { hostname } from 'node:os';
import { v4 as uuid } from 'uuid';
import type { HeldLock } from './held-lock';
import { type Key, listOf } from './keys';
import type { Registration } from './operator';
import type { Settings } from './options';
import type { HoldKind } from './state';
import { clockOf, type Mode, type Store } from './store';
import { idOf, ownerOf } from './token';

/** From a change until it is written down. */
const delayMs = 100;
/** Written again after so many ms, changed or not; without that it is gone after the second. */
const everyMs = 2000;
const ttlMs = 6000;
const commandTimeoutMs = 2000;
/** For how long a loss is told, and how many are. */
const lossMs = 3_600_000;
const mostLosses = 100;
/** The store's clock is told anew when it is further off. */
const mostDriftMs = 50;

/** What is held. Times are ms of the epoch, by the store's clock. */
export interface RegisteredHold {
  readonly key: string;
  readonly kind: HoldKind;
  readonly fence: number;
  readonly since: number;
  /** The first 8 hex digits of the SHA-1 of its token. */
  readonly id: string;
  readonly owner: string | null;
  readonly permits: number;
  /** When it ends unless it is renewed; null: never. */
  readonly until: number | null;
}

/** What is waited for. */
export interface RegisteredWait {
  readonly key: string;
  readonly kind: HoldKind;
  readonly since: number;
  readonly owner: string | null;
  readonly permits: number;
}

/** What was held, and lost. */
export interface RegisteredLoss {
  readonly key: string;
  readonly id: string;
  /** When that was noticed. */
  readonly at: number;
}

/** What a process writes down. */
export interface ProcessRecord {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly held: readonly RegisteredHold[];
  readonly waiting: readonly RegisteredWait[];
  /** In the last hour, where anything was. */
  readonly lost?: readonly RegisteredLoss[] | undefined;
}

interface Asked {
  readonly keys: Key;
  readonly mode: Mode | undefined;
  readonly settings: Pick<Settings, 'owner'>;
}

/** Whose locks are written down. `offsetMs`: the store's time less the monotonic one. */
export interface Registered {
  holds(store: Store, offsetMs: number): RegisteredHold[];
  waits(store: Store, offsetMs: number): RegisteredWait[];
}

const kinds = { shared: 'read', exclusive: 'write', counted: 'permits' } as const;

/** Of those that were written down: a hash for each, every time, would take as long as all the rest. */
const ids = new WeakMap<HeldLock, string>();

/** What is held under each key. */
export function holdsOf(held: HeldLock, sinceMs: number, offsetMs: number): RegisteredHold[] {
  const { mode, token, fence, clock } = held;
  if (!ids.has(held)) ids.set(held, idOf(token));
  const leftMs = held.leftMs();
  const until = leftMs === Number.POSITIVE_INFINITY ? null : roundDown(clock.nowMs() + leftMs + offsetMs);
  const since = Math.round(sinceMs + offsetMs);
  const rest = { since, id: ids.get(held)!, owner: ownerOf(token), permits: mode?.permits ?? 1, until };
  return listOf(held.keys).map((key) => ({ key, kind: kindOf(mode), fence, ...rest }));
}

export function waitsOf({ keys, mode, settings }: Asked, sinceMs: number, offsetMs: number): RegisteredWait[] {
  const since = Math.round(sinceMs + offsetMs);
  const rest = { since, owner: settings.owner ?? null, permits: mode?.permits ?? 1 };
  return listOf(keys).map((key) => ({ key, kind: kindOf(mode), ...rest }));
}

/** To what two readings of a clock have in common. */
function roundDown(ms: number): number {
  return Math.floor(ms / 10) * 10;
}

function kindOf(mode: Mode | undefined): HoldKind {
  return mode === undefined ? 'exclusive' : kinds[mode.kind];
}

/** What a process has written down, as far as it is well formed; undefined: nothing of it is. Anybody can write there. */
export function readRecord(text: string): ProcessRecord | undefined {
  try {
    const { id, host, pid, held, waiting, lost } = JSON.parse(text) as ProcessRecord;
    if (typeof id !== 'string' || !Array.isArray(held) || !Array.isArray(waiting)) return undefined;
    const losses = Array.isArray(lost) ? lost.filter((each) => isOneOf(each, ['key', 'id'], ['at'])) : undefined;
    return { id, host, pid, held: held.filter(isHold), waiting: waiting.filter(isWait), lost: losses };
  } catch {
    return undefined;
  }
}

function isHold(each: RegisteredHold): boolean {
  return isOneOf(each, ['key', 'kind', 'id'], ['fence', 'since', 'permits']) && isOwner(each) && isEnd(each.until);
}

function isWait(each: RegisteredWait): boolean {
  return isOneOf(each, ['key', 'kind'], ['since', 'permits']) && isOwner(each);
}

function isOneOf(each: object | null, texts: readonly string[], numbers: readonly string[]): boolean {
  if (typeof each !== 'object' || each === null) return false;
  const fields = each as Record<string, unknown>;
  return (
    texts.every((name) => typeof fields[name] === 'string') && numbers.every((name) => Number.isFinite(fields[name]))
  );
}

function isOwner({ owner }: { readonly owner: unknown }): boolean {
  return owner === null || typeof owner === 'string';
}

function isEnd(until: unknown): boolean {
  return until === null || Number.isFinite(until);
}

const registries = new WeakMap<Store, Registry>();

/** The registry of this process on a store. */
export function registryOf(store: Store): Registry {
  let registry = registries.get(store);
  if (registry === undefined) {
    registry = new Registry(store);
    registries.set(store, registry);
  }
  return registry;
}

export class Registry {
  readonly #id = uuid();
  readonly #store: Store;
  readonly #all = new Set<Registered>();
  /** With the monotonic ms of each. */
  readonly #lost: (Omit<RegisteredLoss, 'at'> & { atMs: number })[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isSoon = false;
  #offsetMs = 0;
  /** What was written last; '': nothing is there. */
  #written = '';
  #writing: Promise<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  join(registered: Registered): void {
    this.#all.add(registered);
  }

  /** Resolves once its locks are written down no more. */
  async part(registered: Registered): Promise<void> {
    this.#all.delete(registered);
    this.#stop();
    await this.#write();
  }

  /** What is held was lost. It is reported for as long as anything is written down. */
  lost({ keys, token }: HeldLock): void {
    const atMs = clockOf(this.#store).nowMs();
    for (const key of listOf(keys)) this.#lost.push({ key, id: idOf(token), atMs });
    while (this.#lost.length > mostLosses || atMs - this.#lost[0]!.atMs > lossMs) this.#lost.shift();
  }

  /** Something is held, or waited for, or is no longer. */
  changed(): void {
    if (this.#isSoon) return;
    this.#stop();
    this.#isSoon = true;
    this.#in(delayMs);
  }

  #in(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#isSoon = false;
      void this.#write();
    }, ms).unref();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#isSoon = false;
  }

  /** One at a time. */
  async #write(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
    this.#writing = this.#writeNow().catch(() => {});
    await this.#writing;
    this.#writing = undefined;
    if (this.#isSoon || this.#written === '') return;
    this.#stop();
    this.#in(everyMs);
  }

  async #writeNow(): Promise<void> {
    const text = this.#text();
    if (text === '' && this.#written === '') return;
    const isSame = text === this.#written;
    // Should it fail, what is there may be either.
    this.#written = ' ';
    const stays = await this.#register({ id: this.#id, text: isSame ? undefined : text, ttlMs });
    if (!stays && isSame) await this.#register({ id: this.#id, text, ttlMs });
    this.#written = text;
  }

  #register(registration: Registration): Promise<boolean> {
    return this.#store.operator.register(registration, commandTimeoutMs);
  }

  #text(): string {
    const all = [...this.#all];
    // What did not change should read the same.
    const { offsetMs } = this.#store.operator;
    if (Math.abs(offsetMs - this.#offsetMs) > mostDriftMs) this.#offsetMs = offsetMs;
    const held = all.flatMap((each) => each.holds(this.#store, this.#offsetMs));
    const waiting = all.flatMap((each) => each.waits(this.#store, this.#offsetMs));
    if (held.length + waiting.length === 0) return '';
    const nowMs = clockOf(this.#store).nowMs();
    const lost = this.#lost
      .filter(({ atMs }) => nowMs - atMs < lossMs)
      .map(({ key, id, atMs }) => ({ key, id, at: Math.round(atMs + this.#offsetMs) }));
    const told = lost.length > 0 ? lost : undefined;
    const record: ProcessRecord = { id: this.#id, host: hostname(), pid: process.pid, held, waiting, lost: told };
    return JSON.stringify(record);
  }
}
