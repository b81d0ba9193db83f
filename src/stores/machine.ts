// What the scripts do, as plain TypeScript over a table in memory: the executable specification. The simulation runs the
// waiting protocol against it, random commands must give the same replies here and in Redis, and the memory store is this
// with a clock. Whoever reads the .lua files reads the same steps in the same order.
//
// A row is one lock: who holds it until when, its last fence, and who stands in line for it. Nothing here waits; time comes
// with each command, as Redis's own clock does.
import {
  type Mode,
  newsOf,
  type Place,
  type ProclaimRequest,
  type Slot,
  type Slots,
  type Stand,
  slotAt,
} from '../store';
import { isOurs } from '../token';
import {
  acquireMember,
  extendMember,
  hasLine,
  isHeld,
  type Member,
  type Members,
  noMembers,
  permitsOut,
  releaseMember,
  tellEach,
} from './members';

export interface AcquireCommand {
  readonly keys: readonly string[];
  readonly token: string;
  readonly lifetimeMs: number;
  /** Server time in ms after which nobody waits for this request any more. */
  readonly notAfterMs: number;
  /** Fences to mint: 0 none, 1, or as many as a line may hand out by itself. */
  readonly fences: number;
  /** For one of a quorum: the least that the fence may be. */
  readonly leastFence?: number | undefined;
  /** Given by who wants to stand in line when it is busy. One key only. */
  readonly place?: Place | undefined;
  /** Given by a caller that polls instead: ms until it asks again if it is busy. */
  readonly pauseMs?: number | undefined;
  /** For a key that several may hold. One key only. */
  readonly mode?: Mode | undefined;
  /** For a job that runs once a slot. One key only. */
  readonly slots?: Slots | undefined;
}

type ProclaimCommand = Omit<ProclaimRequest, 'commandTimeoutMs'>;

export interface ReleaseCommand {
  readonly keys: readonly string[];
  readonly token: string;
  /** The ticket that the token stands in line with; 0 where it never stood there, -1 where its ticket is not known. */
  readonly ticket: number;
  /** How long the key is left free for callers outside the line, when it is their turn. */
  readonly restMs: number;
  /** Who stands in line next for the same process. One key only. */
  readonly next?: Claim | undefined;
  /** How it was held, where several may hold the key. */
  readonly mode?: Mode | undefined;
}

export type Acquired =
  | { readonly outcome: 'granted'; readonly fence: number; readonly others: number }
  | { readonly outcome: 'busy'; readonly leftMs: number; readonly stand?: Stand | undefined }
  | { readonly outcome: 'late' }
  /** The job of the slot has run. */
  | { readonly outcome: 'done' }
  /** A change in place that can never be: another holder asks to write, or this one is no holder any more. */
  | { readonly outcome: 'deadlock' | 'gone' };

export type Extended = 'extended' | 'missing' | 'taken' | 'late';

export type Released = 'released' | 'missing' | 'taken';

export interface Limits {
  /** A grant that nobody has confirmed yet lasts no longer. */
  readonly provisionalMs: number;
  /** A queued process asks again after this long at the latest; twice that without a sign, and its entry has expired. */
  readonly askMs: number;
  /** So many are queued at that pace; those behind them ask more rarely, each in proportion to its position. */
  readonly askers: number;
  /** But no more rarely than this: entries that died, however many, have expired after twice as long. */
  readonly mostAskMs: number;
  /** How many expired entries one grant takes out. */
  readonly looks: number;
  /** After so many grants in a row without being free, the key is left free for a moment. */
  readonly passes: number;
  /** The same is due once callers have polled in vain for so many of their pauses. */
  readonly pollsInVain: number;
}

/** The same numbers stand in line.lua. */
export const limits: Limits = {
  provisionalMs: 2000,
  askMs: 1000,
  askers: 8,
  mostAskMs: 2000,
  looks: 2048,
  passes: 64,
  pollsInVain: 8,
};

