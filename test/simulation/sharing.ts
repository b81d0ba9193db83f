/**
 * Worlds in which readers that share members and permits that are handed off are run to break their promises: the real places and
 * members of several processes, the real machine as their Redis, and between them the network and the misfortunes of coordination.ts.
 * Each lease counts its own validity; one that is valid beside another that it must exclude breaks the world.
 */

import { groupFor } from '../../src/acquire/spec';
import type { Granted, Member, SharingHolder } from '../../src/hold/kept-lock';
import { trustedMs } from '../../src/hold/validity';
import type { Fetch, GroupPosition, ShareWaiter, WaitGroup } from '../../src/queue/group';
import { Position, type WaitTerms } from '../../src/queue/queue';
import { Readers } from '../../src/queue/readers';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  Grant,
  Mode,
  Moment,
  ReleaseReply,
  ReleaseRequest,
  Store,
} from '../../src/store/contract';
import { LateRequest } from '../../src/store/late-request';
import { BrokenPromise, commandTimeoutMs, epochMs, Process, type Rules, World } from './coordination';

export { BrokenPromise, Readers, type Rules };

const key = 'the lock';
const pollMs = 15;
const permits = 2;
/** A writer that waits longer, where nothing goes wrong, is starved. */
const maxWaitMs = 2_000;

export type Kind = 'writer' | 'reader' | 'fair' | 'permits';

export function simulateSharing(seed: number, kind: Kind, rules: Rules): Promise<World> {
  const valid = new Valid(kind);
  return new World(seed, rules, (world, name) => new Sharers(world, name, kind, valid)).run();
}

/** The leases that are held anywhere. */
class Valid {
  readonly kind: Kind;
  readonly #leases = new Set<Lease>();
  #lastWrite = 0;
  #lastFence = 0;
  readonly #fences = new Set<number>();
  /** Writers that have not had their turns. */
  writers = 0;

  constructor(kind: Kind) {
    this.kind = kind;
  }

