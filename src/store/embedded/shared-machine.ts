// The scripts for locks with a mode as plain TypeScript. The steps are those of holders.lua, waiters.lua, wake.lua and the
// three verbs, in the same order.
//
// Each holder has an end of its own. A queue has three bands, each in order of tickets: upgrades and readers that prefer
// readers; writers that prefer writers; all others. `phase` is the time of the last writer's grant. A preferred writer passes
// all others that came after that grant, so each of them is passed once, and no stream of writers starves it. Preferred readers
// pass entries that have waited for less than half a second, so no stream of readers starves a writer.
import type { Mode, QueueEntry } from '../contract';
import { placesOf } from '../permit-places';
import { maxNotified, readersPassMicros } from '../protocol';
import type { CommandOutcome, Extended, Publish, Released } from './command';
import type { Shared, SharedEntry, SharedHolder } from './row';

type HolderKind = Mode['kind'] | 'upgrade';

export interface SharedCommand {
  readonly token: string;
  readonly lifetimeMs: number;
  readonly notAfterMs: number;
  readonly fences: number;
  readonly queueAs?: QueueEntry | undefined;
  readonly minFence?: number | undefined;
  readonly mode: Mode;
  /** The token of a member that this reader has shared: while that member is there, the reader's own has room. */
  readonly beside?: string | undefined;
}

/** The present holders, as far as they decide about others. */
interface Room {
  count: number;
  used: number;
  kind: HolderKind | undefined;
  group: string;
  only: string | undefined;
}

/** The ticket of an upgrade: there is at most one, and nobody else can be admitted before it. */
const upgradeTicket = 1;

/** The error of a request for another number of permits than the semaphore has. */
export class LimitError extends Error {}

export function acquireShared(
  all: Shared,
  mint: (count: number, least: number) => number,
  { token, lifetimeMs, notAfterMs, fences: count, queueAs, minFence = 0, mode, beside }: SharedCommand,
  micros: number,
  notify: (channel: string, ids: string[]) => void,
  silenceMs: (before: number, wantedMs: number | undefined) => number,
): CommandOutcome {
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
  const live = all.queue.filter((each) => each.deadlineMs >= nowMs);
  const hasExpired = live.length < all.queue.length;
  const isKnown = alive.length > 0 || live.some((each) => each.kind === 'counted');
  if (kind === 'counted' && isKnown && all.most !== most && all.most !== 0) {
    throw new LimitError(`LIMIT this semaphore has ${all.most} permits, not ${most}`);
  }
  const queuedAs = queueAs?.token ?? token;
  const queued = live.find((each) => each.token === queuedAs);
  const others = live.filter((each) => each !== queued);
  if (upgrade && mine!.step < step && others.some((each) => each.kind === 'upgrade')) return { outcome: 'deadlock' };

  const endMs = Math.max(nowMs + lifetimeMs, mine?.endMs ?? 0);
  if (mine !== undefined && (step === 0 || mine.step === step)) {
    mine.endMs = endMs;
    all.queue = others;
    return { outcome: 'granted', fence: mine.fence, others: others.length };
  }
  if (step > 0 && kind === 'shared') {
    all.holders = [...held, { ...mine!, kind, permits: 1, step, endMs }];
    all.queue = others;
    all.most = 0; // in Redis, the token of this change replaces the number of permits
    wake(all, micros, notify);
    return { outcome: 'granted', fence: mine!.fence, others: others.length };
  }

  const known = [queued?.ticket, queueAs?.ticket].find((each) => each !== undefined && each > upgradeTicket);
  const first = upgrade ? upgradeTicket : (known ?? 0);
  const ticket = first || Math.max(micros, ...others.map((each) => each.ticket + 1));
  const asking: SharedEntry = {
    ticket,
    deadlineMs: 0,
    id: queueAs?.id ?? '',
    kind: upgrade ? 'upgrade' : kind,
    permits,
    prefer,
    channel: queueAs?.channel ?? '',
    token: queuedAs,
    group,
  };
  const before = others.filter((each) => byScore(each, asking) < 0).length;
  const granted = upgrade
    ? held.length === 0
    : (!(kind === 'counted' && sharesPlace(held, group)) &&
        isTurnOf(asking, { ...all, queue: [...others, asking] }, held, most, micros)) ||
      held.some((each) => each.kind === 'shared' && each.token === beside);
  if (granted) {
    let fence = 0;
    if (count > 0) {
      if (kind === 'shared') fence = Math.max(0, ...held.map((each) => each.fence));
      if (fence === 0) fence = mint(kind === 'counted' ? count : 1, minFence);
    }
    all.holders = [...held, { kind, permits, step, fence, token, group, endMs }];
    all.queue = others;
    if (kind === 'counted') all.most = most;
    const isLastNotified = queued !== undefined && all.notified > 0 && queued.ticket >= all.notified;
    if (kind === 'exclusive' && others.length > 0) Object.assign(all, { phase: micros, notified: 0 });
    else if (others.length === 0 && (queued !== undefined || hasExpired)) all.phase = all.notified = 0;
    if (hasExpired || isLastNotified) wake(all, micros, notify);
    return { outcome: 'granted', fence, others: others.length };
  }
  const leftMs = untilRoomMs(kind, held, nowMs);
  if (queueAs === undefined) return { outcome: 'busy', leftMs };
  const deadlineMs = nowMs + silenceMs(before, queueAs.silenceMs);
  all.queue = [...others, { ...asking, deadlineMs }].sort(byScore);
  if (kind === 'counted' && all.most === 0) all.most = most;
  return { outcome: 'busy', leftMs, position: { ticket, before, outside: false } };
}

