// What the member scripts do, as plain TypeScript: the part of the machine for locks that several may hold. Whoever reads
// members.lua and its three verbs reads the same steps in the same order.
//
// A holder has an end of its own, and a line is in order of tickets. `phase` is the moment of the last writer's grant: a writer
// that is preferred passes each reader who came after it, so each reader is passed once, and no stream of writers starves it.
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

/** A semaphore that was asked for with another number of permits. */
export class LimitError extends Error {}

export function noMembers(): Members {
  return { holders: [], line: [], phase: 0, most: 0 };
}

export function acquireMember(
  all: Members,
  fences: Fences,
  { token, lifetimeMs, notAfterMs, fences: count, place, mode }: MemberCommand,
  micros: number,
  tell: (channel: string, ids: string[]) => void,
  patience: (before: number) => number,
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
    wakeMembers(all, nowMs, tell);
    return { outcome: 'granted', fence: mine!.fence, others: others.length };
  }

  const first = standing?.ticket ?? place?.ticket ?? 0;
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
  let before = 0;
  let granted = held.length === 0;
  if (!upgrade) {
    const room = roomOf(held);
    if (mine !== undefined) goesIn(room, mine);
    granted = true;
    for (const each of inOrder([...others, asking], all.phase)) {
      granted &&= admits(room, each, most);
      if (each === asking) break;
      before += 1;
      if (granted) goesIn(room, each);
    }
  }
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
    if (kind === 'exclusive' && others.length > 0) all.phase = micros;
    else if (others.length === 0 && (standing !== undefined || passedOver)) all.phase = 0;
    if (passedOver) wakeMembers(all, nowMs, tell);
    return { outcome: 'granted', fence, others: others.length };
  }
  const leftMs = untilRoomMs(kind, held, nowMs);
  if (place === undefined) return { outcome: 'busy', leftMs };
  const patienceMs = place.patienceMs || patience(before);
  all.line = [...others, { ...asking, deadlineMs: nowMs + patienceMs }].sort((a, b) => a.ticket - b.ticket);
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
    return result; // whoever could go in beside two readers would have done so before
  }
  wakeMembers(all, nowMs, tell);
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

/** Tells everybody for whom there is room now, one message for each process. */
function wakeMembers(all: Members, nowMs: number, tell: (channel: string, ids: string[]) => void): void {
  all.line = all.line.filter((each) => each.deadlineMs >= nowMs);
  if (all.line.length === 0) all.phase = 0;
  const room = roomOf(all.holders.filter((each) => each.endMs > nowMs));
  const ids = new Map<string, string[]>();
  for (const each of inOrder(all.line, all.phase)) {
    if (!admits(room, each, all.most)) break;
    goesIn(room, each);
    if (each.channel !== '-') ids.set(each.channel, [...(ids.get(each.channel) ?? []), each.id]);
  }
  for (const [channel, some] of ids) tell(channel, some);
}

/**
 * In the order in which they go in: an upgrade, since nobody else can go in before it; readers that pass writers; then by
 * ticket, but for the readers that a preferred writer passes.
 */
function inOrder(live: readonly Standing[], phase: number): Standing[] {
  const preferred = live.filter((each) => each.kind === 'exclusive' && each.prefer === 'writer');
  const writer = Math.max(0, ...preferred.map((each) => each.ticket));
  const place = (each: Standing): number[] => {
    if (each.kind === 'upgrade') return [1, each.ticket, 0, each.ticket];
    if (each.kind === 'shared' && each.prefer === 'reader') return [2, each.ticket, 0, each.ticket];
    const passed = each.kind === 'shared' && each.ticket > phase && each.ticket < writer;
    return [3, passed ? writer : each.ticket, passed ? 1 : 0, each.ticket];
  };
  const compare = (a: number[], b: number[]): number => a.map((n, i) => n - b[i]!).find((n) => n !== 0) ?? 0;
  return [...live].sort((a, b) => compare(place(a), place(b)));
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
