// The lines of one store, and the one channel on which this process hears that it was granted a lock. The channel is open
// before the first entry is sent, so that no grant falls between the two; when it was closed for a while, every line asks.
import { v4 as uuid } from 'uuid';
import { warn, warningsWanted } from '../events';
import {
  type AcquireReply,
  type AcquireRequest,
  type Listening,
  type ReleaseRequest,
  restMs,
  type Store,
} from '../store';
import { refusal } from '../stores/replies';
import { newToken } from '../token';

import {
  type Answer,
  type Claim,
  type Entry,
  fencesInBlock,
  Line,
  type ReleaseAndStand,
  type Waiter,
  type World,
} from './queue';

/** The version is that of the messages, as each entry has that of the entries. */
const channelPrefix = 'redis-exp-lock:1:';

/**
 * Asks now, and says so; false: its question is on its way. Where that may have been answered before what it is told of
 * (`isBehind` false), it asks once more.
 */
export type Hint = (isBehind: boolean) => boolean;

/** A name under which somebody is told. */
export interface Spot {
  readonly channel: string;
  readonly id: string;
  leave(): void;
}

const linesOfStores = new WeakMap<Store, Lines>();
/** Stores of which it was said that they can wake nobody. */
const deaf = new WeakSet<Store>();

/** The lines of a store; undefined where it can wake nobody, so that waiting means counting. */
export function linesOf(store: Store): Lines | undefined {
  if (store.listen === undefined) {
    if (warningsWanted() && !deaf.has(store)) {
      deaf.add(store);
      const message = 'waiting asks again and again: this client (a pool, GLIDE) has no messages to give';
      warn({ code: 'no-wake-ups', message, key: null });
    }
    return undefined;
  }
  let lines = linesOfStores.get(store);
  if (lines === undefined) {
    lines = new Lines(store, store.listen);
    linesOfStores.set(store, lines);
  }
  return lines;
}

export class Lines implements World {
  readonly #store: Store;
  readonly #listen: NonNullable<Store['listen']>;
  readonly #channel = channelPrefix + uuid();
  readonly #lines = new Map<string, Line>();
  /** The line that was asked for last: a crowd asks for the same again and again, and a name costs more than a look. */
  #last: Line | undefined;
  /** Whose entries are on their way, or stand in line. */
  readonly #entries = new Map<string, Line>();
  /** Who waits for a key that several may hold, each for itself: it is told to ask. */
  readonly #spots = new Map<string, { readonly key: string; readonly takes: number; readonly hint: Hint }>();
  /** Entries on their way out of a line: should one of them be granted all the same, it is given back at once. */
  readonly #leaving = new Map<string, ReleaseRequest>();
  /** How many wait for the channel to open, for each key. */
  readonly #awaited = new Map<string, number>();
  #opening: Promise<Listening> | undefined;
  #isOpen = false;
  #ids = 0;
  #scopes = 0;

  constructor(store: Store, listen: NonNullable<Store['listen']>) {
    this.#store = store;
    this.#listen = listen;
  }

  /** Whether a grant would be heard. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether somebody waits for that, to stand in line for this key. */
  isAwaited(key: string): boolean {
    return this.#awaited.has(key);
  }