export function extendShared(
  all: Shared,
  token: string,
  lifetimeMs: number,
  exact: boolean,
  notAfterMs: number,
  micros: number,
  wasWriter: boolean,
  mustBeWriter: boolean,
): Extended {
  const nowMs = Math.floor(micros / 1000);
  const mine = all.holders.find((each) => each.token === token && each.endMs > nowMs);
  if (mine === undefined) return loss(all, nowMs, wasWriter);
  if (mustBeWriter && mine.kind !== 'exclusive') return 'missing';
  if (nowMs > notAfterMs) return 'late';
  if (exact || mine.endMs < nowMs + lifetimeMs) mine.endMs = nowMs + lifetimeMs;
  return 'extended';
}

export function releaseShared(
  all: Shared,
  token: string,
  ticket: number,
  micros: number,
  wasWriter: boolean,
  notify: (channel: string, ids: string[]) => void,
): Released {
  const nowMs = Math.floor(micros / 1000);
  const mine = all.holders.find((each) => each.token === token && each.endMs > nowMs);
  all.holders = all.holders.filter((each) => each !== mine);
  const result = mine === undefined ? loss(all, nowMs, wasWriter) : 'released';
  if (ticket !== 0) all.queue = all.queue.filter((each) => each.token !== token);
  else if (mine?.kind === 'shared' && all.holders.filter((each) => each.endMs > nowMs).length > 1) {
    return result; // a waiter that can be admitted beside two readers was admitted before
  }
  wake(all, micros, notify);
  return result;
}

/** Takes the lock away, for an operator, from the holders that `isMeant` selects. False: from none. */
export function freeShared(
  all: Shared,
  isMeant: (token: string) => boolean,
  lost: (token: string) => void,
  micros: number,
  notify: (channel: string, ids: string[]) => void,
): boolean {
  const nowMs = Math.floor(micros / 1000);
  const taken = all.holders.filter((each) => each.endMs > nowMs && isMeant(each.token));
  if (taken.length === 0) return false;
  all.holders = all.holders.filter((each) => !taken.includes(each));
  for (const { token } of taken) lost(token);
  wake(all, micros, notify);
  return true;
}

/** True if the lock has a live holder. */
export function isHeld({ holders }: Shared, nowMs: number): boolean {
  return holders.some((each) => each.endMs > nowMs);
}

/** The number of permits that are held. */
export function permitsOut(all: Shared, micros: number): number {
  const alive = all.holders.filter((each) => each.endMs > Math.floor(micros / 1000));
  return alive.reduce((sum, each) => sum + each.permits, 0);
}

