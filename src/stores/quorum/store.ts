// A store made of stores, each a Redis that knows nothing of the others: a lock is held while a majority of them holds our
// token. A round asks all in one tick and is decided as soon as it can be; who answers later is heard in the background.
//
// What makes it exclusive: two majorities have a node in common, and a node grants one token at a time. So a grant counts from
// before its own round was sent; each attempt has a token of its own, because the releases of a failed one may still be on
// their way; an extension counts only nodes that have held the token all the time; and a node that may have forgotten a grant
// in a restart does not vote until every lifetime given before has passed.
//
// What makes the fences rise: before a grant returns, a majority that still holds our token has a last fence at least as large
// as ours. The next majority has one of them in it, and that one mints a larger fence. Each round proposes a fence just ahead
// of all clocks, so that nearly always the nodes mint the same one, and nothing has to be written back.
import { LockBackendError, optionError } from '../../errors';
import { warn } from '../../events';
import { describe, type Key } from '../../keys';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockState,
  Mode,
  Moment,
  Node,
  ReleaseReply,
  ReleaseRequest,
  Store,
  ValueRequest,
} from '../../store';
import { now } from '../../store';
import { type Clock, Member } from './node';
import { nobodyWaits, Round, type Verdict } from './round';

const realClock: Clock = {
  now,
  later: (work, ms) => setTimeout(work, ms).unref(),
  never: (timer) => clearTimeout(timer),
};

/** What one node may cost, as a share of the lifetime. */
const patienceShare = 1 / 8;
const leastPatienceMs = 10;
/** How far ahead of all clocks a fence is proposed: further after nodes minted different ones, nearer while they agree. */
const nearestLeadMs = 1;
const farthestLeadMs = 100;

/** Who has answered a question to all, and how. */
interface Seen<T> {
  readonly answers: Map<Member, T>;
  readonly errors: LockBackendError[];
  open: number;
}

export class Quorum implements Store {
  readonly keyPrefix: string;
  readonly listen = undefined;
  readonly isQuorum = true;
  readonly #members: readonly Member[];
  readonly #majority: number;
  readonly #clock: Clock;
  /** By token: somebody has not answered yet. */
  readonly #rounds = new Map<string, Round>();
  #meeting: Promise<unknown> | undefined;
  #hasMet = false;
  #longestMs = 0;
  #leadMs = 2 * nearestLeadMs;
  #fencing = false;
  #meetings = 0;
  #twin: Member | undefined;
  #scopes = 0;
  #onIdle: (() => void) | undefined;

  constructor(nodes: readonly Node[], clock: Clock = realClock) {
    this.keyPrefix = nodes[0]!.keyPrefix;
    this.#clock = clock;
    this.#majority = Math.floor(nodes.length / 2) + 1;
    this.#members = nodes.map((node, index) => new Member(node, `redis[${index}]`, clock));
    if (nodes.length > 2 && nodes.length % 2 === 1) return;
    const survives = nodes.length - this.#majority;
    const message = `a quorum of ${nodes.length} survives the loss of ${survives}, as one of ${2 * survives + 1} does; use 3, 5 or 7`;
    warn({ code: 'quorum-size', message, key: null });
  }

  /** Several holders of one key: how many there are, two majorities need not agree on. */
  refuses(keys: Key, mode: Mode | undefined): LockBackendError | undefined {
    return mode && onlyForOne(keys, 'readers, writers and permits');
  }

  permitsOut(key: string): Promise<number> {
    return Promise.reject(onlyForOne(key, 'permits'));
  }

  readValue(key: string): Promise<string | null> {
    return Promise.reject(onlyForOne(key, 'a cached value'));
  }

  writeValue({ key }: ValueRequest): Promise<boolean> {
    return Promise.reject(onlyForOne(key, 'a cached value'));
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { lifetimeMs } = request;
    if (lifetimeMs === null) {
      return Promise.reject(optionError('lifetime', 'a number: a node of a quorum may forget', lifetimeMs));
    }
    this.#longestMs = Math.max(this.#longestMs, lifetimeMs);
    this.#fencing ||= request.fencing;
    if (this.#hasMet) return this.#round(request, lifetimeMs);
    const patienceMs = patience(lifetimeMs, request.commandTimeoutMs);
    this.#meeting ??= Promise.all(
      this.#members.map((each) => each.meet(patienceMs)?.catch((error) => each.failed(error))),
    ).then(() => {
      this.#hasMet = true;
    });
    return this.#meeting.then(() => this.#round(request, lifetimeMs));
  }

