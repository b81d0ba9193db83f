// The scripts for locks with a mode as plain TypeScript. The steps are those of holders.lua, waiters.lua, wake.lua and the
// three verbs, in the same order. Waiters are admitted in the order that wake.lua describes.
import { hashOf } from '../../../core/token';
import { type ExtendReply, type Mode, noChannel, type ReleaseReply } from '../../contract';
import { freedChannel } from '../../operator';
import { placesOf } from '../../permit-places';
import { maxNotified, maxSilenceMs, pollEveryMs, readersPassMicros } from '../../protocol';
import type { AcquireCommand, CommandOutcome, ExtendCommand, Publish } from './command';
import { type LockRow, msOf, neverMs, newShared, type Shared, type SharedEntry, type SharedHolder } from './row';

export type SharedCommand = AcquireCommand & { readonly mode: Mode };

/** A holder, or a waiter that counts as one. */
type Admitted = Pick<SharedEntry, 'group' | 'kind' | 'permits' | 'token'>;

/** The ticket of an upgrade: there is at most one, and nobody else can be admitted before it. */
const upgradeTicket = 1;

/** A key with a mode, during one command. Its holders are those that have not expired. */
export class SharedLock {
  readonly #key: string;
  readonly #all: Shared;
  readonly #micros: number;
  readonly #nowMs: number;
  readonly #publish: Publish;

  constructor(row: LockRow, micros: number, publish: Publish) {
    row.shared ??= newShared();
    this.#key = row.key;
    this.#all = row.shared;
    this.#micros = micros;
    this.#nowMs = msOf(micros);
    this.#publish = publish;
  }