/** True if the queued `asking` may be granted: entries before it that have room count as holders. */
function isTurnOf(
  asking: SharedEntry,
  all: Shared,
  held: readonly SharedHolder[],
  most: number,
  micros: number,
): boolean {
  const room = roomOf(held);
  for (const each of inOrder(all, micros)) {
    if (!admits(room, each, most)) return false;
    if (each === asking) return true;
    admit(room, each);
  }
  return false;
}

/** Notifies the waiters for whom there is room now, with one message for each process. */
function wake(all: Shared, micros: number, notify: (channel: string, ids: string[]) => void): void {
  const nowMs = Math.floor(micros / 1000);
  all.queue = all.queue.filter((each) => each.deadlineMs >= nowMs);
  if (all.queue.length === 0) all.phase = 0;
  const room = roomOf(all.holders.filter((each) => each.endMs > nowMs));
  const ids = new Map<string, string[]>();
  let notified = 0;
  let last = 0;
  for (const each of inOrder(all, micros)) {
    if (!admits(room, each, all.most)) break;
    admit(room, each);
    notified += 1;
    last = each.ticket;
    if (each.channel !== '-') ids.set(each.channel, [...(ids.get(each.channel) ?? []), each.id]);
  }
  all.notified = notified === maxNotified ? last : 0;
  for (const [channel, some] of ids) notify(channel, some);
}

function bandOf({ kind, prefer }: SharedEntry): number {
  if (kind === 'upgrade' || (kind === 'shared' && prefer === 'reader')) return 0;
  return kind === 'exclusive' && prefer === 'writer' ? 1 : 2;
}

/** The order of the entries in Redis's sorted set. */
function byScore(a: SharedEntry, b: SharedEntry): number {
  return bandOf(a) - bandOf(b) || a.ticket - b.ticket;
}

/** The first entries in the order of admission, up to `maxNotified`. */
function* inOrder({ queue, phase }: Shared, micros: number): Generator<SharedEntry> {
  const bands: SharedEntry[][] = [[], [], []];
  for (const each of [...queue].sort(byScore)) bands[bandOf(each)]!.push(each);
  for (let n = 0; n < maxNotified; n++) {
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

/** True if one of these places is taken. On a quorum permits are numbered places with one holder each. */
function sharesPlace(held: readonly SharedHolder[], group: string): boolean {
  const places = placesOf(group);
  return held.some((each) => placesOf(each.group).some((place) => places.includes(place)));
}

function roomOf(holders: readonly SharedHolder[]): Room {
  const room: Room = { count: 0, used: 0, kind: undefined, group: '', only: undefined };
  for (const each of holders) admit(room, each);
  if (holders.length === 1) room.only = holders[0]!.token;
  return room;
}

/** Counts an entry as a holder, so that later entries find less room. */
function admit(room: Room, { kind, group, permits }: SharedHolder | SharedEntry): void {
  Object.assign(room, { kind, group, count: room.count + 1, used: room.used + permits });
}

function admits(room: Room, { kind, permits, group, token }: SharedEntry, most: number): boolean {
  if (kind === 'counted') return room.used + permits <= most;
  if (kind === 'shared') return room.count === 0 || (room.kind === 'shared' && room.group === group);
  if (kind === 'upgrade' && room.count === 1 && room.only === token) return true;
  return room.count === 0;
}

function untilRoomMs(kind: Mode['kind'], held: readonly SharedHolder[], nowMs: number): number {
  if (held.length === 0) return 0;
  const ends = held.map((each) => each.endMs);
  return (kind === 'counted' ? Math.min(...ends) : Math.max(...ends)) - nowMs;
}

function loss(all: Shared, nowMs: number, wasWriter: boolean): 'missing' | 'taken' {
  const alive = all.holders.filter((each) => each.endMs > nowMs);
  return alive.length > 0 && (wasWriter || alive.some((each) => each.kind === 'exclusive')) ? 'taken' : 'missing';
}

/** Sends several entries of one process in one message. */
export function notifyEach(publish: Publish, key: string): (channel: string, ids: string[]) => void {
  return (channel, ids) => publish(channel, ids.join(','), key);
}
