// The queue of one process, by itself: its store, its clock and its timers are the test's. Which requests it makes and when, whom it grants
// the lock, and what it leaves behind. That it works with others of its kind is for the simulation.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { LockBackendError } from '../src/core/errors';
import { fencesAtFirst, fencesInBlock, handOffsAlone, handOffsAmongOthers } from '../src/queue/policy';
import { OwnEntry, Position, Queue, type QueuePort, type Waiter, type WaitTerms } from '../src/queue/queue';
import type { AcquireReply, Grant, GrantSource, Holder, Moment, ReleaseReply } from '../src/store/contract';
import { Answer } from './support/answer';

const commandTimeoutMs = 300;
const lifetimeMs = 9000;
/** The time for which a grant by message is provisional. */
const provisionalMs = 2000;
/** The wake-up of an entry that may have missed a message. */
const afterGap = { nonce: undefined, fence: undefined };

interface Request {
  readonly entry: OwnEntry;
  /** The nonce at the time of sending. */
  readonly nonce: string;
  readonly fences: number;
  readonly ticket: number;
  readonly commandTimeoutMs: number;
  readonly answer: Answer<AcquireReply>;
  readonly sent: Moment;
}

/** The surroundings of a queue: they note everything, and answer when the test says so. */
class Surroundings implements QueuePort {
  readonly clock = this;
  monoMs = 1000;
  wallClockMs = 1_000_000;
  minPollMs = 0;
  /** The random share of a pause. */
  share = 1;
  readonly requests: Request[] = [];
  readonly releases: { held: Holder; answer: Answer<ReleaseReply> }[] = [];
  /** Releases with a request behind them. */
  readonly swaps: { token: string; waiter: Waiter }[] = [];
  readonly abandoned: { token: string; untilMs: number; commandTimeoutMs: number }[] = [];
  readonly grants: OwnEntry[] = [];
  empties = 0;
  #timer: { work: () => void; ms: number } | undefined;
  #count = 0;

  nowMs(): number {
    return this.monoMs;
  }

  wallMs(): number {
    return this.wallClockMs;
  }

  /** The moment on both clocks. */
  now(): Moment {
    return { monoMs: this.monoMs, wallMs: this.wallClockMs };
  }

  random(): number {
    return this.share;
  }

