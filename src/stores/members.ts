// What the member scripts do, as plain TypeScript: the part of the machine for locks that several may hold. Whoever reads
// holders.lua, waiters.lua and its three verbs reads the same steps in the same order.
//
// A holder has an end of its own. A queue has three bands, each in order of tickets: upgrades and readers that prefer readers;
// writers that prefer writers; all others. `phase` is the moment of the last writer's grant: a writer that is preferred passes all
// others that came after it, so each is passed once, and no stream of writers starves it. Readers that are preferred pass what has
// waited for less than half a second, so no stream of readers starves a writer.
import type { Mode, Place } from '../store';
import type { Acquired, Extended, Publish, Released } from './machine';

type Kind = Mode['kind'] | 'upgrade';

export interface Member {
  readonly kind: Mode['kind'];
  readonly permits: number;
  readonly step: number;
  readonly fence: number;
  readonly token: string;
  readonly group: string;
  /** Infinity: never ends. */
  endMs: number;
}

interface Standing {
  readonly ticket: number;
  readonly deadlineMs: number;
  readonly id: string;
  readonly kind: Kind;
  readonly permits: number;
  readonly prefer: Mode['prefer'];
  readonly channel: string;
  readonly token: string;
  readonly group: string;
}

/** Plain data, as all of a row. */
export interface Members {
  holders: Member[];
  line: Standing[];
  phase: number;
  /** The ticket of the last waiter that was notified while more could be admitted; 0: all of them were. */
  told: number;
  /** How many permits there are, where that is known. */
  most: number;
}

/** The fence of the row, which a mutex and its members have in common. */
export interface Fences {
  last(): number;
  mint(fence: number): void;
}

export interface MemberCommand {
  readonly token: string;
  readonly lifetimeMs: number;
  readonly notAfterMs: number;
  readonly fences: number;
  readonly place?: Place | undefined;
  readonly mode: Mode;
}

/** Who holds it, as far as it decides who else may. */
interface Room {
  count: number;
  used: number;
  kind: Kind | undefined;
  group: string;
  only: string | undefined;
}

/** The same numbers stand in holders.lua, waiters.lua. */
const readersPassMicros = 500_000;
/** So many are notified by one release, and may be admitted before those in front of them have asked. */
const mostNotified = 32;
/** There is one upgrade at most, and nobody else can go in before it. */
const upgradeTicket = 1;

/** A semaphore that was asked for with another number of permits. */
export class LimitError extends Error {}

export function noMembers(): Members {
  return { holders: [], line: [], phase: 0, told: 0, most: 0 };
}