  add(lease: Lease): void {
    const { world } = lease.process;
    world.begun += 1;
    this.#leases.add(lease);
    for (const each of this.#leases) if (!each.isValid || each.process.dead) this.#leases.delete(each);
    if (lease.mode.kind === 'counted') {
      if (this.#leases.size > permits) world.broken(`${this.#leases.size} permits are out`);
      if (this.#fences.has(lease.fence)) world.broken(`fence ${lease.fence} twice`);
      this.#fences.add(lease.fence);
      return;
    }
    const isWriter = lease.mode.kind === 'exclusive';
    const others = [...this.#leases].filter((each) => each !== lease && (isWriter || each.mode.kind === 'exclusive'));
    if (others.length > 0) world.broken(`${lease.name} is beside ${others.map(({ name }) => name).join()}`);
    if (isWriter ? lease.fence <= this.#lastFence : lease.fence <= this.#lastWrite) {
      world.broken(`fence ${lease.fence} of ${lease.name} after ${this.#lastFence}`);
    }
    this.#lastFence = Math.max(this.#lastFence, lease.fence);
    if (isWriter) this.#lastWrite = lease.fence;
  }
}

/** A process: its clock, its way to the machine, its places. */
class Sharers extends Process {
  readonly kind: Kind;
  readonly valid: Valid;
  readonly groups = new Map<string, WaitGroup>();
  readonly store: Store;
  #ids = 0;

  constructor(world: World, name: string, kind: Kind, valid: Valid) {
    super(world, name);
    this.kind = kind;
    this.valid = valid;
    const store = {
      clock: { nowMs: () => world.nowMs },
      acquire: this.acquire,
      extend: this.extend,
      abandon: this.abandon,
      release: this.giveBack,
    };
    this.store = store as unknown as Store;
  }

  modeOf(kind: Mode['kind']): Mode {
    const prefer = this.kind === 'permits' ? 'fair' : this.kind;
    return { kind, prefer, group: '', permits: 1, total: kind === 'counted' ? permits : 0, step: 0 };
  }

  async turns(): Promise<void> {
    const kinds: Mode['kind'][] = this.kind === 'permits' ? Array(4).fill('counted') : ['shared', 'shared', 'shared'];
    if (this.kind !== 'permits' && this.name !== 'p1') kinds.push('exclusive');
    this.valid.writers += kinds.includes('exclusive') ? 1 : 0;
    await Promise.all(kinds.map((kind, n) => this.#user(kind, `${this.name}/${n}`)));
  }

  async #user(kind: Mode['kind'], name: string): Promise<void> {
    const { world } = this;
    const isWriter = kind === 'exclusive';
    // Where joins never end, readers go on for as long as a writer waits.
    const goesOn = (): boolean =>
      kind === 'shared' && this.valid.writers > 0 && world.rules.broken === 'joins as long as one reads';
    for (let n = 0; n < world.rules.turnsEach || goesOn(); n++) {
      if (isWriter) await this.sleep(world.random() * 20);
      const startMs = world.nowMs;
      const lease = await new User(this, this.modeOf(kind), name).lease();
      const isCalm = world.rules.lose + world.rules.die + world.rules.pause + world.rules.delay === 0;
      const maxMs = world.rules.broken === 'joins as long as one reads' ? maxWaitMs / 2 : maxWaitMs;
      if (isCalm && isWriter && world.nowMs - startMs > maxMs) world.broken(`${name} was starved`);
      if (lease === undefined) continue;
      await lease.use();
      if (world.random() < 0.3) await this.sleep(world.random() * 10);
    }
    if (isWriter) this.valid.writers -= 1;
  }

  newId(): string {
    this.#ids += 1;
    return `${this.name}.${this.#ids}`;
  }

  readonly acquire = async (request: AcquireRequest): Promise<AcquireReply> => {
    const { token, lifetimeMs, fences = 1, queueAs, beside } = request;
    const notAfterMs = epochMs + Math.floor(this.world.nowMs) + commandTimeoutMs;
    const command = { keys: [key], token, lifetimeMs: lifetimeMs!, notAfterMs, fences, queueAs, mode: request.mode! };
    const sent = this.#moment();
    const reply = await this.#ask(() => this.world.machine.acquire({ ...command, beside }, this.world.micros));
    if (reply.outcome === 'granted') return { granted: true, fence: reply.fence, sent, others: reply.others };
    if (reply.outcome !== 'busy') throw new Error(reply.outcome);
    return { granted: false, leftMs: reply.leftMs, position: reply.position };
  };

  readonly extend = async (request: ExtendRequest): Promise<ExtendReply> => {
    await this.sleep(0);
    if (!request.begin()) return { outcome: 'late' };
    const { token, lifetimeMs, exact, validUntilMs, held } = request;
    const { machine } = this.world;
    const sent = this.#moment();
    const notAfterMs = epochMs + Math.floor(validUntilMs);
    const outcome = await this.#ask(() =>
      machine.extend({ keys: key, token, lifetimeMs, exact, notAfterMs, held }, this.world.micros),
    );
    return outcome === 'extended' ? { outcome, sent } : { outcome };
  };

  readonly abandon = async ({ token, held }: ReleaseRequest): Promise<void> => {
    const command = { keys: [key], token, ticket: -1, yieldMs: 0, held };
    await this.release(() => void this.world.machine.release(command, this.world.micros));
  };

  readonly giveBack = async (request: ReleaseRequest): Promise<ReleaseReply> => {
    await this.abandon(request);
    return 'released';
  };

  /** The reply, or an error where it takes too long. */
  #ask<T>(command: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.world.send(this, command, resolve);
      this.after(commandTimeoutMs, () => reject(new Error('silence')));
    });
  }

  /** Ends are kept in whole ms. */
  #moment(): Moment {
    return { monoMs: this.world.nowMs - 1, wallMs: this.world.nowMs - 1 };
  }
}

/** The part of a group that a request needs. */
type Fetcher = Pick<WaitGroup, 'fences' | 'take' | 'troubled'>;

/** Asks again and again with one token, as a caller does that polls. */
class Request implements Fetch {
  readonly #process: Sharers;
  readonly #mode: Mode;
  readonly #group: Fetcher;
  #token: string;
  #ticket = 0;
  #late: LateRequest | undefined;
  #isOver = false;