  /** Resolves once a grant of `key` would be heard. Rejects where the channel cannot be heard; the next call tries again. */
  async open(key: string): Promise<void> {
    this.#awaited.set(key, (this.#awaited.get(key) ?? 0) + 1);
    this.#opening ??= this.#listen(this.#channel, this.#onMessage, this.#onGap, this.#onClosed);
    const opening = this.#opening;
    try {
      await opening;
      // Everybody may have left while it was being opened; then it is closed again.
      if (this.#opening === opening) this.#isOpen = true;
    } catch (error) {
      if (this.#opening === opening) this.#opening = undefined;
      throw refusal(error, key);
    } finally {
      const others = this.#awaited.get(key)! - 1;
      if (others > 0) this.#awaited.set(key, others);
      else this.#awaited.delete(key);
    }
  }

  /** One more scope waits in these lines. */
  join(): void {
    this.#scopes += 1;
  }

  /** One scope less; with the last one the channel closes. */
  part(): void {
    this.#scopes -= 1;
    if (this.#scopes > 0) return;
    this.#opening?.then(
      (listening) => listening.close(),
      () => {},
    );
    this.#opening = undefined;
    this.#isOpen = false;
  }

  line(claim: Claim): Line {
    if (this.#last !== undefined && isSame(this.#last.claim, claim)) return this.#last;
    const name = nameOf(claim);
    let line = this.#lines.get(name);
    if (line === undefined) {
      line = new Line(claim, this);
      this.#lines.set(name, line);
    }
    this.#last = line;
    return line;
  }

  /** Somebody who wants to be told to ask for `key`, to take so much of it: under which name, and how to stop that. */
  spot(key: string, takes: number, hint: Hint): Spot {
    this.#ids += 1;
    const id = String(this.#ids);
    this.#spots.set(id, { key, takes, hint });
    return { channel: this.#channel, id, leave: () => this.#spots.delete(id) };
  }

  /**
   * A hold of `key` is being given back: those of this process who may be next ask in the same tick, and so in the same command,
   * behind that release. Who is next is Redis's to say; the others are told as always.
   */
  release(key: string, permits: number): void {
    let left = permits;
    for (const spot of this.#spots.values()) {
      if (left <= 0) return;
      if (spot.key !== key) continue;
      if (spot.hint(true)) left -= spot.takes;
    }
  }

  empty(line: Line): void {
    const name = nameOf(line.claim);
    if (this.#lines.get(name) === line) this.#lines.delete(name);
    if (this.#last === line) this.#last = undefined;
  }

  nowMs(): number {
    return performance.now();
  }

  random(): number {
    return Math.random();
  }

  later(work: () => void, ms: number): NodeJS.Timeout {
    return setTimeout(work, ms);
  }

  never(timer: unknown): void {
    clearTimeout(timer as NodeJS.Timeout);
  }

  newEntry(owner: string | undefined): Entry {
    this.#ids += 1;
    return { token: newToken(owner), id: String(this.#ids), ticket: 0, ghostUntilMs: 0, sent: false };
  }

  ask(line: Line, entry: Entry, commandTimeoutMs: number, { resolve, reject }: Answer<AcquireReply>): void {
    this.#store.acquire(this.#request(line, entry, commandTimeoutMs)).then((reply) => {
      if (reply.granted) this.#entries.delete(entry.id);
      resolve(reply);
    }, reject);
  }

  releaseAndStand(line: Line, token: string, entry: Entry, waiter: Waiter, answer: Answer<ReleaseAndStand>): void {
    const { commandTimeoutMs, retryTimeoutMs } = waiter;
    const release = { keys: line.claim.key, token, commandTimeoutMs, restMs: restMs(retryTimeoutMs) };
    this.#store.releaseAndAcquire(release, this.#request(line, entry, commandTimeoutMs)).then(([result, next]) => {
      if (next.granted) this.#entries.delete(entry.id);
      answer.resolve({ result, next });
    }, answer.reject);
  }

  leave({ claim }: Line, { token, id, ticket, ghostUntilMs }: Entry, commandTimeoutMs: number): void {
    const request = { keys: claim.key, token, commandTimeoutMs, ticket: ticket || -1 };
    this.#entries.delete(id);
    this.#leaving.set(id, request);
    void this.#store.abandon(request, ghostUntilMs).then(() => this.#leaving.delete(id));
  }

  #request(line: Line, { token, id, ticket }: Entry, commandTimeoutMs: number): AcquireRequest {
    const { claim } = line;
    this.#entries.set(id, line);
    return {
      keys: claim.key,
      token,
      lifetimeMs: claim.lifetimeMs,
      fencing: claim.fencing,
      fences: fencesInBlock,
      minReplicas: 0,
      commandTimeoutMs,
      // What gave up before it was sent has been abandoned, and its release is behind it in the same tick.
      begin: () => !this.#leaving.has(id),
      place: { channel: this.#channel, id, ticket },
    };
  }

  /** `<entry>[,<entry>…] <lock>`: the name comes last, so that whatever it contains cannot be taken for anything else. */
  readonly #onMessage = (text: string): void => {
    const ids = text.slice(0, text.indexOf(' '));
    const key = text.slice(ids.length + 1);
    for (const id of ids.split(',')) this.#onHint(id, key);
  };

  #onHint(id: string, key: string): void {
    const spot = this.#spots.get(id);
    if (spot?.key === key) return void spot.hint(false);
    const line = this.#entries.get(id);
    if (line?.claim.key === key && line.hint(id)) return;
    const request = this.#leaving.get(id);
    if (request !== undefined) this.#store.release(request).catch(() => {});
  }

  /** The next wait opens it again. */
  readonly #onClosed = (): void => {
    this.#opening = undefined;
    this.#isOpen = false;
  };

  readonly #onGap = (): void => {
    for (const line of this.#lines.values()) line.gap();
    for (const spot of [...this.#spots.values()]) spot.hint(false);
  };
}

function isSame(one: Claim, other: Claim): boolean {
  const { key, lifetimeMs, fencing, owner } = other;
  return one.key === key && one.lifetimeMs === lifetimeMs && one.fencing === fencing && one.owner === owner;
}

function nameOf({ key, lifetimeMs, fencing, owner }: Claim): string {
  return `${lifetimeMs} ${fencing} ${owner?.length} ${owner} ${key}`;
}