export function acquireMember(
  all: Members,
  fences: Fences,
  { token, lifetimeMs, notAfterMs, fences: count, place, mode }: MemberCommand,
  micros: number,
  tell: (channel: string, ids: string[]) => void,
  silenceMs: (before: number, askedMs: number | undefined) => number,
): Acquired {
  const nowMs = Math.floor(micros / 1000);
  if (nowMs > notAfterMs) return { outcome: 'late' };
  const alive = all.holders.filter((each) => each.endMs > nowMs);
  const mine = alive.find((each) => each.token === token);
  const held = alive.filter((each) => each !== mine);
  const { kind, permits, most, step, group, prefer } = mode;
  const upgrade = step > 0 && kind === 'exclusive';
  if (step > 0 && mine === undefined) return { outcome: 'gone' };
  if (step > 0 && mine!.step > step) return { outcome: 'late' };
  if (alive.some((each) => (each.kind === 'counted') !== (kind === 'counted'))) throw new Error('WRONGTYPE');
  const live = all.line.filter((each) => each.deadlineMs >= nowMs);
  const passedOver = live.length < all.line.length;
  const isKnown = alive.length > 0 || live.some((each) => each.kind === 'counted');
  if (kind === 'counted' && isKnown && all.most !== most && all.most !== 0) {
    throw new LimitError(`LIMIT this semaphore has ${all.most} permits, not ${most}`);
  }
  const standing = live.find((each) => each.token === token);
  const others = live.filter((each) => each !== standing);
  if (upgrade && mine!.step < step && others.some((each) => each.kind === 'upgrade')) return { outcome: 'deadlock' };

  const endMs = Math.max(nowMs + lifetimeMs, mine?.endMs ?? 0);
  if (mine !== undefined && (step === 0 || mine.step === step)) {
    mine.endMs = endMs;
    all.line = others;
    return { outcome: 'granted', fence: mine.fence, others: others.length };
  }
  if (step > 0 && kind === 'shared') {
    all.holders = [...held, { ...mine!, kind, permits: 1, step, endMs }];
    all.line = others;
    wakeMembers(all, micros, tell);
    return { outcome: 'granted', fence: mine!.fence, others: others.length };
  }

  const known = [standing?.ticket, place?.ticket].find((each) => each !== undefined && each > upgradeTicket);
  const first = upgrade ? upgradeTicket : (known ?? 0);
  const ticket = first || Math.max(micros, ...others.map((each) => each.ticket + 1));
  const asking: Standing = {
    ticket,
    deadlineMs: 0,
    id: place?.id ?? '',
    kind: upgrade ? 'upgrade' : kind,
    permits,
    prefer,
    channel: place?.channel ?? '',
    token,
    group,
  };
  const before = others.filter((each) => byScore(each, asking) < 0).length;
  const granted = upgrade
    ? held.length === 0
    : isTurnOf(asking, { ...all, line: [...others, asking] }, held, most, micros);
  if (granted) {
    let fence = 0;
    if (count > 0) {
      if (kind === 'shared') fence = Math.max(0, ...held.map((each) => each.fence));
      if (fence === 0) {
        fence = Math.max(fences.last() + 1, micros);
        fences.mint(fence);
      }
    }
    all.holders = [...held, { kind, permits, step, fence, token, group, endMs }];
    all.line = others;
    if (kind === 'counted') all.most = most;
    const isLastTold = standing !== undefined && all.told > 0 && standing.ticket >= all.told;
    if (kind === 'exclusive' && others.length > 0) Object.assign(all, { phase: micros, told: 0 });
    else if (others.length === 0 && (standing !== undefined || passedOver)) all.phase = all.told = 0;
    if (passedOver || isLastTold) wakeMembers(all, micros, tell);
    return { outcome: 'granted', fence, others: others.length };
  }
  const leftMs = untilRoomMs(kind, held, nowMs);
  if (place === undefined) return { outcome: 'busy', leftMs };
  const deadlineMs = nowMs + silenceMs(before, place.patienceMs);
  all.line = [...others, { ...asking, deadlineMs }].sort(byScore);
  if (kind === 'counted' && all.most === 0) all.most = most;
  return { outcome: 'busy', leftMs, stand: { ticket, before, outside: false } };
}

export function extendMember(
  all: Members,
  token: string,
  lifetimeMs: number,
  exact: boolean,
  notAfterMs: number,
  micros: number,
  wasWriter: boolean,
): Extended {
  const nowMs = Math.floor(micros / 1000);
  const mine = all.holders.find((each) => each.token === token && each.endMs > nowMs);
  if (mine === undefined) return loss(all, nowMs, wasWriter);
  if (nowMs > notAfterMs) return 'late';
  if (exact || mine.endMs < nowMs + lifetimeMs) mine.endMs = nowMs + lifetimeMs;
  return 'extended';
}

export function releaseMember(
  all: Members,
  token: string,
  ticket: number,
  micros: number,
  wasWriter: boolean,
  tell: (channel: string, ids: string[]) => void,
): Released {
  const nowMs = Math.floor(micros / 1000);
  const mine = all.holders.find((each) => each.token === token && each.endMs > nowMs);
  all.holders = all.holders.filter((each) => each !== mine);
  const result = mine === undefined ? loss(all, nowMs, wasWriter) : 'released';
  if (ticket !== 0) all.line = all.line.filter((each) => each.token !== token);
  else if (mine?.kind === 'shared' && all.holders.filter((each) => each.endMs > nowMs).length > 1) {
    return result; // what could go in beside two readers would have done so before
  }
  wakeMembers(all, micros, tell);
  return result;
}

/** Whether somebody holds it. */
export function isHeld({ holders }: Members, nowMs: number): boolean {
  return holders.some((each) => each.endMs > nowMs);
}

/** Whether somebody who gives signs stands in line. */
export function hasLine({ line }: Members, nowMs: number): boolean {
  return line.some((each) => each.deadlineMs >= nowMs);
}

/** How many permits are out. */
export function permitsOut(all: Members, micros: number): number {
  const alive = all.holders.filter((each) => each.endMs > Math.floor(micros / 1000));
  return alive.reduce((sum, each) => sum + each.permits, 0);
}

