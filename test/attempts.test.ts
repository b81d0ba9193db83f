// The attempts of one caller over a store that loses requests and replies, by a clock of the test: one token for as long as no release
// for it was sent, and nothing left behind by those that were given up.
import { expect } from 'chai';
import { type SinonStub, stub, useFakeTimers } from 'sinon';
import { Attempts } from '../src/acquire/attempts';
import type { AcquireSpec } from '../src/acquire/spec';
import type { LockBackendError } from '../src/core/errors';
import type { AcquireReply, AcquireRequest, Mode, SynchronousVerbs } from '../src/store/contract';
import type { LateRequest } from '../src/store/late-request';
import { libraryTimers, uncaught } from './contract/outcomes';
import { type LossyStore, lossyStore } from './support/lossy-store';

const lifetimeMs = 1000;
const commandTimeoutMs = 300;
const settings = {
  lifetimeMs,
  commandTimeoutMs,
  fencing: true,
  minReplicas: 0,
  owner: undefined,
  retryTimeoutMs: 10,
  retryRatio: 2,
  maxRetryTimeoutMs: undefined,
  jitter: 0,
  signal: undefined,
};
const mode: Mode = { kind: 'exclusive', prefer: 'fair', group: '', permits: 1, total: 0, step: 0 };
const queueAs = { channel: '-', id: '1', ticket: 0 };