  #round(request: AcquireRequest, lifetimeMs: number): Promise<AcquireReply> {
    const twins = this.#twins(request.keys);
    if (twins !== undefined) return Promise.reject(twins);
    const sent = this.#clock.now();
    if (!request.begin()) return Promise.reject(nobodyWaits(request));
    return new Promise((resolve, reject) => {
      const tell = (verdict: Verdict): void => {
        if (verdict.is === 'over') reject(nobodyWaits(request));
        else if (verdict.is === 'failed') reject(this.#noMajority(verdict.errors, request.keys));
        else if (verdict.is === 'busy') resolve({ granted: false, leftMs: verdict.leftMs });
        else {
          this.#leadMs = verdict.wroteBack
            ? Math.min(2 * this.#leadMs, farthestLeadMs)
            : Math.max(0.99 * this.#leadMs, nearestLeadMs);
          resolve({ granted: true, fence: verdict.fence, sent });
        }
      };
      this.#start(request, lifetimeMs, sent, this.#present(), tell);
    });
  }

  #start(
    request: AcquireRequest,
    lifetimeMs: number,
    sent: Moment,
    members: readonly Member[],
    tell?: (verdict: Verdict) => void,
  ): void {
    const { token, fencing } = request;
    const commandTimeoutMs = patience(lifetimeMs, request.commandTimeoutMs);
    const leastFence = fencing ? this.#leastFence(sent) : undefined;
    const terms = { size: this.#members.length, majority: this.#majority, longestMs: this.#longestMs };
    const done = (): void => {
      if (this.#rounds.get(token) === round) this.#rounds.delete(token);
      if (this.#rounds.size === 0) this.#onIdle?.();
    };
    const round = new Round({ ...request, commandTimeoutMs, leastFence }, terms, done, tell);
    this.#rounds.set(token, round);
    round.ask(members, tell === undefined ? [] : this.#silences(members), sent.monoMs);
  }

  /** Ahead of every clock by the time it gets there, if all goes well. */
  #leastFence({ monoMs }: Moment): number {
    const aheadMs = Math.max(...this.#members.map(({ node }) => node.serverOffsetMs)) + this.#leadMs;
    return Math.floor((monoMs + aheadMs) * 1000);
  }

  async extend(request: ExtendRequest): Promise<ExtendReply> {
    const { keys, token, lifetimeMs, exact, begin } = request;
    if (!begin()) return { outcome: 'late' };
    this.#longestMs = Math.max(this.#longestMs, lifetimeMs!);
    const sent = this.#clock.now();
    const commandTimeoutMs = patience(lifetimeMs!, request.commandTimeoutMs);
    // An end that was set by hand must not be set late, behind a renewal that another majority confirms: we wait for all, and
    // none can run any more once we do not.
    const validUntilMs = exact ? Math.min(request.validUntilMs, sent.monoMs + commandTimeoutMs) : request.validUntilMs;
    const each = { ...request, commandTimeoutMs, validUntilMs };
    const missing: Member[] = [];
    const outcome = await this.#ask(
      ({ node }) => node.extend(each),
      ({ answers, errors, open }) => {
        if (exact && open > 0) return undefined;
        const count = { extended: 0, missing: 0, taken: 0, late: 0 };
        for (const reply of answers.values()) count[reply.outcome] += 1;
        if (count.extended >= this.#majority) {
          for (const [member, reply] of answers) if (reply.outcome === 'missing') missing.push(member);
          return 'extended' as const;
        }
        const notOurs = count.missing + count.taken;
        if (notOurs > this.#members.length - this.#majority)
          return count.taken > 0 ? ('taken' as const) : ('missing' as const);
        if (open > 0) return undefined;
        if (count.late > 0 && (errors.length === 0 || !begin())) return 'late' as const;
        throw this.#noMajority(errors, keys, true);
      },
    );
    if (outcome === 'late') return { outcome };
    if (outcome !== 'extended') {
      void this.abandon({ keys, token, commandTimeoutMs: request.commandTimeoutMs }, sent.monoMs);
      return { outcome };
    }
    if (missing.length > 0 && !this.#rounds.has(token)) this.#joinUp(each, missing, sent);
    return { outcome, sent };
  }

  /**
   * Nodes that had no vote to give, or have forgotten it, get our token too, while a majority is known to hold it. They
   * count only from the next extension on: that they hold it now does not say that nobody else held it a moment ago.
   */
  #joinUp({ keys, token, lifetimeMs, commandTimeoutMs, begin }: ExtendRequest, missing: Member[], sent: Moment): void {
    const request = { keys, token, lifetimeMs, fencing: this.#fencing, minReplicas: 0, commandTimeoutMs, begin };
    this.#start(request, lifetimeMs!, sent, missing);
  }

  release(request: ReleaseRequest): Promise<ReleaseReply> {
    const releases = new Map(this.#present().map((member) => [member, member.node.release(request)] as const));
    this.#rounds.get(request.token)?.end(releases);
    for (const member of this.#members) if (!releases.has(member)) member.free(request, 0);
    const send = (member: Member): Promise<ReleaseReply> =>
      releases.get(member)!.catch((error) => {
        member.failed(error);
        member.free(request, 0);
        throw error;
      });
    return this.#ask(
      send,
      ({ answers, errors, open }) => {
        const count = { released: 0, missing: 0, taken: 0 };
        for (const reply of answers.values()) count[reply] += 1;
        if (count.released >= this.#majority) return 'released';
        const notOurs = count.missing + count.taken;
        if (notOurs > this.#members.length - this.#majority) return count.taken > 0 ? 'taken' : 'missing';
        if (open === 0) throw this.#noMajority(errors, request.keys, true);
        return undefined;
      },
      [...releases.keys()],
    );
  }

  async releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]> {
    return [await this.release(release), await this.acquire(acquire)];
  }

  async abandon(request: ReleaseRequest, untilMs: number): Promise<void> {
    const round = this.#rounds.get(request.token);
    for (const member of this.#members) if (!round?.awaits(member)) member.free(request, untilMs);
    round?.end(new Map());
  }

  /** What a majority says: held where so many hold it, for as long as so many will, under the last fence that so many know. */
  async inspect(key: string, commandTimeoutMs: number): Promise<LockState> {
    const states = await this.#ask(
      ({ node }) => node.inspect(key, commandTimeoutMs),
      ({ answers, errors, open }) => {
        if (open > 0) return undefined;
        const all = [...answers.values()];
        const locked = all.filter((state) => state.locked).length;
        const isFree = all.length - locked > this.#members.length - this.#majority;
        if (locked < this.#majority && !isFree) throw this.#noMajority(errors, key);
        return all;
      },
    );
    const locked = states.filter((state) => state.locked).sort((a, b) => b.remaining - a.remaining);
    const fences = states.map((state) => state.fence).sort((a, b) => b - a);
    const fence = fences[states.length < this.#members.length ? 0 : this.#majority - 1]!;
    const last = locked[this.#majority - 1];
    if (last !== undefined) return { ...last, fence };
    return { locked: false, owner: null, remaining: 0, waiters: 0, fence, mode: null };
  }

  join(): void {
    this.#scopes += 1;
    for (const { node } of this.#members) node.join();
  }

  async leave(): Promise<void> {
    this.#scopes -= 1;
    if (this.#rounds.size > 0) {
      await new Promise<void>((resolve) => {
        const before = this.#onIdle;
        this.#onIdle = () => {
          this.#onIdle = undefined;
          before?.();
          resolve();
        };
      });
    }
    if (this.#scopes === 0) for (const member of this.#members) member.rest();
    await Promise.all(this.#members.map(({ node }) => node.leave()));
  }

  /** Asks all who are not known to be silent, in one tick; answers as soon as `decide` can. */
  #ask<T, R>(
    send: (member: Member) => Promise<T>,
    decide: (seen: Seen<T>) => R | undefined,
    members = this.#present(),
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      const seen: Seen<T> = { answers: new Map(), errors: this.#silences(members), open: members.length };
      const look = (): void => {
        seen.open -= 1;
        try {
          const decision = decide(seen);
          if (decision !== undefined) resolve(decision);
        } catch (error) {
          reject(error);
        }
      };
      for (const member of members) {
        send(member).then(
          (answer) => {
            seen.answers.set(member, answer);
            look();
          },
          (error) => {
            member.failed(error);
            seen.errors.push(error);
            look();
          },
        );
      }
    });
  }

  /** Whoever was silent is left alone until it answers again, as long as there is a majority without it. */
  #present(): readonly Member[] {
    const present = this.#members.filter((each) => !each.isSilent);
    return present.length >= this.#majority ? present : this.#members;
  }

  /** Why the others are not asked. */
  #silences(asked: readonly Member[]): LockBackendError[] {
    if (asked.length === this.#members.length) return [];
    return this.#members.filter((each) => !asked.includes(each)).map((each) => each.silence);
  }

  /** One server under two names would have two votes. Looked for again when somebody was met anew. */
  #twins(key: Key): LockBackendError | undefined {
    let meetings = 0;
    for (const member of this.#members) meetings += member.meetings;
    if (meetings !== this.#meetings) {
      this.#meetings = meetings;
      const known = this.#members.filter(({ runId }) => runId !== '');
      this.#twin = known.find(({ runId }, n) => known.findIndex((each) => each.runId === runId) < n);
    }
    if (this.#twin === undefined) return undefined;
    const { name, runId } = this.#twin;
    const other = this.#members.find((each) => each.runId === runId)!;
    const message = `${other.name} and ${name} are the same server (run_id ${runId}): a quorum is of independent ones`;
    return new LockBackendError(message, { key, retryable: false });
  }

  #noMajority(errors: readonly LockBackendError[], key: Key, unknown = false): LockBackendError {
    const lasting = errors.filter((error) => !error.retryable);
    const retryable = lasting.length <= this.#members.length - this.#majority;
    const telling = retryable ? errors : lasting;
    // A word of Redis's says more than silence.
    const cause = telling.find((error) => error.redisCode !== undefined) ?? telling[0];
    const message = `no majority of the quorum could be asked about ${describe(key)} (${errors.length} of ${this.#members.length} failed): ${cause?.message}`;
    return new LockBackendError(message, { key, cause, redisCode: cause?.redisCode, retryable, unknown });
  }
}

function patience(lifetimeMs: number, commandTimeoutMs: number): number {
  return Math.min(commandTimeoutMs, Math.max(leastPatienceMs, Math.floor(lifetimeMs * patienceShare)));
}

function onlyForOne(keys: Key, what: string): LockBackendError {
  const message = `${describe(keys)}: ${what} cannot be had on a quorum, only a lock of one holder; use a single Redis`;
  return new LockBackendError(message, { key: keys, retryable: false });
}