/** Whether `asking`, which is in the queue, may go in: those before it for whom there is room count as holders. */
function isTurnOf(asking: Standing, all: Members, held: readonly Member[], most: number, micros: number): boolean {
  const room = roomOf(held);
  for (const each of inOrder(all, micros)) {
    if (!admits(room, each, most)) return false;
    if (each === asking) return true;
    goesIn(room, each);
  }
  return false;
}

/** Notifies those for whom there is room now, one message for each process. */
function wakeMembers(all: Members, micros: number, tell: (channel: string, ids: string[]) => void): void {
  const nowMs = Math.floor(micros / 1000);
  all.line = all.line.filter((each) => each.deadlineMs >= nowMs);
  if (all.line.length === 0) all.phase = 0;
  const room = roomOf(all.holders.filter((each) => each.endMs > nowMs));
  const ids = new Map<string, string[]>();
  let notified = 0;
  let last = 0;
  for (const each of inOrder(all, micros)) {
    if (!admits(room, each, all.most)) break;
    goesIn(room, each);
    notified += 1;
    last = each.ticket;
    if (each.channel !== '-') ids.set(each.channel, [...(ids.get(each.channel) ?? []), each.id]);
  }
  all.told = notified === mostNotified ? last : 0;
  for (const [channel, some] of ids) tell(channel, some);
}

function bandOf({ kind, prefer }: Standing): number {
  if (kind === 'upgrade' || (kind === 'shared' && prefer === 'reader')) return 0;
  return kind === 'exclusive' && prefer === 'writer' ? 1 : 2;
}

/** As they lie in Redis. */
function byScore(a: Standing, b: Standing): number {
  return bandOf(a) - bandOf(b) || a.ticket - b.ticket;
}

/** The first in the order in which they go in. */
function* inOrder({ line, phase }: Members, micros: number): Generator<Standing> {
  const bands: Standing[][] = [[], [], []];
  for (const each of [...line].sort(byScore)) bands[bandOf(each)]!.push(each);
  for (let n = 0; n < mostNotified; n++) {
    const [reader, writer, other] = bands.map(([first]) => first);
    const isBefore = other !== undefined && (!writer || (other.ticket <= phase && other.ticket < writer.ticket));
    const next = isBefore ? other : writer;
    const waitsLong = next !== undefined && micros - next.ticket > readersPassMicros;
    const isPassed = !waitsLong || reader?.kind === 'upgrade' || next.ticket > (reader?.ticket ?? 0);
    const first = reader && isPassed ? reader : next;
    if (first === undefined) return;
    bands[bandOf(first)]!.shift();
    yield first;
  }
}

function roomOf(holders: readonly Member[]): Room {
  const room: Room = { count: 0, used: 0, kind: undefined, group: '', only: undefined };
  for (const each of holders) goesIn(room, each);
  if (holders.length === 1) room.only = holders[0]!.token;
  return room;
}

/** What is held next to these; and, for those who come after, what will be. */
function goesIn(room: Room, { kind, group, permits }: Member | Standing): void {
  Object.assign(room, { kind, group, count: room.count + 1, used: room.used + permits });
}

function admits(room: Room, { kind, permits, group, token }: Standing, most: number): boolean {
  if (kind === 'counted') return room.used + permits <= most;
  if (kind === 'shared') return room.count === 0 || (room.kind === 'shared' && room.group === group);
  if (kind === 'upgrade' && room.count === 1 && room.only === token) return true;
  return room.count === 0;
}

function untilRoomMs(kind: Mode['kind'], held: readonly Member[], nowMs: number): number {
  if (held.length === 0) return 0;
  const ends = held.map((each) => each.endMs);
  return (kind === 'counted' ? Math.min(...ends) : Math.max(...ends)) - nowMs;
}

function loss(all: Members, nowMs: number, wasWriter: boolean): 'missing' | 'taken' {
  const alive = all.holders.filter((each) => each.endMs > nowMs);
  return alive.length > 0 && (wasWriter || alive.some((each) => each.kind === 'exclusive')) ? 'taken' : 'missing';
}

/** Several entries of one process in one message. */
export function tellEach(publish: Publish, key: string): (channel: string, ids: string[]) => void {
  return (channel, ids) => publish(channel, ids.join(','), key);
}