  setTimer(work: () => void, ms: number): object {
    if (this.#timer !== undefined) throw new Error('a queue has one timer');
    this.#timer = { work, ms };
    return this.#timer;
  }

  clearTimer(timer: unknown): void {
    if (timer === undefined) throw new Error('there is no timer to clear');
    if (timer === this.#timer) this.#timer = undefined;
  }

  /** The delay of the timer; undefined if there is none. */
  get timerMs(): number | undefined {
    return this.#timer?.ms;
  }

  fireTimer(): void {
    const { work, ms } = this.#timer!;
    this.#timer = undefined;
    this.pass(ms);
    work();
  }

  pass(ms: number): void {
    this.monoMs += ms;
    this.wallClockMs += ms;
  }

  newEntry(queue: Queue): OwnEntry {
    this.#count += 1;
    return new OwnEntry(queue, `${queue.terms.owner}${this.#count}`, `id${this.#count}`);
  }

  newNonce(): string {
    this.#count += 1;
    return `nonce${this.#count}`;
  }

  request(entry: OwnEntry): Promise<AcquireReply> {
    const { nonce, fences, ticket, head } = entry;
    const timeoutMs = head!.commandTimeoutMs;
    const answer = new Answer<AcquireReply>();
    this.requests.push({ entry, nonce, fences, ticket, commandTimeoutMs: timeoutMs, answer, sent: this.now() });
    return answer.promise;
  }

  release(held: Holder): Promise<ReleaseReply> {
    const answer = new Answer<ReleaseReply>();
    this.releases.push({ held, answer });
    return answer.promise;
  }

  releaseAndRequest(held: Holder, entry: OwnEntry): Promise<[ReleaseReply, AcquireReply]> {
    this.swaps.push({ token: held.token, waiter: entry.head! });
    return this.request(entry).then((next) => ['released', next]);
  }

  granted(entry: OwnEntry): void {
    this.grants.push(entry);
  }

  abandon({ token, late, head }: OwnEntry): void {
    this.abandoned.push({ token, untilMs: late?.untilMs ?? 0, commandTimeoutMs: head!.commandTimeoutMs });
  }

  empty(): void {
    this.empties += 1;
  }
}

/** A caller that waits, and then holds the lock until it is released. */
class Caller implements Waiter, Holder {
  readonly commandTimeoutMs: number;
  retryTimeoutMs = 10;
  grant: Grant | undefined;
  source: GrantSource | undefined;
  readonly failures: LockBackendError[] = [];
  readonly troubles: (string | undefined)[] = [];
  isConfirmed = true;
  /** How often the queue asked for the confirmation of the grant. */
  asked = 0;
  msLeft = 400;
  whenGranted: (() => void) | undefined;

  constructor(timeoutMs = commandTimeoutMs) {
    this.commandTimeoutMs = timeoutMs;
  }

  granted(grant: Grant, source?: GrantSource): Holder {
    expect(this.grant, 'granted once').to.equal(undefined);
    this.grant = grant;
    this.source = source;
    this.whenGranted?.();
    return this;
  }

  failed(error: LockBackendError): void {
    this.failures.push(error);
  }

  troubled(error: LockBackendError | undefined): void {
    this.troubles.push(error?.message);
  }

  get token(): string {
    return this.grant!.token;
  }

  get fence(): number {
    return this.grant!.fence;
  }

  leftMs(): number {
    return this.msLeft;
  }

  confirmed(): Moment | undefined {
    return this.isConfirmed ? this.grant!.sent : undefined;
  }

  confirmNow(): void {
    this.asked += 1;
  }

  releaseRequest(): never {
    throw new Error('it is for the store');
  }
}

describe('the queue of one process', () => {
  let port: Surroundings;
  let queue: Queue;

  beforeEach(() => build());

  function build(key: Partial<WaitTerms> = {}): void {
    port = new Surroundings();
    queue = new Queue({ key: 'k', lifetimeMs, fencing: true, owner: 'me', ...key }, port);
  }

  const last = (): Request => port.requests.at(-1)!;
  /** The last request is granted the lock. */
  const grant = (fence: number, others?: number): void => {
    const { answer, sent } = last();
    answer.resolve({ granted: true, fence, sent, ...(others !== undefined && { others }) });
  };
  const busy = (leftMs = 5000, position?: { ticket: number; before: number; outside: boolean }): void => {
    const { answer, sent } = last();
    answer.resolve({ granted: false, leftMs, position, sent });
  };
  const fail = (more: { unknown?: boolean; retryable?: boolean } = { unknown: true }): LockBackendError => {
    const error = new LockBackendError('silence', more);
    last().answer.reject(error);
    return error;
  };
  const joined = (count: number): Caller[] => Array.from({ length: count }, () => joinedBy(new Caller()).caller);
  const joinedBy = (caller: Caller): { caller: Caller; position: Position } => {
    const position = new Position(queue, caller);
    position.begin();
    return { caller, position };
  };
  /** Releases, as the source of the grant has it: the answer, or 'asked' where Redis has to be. */
  const release = (caller: Caller): ReleaseReply | 'asked' => {
    const reply = queue.release(caller);
    return typeof reply === 'string' ? reply : 'asked';
  };
  /** A message that the last request's entry was granted. */
  const message = (fence: number | undefined, { entry, nonce } = last()): boolean =>
    queue.wake(entry.id, { nonce, fence });

  describe('requests', () => {
    it('once for all that join, with a token of its owner, and grants the first of them', () => {
      const [first, second] = [joinedBy(new Caller(100)), joinedBy(new Caller(200))];
      expect([first.position.hasWaited, second.position.hasWaited]).to.deep.equal([false, true]);
      expect(port.requests).to.have.lengthOf(1);
      const { entry, commandTimeoutMs: timeoutMs, sent } = last();
      expect([entry.token, timeoutMs, port.timerMs]).to.deep.equal(['me1', 100, undefined]);
      port.pass(10);
      grant(7);
      const { source } = first.caller;
      expect(first.caller.grant).to.deep.equal({ token: 'me1', fence: 7, sent, late: undefined });
      expect([source, second.caller.grant, port.grants]).to.deep.equal([queue, undefined, [entry]]);
      expect([first.position.hasWaited, first.position.queue]).to.deep.equal([false, queue]);
    });

    it('again when the holder’s time is over, or after a second: with the same token, another nonce, and its ticket', () => {
      const { position } = joinedBy(new Caller());
      const first = last();
      busy(400, { ticket: 55, before: 0, outside: false });
      expect([position.hasWaited, port.timerMs]).to.deep.equal([true, 401]);
      port.fireTimer();
      const second = last();
      expect([second.entry, second.ticket, second.fences]).to.deep.equal([first.entry, 55, first.fences]);
      expect(second.nonce).to.not.equal(first.nonce);
      // Without a position its ticket is what it was.
      busy(-1);
      expect(port.timerMs).to.equal(1000);
      port.fireTimer();
      expect(last().ticket).to.equal(55);
      // While a request is on its way nobody makes another, nor is there a timer.
      expect([port.requests.length, port.timerMs]).to.deep.equal([3, undefined]);
    });

    it('at once where the holder’s time was over before the answer came', () => {
      joined(1);
      port.pass(50);
      busy(40);
      expect(port.timerMs).to.equal(0);
    });

    it('at rest no more often than its port allows', () => {
      port.minPollMs = 3000;
      joined(1);
      busy(60_000);
      expect(port.timerMs).to.equal(3000);
    });

    it('as often as its last request announced, also if thousands wait since: its entry would expire', () => {
      joined(1);
      port.minPollMs = 8000;
      busy(60_000);
      expect(port.timerMs).to.equal(1000);
      port.fireTimer();
      busy(60_000);
      expect(port.timerMs).to.equal(8000);
    });

    it('H28: at random moments: those that were refused together do not ask together', () => {
      const pauseAt = (share: number, minPollMs = 0): number | undefined => {
        build();
        Object.assign(port, { share, minPollMs });
        joined(1);
        busy(60_000);
        return port.timerMs;
      };
      expect([0, 0.5, 1].map((share) => pauseAt(share))).to.deep.equal([800, 900, 1000]);
      expect([0, 1].map((share) => pauseAt(share, 4000))).to.deep.equal([3600, 4000]);
    });

    it('after the pause of its first waiter where the holder wakes no queue', () => {
      joined(1);
      busy(5000, { ticket: 1, before: 0, outside: true });
      expect(port.timerMs).to.equal(10);
    });

    it('for those that join while one of its own holds the lock: when that one’s time is over', () => {
      const [holder] = joined(1) as [Caller];
      grant(1);
      expect(port.timerMs).to.equal(undefined);
      const { position } = joinedBy(new Caller());
      expect([position.hasWaited, port.timerMs, port.requests.length]).to.deep.equal([true, 401, 1]);
      holder.msLeft = 10;
      joined(1);
      expect(port.timerMs, 'the timer is set').to.equal(401);
      port.fireTimer();
      expect(last().entry.token).to.not.equal(holder.token);
    });

    it('for those that are left after a grant: when that one’s time is over', () => {
      joined(2);
      grant(1);
      expect([port.timerMs, port.requests.length]).to.deep.equal([401, 1]);
    });

    it('the confirmation of its holder at once where one of its own waits, who could not be handed the lock before that', () => {
      const [alone] = joined(1) as [Caller];
      grant(1);
      expect(alone.asked).to.equal(0);
      joined(2);
      expect(alone.asked).to.equal(1);
      build();
      const [first] = joined(2) as [Caller];
      grant(1);
      expect(first.asked).to.equal(1);
    });
  });

  describe('a waiter that leaves', () => {
    it('is granted nothing; others of its queue wait on', () => {
      const [first, second] = [joinedBy(new Caller()), joinedBy(new Caller())];
      queue.leave(first.position);
      queue.leave(first.position);
      expect([port.abandoned, port.empties]).to.deep.equal([[], 0]);
      grant(1);
      expect([first.caller.grant, second.caller.grant?.fence]).to.deep.equal([undefined, 1]);
    });

    it('H3: the last one, while a request is on its way: that may execute until its timeout, and its grant is nobody’s', () => {
      const { caller, position } = joinedBy(new Caller(700));
      const { entry } = last();
      port.pass(20);
      queue.leave(position);
      expect(port.abandoned).to.deep.equal([{ token: 'me1', untilMs: port.monoMs + 700, commandTimeoutMs: 700 }]);
      expect(port.empties).to.equal(1);
      // The next entry is another one, which hears nothing of the old one's answer.
      const next = joinedBy(new Caller());
      expect([next.position.hasWaited, last().entry.token === entry.token]).to.deep.equal([false, false]);
      port.requests[0]!.answer.resolve({ granted: true, fence: 1, sent: port.requests[0]!.sent });
      expect([caller.grant, next.caller.grant, port.grants]).to.deep.equal([undefined, undefined, []]);
      queue.leave(next.position);
      const third = joinedBy(new Caller()).caller;
      port.requests[1]!.answer.reject(new LockBackendError('silence', { unknown: true }));
      expect([third.troubles, port.timerMs, port.abandoned.length]).to.deep.equal([[], undefined, 2]);
      grant(2);
      expect(third.grant?.fence).to.equal(2);
    });

    it('H3: the last one, with a shorter timeout than the request on its way has: that may execute until its own', () => {
      const [first, second] = [joinedBy(new Caller(700)), joinedBy(new Caller(40))];
      queue.leave(first.position);
      port.pass(20);
      queue.leave(second.position);
      expect(port.abandoned).to.deep.equal([{ token: 'me1', untilMs: port.monoMs + 700, commandTimeoutMs: 700 }]);
    });

    it('H3, H29: the last one, between requests: its entry is abandoned, and nothing of it may still execute', () => {
      const { position } = joinedBy(new Caller(700));
      busy();
      queue.leave(position);
      expect(port.abandoned).to.deep.equal([{ token: 'me1', untilMs: 0, commandTimeoutMs: 700 }]);
      expect([port.timerMs, port.empties]).to.deep.equal([undefined, 1]);
    });

    it('the last one, while one of its queue holds the lock: nothing was requested for it, and the queue stays', () => {
      joined(1);
      grant(1);
      const { position } = joinedBy(new Caller());
      queue.leave(position);
      expect([port.abandoned, port.timerMs, port.empties]).to.deep.equal([[], undefined, 0]);
    });
  });

  describe('a message', () => {
    const waiting = (): Caller => {
      const [caller] = joined(1) as [Caller];
      port.pass(30);
      busy();
      return caller;
    };

    it('of a grant makes its waiter the holder, since the request that it names, for a provisional time', () => {
      const caller = waiting();
      const { entry, sent } = last();
      port.pass(100);
      expect(message(5)).to.equal(true);
      expect(caller.grant).to.deep.equal({ token: 'me1', fence: 5, sent, late: undefined, provisionalMs });
      expect([caller.source, port.grants, port.timerMs]).to.deep.equal([queue, [entry], undefined]);
      expect(port.requests).to.have.lengthOf(1);
      joined(1);
      port.fireTimer();
      expect(last().entry).to.not.equal(entry);
    });

    it('H83: of an earlier request, or about no grant, or before any answer: only another request says more', () => {
      const caller = waiting();
      const earlier = last();
      port.fireTimer();
      busy();
      expect(message(5, earlier)).to.equal(true);
      expect([caller.grant, port.requests.length, port.timerMs]).to.deep.equal([undefined, 3, undefined]);
      busy();
      message(undefined);
      expect([caller.grant, port.requests.length]).to.deep.equal([undefined, 4]);
      fail();
      message(5);
      expect([caller.grant, port.requests.length]).to.deep.equal([undefined, 5]);
      busy();
      last().entry.wake(afterGap);
      expect([caller.grant, port.requests.length]).to.deep.equal([undefined, 6]);
    });

    it('H83: counts while half a second, or half of its provisional time, is left by both clocks, and for no longer than the lifetime', () => {
      const grantAfter = (monoMs: number, wallMs = monoMs, lifetime = lifetimeMs): Grant | undefined => {
        build({ lifetimeMs: lifetime });
        const [caller] = joined(1) as [Caller];
        busy();
        port.monoMs += monoMs;
        port.wallClockMs += wallMs;
        message(5);
        expect(port.requests).to.have.lengthOf(caller.grant === undefined ? 2 : 1);
        return caller.grant;
      };
      expect([grantAfter(1501), grantAfter(0, 1501), grantAfter(1501, 0), grantAfter(301, 301, 600)]).to.deep.equal(
        Array(4).fill(undefined),
      );
      expect(grantAfter(1500)?.provisionalMs).to.equal(provisionalMs);
      expect(grantAfter(300, 300, 600)?.provisionalMs).to.equal(600);
    });

    it('H27: while a request is on its way waits for the answer; what that grants needs no message', () => {
      const [caller, next] = joined(2) as [Caller, Caller];
      message(5);
      expect([caller.grant, port.requests.length]).to.deep.equal([undefined, 1]);
      busy();
      expect(caller.grant, 'the request that it names was answered').to.include({ fence: 5 });
      expect(port.timerMs).to.equal(401);
      port.fireTimer();
      message(undefined);
      busy();
      expect([next.grant, port.requests.length], 'it may have been answered before').to.deep.equal([undefined, 3]);
      busy();
      expect([port.requests.length, port.timerMs], 'each message counts once').to.deep.equal([3, 1000]);
    });

    it('for another entry is not for this queue; one that nobody waits for changes nothing', () => {
      waiting();
      expect(queue.wake('other', { nonce: last().nonce, fence: 5 })).to.equal(false);
      expect(port.requests).to.have.lengthOf(1);
      const old = last().entry.id;
      message(5);
      expect(queue.wake(old, afterGap)).to.equal(false);
      expect(port.requests).to.have.lengthOf(1);
    });
  });

  describe('the holder', () => {
    /** The first caller holds the lock; the given number of others wait. */
    const held = (others: number, granted = 7): Caller[] => {
      const callers = joined(1 + others);
      grant(granted);
      return callers;
    };

    it('hands the lock off to the next, without a command: the next fence, the same token and confirmation', () => {
      const [first, second, third] = held(2) as [Caller, Caller, Caller];
      port.pass(100);
      expect(release(first)).to.equal('released');
      const { token, sent } = first.grant!;
      expect(second.grant).to.deep.equal({ token, fence: 8, sent });
      expect([second.source, third.grant]).to.deep.equal([queue, undefined]);
      // The entry before it no longer has a say.
      expect([release(first), third.grant]).to.deep.equal(['asked', undefined]);
      expect(port.releases.map(({ held: of }) => of)).to.deep.equal([first]);
      queue.lost(first);
      expect(port.requests).to.have.lengthOf(1);
      expect(release(second)).to.equal('released');
      expect([third.grant?.fence, port.requests.length, port.swaps.length]).to.deep.equal([9, 1, 0]);
      expect(port.abandoned, 'nothing was ever sent for the entry').to.deep.equal([]);
    });

    it('without fencing no fence rises', () => {
      build({ fencing: false });
      const [first, second] = held(1, 0) as [Caller, Caller];
      release(first);
      expect(second.grant?.fence).to.equal(0);
    });

    it('hands off only while the last confirmation is younger than a third of the lifetime, and there is one', () => {
      for (const [ageMs, isConfirmed, reply] of [
        [lifetimeMs / 3 - 1, true, 'released'],
        [lifetimeMs / 3, true, 'asked'],
        [0, false, 'asked'],
      ] as const) {
        build();
        const [first] = held(1) as [Caller];
        first.isConfirmed = isConfirmed;
        port.pass(ageMs);
        expect(release(first), `${ageMs} ${isConfirmed}`).to.equal(reply);
      }
    });

    /** Hands the lock off from `holder` on, to those that wait and then to others, until Redis is asked. @returns The number of hand-offs. */
    const handOffs = (holder: Caller, waiting: Caller[] = []): { count: number; holder: Caller } => {
      let count = 0;
      let current = holder;
      for (;;) {
        const next = waiting.shift() ?? joined(1)[0]!;
        if (release(current) === 'asked') return { count, holder: next };
        count += 1;
        current = next;
      }
    };

    it('alone hands off as often as it has fences: few at first, many once those were used up', () => {
      const { count, holder } = handOffs(held(0)[0]!);
      expect([last().fences, count]).to.deep.equal([fencesInBlock, fencesAtFirst - 1]);
      const [{ fences }] = port.requests as [Request];
      expect(fences).to.equal(fencesAtFirst);
      grant(100, 0);
      expect(handOffs(holder).count).to.equal(handOffsAlone);
      grant(200, 0);
      // Handed off less often: few again.
      const [next] = [port.swaps.at(-1)!.waiter as Caller];
      release(next);
      joined(1);
      expect(last().fences).to.equal(fencesAtFirst);
    });

    it('among others hands off a few times, whether its grant says so, a busy reply, or a message', () => {
      const { holder } = handOffs(held(0)[0]!);
      grant(100, 1);
      const among = handOffs(holder);
      expect([last().fences, among.count]).to.deep.equal([fencesInBlock, handOffsAmongOthers]);
      grant(200, 0);
      const waiting = joined(1);
      port.fireTimer();
      busy(5000, { ticket: 1, before: 1, outside: false });
      expect(handOffs(among.holder, waiting).count).to.equal(handOffsAmongOthers);
    });

    it('hands off 8 times in a row among others, and 64 times alone, as docs/waiting.md says', () => {
      const words = 'at most 64 hand-offs in a row; at most 8 when another process is queued;';
      const text = readFileSync(join(__dirname, '..', 'docs', 'waiting.md'), 'utf8');
      expect(text, 'the limits of handOffsAlone and handOffsAmongOthers in src/queue/policy.ts').to.include(words);
      expect({ handOffsAlone, handOffsAmongOthers }).to.deep.equal({ handOffsAlone: 64, handOffsAmongOthers: 8 });
    });

    it('by message hands off a few times', () => {
      const [first] = joined(1) as [Caller];
      busy();
      message(5);
      expect(handOffs(first).count).to.equal(handOffsAmongOthers);
      expect(last().fences).to.equal(fencesInBlock);
    });

    it('being alone in Redis’s queue is no reason to hand off less', () => {
      const { holder } = handOffs(held(0)[0]!);
      grant(100, 0);
      const waiting = joined(1);
      port.fireTimer();
      busy(5000, { ticket: 1, before: 0, outside: false });
      expect(handOffs(holder, waiting).count).to.equal(handOffsAlone);
    });

    it('asks Redis for the next in the same command as it releases', async () => {
      const [first, second] = held(1) as [Caller, Caller];
      first.isConfirmed = false;
      const releasing = queue.release(first);
      const [{ token, waiter }] = port.swaps as [(typeof port.swaps)[0]];
      expect([token, waiter, port.timerMs]).to.deep.equal([first.token, second, undefined]);
      grant(9);
      expect(await releasing).to.equal('released');
      expect(second.grant).to.include({ token: last().entry.token, fence: 9 });
      expect([port.releases, port.empties]).to.deep.equal([[], 0]);
    });

    it('a release that fails is its holder’s to hear, and the next waits on', async () => {
      const [first, second] = held(1) as [Caller, Caller];
      first.isConfirmed = false;
      const releasing = Promise.resolve(queue.release(first));
      const error = fail();
      expect(await releasing.catch((reason) => reason)).to.equal(error);
      expect([second.troubles, port.timerMs]).to.deep.equal([['silence'], 10]);
      expect(last().entry.late?.untilMs).to.equal(port.monoMs + commandTimeoutMs);
    });

    it('releases in Redis where nobody of its queue waits, which is empty then', async () => {
      const [first] = held(0) as [Caller];
      const releasing = queue.release(first);
      expect([port.releases.length, port.empties, port.swaps.length]).to.deep.equal([1, 1, 0]);
      port.releases[0]!.answer.resolve('taken');
      expect(await releasing).to.equal('taken');
    });

    it('releases in Redis where a request of its queue is on its way: the next gets it by that', () => {
      const [first, second] = held(1) as [Caller, Caller];
      port.fireTimer();
      first.isConfirmed = false;
      release(first);
      expect([port.releases.length, port.swaps.length, port.requests.length]).to.deep.equal([1, 0, 2]);
      busy(-1);
      expect([second.grant, port.empties]).to.deep.equal([undefined, 0]);
    });

    it('a release of what this queue does not hold leaves the queue as it is', () => {
      held(0);
      const stranger = new Caller();
      stranger.granted({ token: 'x', fence: 1, sent: port.now() });
      release(stranger);
      expect([port.releases.length, port.empties]).to.deep.equal([1, 0]);
    });

    it('that hands off to the last waiter leaves no entry behind: one that is on its way is abandoned with its answer', () => {
      const [first, second] = held(1) as [Caller, Caller];
      port.fireTimer();
      const { entry } = last();
      expect(release(first)).to.equal('released');
      expect([second.grant?.fence, port.abandoned]).to.deep.equal([8, []]);
      busy();
      expect(port.abandoned).to.deep.equal([{ token: entry.token, untilMs: 0, commandTimeoutMs }]);
      expect([second.troubles, port.timerMs, port.empties]).to.deep.equal([[], undefined, 0]);
      // The same, of a request that fails: it may have been executed.
      joined(1);
      port.fireTimer();
      release(second);
      fail();
      expect(port.abandoned[1]).to.include({ untilMs: port.monoMs + commandTimeoutMs });
      expect(port.timerMs).to.equal(undefined);
    });

    it('that hands off to the last waiter, whose entry is queued: that is abandoned at once', () => {
      const [first] = held(0) as [Caller];
      joinedBy(new Caller(777));
      port.fireTimer();
      busy();
      const { entry } = last();
      release(first);
      expect(port.abandoned).to.deep.equal([{ token: entry.token, untilMs: 0, commandTimeoutMs: 777 }]);
      expect(port.timerMs).to.equal(undefined);
    });

    it('that hands off while others wait behind: their entry, and its next request, stay as they are', () => {
      const [first] = held(0) as [Caller];
      const waiting = joined(fencesAtFirst + 1);
      port.fireTimer();
      busy(-1, { ticket: 4, before: 0, outside: false });
      const { entry, fences } = last();
      let current = first;
      while (release(current) === 'released') current = waiting.shift()!;
      expect([waiting.length, port.abandoned]).to.deep.equal([2, []]);
      expect([last().entry, last().ticket, last().fences]).to.deep.equal([entry, 4, fences]);
    });

    it('that has lost the lock makes way: the next requests at once, unless that is under way', () => {
      const [first] = held(0) as [Caller];
      queue.lost(first);
      expect([port.empties, port.requests.length]).to.deep.equal([1, 1]);
      build();
      const [second] = held(1) as [Caller];
      queue.lost(second);
      expect([port.requests.length, port.timerMs, port.empties]).to.deep.equal([2, undefined, 0]);
      build();
      const [third] = held(1) as [Caller];
      port.fireTimer();
      queue.lost(third);
      expect([port.requests.length, port.empties]).to.deep.equal([2, 0]);
    });

    it('whose time is over has lost it to the next, and notices that only while the next one is called', () => {
      const [first, second] = held(2) as [Caller, Caller, Caller];
      port.fireTimer();
      second.whenGranted = () => queue.lost(first);
      grant(9);
      expect([port.requests.length, port.timerMs, port.empties]).to.deep.equal([2, 401, 0]);
      expect(release(second)).to.equal('released');
    });
  });

  describe('a Redis that cannot be reached', () => {
    it('is every waiter’s to know, and when it can be again; they wait on', () => {
      const [first, second] = joined(2) as [Caller, Caller];
      fail();
      expect([first.troubles, second.troubles]).to.deep.equal([['silence'], ['silence']]);
      expect([port.timerMs, last().entry.late?.untilMs]).to.deep.equal([10, port.monoMs + commandTimeoutMs]);
      port.fireTimer();
      fail();
      expect(first.troubles).to.deep.equal(['silence', 'silence']);
      port.fireTimer();
      busy();
      expect([first.troubles, second.troubles]).to.deep.equal([
        ['silence', 'silence', undefined],
        ['silence', 'silence', undefined],
      ]);
      port.fireTimer();
      busy();
      expect(first.troubles, 'once').to.have.lengthOf(3);
      expect([first.failures, port.abandoned]).to.deep.equal([[], []]);
    });

    it('no pause is shorter than 1 ms; a refused request no longer executes', () => {
      const caller = new Caller();
      caller.retryTimeoutMs = 0;
      joinedBy(caller);
      const error = fail({ retryable: true });
      expect([caller.troubles, port.timerMs, last().entry.late?.untilMs]).to.deep.equal([
        [error.message],
        1,
        undefined,
      ]);
    });

    it('a refusal that is final ends every wait, and nothing is left behind', () => {
      const [first, second] = joined(2) as [Caller, Caller];
      const error = fail({ retryable: false });
      expect([first.failures, second.failures, first.troubles]).to.deep.equal([[error], [error], []]);
      expect(port.abandoned).to.deep.equal([{ token: 'me1', untilMs: 0, commandTimeoutMs }]);
      expect([port.empties, port.timerMs]).to.deep.equal([1, undefined]);
      // While another of its queue holds the lock, that stays its source.
      const [holder] = joined(1) as [Caller];
      grant(1);
      joined(1);
      port.fireTimer();
      fail({ retryable: false });
      expect([port.empties, release(holder)]).to.deep.equal([1, 'asked']);
    });

    it('H63: a grant whose answer took as long as it lasts is released, and requested again', () => {
      const [first, second] = joined(2) as [Caller, Caller];
      const { entry } = last();
      port.pass(lifetimeMs * 0.999);
      grant(5);
      expect([first.grant, second.grant, port.grants]).to.deep.equal([undefined, undefined, [entry]]);
      expect(port.abandoned).to.deep.equal([{ token: entry.token, untilMs: 0, commandTimeoutMs }]);
      const said = 'the grant of "k" took 8991 ms, its lifetime is 9000 ms';
      expect([first.troubles, second.troubles, port.timerMs]).to.deep.equal([[said], [said], 10]);
      first.retryTimeoutMs = 0;
      port.fireTimer();
      expect(last().entry.token).to.not.equal(entry.token);
      port.pass(lifetimeMs);
      grant(6);
      expect(port.timerMs).to.equal(1);
      port.fireTimer();
      port.pass(lifetimeMs * 0.999 - 1);
      grant(7);
      expect(first.grant?.fence).to.equal(7);
      expect(first.troubles.at(-1), 'and it was reached').to.equal(undefined);
    });
  });

  it('H2: what a lost reply had granted is found by the next request, whose token may still be executed for', () => {
    const [caller] = joined(1) as [Caller];
    fail();
    const { late } = last().entry;
    port.fireTimer();
    grant(3);
    expect(caller.grant).to.deep.include({ token: 'me1', fence: 3, late });
    expect(late).to.not.equal(undefined);
  });

  it('H83: granted by message after a lost reply: that token may still be executed for, too', () => {
    const [caller] = joined(1) as [Caller];
    fail();
    port.fireTimer();
    busy();
    message(4);
    expect(caller.grant).to.deep.include({ fence: 4, late: last().entry.late });
    expect(caller.grant!.late).to.not.equal(undefined);
  });
});