/** The key yields no longer, however long the pauses of those that poll: callers with longer ones leave no mark. */
const mostYieldMs = 1000;
/** A caller that polls may be late by so much, and is then still on time. */
const pollLatenessMs = 20;
/** No entry's deadline is further away; a queue ends so long after the last entry was written. */
const mostSilenceMs = 10_000;
/** A fence counter that is further ahead of the clock was damaged. */
const mostFenceAheadMicros = 86_400_000_000;

const fenceKeptMs = 3_600_000;
const notMutex = 'WRONGTYPE this key is held by a readers-writer lock or a semaphore';

interface Entry {
  readonly ticket: number;
  readonly channel: string;
  readonly id: string;
  readonly token: string;
  readonly lifetimeMs: number;
  readonly fences: number;
  readonly deadlineMs: number;
}

/** Callers that poll beside a queue: the longest of their pauses, in vain since when, and until when that is worth knowing. */
interface Poll {
  readonly pauseMs: number;
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** One lock. Plain data, so that a table may keep it as text. */
export interface Row {
  readonly key: string;
  token: string | undefined;
  /** Infinity: never ends. */
  endMs: number;
  fence: number;
  fenceEndMs: number;
  queue: Entry[];
  queueEndMs: number;
  passes: number;
  restUntilMs: number;
  poll: Poll | undefined;
  /** Of a key that several may hold. */
  members: Members | undefined;
  /** What is cached beside it. */
  value: { readonly text: string; readonly endMs: number } | undefined;
  /** When the slot began whose job has run last, and when it ends. */
  slot: { readonly startMs: number; readonly endMs: number } | undefined;
}

/** What is asked for, whether by a command or by an entry of the line. */
type Claim = Pick<AcquireCommand, 'token' | 'lifetimeMs' | 'fences' | 'place'>;

interface Giving {
  /** The token of whoever gave this command: it needs no message, and no confirmation. */
  readonly mine: string | undefined;
  readonly restMs: number;
  /** From one holder to the next, without being free. */
  readonly passed: boolean;
}

export interface Look {
  readonly token: string | undefined;
  readonly leftMs: number;
  readonly fence: number;
  readonly waiters: number;
  /** undefined: a mutex, or free. */
  readonly kind: Mode['kind'] | undefined;
}

export type Publish = (channel: string, id: string, key: string) => void;

/** The table. A row that was got or set may be changed in place until the command is done. */
export interface Rows {
  get(key: string): Row | undefined;
  set(key: string, row: Row): void;
}

export class Machine {
  readonly #rows: Rows;
  readonly #publish: Publish;
  readonly #limits: Limits;

  constructor(publish: Publish, most: Limits = limits, rows: Rows = new Map<string, Row>()) {
    this.#publish = publish;
    this.#limits = most;
    this.#rows = rows;
  }

  acquire(command: AcquireCommand, micros: number): Acquired {
    const { keys, token, place, mode } = command;
    if (mode !== undefined) return this.#acquireMember({ ...command, mode }, micros);
    if (command.slots !== undefined) return this.#acquireOnce({ ...command, slots: command.slots }, micros);
    const nowMs = Math.floor(micros / 1000);
    if (nowMs > command.notAfterMs) return { outcome: 'late' };
    const rows = keys.map((key) => this.#row(key, nowMs));
    for (const { members } of rows) if (members !== undefined && isHeld(members, nowMs)) throw new Error(notMutex);
    let untilMs = -1;
    for (const row of rows) if (row.token !== undefined && row.token !== token) untilMs = Math.max(untilMs, row.endMs);
    if (untilMs >= 0) {
      if (place === undefined) this.#markPoll(rows, command.pauseMs, nowMs);
      return this.#busy(rows[0]!, untilMs, command, micros);
    }
    for (const row of rows) {
      if (row.token !== undefined || !isLined(row)) continue;
      if (place) this.#stand(row, command, place, micros);
      const whose = this.#grant(row, micros, { mine: place && token, restMs: 0, passed: false });
      if (whose === 'mine') return granted(row, command.fences);
      if (whose === 'given') {
        if (place === undefined) this.#markPoll(rows, command.pauseMs, nowMs);
        return this.#busy(row, row.endMs, command, micros);
      }
      if (place) return this.#busy(row, row.restUntilMs, command, micros);
    }
    return this.#take(rows, command, Math.max(micros, command.leastFence ?? 0), nowMs);
  }

  /** As `acquire`, unless the job of the slot that it is has run. */
  #acquireOnce({ slots, ...command }: AcquireCommand & { readonly slots: Slots }, micros: number): Acquired {
    const nowMs = Math.floor(micros / 1000);
    if (nowMs > command.notAfterMs) return { outcome: 'late' };
    const row = this.#row(command.keys[0]!, nowMs);
    const slot = slotAt(nowMs, slots);
    const isMarked = row.slot !== undefined && row.slot.endMs > nowMs && row.slot.startMs >= slot.start;
    if (row.token !== command.token && isMarked) return { outcome: 'done' };
    const acquired = this.acquire(command, micros);
    if (acquired.outcome === 'granted' && slots.marks) row.slot = { startMs: slot.start, endMs: slot.end };
    return acquired;
  }