  acquire(command: SharedCommand, mint: (count: number, least: number) => number): CommandOutcome {
    const { token, lifetimeMs, queueAs, mode, beside, fences, minFence = 0 } = command;
    const { kind, total, step, group } = mode;
    const { holders } = this.#all;
    const mine = this.#holder(token);
    const held = holders.filter((each) => each !== mine);
    const isUpgrade = step > 0 && kind === 'exclusive';
    if (step > 0 && mine === undefined) return { outcome: 'gone' };
    if (step > 0 && mine!.step > step) return { outcome: 'late' };
    if (holders.some((each) => (each.kind === 'counted') !== (kind === 'counted'))) throw new Error('WRONGTYPE');
    const live = this.#live();
    const isKnown = holders.length > 0 || live.some((each) => each.kind === 'counted');
    if (kind === 'counted' && isKnown && this.#all.most !== total && this.#all.most !== 0) {
      throw new Error(`LIMIT this semaphore has ${this.#all.most} permits, not ${total}`);
    }
    const at = live.findIndex((each) => each.token === (queueAs?.token ?? token));
    const queued = live[at];
    const others = queued === undefined ? live : live.toSpliced(at, 1);
    const isDeadlock = isUpgrade && mine!.step < step && others.some((each) => each.kind === 'upgrade');
    if (isDeadlock) return { outcome: 'deadlock' };

    const endMs = Math.max(this.#nowMs + (lifetimeMs ?? neverMs), mine?.endMs ?? 0);
    if (mine !== undefined && (step === 0 || mine.step === step)) {
      mine.endMs = endMs;
      this.#all.queue = others;
      return { outcome: 'granted', fence: mine.fence, others: others.length };
    }
    if (step > 0 && kind === 'shared') {
      this.#all.holders = [...held, { ...mine!, kind, permits: 1, step, endMs }];
      this.#all.queue = others;
      this.#all.most = 0; // in Redis, the token of this change replaces the number of permits
      this.#wake();
      return { outcome: 'granted', fence: mine!.fence, others: others.length };
    }
    const known = [queued?.ticket, queueAs?.ticket].find((each) => each !== undefined && each > upgradeTicket);
    // A list of more than a hundred thousand cannot be spread into arguments: the stack has no room.
    const next = (): number =>
      others.reduce((max, { ticket }) => Math.max(max, ticket + 1), Math.max(this.#micros, upgradeTicket + 1));
    const asking = entryOf(command, isUpgrade ? upgradeTicket : (known ?? next()));
    const granted = isUpgrade
      ? held.length === 0
      : (!(kind === 'counted' && sharesPlace(held, group)) && this.#isTurnOf(asking, others, held, total)) ||
        held.some((each) => each.kind === 'shared' && each.token === beside?.token);
    if (granted) {
      // Readers share the fence of those that are in.
      const shared = kind === 'shared' ? held.reduce((max, each) => Math.max(max, each.fence), 0) : 0;
      const fence = fences === 0 ? 0 : shared || mint(kind === 'counted' ? fences : 1, minFence);
      this.#all.holders = [...held, { kind, permits: mode.permits, step, fence, token, group, endMs }];
      this.#granted(mode, live.length < this.#all.queue.length, others, queued);
      return { outcome: 'granted', fence, others: others.length };
    }
    const leftMs = untilRoomMs(kind, held, this.#nowMs);
    if (queueAs === undefined) return { outcome: 'busy', leftMs };
    const before = positionIn(others, asking);
    const silenceMs = Math.min(queueAs.silenceMs || 2 * pollEveryMs(before), maxSilenceMs);
    const deadlineMs = this.#nowMs + silenceMs;
    const hasExpired = live.length < this.#all.queue.length;
    this.#all.queue = others.toSpliced(before, 0, { ...asking, deadlineMs });
    if (kind === 'counted' && this.#all.most === 0) this.#all.most = total;
    if (hasExpired) this.#wake();
    return { outcome: 'busy', leftMs, position: { ticket: asking.ticket, before, outside: false } };
  }

  extend({ token, lifetimeMs, exact, held, strictly, notAfterMs }: ExtendCommand): ExtendReply['outcome'] {
    const isWriter = held?.mode.kind === 'exclusive';
    const mine = this.#holder(token);
    if (mine === undefined) return this.#loss(isWriter);
    if (strictly && isWriter && mine.kind !== 'exclusive') return 'missing';
    if (this.#nowMs > (notAfterMs ?? this.#nowMs)) return 'late';
    const endMs = this.#nowMs + (lifetimeMs ?? neverMs);
    if (exact || mine.endMs < endMs) mine.endMs = endMs;
    return 'extended';
  }

  release(token: string, ticket: number, wasWriter: boolean): ReleaseReply {
    const before = this.#all.holders;
    const mine = this.#holder(token);
    this.#all.holders = this.#all.holders.filter((each) => each !== mine);
    const result = mine === undefined ? this.#loss(wasWriter) : 'released';
    if (ticket !== 0) this.#all.queue = this.#all.queue.filter((each) => each.token !== token);
    // A waiter that can be admitted beside two readers was admitted before.
    else if (mine?.kind === 'shared' && this.#all.holders.length > 1) return result;
    this.#wake(mine !== undefined && ticket === 0 ? before : undefined);
    return result;
  }

  /** Takes the lock away, for an operator, from the holders whose ids start with `id`. False: from none. */
  free(id: string): boolean {
    const taken = this.#all.holders.filter((each) => hashOf(each.token).startsWith(id));
    if (taken.length === 0) return false;
    this.#all.holders = this.#all.holders.filter((each) => !taken.includes(each));
    for (const { token } of taken) this.#publish(freedChannel, `!${hashOf(token)}`, this.#key);
    this.#wake();
    return true;
  }

  #holder(token: string): SharedHolder | undefined {
    return this.#all.holders.find((each) => each.token === token);
  }

  /** Updates the queue after a grant. */
  #granted({ kind, total }: Mode, hasExpired: boolean, others: SharedEntry[], queued: SharedEntry | undefined): void {
    const all = this.#all;
    all.queue = others;
    if (kind === 'counted') all.most = total;
    const isLastNotified = queued !== undefined && all.notified > 0 && queued.ticket >= all.notified;
    if (kind === 'exclusive' && others.length > 0) Object.assign(all, { phase: this.#micros, notified: 0 });
    else if (others.length === 0 && (queued !== undefined || hasExpired)) all.phase = all.notified = 0;
    if (hasExpired || isLastNotified) this.#wake();
  }

  /**
   * Notifies the waiters for whom there is room now, with one message for each process. After a release, `before` are the holders
   * before it: a waiter that had room beside them was notified before, unless an entry that has expired, or the end of a
   * notification, was in its way. The last holder that leaves notifies all for whom there is room.
   */
  #wake(before?: readonly SharedHolder[]): void {
    const all = this.#all;
    const live = this.#live();
    const held = all.holders;
    const isFresh = held.length === 0 || live.length < all.queue.length || all.notified > 0;
    let wereNotified = before !== undefined && !isFresh;
    all.queue = live;
    if (live.length === 0) all.phase = 0;
    const admitted = [...this.#admitted(live, held, all.most)];
    all.notified = admitted.length === maxNotified ? admitted.at(-1)!.ticket : 0;
    const inside: Admitted[] = [...(before ?? [])];
    const ids = new Map<string, string[]>();
    for (const each of admitted) {
      wereNotified &&= admits(inside, each, all.most);
      inside.push(each);
      if (!wereNotified) ids.set(each.channel, [...(ids.get(each.channel) ?? []), each.id]);
    }
    ids.delete(noChannel);
    for (const [channel, some] of ids) this.#publish(channel, some.join(','), this.#key);
  }

  /** The queue without the entries that have expired; the queue itself if none has. */
  #live(): SharedEntry[] {
    const isLive = ({ deadlineMs }: SharedEntry): boolean => deadlineMs >= this.#nowMs;
    const { queue } = this.#all;
    return queue.every(isLive) ? queue : queue.filter(isLive);
  }

  /** True if the caller has room beside the holders and the entries that are before it. */
  #isTurnOf(asking: SharedEntry, others: SharedEntry[], held: SharedHolder[], total: number): boolean {
    if (!admits(held, asking, total)) return false;
    return [...this.#admitted(others.toSpliced(positionIn(others, asking), 0, asking), held, total)].includes(asking);
  }

  /** The first entries in the order of admission that have room beside each other, up to `maxNotified`. */
  *#admitted(queue: readonly SharedEntry[], held: readonly SharedHolder[], total: number): Generator<SharedEntry> {
    const inside: Admitted[] = [...held];
    const bands: SharedEntry[][] = [[], [], []];
    for (const each of queue) bands[bandOf(each)]!.push(each);
    for (let n = 0; n < maxNotified; n++) {
      const [reader, writer, other] = bands.map(([first]) => first);
      const isBefore =
        other !== undefined && (!writer || (other.ticket <= this.#all.phase && other.ticket < writer.ticket));
      const next = isBefore ? other : writer;
      const waitsLong = next !== undefined && this.#micros - next.ticket > readersPassMicros;
      const isPassed = !waitsLong || reader?.kind === 'upgrade' || next.ticket > (reader?.ticket ?? 0);
      const first = reader && isPassed ? reader : next;
      if (first === undefined || !admits(inside, first, total)) return;
      bands[bandOf(first)]!.shift();
      inside.push(first);
      yield first;
    }
  }

  #loss(wasWriter: boolean): 'missing' | 'taken' {
    const { holders } = this.#all;
    return holders.length > 0 && (wasWriter || holders.some((each) => each.kind === 'exclusive')) ? 'taken' : 'missing';
  }
}

function entryOf({ token, queueAs, mode }: SharedCommand, ticket: number): SharedEntry {
  return {
    ticket,
    deadlineMs: 0,
    id: queueAs?.id ?? '',
    kind: ticket === upgradeTicket ? 'upgrade' : mode.kind,
    permits: mode.permits,
    prefer: mode.prefer,
    channel: queueAs?.channel ?? '',
    token: queueAs?.token ?? token,
    group: mode.group,
  };
}

function bandOf({ kind, prefer }: SharedEntry): number {
  if (kind === 'upgrade' || (kind === 'shared' && prefer === 'reader')) return 0;
  return kind === 'exclusive' && prefer === 'writer' ? 1 : 2;
}

/** The order of the entries in Redis's sorted set. */
function byScore(a: SharedEntry, b: SharedEntry): number {
  return bandOf(a) - bandOf(b) || a.ticket - b.ticket;
}

/** The number of entries that are before this one. A queue is always in order. */
function positionIn(queue: readonly SharedEntry[], entry: SharedEntry): number {
  let [low, high] = [0, queue.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (byScore(queue[middle]!, entry) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** True if one of these places is taken. On a quorum permits are numbered places with one holder each. */
function sharesPlace(held: readonly SharedHolder[], group: string): boolean {
  const places = placesOf(group);
  return held.some((each) => placesOf(each.group).some((place) => places.includes(place)));
}

/** True if a waiter has room beside the holders, and beside the waiters that were admitted before it. */
function admits(inside: readonly Admitted[], { kind, permits, group, token }: Admitted, total: number): boolean {
  if (kind === 'counted') return inside.reduce((sum, each) => sum + each.permits, permits) <= total;
  const last = inside.at(-1);
  if (last === undefined) return true;
  if (kind === 'shared') return last.kind === 'shared' && last.group === group;
  return kind === 'upgrade' && inside.length === 1 && last.token === token;
}

function untilRoomMs(kind: Mode['kind'], held: readonly SharedHolder[], nowMs: number): number {
  if (held.length === 0) return 0;
  const chosen = kind === 'counted' ? Math.min : Math.max;
  return held.map(({ endMs }) => endMs).reduce((one, other) => chosen(one, other)) - nowMs;
}