  constructor(process: Sharers, mode: Mode, group: Fetcher) {
    this.#process = process;
    this.#mode = mode;
    this.#group = group;
    this.#token = process.newToken();
    // The world keeps what broke a promise; here it would be a rejection that nobody handles.
    this.#ask().catch((error) => {
      if (error !== process.world.failure) throw error;
    });
  }

  giveUp(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#abandon();
  }

  async #ask(): Promise<void> {
    const { world } = this.#process;
    while (!this.#isOver) {
      const token = this.#token;
      const queueAs = { channel: '-', id: '0', ticket: this.#ticket, silenceMs: 4 * (pollMs + commandTimeoutMs) };
      const { fences } = this.#group;
      const terms = { keys: key, token, lifetimeMs: world.rules.lifetimeMs, fences, queueAs, mode: this.#mode };
      const reply = await this.#process.acquire(terms as unknown as AcquireRequest).catch(() => undefined);
      if (reply === undefined) this.#late = new LateRequest(world.nowMs, commandTimeoutMs);
      else if (reply.granted && !this.#isOver) {
        if (world.nowMs - reply.sent.monoMs < trustedMs(world.rules.lifetimeMs)) return this.#take(reply);
        this.#abandon();
        this.#token = this.#process.newToken();
        this.#ticket = 0;
        continue;
      } else if (!reply.granted) {
        this.#ticket = reply.position?.ticket ?? this.#ticket;
        this.#group.troubled(undefined);
      }
      await this.#process.sleep(pollMs);
    }
  }

  #take({ fence, sent, others = 0 }: AcquireReply & { granted: true }): void {
    const late = this.#late?.mayExecute(this.#process.world.nowMs) ? this.#late : undefined;
    this.#isOver = true;
    this.#group.take({ token: this.#token, fence, sent, late }, others, this);
  }

  #abandon(): void {
    void this.#process.abandon({ token: this.#token, held: { mode: this.#mode, fence: 0 } } as ReleaseRequest);
  }
}

const membersOf = new WeakMap<object, Member>();

/** A caller: waits, gives up now and then. */
class User implements ShareWaiter {
  readonly commandTimeoutMs = commandTimeoutMs;
  readonly retryTimeoutMs = pollMs;
  readonly #process: Sharers;
  readonly #mode: Mode;
  readonly #name: string;
  #position: GroupPosition | undefined;
  #resolve: (lease: Lease | undefined) => void = () => {};
  #isOver = false;

  constructor(process: Sharers, mode: Mode, name: string) {
    this.#process = process;
    this.#mode = mode;
    this.#name = name;
  }