describe('the attempts of one caller', () => {
  let timers: ReturnType<typeof useFakeTimers>;
  let openTimers: () => number;
  let store: LossyStore;
  let caller: {
    isSettled: boolean;
    onReply(reply: AcquireReply, token: string): void;
    onFailure(error: unknown): void;
    giveUp(error: unknown): void;
  };
  let replies: { reply: AcquireReply; token: string }[];
  let failures: LockBackendError[];

  beforeEach(() => {
    timers = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
    timers.tick(1000);
    openTimers = libraryTimers();
    store = lossyStore();
    [replies, failures] = [[], []];
    caller = {
      isSettled: false,
      onReply: (reply, token) => void replies.push({ reply, token }),
      onFailure: (error) => void failures.push(error as LockBackendError),
      giveUp: (error) => void failures.push(error as LockBackendError),
    };
  });

  afterEach(() => timers.restore());

  function attempts(more: Partial<Omit<AcquireSpec, 'settings'>> & { settings?: object } = {}): Attempts {
    const all = { ...settings, ...more.settings };
    const target = { key: 'k', keys: 'full:k', store, mode: undefined, change: undefined, ...more, settings: all };
    return new Attempts(target as AcquireSpec, caller);
  }
  const answered = (): Promise<unknown> => timers.tickAsync(0);
  const grants = (): { fence: number; token: string }[] =>
    replies.map(({ reply, token }) => ({ fence: reply.granted ? reply.fence : 0, token }));
  const isHeld = async (): Promise<boolean> => (await store.inspect('full:k', 1000)).locked;

  it('ask for what is wanted, by the terms of the caller', async () => {
    const slots = { everyMs: 1000, offsetMs: 0 };
    const once = { slots, onSlot() {} };
    const one = attempts({ mode, fences: 7, once: once as never, settings: { owner: 'me' } });
    store.fates.acquire.push('refused');
    one.make(undefined, undefined);
    await answered();
    const [{ begin, token, ...request }] = store.acquires as [AcquireRequest];
    const terms = {
      keys: 'full:k',
      lifetimeMs,
      fences: 7,
      minReplicas: 0,
      commandTimeoutMs,
      mode,
      slots,
    };
    expect(request).to.deep.equal(terms);
    expect(token).to.match(/^me_/);
    expect([begin(), one.count]).to.deep.equal([true, 1]);
    attempts({ fences: 7, settings: { fencing: false } }).make(undefined, undefined);
    expect(store.acquires[1]!.fences).to.equal(0);
    caller.isSettled = true;
    expect(begin()).to.equal(false);
  });

  it('H2: a reply was lost: the next attempt has the same token, and finds the same grant', async () => {
    store.fates.acquire.push('reply lost', 'held');
    const one = attempts();
    one.make(undefined, undefined);
    await answered();
    expect(failures[0]).to.include({ unknown: true, key: 'k' });
    expect(one.late?.untilMs).to.equal(performance.now() + commandTimeoutMs);
    expect(await isHeld()).to.equal(true);
    await timers.tickAsync(10);
    one.make(undefined, undefined);
    store.reply();
    await answered();
    store.reply();
    await answered();
    expect(store.acquires[1]!.token).to.equal(store.acquires[0]!.token);
    const { fence } = await store.inspect('full:k', 1000);
    expect(grants()).to.deep.equal([{ fence, token: store.acquires[0]!.token }]);
    expect(one.count).to.equal(2);
  });

  it('a refusal, or an error of another kind, leaves nothing that may execute', async () => {
    store.fates.acquire.push('refused');
    const one = attempts();
    one.make(undefined, undefined);
    await answered();
    const foreign = Object.assign(new Error('foreign'), { unknown: true });
    store.acquire = () => Promise.reject(foreign);
    one.make(undefined, undefined);
    await answered();
    expect(failures.map(({ message }) => message)).to.deep.equal(['refused', 'foreign']);
    expect(one.late).to.equal(undefined);
  });

  it('an exception of the store, or in the handler of a reply, is a failure that may execute all the same', async () => {
    const fault = new TypeError('a fault of ours');
    const acquire = store.acquire.bind(store);
    store.acquire = () => {
      throw fault;
    };
    const one = attempts();
    one.make(undefined, undefined);
    expect([failures, one.late?.untilMs]).to.deep.equal([[fault], performance.now() + commandTimeoutMs]);
    store.acquire = acquire;
    caller.onReply = () => {
      throw fault;
    };
    const other = attempts();
    other.make(undefined, undefined);
    await answered();
    expect([failures, other.late?.untilMs]).to.deep.equal([[fault, fault], performance.now() + commandTimeoutMs]);
  });

  it('where there was none, there is nothing to abandon', () => {
    attempts().abandon();
    expect([store.abandoned, failures]).to.deep.equal([[], []]);
  });

  it('once the token is dropped, the next attempt has another', async () => {
    store.fates.acquire.push('refused', 'refused', 'refused');
    const one = attempts();
    for (let n = 0; n < 3; n += 1) {
      if (n === 2) one.drop();
      one.make(undefined, undefined);
      await answered();
    }
    const [first, second, third] = store.acquires.map(({ token }) => token);
    expect(second).to.equal(first);
    expect(third).to.not.equal(first);
  });

  it('H3: given up while it is under way, it may execute until its timeout; not before it was sent, nor once it is answered', async () => {
    store.fates.acquire.push('not sent', 'held');
    const untilMs = (): number[] => store.abandoned.map((each) => each.untilMs);
    const unsent = attempts();
    unsent.drop();
    unsent.make(undefined, undefined);
    unsent.drop();
    expect(untilMs()).to.deep.equal([]);
    const sent = attempts();
    sent.make(undefined, undefined);
    await answered();
    await timers.tickAsync(100);
    sent.drop();
    const sentUntilMs = performance.now() + commandTimeoutMs;
    expect(untilMs()).to.deep.equal([sentUntilMs]);
    const done = attempts();
    done.make(undefined, undefined);
    await answered();
    done.drop();
    expect(untilMs()).to.deep.equal([sentUntilMs]);
    // Sent by the attempt before: that says nothing of this one. A failure ends it as a reply does.
    store.fates.acquire.push('refused', 'not sent');
    done.make(undefined, undefined);
    await answered();
    done.drop();
    done.make(undefined, undefined);
    done.drop();
    expect(untilMs()).to.deep.equal([sentUntilMs]);
    // Its timeout counts from the failure, whenever it is given up.
    store.fates.acquire.push('reply lost');
    const lost = attempts();
    lost.make(undefined, undefined);
    await answered();
    const lostUntilMs = performance.now() + commandTimeoutMs;
    await timers.tickAsync(100);
    lost.drop();
    expect(untilMs()).to.deep.equal([sentUntilMs, lostUntilMs]);
  });

  it('H2: abandoned, its token is released until it can no longer execute, and never used again', async () => {
    store.fates.acquire.push('reply lost');
    const one = attempts();
    one.make(undefined, undefined);
    await answered();
    const untilMs = one.late?.untilMs;
    one.abandon();
    await answered();
    const [{ token }] = store.acquires as [AcquireRequest];
    expect(store.abandoned).to.deep.equal([{ request: { keys: 'full:k', token, commandTimeoutMs }, untilMs }]);
    expect([await isHeld(), one.late]).to.deep.equal([false, undefined]);
    one.make(undefined, undefined);
    await answered();
    expect(store.acquires[1]!.token).to.not.equal(token);
    expect(replies[0]!.token).to.equal(store.acquires[1]!.token);
  });

  it('H3, H20: granted after it was given up: released, whatever becomes of that; not if it was busy', async () => {
    const { rejections } = await uncaught(async () => {
      for (const fate of [undefined, 'refused'] as const) {
        store.fates.acquire.push('held');
        if (fate) store.fates.release.push(fate);
        const one = attempts();
        one.make(undefined, undefined);
        await answered();
        caller.isSettled = true;
        store.reply();
        await answered();
        caller.isSettled = false;
      }
    });
    expect(rejections).to.deep.equal([]);
    const { token } = store.acquires[1]!;
    expect(store.releases).to.have.lengthOf(2);
    expect(store.releases[1]).to.deep.equal({ keys: 'full:k', token, commandTimeoutMs });
    // The second one's release was refused: the key is busy for a third.
    store.fates.acquire.push('held');
    attempts().make(undefined, undefined);
    await answered();
    caller.isSettled = true;
    store.reply();
    await answered();
    expect([store.releases.length, replies.length]).to.deep.equal([2, 0]);
  });

  it('a caller that is settled hears of no failure', async () => {
    store.fates.acquire.push('reply lost');
    const one = attempts();
    one.make(undefined, undefined);
    caller.isSettled = true;
    await answered();
    expect([failures.length, one.late]).to.deep.equal([0, undefined]);
  });

  it('what several may hold is released with its mode, and with its ticket in the queue as far as that is known', async () => {
    const other = attempts({ mode });
    other.make(undefined, undefined);
    await answered();
    const one = attempts({ mode });
    one.make(queueAs, undefined);
    await answered();
    const { reply } = replies[1]!;
    const ticket = reply.granted ? 0 : reply.position!.ticket;
    expect(ticket).to.be.greaterThan(0);
    // Busy without a position says nothing new.
    store.acquire = async (request) => {
      store.acquires.push(request);
      return { granted: false, leftMs: 1 };
    };
    one.make(queueAs, undefined);
    await answered();
    const { token } = store.acquires[1]!;
    one.abandon();
    const held = { mode };
    const expected = { keys: 'full:k', token, commandTimeoutMs, ticket, held };
    expect(store.abandoned[0]!.request).to.deep.equal(expected);
    for (const each of [one, attempts({ mode })]) {
      each.make(undefined, undefined);
      await answered();
      each.abandon();
      expect(store.abandoned.at(-1)!.request).to.include({ ticket: -1 });
    }
  });

  it('a change in place keeps its token: given up, it is reverted, and nothing is released', async () => {
    const reverted: [AcquireRequest, LateRequest | undefined][] = [];
    const change = {
      token: 'kept',
      revert: (...each: [AcquireRequest, LateRequest | undefined]) => void reverted.push(each),
    };
    store.fates.acquire.push('reply lost', 'held');
    const one = attempts({ mode, change: change as never });
    one.make(queueAs, undefined);
    await answered();
    const untilMs = one.late?.untilMs;
    one.abandon();
    expect(reverted).to.have.lengthOf(1);
    expect([reverted[0]![0].token, reverted[0]![1]?.untilMs]).to.deep.equal(['kept', untilMs]);
    one.make(queueAs, undefined);
    await answered();
    caller.isSettled = true;
    store.reply();
    await answered();
    expect([store.abandoned.length, store.releases.length]).to.deep.equal([0, 0]);
    expect(store.acquires[1]!.token).to.equal('kept');
  });

  it('how it is queued, and its pause, go with the request', async () => {
    const one = attempts();
    one.make(undefined, undefined);
    await answered();
    expect(store.acquires[0]).to.not.have.any.keys('queueAs', 'pauseMs');
    one.make(undefined, 25);
    expect(store.acquires[1]).to.include({ queueAs: undefined, pauseMs: 25 });
    one.make(queueAs, undefined);
    expect(store.acquires[2]!.queueAs).to.equal(queueAs);
    expect(store.acquires[2]).to.include({ pauseMs: undefined, token: store.acquires[0]!.token });
  });

  describe('on a quorum', () => {
    beforeEach(() => {
      store = lossyStore({ isQuorum: true });
    });

    it('H62: each has a token of its own, and one entry in the queues, which is released with the last', async () => {
      store.fates.acquire.push('refused', 'refused', 'refused', 'refused');
      const one = attempts({ mode });
      one.make(queueAs, undefined);
      one.make(queueAs, undefined);
      await answered();
      const [first, second] = store.acquires as [AcquireRequest, AcquireRequest];
      expect(first.token).to.not.equal(second.token);
      expect(first.queueAs!.token).to.be.a('string').and.equal(second.queueAs!.token);
      expect(first.queueAs).to.include(queueAs);
      expect([first.token, second.token]).to.not.include(first.queueAs!.token);
      one.abandon();
      const abandoned = (): string[] => store.abandoned.map(({ request }) => request.token);
      expect(abandoned()).to.deep.equal([second.token, first.queueAs!.token]);
      one.make(undefined, undefined);
      one.abandon();
      expect(abandoned().slice(2)).to.deep.equal([store.acquires[2]!.token]);
      one.make(queueAs, undefined);
      expect(store.acquires[3]!.queueAs!.token).to.not.equal(first.queueAs!.token);
    });

    it('a change in place is queued as what it is', async () => {
      store.fates.acquire.push('refused');
      attempts({ mode, change: { token: 'kept', revert() {} } as never }).make(queueAs, undefined);
      expect(store.acquires[0]!.queueAs).to.equal(queueAs);
    });

    it('H62: its pauses are random, so that two whose votes were split do not meet again', () => {
      const random: SinonStub = stub(Math, 'random').returns(0.25);
      try {
        expect(attempts().nextPauseMs()).to.equal(2.5);
        store = lossyStore();
        expect(attempts().nextPauseMs()).to.equal(10);
      } finally {
        random.restore();
      }
    });
  });

  it('a pause is the same until it is made, and then the next one; ended, nothing follows', async () => {
    const one = attempts();
    const made: number[] = [];
    expect([one.nextPauseMs(), one.nextPauseMs(), one.isPausing]).to.deep.equal([10, 10, false]);
    one.pause(one.nextPauseMs(), () => void made.push(performance.now()));
    const startMs = performance.now();
    expect([one.isPausing, one.nextPauseMs()]).to.deep.equal([true, 20]);
    await timers.tickAsync(9);
    expect(made).to.deep.equal([]);
    await timers.tickAsync(1);
    expect(made).to.deep.equal([startMs + 10]);
    expect(one.isPausing).to.equal(false);
    one.pause(20, () => void made.push(0));
    one.endPause();
    expect(one.isPausing).to.equal(false);
    await timers.tickAsync(30);
    expect(made).to.have.lengthOf(1);
    expect(openTimers()).to.equal(0);
  });

  it('a job that runs once a slot hears which slot it is, and whether it is done', async () => {
    const told: [object, boolean][] = [];
    const once = { slots: {} as never, onSlot: (...each: [object, boolean]) => void told.push(each) };
    const slot = { startMs: 1 } as never;
    const said: AcquireReply[] = [
      { granted: false, leftMs: 1 },
      { granted: false, leftMs: 1, slot, isDone: true },
      { granted: false, leftMs: 1, slot },
      { granted: true, fence: 1, sent: { monoMs: 0, wallMs: 0 }, slot, isDone: true } as never,
    ];
    store.acquire = async () => said.shift()!;
    const one = attempts({ once });
    for (let n = 0; n < 4; n++) {
      one.make(undefined, undefined);
      await answered();
    }
    expect(told).to.deep.equal([
      [slot, true],
      [slot, false],
      [slot, false],
    ]);
    expect(replies).to.have.lengthOf(4);
    said.push({ granted: false, leftMs: 1, slot });
    attempts().make(undefined, undefined);
    await answered();
    expect(replies).to.have.lengthOf(5);
  });

  describe('where the answer is known at once', () => {
    const now = { granted: true, fence: 5, sent: { monoMs: 0, wallMs: 0 } } as AcquireReply;

    it('it is heard at once, an error too', () => {
      store = lossyStore({ synchronous: { acquire: () => now } as unknown as SynchronousVerbs });
      attempts().make(undefined, undefined);
      expect(replies[0]!.reply).to.equal(now);
      expect(replies[0]!.token).to.be.a('string').that.has.length.above(10);
      const error = new Error('no room');
      store = lossyStore({
        synchronous: {
          acquire() {
            throw error;
          },
        } as unknown as SynchronousVerbs,
      });
      attempts().make(undefined, undefined);
      expect(failures).to.deep.equal([error]);
      expect([replies.length, store.acquires.length]).to.deep.equal([1, 0]);
    });

    it('not where the caller has a signal, by which it may give up before the end of the turn', async () => {
      store = lossyStore({ synchronous: { acquire: () => now } as unknown as SynchronousVerbs });
      attempts({ settings: { signal: new AbortController().signal } }).make(undefined, undefined);
      expect([replies.length, store.acquires.length]).to.deep.equal([0, 1]);
      await answered();
      expect(replies).to.have.lengthOf(1);
    });
  });
});