  /** From now on the job of a slot counts as done. False: the lock is no longer `token`'s, or the slot is over. */
  markSlot(key: string, token: string, { start, end }: Slot, micros: number): boolean {
    const nowMs = Math.floor(micros / 1000);
    const row = this.#row(key, nowMs);
    if (row.token !== token || end <= nowMs) return false;
    row.slot = { startMs: start, endMs: end };
    return true;
  }

  /** Lets the last fence of locks that are still `token`'s be at least so large. */
  raise(keys: readonly string[], token: string, least: number, micros: number): boolean {
    const nowMs = Math.floor(micros / 1000);
    checkFence(least, nowMs);
    const rows = keys.map((key) => this.#row(key, nowMs));
    if (rows.some((row) => row.token !== token)) return false;
    for (const row of rows) if (row.fence < least) this.#setFence(row, least, nowMs);
    return true;
  }

  extend(
    keys: readonly string[],
    token: string,
    lifetimeMs: number,
    exact: boolean,
    notAfterMs: number,
    micros: number,
    mode?: Mode,
  ): Extended {
    const nowMs = Math.floor(micros / 1000);
    if (mode !== undefined) {
      const members = this.#members(keys[0]!, nowMs);
      return extendMember(members, token, lifetimeMs, exact, notAfterMs, micros, mode.kind === 'exclusive');
    }
    const rows = keys.map((key) => this.#row(key, nowMs));
    if (rows.some((row) => row.token !== undefined && row.token !== token)) return 'taken';
    if (rows.some((row) => row.token === undefined)) return 'missing';
    if (nowMs > notAfterMs) return 'late';
    for (const row of rows) if (exact || row.endMs < nowMs + lifetimeMs) row.endMs = nowMs + lifetimeMs;
    return 'extended';
  }

  release(command: ReleaseCommand, micros: number): { results: Released[]; next: Acquired | undefined } {
    const { keys, token, ticket, restMs, next, mode } = command;
    const nowMs = Math.floor(micros / 1000);
    if (mode !== undefined) {
      const tell = tellEach(this.#publish, keys[0]!);
      const members = this.#members(keys[0]!, nowMs);
      const result = releaseMember(members, token, ticket, micros, mode.kind === 'exclusive', tell);
      return { results: [result], next: undefined };
    }
    let answer: Acquired | undefined;
    const results = keys.map((key): Released => {
      const row = this.#row(key, nowMs);
      const result = row.token === token ? 'released' : row.token === undefined ? 'missing' : 'taken';
      if (ticket !== 0) row.queue = row.queue.filter((entry) => entry.token !== token);
      if (next) this.#stand(row, next, next.place!, micros);
      if (result === 'taken') {
        if (next) answer = this.#busy(row, row.endMs, next, micros);
        return result;
      }
      row.token = undefined;
      const whose = this.#grant(row, micros, { mine: next?.token, restMs, passed: result === 'released' });
      if (whose === 'mine') answer = granted(row, next!.fences);
      else if (next) answer = this.#busy(row, whose === 'given' ? row.endMs : row.restUntilMs, next, micros);
      return result;
    });
    return { results, next: answer };
  }

  #acquireMember(command: AcquireCommand & { readonly mode: Mode }, micros: number): Acquired {
    const key = command.keys[0]!;
    const row = this.#row(key, Math.floor(micros / 1000));
    row.members ??= noMembers();
    const fences = {
      last: () => row.fence,
      mint: (fence: number) => {
        row.fence = fence;
        row.fenceEndMs = Math.max(Math.floor(fence / 1000), Math.floor(micros / 1000)) + fenceKeptMs;
      },
    };
    if (row.token !== undefined) throw new Error('WRONGTYPE this key is held as a mutex');
    const silenceMs = (before: number, askedMs: number | undefined): number =>
      Math.min(askedMs || 2 * askEveryMs(before, this.#limits), mostSilenceMs);
    return acquireMember(row.members, fences, command, micros, tellEach(this.#publish, key), silenceMs);
  }

  #members(key: string, nowMs: number): Members {
    const row = this.#row(key, nowMs);
    row.members ??= noMembers();
    return row.members;
  }

  /** Those who hold a key together, and until when. */
  members(key: string, micros: number): Members['holders'] {
    const nowMs = Math.floor(micros / 1000);
    return this.#members(key, nowMs).holders.filter((each) => each.endMs > nowMs);
  }

  /** How many permits of a semaphore are out. */
  permitsOut(key: string, micros: number): number {
    return permitsOut(this.#members(key, Math.floor(micros / 1000)), micros);
  }

  /** What is cached beside a lock; null: nothing. */
  readValue(key: string, micros: number): string | null {
    const value = this.#rows.get(key)?.value;
    return value === undefined || value.endMs <= Math.floor(micros / 1000) ? null : value.text;
  }

  /** Caches a text beside a lock that the token still holds. */
  writeValue(key: string, token: string, text: string, ttlMs: number, micros: number): boolean {
    const nowMs = Math.floor(micros / 1000);
    const row = this.#row(key, nowMs);
    if (row.token !== token) return false;
    row.value = { text, endMs: nowMs + ttlMs };
    return true;
  }

  /** Writes a text beside a lock that the token still holds, and tells those that observe it; '' takes it back. */
  proclaim({ key, token, text, ttlMs, channel }: ProclaimCommand, micros: number): boolean {
    if (!this.writeValue(key, token, text, ttlMs, micros)) return false;
    if (text === '') this.#row(key, Math.floor(micros / 1000)).value = undefined;
    this.#publish(channel, newsOf, key);
    return true;
  }

  /** Who holds a key. */
  holder(key: string, micros: number): string | undefined {
    return this.#row(key, Math.floor(micros / 1000)).token;
  }

  /** The last fence minted for a key; 0 where none is remembered. */
  fence(key: string): number {
    return this.#rows.get(key)?.fence ?? 0;
  }

  /** What there is to know of a key: of several holders, whoever ends last. */
  look(key: string, micros: number): Look {
    const nowMs = Math.floor(micros / 1000);
    const { token, endMs, fence, queue, members = noMembers() } = this.#row(key, nowMs);
    const last = members.holders.reduce<Member | undefined>(
      (a, b) => (a !== undefined && a.endMs >= b.endMs ? a : b),
      undefined,
    );
    const waiters = queue.length + members.line.length;
    if (token !== undefined) return { token, leftMs: endMs - nowMs, fence, waiters, kind: undefined };
    if (last === undefined || last.endMs <= nowMs) return { token, leftMs: 0, fence, waiters, kind: undefined };
    return { token: last.token, leftMs: last.endMs - nowMs, fence, waiters, kind: last.kind };
  }

  /** What somebody does to a key who knows nothing of fences and lines, nor of several holders. */
  put(key: string, token: string | undefined, endMs: number): void {
    Object.assign(this.#row(key, 0), { token, endMs, members: undefined });
  }

  /** The lock of nobody is dropped, so that a table does not grow with every key that was ever used. */
  #row(key: string, nowMs: number): Row {
    let row = this.#rows.get(key);
    if (row === undefined) {
      row = {
        key,
        token: undefined,
        endMs: 0,
        fence: 0,
        fenceEndMs: 0,
        queue: [],
        queueEndMs: 0,
        passes: 0,
        restUntilMs: 0,
        poll: undefined,
        members: undefined,
        value: undefined,
        slot: undefined,
      };
      this.#rows.set(key, row);
    }
    if (row.endMs <= nowMs) row.token = undefined;
    if (row.fenceEndMs <= nowMs) row.fence = 0;
    if (row.queueEndMs <= nowMs && isLined(row)) {
      forgetQueue(row);
    }
    return row;
  }

  /** Writes down where somebody stands, under the first ticket that it was given. */
  #stand(row: Row, { token, lifetimeMs, fences }: Claim, { channel, id, ticket }: Place, micros: number): Stand {
    const old = row.queue.find((entry) => entry.token === token);
    const last = row.queue.at(-1)?.ticket ?? 0;
    const mine = old?.ticket ?? (ticket > 0 ? ticket : Math.max(micros, last + 1));
    const others = row.queue.filter((entry) => entry !== old);
    const before = others.filter((entry) => entry.ticket < mine).length;
    const deadlineMs = Math.floor(micros / 1000) + 2 * askEveryMs(before, this.#limits);
    others.splice(before, 0, { ticket: mine, channel, id, token, lifetimeMs, fences, deadlineMs });
    row.queue = others;
    row.queueEndMs = Math.floor(micros / 1000) + mostSilenceMs;
    return { ticket: mine, before, outside: row.token !== undefined && !isOurs(row.token) };
  }

  /** Gives a free lock to the first live entry of its line. Says whether anybody got it, and whether that is `mine`. */
  #grant(row: Row, micros: number, { mine, restMs, passed }: Giving): 'mine' | 'given' | 'resting' | 'none' {
    const nowMs = Math.floor(micros / 1000);
    const live = row.queue.slice(0, this.#limits.looks).findIndex((entry) => entry.deadlineMs >= nowMs);
    row.queue.splice(0, live < 0 ? this.#limits.looks : live);
    if (row.poll !== undefined && row.poll.untilMs < nowMs) row.poll = undefined;
    if (live < 0) {
      if (row.queue.length === 0) forgetQueue(row);
      return 'none';
    }
    if (row.restUntilMs > nowMs) return 'resting';
    const passes = passed && row.restUntilMs === 0 ? row.passes : 0;
    row.restUntilMs = 0;
    const first = row.queue[0]!;
    if (passed && restMs > 0 && this.#mustYield(row, passes, restMs, nowMs)) {
      if (first.token !== mine) this.#publish(first.channel, first.id, row.key);
      return 'resting';
    }
    row.passes = passed ? passes + 1 : 0;
    row.queue.shift();
    const lifetimeMs = first.token === mine ? first.lifetimeMs : Math.min(first.lifetimeMs, this.#limits.provisionalMs);
    this.#take([row], { token: first.token, lifetimeMs, fences: first.fences }, micros, nowMs);
    if (first.token === mine) return 'mine';
    this.#publish(first.channel, first.id, row.key);
    return 'given';
  }

  /** After so many grants in a row, or once callers have polled in vain for long enough: from now on the key is left free. */
  #mustYield(row: Row, passes: number, restMs: number, nowMs: number): boolean {
    const { poll } = row;
    const yieldMs = Math.max(Math.min(restMs, mostYieldMs), poll === undefined ? 0 : poll.pauseMs + pollLatenessMs);
    const inVain = poll !== undefined && nowMs - poll.sinceMs >= this.#limits.pollsInVain * yieldMs;
    if (passes < this.#limits.passes && !inVain) return false;
    row.restUntilMs = nowMs + yieldMs;
    row.passes = 0;
    row.poll = undefined;
    return true;
  }

  /** A caller that polls was refused beside a queue. The longest pause counts, for as long as its caller gives signs. */
  #markPoll(rows: readonly Row[], pauseMs: number | undefined, nowMs: number): void {
    if (pauseMs === undefined) return;
    const ms = Math.max(Math.ceil(pauseMs), 1);
    for (const row of rows) {
      if (ms > mostYieldMs || !isLined(row)) continue;
      const old = row.poll !== undefined && row.poll.untilMs >= nowMs ? row.poll : undefined;
      if (old !== undefined && old.pauseMs > ms) continue;
      row.poll = { pauseMs: ms, sinceMs: old?.sinceMs ?? nowMs, untilMs: nowMs + 2 * ms + 100 };
    }
  }

  #busy(row: Row, untilMs: number, claim: Claim, micros: number): Acquired {
    const leftMs = Math.max(untilMs - Math.floor(micros / 1000), 0);
    return { outcome: 'busy', leftMs, stand: claim.place && this.#stand(row, claim, claim.place, micros) };
  }

  /** Free locks become ours under one fence; what is ours already only ever lives longer, and keeps its fence. */
  #take(rows: readonly Row[], { token, lifetimeMs, fences, place }: Claim, least: number, nowMs: number): Acquired {
    let last = 0;
    let areOurs = true;
    for (const row of rows) {
      last = Math.max(last, row.fence);
      if (row.token === undefined) areOurs = false;
    }
    if (fences > 0) checkFence(Math.max(last, least), nowMs);
    let fence = last;
    if (fences > 0 && (last === 0 || !areOurs)) {
      fence = Math.max(last + 1, least) + fences - 1;
      for (const row of rows) this.#setFence(row, fence, nowMs);
    }
    for (const row of rows) {
      row.endMs = row.token === token ? Math.max(row.endMs, nowMs + lifetimeMs) : nowMs + lifetimeMs;
      row.token = token;
    }
    // Only who can stand in line is told of it.
    return granted(rows[0]!, fences, fence, place === undefined ? 0 : rows[0]!.queue.length);
  }

  #setFence(row: Row, fence: number, nowMs: number): void {
    row.fence = fence;
    row.fenceEndMs = Math.max(Math.floor(fence / 1000), nowMs) + fenceKeptMs;
  }
}

/**
 * Whether nobody would miss the row: nobody holds it or stands in line, nothing is cached, no slot is done, and its next fence is larger by the clock alone. A
 * table drops such rows, so that it does not grow with every key that was ever used.
 */
export function isSpare(row: Row, micros: number): boolean {
  const nowMs = Math.floor(micros / 1000);
  const isFree = row.token === undefined || row.endMs <= nowMs;
  if (!isFree || row.fence >= micros || row.restUntilMs > nowMs) return false;
  if (row.value !== undefined && row.value.endMs > nowMs) return false;
  if (row.slot !== undefined && row.slot.endMs > nowMs) return false;
  if (row.members !== undefined && (isHeld(row.members, nowMs) || hasLine(row.members, nowMs))) return false;
  return row.queue.every((each) => each.deadlineMs < nowMs);
}

/** How often a queued process asks that has `before` others before it. */
export function askEveryMs(before: number, { askMs, askers, mostAskMs }: Limits = limits): number {
  return Math.min(askMs * Math.max(1, (before + 1) / askers), mostAskMs);
}

function checkFence(fence: number, nowMs: number): void {
  if (fence <= nowMs * 1000 + mostFenceAheadMicros) return;
  throw new Error('FENCE the fence counter of this lock is more than a day ahead of the clock');
}

function forgetQueue(row: Row): void {
  row.queue = [];
  row.passes = row.restUntilMs = 0;
  row.poll = undefined;
}

function isLined(row: Row): boolean {
  return row.queue.length > 0 || row.passes > 0 || row.restUntilMs > 0 || row.poll !== undefined;
}

function granted(row: Row, fences: number, last = row.fence, others = row.queue.length): Acquired {
  return { outcome: 'granted', fence: fences === 0 ? 0 : last - fences + 1, others };
}