  lease(): Promise<Lease | undefined> {
    const { world, groups, store } = this.#process;
    return new Promise((resolve) => {
      this.#resolve = resolve;
      if (this.#mode.kind === 'exclusive') {
        groups.get(key)?.writerWaits();
        return this.fetch({ fences: 1, take: (grant) => void this.granted(grant), troubled() {} });
      }
      // Some want another lifetime, and share with none of the others.
      const lifetimeMs = world.rules.lifetimeMs * (world.random() < 0.9 ? 1 : 2);
      const terms: WaitTerms = {
        key,
        lifetimeMs: world.rules.lifetimeMs,
        fencing: true,
        owner: lifetimeMs > world.rules.lifetimeMs ? 'other' : undefined,
        mode: this.#mode,
      };
      this.#position = new Position(groupFor(groups, terms, store), this);
      this.#position.begin();
      if (!this.#isOver && world.random() < 0.15) this.#process.after(world.random() * 100, () => this.#giveUp());
    });
  }

  fetch(group: Fetcher): Fetch {
    return new Request(this.#process, this.#mode, group);
  }

  granted(grant: Granted): Lease {
    const { world } = this.#process;
    if (this.#isOver) world.broken(`${this.#name} is given what it does not wait for`);
    this.#isOver = true;
    const lease = new Lease(this.#process, this.#mode, this.#name, grant);
    if (this.#position !== undefined && grant.member !== undefined) membersOf.set(this.#position.queue, grant.member);
    this.#process.valid.add(lease);
    this.#resolve(lease);
    return lease;
  }

  failed(): void {}
  troubled(): void {}

  #giveUp(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#position!.giveUp();
    this.#resolve(undefined);
  }
}

const leasesOf = new WeakMap<Member, Lease[]>();

/** A held permit or member, counted as a held lock counts its validity. */
class Lease implements SharingHolder {
  readonly process: Sharers;
  readonly mode: Mode;
  readonly name: string;
  readonly grantedMs: number;
  token: string;
  fence: number;
  #member: Member | undefined;
  #sent: Moment;
  #untilMs: number;
  #late: LateRequest | undefined;
  #isOver = false;
  #isShort = false;
  #extending: Promise<unknown> | undefined;

  constructor(process: Sharers, mode: Mode, name: string, { token, fence, sent, member, late }: Granted & Grant) {
    this.process = process;
    this.mode = mode;
    this.name = name;
    this.token = token;
    this.fence = fence;
    this.#member = member;
    this.#sent = sent;
    this.#late = late;
    this.#untilMs = sent.monoMs + trustedMs(process.world.rules.lifetimeMs);
    this.grantedMs = process.world.nowMs;
    if (member !== undefined) leasesOf.set(member, [...(leasesOf.get(member) ?? []), this]);
    process.world.note(`${name} holds ${token} under ${fence} until ${this.#untilMs.toFixed(1)}`);
  }

  get isValid(): boolean {
    return !this.#isOver && this.leftMs() > 0;
  }

  shares(member: Member): boolean {
    return this.isValid && this.#member === member;
  }

  leftMs(): number {
    return this.#untilMs - this.process.world.nowMs;
  }

  check(): boolean {
    if (!this.#isOver && this.leftMs() <= 0) this.lose();
    return !this.#isOver;
  }

  lose(): void {
    this.process.world.note(`${this.name} loses ${this.token}`);
    this.#isOver = true;
    this.#member?.lost(this);
  }

  confirmed(): Moment | undefined {
    if (this.process.world.rules.broken === 'hands off what was shortened') return this.#sent;
    const isSure = this.#extending === undefined && !this.#isShort && !this.#late?.mayExecute(this.process.world.nowMs);
    return isSure && this.leftMs() > 0 ? this.#sent : undefined;
  }

  confirmNow(): void {}

  releaseRequest(): ReleaseRequest {
    const { token } = this.#member ?? this;
    return { keys: key, token, commandTimeoutMs, held: { mode: this.mode, fence: this.fence } };
  }

  parted(token: string, fence: number, sent: Moment): void {
    this.process.world.note(`${this.name} parts with ${token}`);
    Object.assign(this, { token, fence });
    this.#member = undefined;
    this.#untilMs = Math.max(this.#untilMs, sent.monoMs + trustedMs(this.process.world.rules.lifetimeMs));
  }

  /** Works, renews, now and then shortens its end, and releases; or is dropped. */
  async use(): Promise<void> {
    const { world } = this.process;
    const { lifetimeMs } = world.rules;
    const endMs = world.nowMs + world.random() * (world.random() < 0.2 ? 1.5 * lifetimeMs : 20);
    const shortens = world.random() < 0.2;
    while (world.nowMs < endMs && this.check()) {
      await this.process.sleep(Math.min(endMs - world.nowMs, lifetimeMs / 3));
      if (world.nowMs < endMs) await this.#alone(() => this.#extend(lifetimeMs, false));
    }
    // Its answer may come after the release.
    if (shortens && this.check()) void this.#alone(() => this.#shorten(lifetimeMs / 6));
    if (shortens && world.random() < 0.7) await this.#extending;
    if (world.chance(0.05)) return;
    this.check();
    this.#isOver = true;
    world.note(`${this.name} releases ${this.token}`);
    await (this.#member?.release(this) ?? this.process.giveBack(this.releaseRequest()));
  }

  #alone(work: () => Promise<void>): Promise<void> {
    const extending = work()
      .catch(() => {})
      .finally(() => {
        this.#extending = undefined;
      });
    this.#extending = extending;
    return extending;
  }

  async #shorten(ms: number): Promise<void> {
    const { broken } = this.process.world.rules;
    this.#isShort = true;
    if (broken !== 'shortens what others share' && this.mode.kind === 'shared') await this.#member?.part(this);
    if (!this.check()) return;
    this.#untilMs = Math.min(this.#untilMs, this.process.world.nowMs + trustedMs(ms));
    await this.#extend(Math.ceil(ms), true);
  }

  async #extend(lifetimeMs: number, exact: boolean): Promise<void> {
    if (!this.check()) return;
    const { token } = this.#member ?? this;
    const held = { mode: this.mode, fence: this.fence };
    const request = { keys: key, token, lifetimeMs, exact, validUntilMs: this.#untilMs, commandTimeoutMs, held };
    const member = exact && this.mode.kind === 'shared' ? undefined : this.#member;
    const reply = await (member ?? this.process).extend({ ...request, begin: () => this.check() });
    if (!this.check()) return;
    if (reply.outcome === 'extended') {
      if (!exact) this.#sent = reply.sent;
      if (!this.#isShort) this.#untilMs = Math.max(this.#untilMs, reply.sent.monoMs + trustedMs(lifetimeMs));
    } else if (reply.outcome !== 'late') this.lose();
  }
}

/** Deliberate faults of the places: joins that come too late. The real rule otherwise. */
export function breakJoins(
  accepts: (this: WaitGroup) => boolean,
  broken: Rules['broken'],
): (this: WaitGroup) => boolean {
  return function (this: WaitGroup): boolean {
    const member = membersOf.get(this)!;
    const leases = leasesOf.get(member) ?? [];
    if (broken === 'joins as long as one reads' && leases.some((each) => each.shares(member))) return true;
    const last = leases[leases.length - 1];
    if (broken === 'joins what was released' && last && last.process.world.nowMs - leases[0]!.grantedMs < 20)
      return true;
    return accepts.call(this);
  };
}
