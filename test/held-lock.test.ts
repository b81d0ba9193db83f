// A held lock over a store that loses requests and replies, by a clock of the test: how long it is believed to be ours, when that is
// noticed to be over, and what is sent for it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect } from 'chai';
import { useFakeTimers } from 'sinon';
import { LockBackendError } from '../src/core/errors';
import { excludes, HeldLock, mayJoin } from '../src/hold/held-lock';
import type { Granted, LockSpec } from '../src/hold/kept-lock';
import {
  type ExtendRequest,
  type Mode,
  now,
  type ReleaseReply,
  type Store,
  type SynchronousVerbs,
} from '../src/store/contract';
import { LateRequest } from '../src/store/late-request';
import { libraryTimers } from './contract/outcomes';
import { clock, type LossyStore, lossyStore } from './support/lossy-store';

const lifetimeMs = 3000;
const commandTimeoutMs = 1000;
const trusted = (ms: number): number => ms - ms / 1000;
const mode: Mode = { kind: 'shared', prefer: 'fair', group: '', permits: 1, total: 0, step: 0 };

describe('a held lock', () => {
  let timers: ReturnType<typeof useFakeTimers>;
  let openTimers: () => number;
  let store: LossyStore;
  let ended: HeldLock[];
  let lost: object[];
  let events: { name: string; event: any }[];
  const names = ['extend', 'hold', 'warning', 'lost', 'release'];
  const hear = (event: unknown, name: unknown): void =>
    void events.push({ name: (name as string).replace('redis-exp-lock:', ''), event });
  const hearing = (some: readonly string[]): void => {
    for (const name of some) subscribe(`redis-exp-lock:${name}`, hear);
  };
  const heard = (wanted: string): any[] => events.filter(({ name }) => name === wanted).map(({ event }) => event);

  beforeEach(() => {
    events = [];
    timers = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
    timers.tick(1000);
    openTimers = libraryTimers();
    store = lossyStore();
    [ended, lost] = [[], []];
  });

  afterEach(() => {
    timers.restore();
    for (const name of names) unsubscribe(`redis-exp-lock:${name}`, hear);
  });

  interface Terms {
    readonly settings?: object;
    readonly grant?: Partial<Granted>;
    readonly details?: Partial<Pick<LockSpec, 'key' | 'keys' | 'mode'> & { readonly retries: number }>;
    readonly store?: Partial<Store>;
    readonly source?: undefined;
  }

  /** Granted just now, unless the grant says otherwise. */
  async function acquire(terms: Terms = {}): Promise<HeldLock> {
    const { settings = {}, grant = {}, details = {}, store: more } = terms;
    if (more) Object.assign(store, more);
    const all = {
      lifetimeMs,
      commandTimeoutMs,
      maxHoldMs: Number.POSITIVE_INFINITY,
      retryTimeoutMs: 10,
      prefix: '',
      ...settings,
    };
    const queue = {
      release: (held: HeldLock) => store.release(held.releaseRequest()),
      lost: (held: HeldLock) => void lost.push(held),
    };
    const context = {
      settings: all,
      store,
      source: 'source' in terms ? terms.source : queue,
      kind: undefined,
      onEnd: (held: HeldLock) => void ended.push(held),
    };
    const request = {
      keys: 'k',
      token: 'ours',
      lifetimeMs: all.lifetimeMs,
      fences: 1,
      minReplicas: 0,
      commandTimeoutMs,
    };
    const { mode: how } = details;
    const reply = await store.acquire({ ...request, mode: how, begin: () => true });
    if (!reply.granted) throw new Error('it is busy');
    const whole = { token: 'ours', fence: reply.fence, sent: now(clock), ...grant };
    const spec = { key: 'k', keys: 'k', mode: undefined, ...details };
    return new HeldLock(whole, spec, context as never, details.retries ?? 0);
  }

  const turn = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));
  /** Moves the clock on by `ms`. What is due then has run and been answered. */
  async function pass(ms: number): Promise<void> {
    const untilMs = performance.now() + ms;
    do {
      await timers.tickAsync(Math.min(10, untilMs - performance.now()));
      await turn();
    } while (performance.now() < untilMs);
  }
  /** Lets this process stand still for that time; then what is due runs. */
  async function stall(ms: number): Promise<void> {
    timers.setSystemTime(Date.now() + ms);
    const { now: read } = performance;
    performance.now = () => read.call(performance) + ms;
    await pass(0);
  }
  const inRedis = async (): Promise<number> => {
    const state = await store.inspect('k', 1000);
    return state.locked ? state.remaining! : 0;
  };
  const last = (): ExtendRequest => store.extensions.at(-1)!;
  const rejection = (promise: Promise<unknown>): Promise<any> =>
    promise.then(
      () => expect.fail('resolved'),
      (error) => error,
    );

  describe('an explicit extension', () => {
    it('sets the end from its own sending, sooner or later, and says until when it may be set', async () => {
      const held = await acquire();
      await pass(500);
      const atMs = performance.now();
      expect(await held.keeper.extend(5000)).to.equal(true);
      const { begin, held: how, ...request } = last();
      const terms = { keys: 'k', token: 'ours', lifetimeMs: 5000, exact: true, commandTimeoutMs };
      expect(request).to.deep.equal({ ...terms, validUntilMs: atMs + commandTimeoutMs });
      expect([begin(), how, held.leftMs()]).to.deep.equal([true, undefined, trusted(5000)]);
      expect(await held.keeper.extend(700)).to.equal(true);
      expect(held.leftMs()).to.be.closeTo(trusted(700), 0.01);
      expect(await inRedis()).to.be.within(690, 701);
      await held.keeper.extend(2000);
      expect(last().validUntilMs).to.be.closeTo(performance.now() + trusted(700), 0.01);
      expect(await held.release()).to.equal(true);
      expect(begin()).to.equal(false);
    });

    it('H14: a sooner end counts before its reply, which may never come; a later one does not', async () => {
      const held = await acquire();
      store.fates.extend.push('held', 'request lost');
      const shortening = held.keeper.extend(700);
      expect(held.leftMs()).to.equal(trusted(700));
      expect([held.mayShorten, held.keeper.extendsExactly, held.keeper.isExtending]).to.deep.equal([true, true, true]);
      await turn();
      store.reply();
      await shortening;
      expect([held.mayShorten, held.keeper.extendsExactly, held.keeper.isExtending]).to.deep.equal([
        false,
        false,
        false,
      ]);
      const error = await rejection(held.keeper.extend(5000));
      expect(error).to.include({ unknown: true, key: 'k' });
      expect(held.leftMs()).to.equal(trusted(700));
      // It may still be set: until then no renewal is believed beyond it.
      expect([held.mayShorten, held.confirmed()]).to.deep.equal([true, undefined]);
    });

    it('H14: an end of unknown outcome clamps what a renewal confirms, one that was refused does not', async () => {
      const held = await acquire();
      store.fates.extend.push('refused');
      await rejection(held.keeper.extend(500));
      // It was believed before it was sent.
      expect(held.leftMs()).to.equal(trusted(500));
      expect(await held.keeper.renew(commandTimeoutMs)).to.equal(true);
      expect([held.leftMs(), held.mayShorten]).to.deep.equal([trusted(lifetimeMs), false]);
      store.fates.extend.push('reply lost');
      await rejection(held.keeper.extend(600));
      await held.keeper.renew(commandTimeoutMs);
      expect(held.leftMs()).to.be.within(590, 600);
      expect(held.mayShorten).to.equal(true);
    });

    it('a renewal of unknown outcome leaves no doubt about the end: it only ever makes it later', async () => {
      const held = await acquire();
      store.fates.extend.push('reply lost');
      await held.keeper.extend(lifetimeMs).catch(() => {});
      await pass(commandTimeoutMs + 10);
      store.fates.extend.push('reply lost');
      const renewing = held.keeper.renew(200);
      expect([held.keeper.isExtending, held.keeper.extendsExactly]).to.deep.equal([true, false]);
      const error = await rejection(renewing);
      expect(error).to.include({ unknown: true, key: 'k' });
      expect([held.mayShorten, held.keeper.extendsExactly]).to.deep.equal([false, false]);
      expect(held.leftMs()).to.equal(trusted(lifetimeMs) - commandTimeoutMs - 10);
    });

    it('waits for the one before it, whatever becomes of that', async () => {
      const held = await acquire();
      store.fates.extend.push('held', 'request lost');
      const [one, two, three] = [held.keeper.extend(4000), held.keeper.extend(5000), held.keeper.extend(6000)];
      await turn();
      expect(store.extensions).to.have.lengthOf(1);
      store.reply();
      expect(await one).to.equal(true);
      expect(await rejection(two)).to.include({ unknown: true });
      expect(await three).to.equal(true);
      expect(store.extensions.map((each) => each.lifetimeMs)).to.deep.equal([4000, 5000, 6000]);
    });

    it('of a lock that is over: false, and nothing is sent', async () => {
      const held = await acquire();
      await held.release();
      expect(await held.keeper.extend(5000)).to.equal(false);
      expect(store.extensions).to.deep.equal([]);
    });

    it('no longer ours: it is lost, once, and why is known', async () => {
      const held = await acquire();
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      const { signal } = held;
      expect(await held.keeper.extend(5000)).to.equal(false);
      expect([held.loss?.reason, signal.aborted, signal.reason]).to.deep.equal(['missing', true, held.loss]);
      expect([ended, lost]).to.deep.equal([[held], [held]]);
      expect([held.isLost, held.ended, held.remaining(), held.confirmed()]).to.deep.equal([true, true, 0, undefined]);
    });

    it('Redis ran it too late: an error, and the end stays', async () => {
      const held = await acquire();
      store.fates.extend.push('late');
      const error = await rejection(held.keeper.extend(5000));
      expect(error).to.include({ code: 'ERR_LOCK_BACKEND', key: 'k' });
      expect(error.message).to.equal('Redis ran the extension of "k" too late');
      expect([held.leftMs(), held.ended]).to.deep.equal([trusted(lifetimeMs), false]);
    });

    it('answered after it was lost: the key, which lives on, is released; not after a release', async () => {
      hearing(['extend']);
      const held = await acquire();
      store.fates.extend.push('held');
      const extending = held.keeper.extend(5000);
      await turn();
      await pass(lifetimeMs);
      store.reply();
      expect(await extending).to.equal(false);
      await turn();
      expect([held.loss?.reason, store.releases.length, await inRedis()]).to.deep.equal(['unreachable', 1, 0]);
      const other = await acquire();
      store.fates.extend.push('held');
      const late = other.keeper.extend(5000);
      await turn();
      await other.release();
      store.reply();
      expect([await late, store.releases.length]).to.deep.equal([false, 2]);
      const third = await acquire();
      store.fates.extend.push('late', 'held');
      const unsent = third.keeper.extend(5000);
      third.lose('taken');
      expect([await unsent, store.releases.length]).to.deep.equal([false, 2]);
      expect(heard('extend').map(({ extended, lifetime }) => [extended, lifetime])).to.deep.equal([
        [false, 5000],
        [false, 5000],
        [false, 5000],
      ]);
    });

    it('for ever has no end, and no timer', async () => {
      const held = await acquire();
      expect(held.isEndless).to.equal(false);
      expect(held.signal.aborted).to.equal(false);
      store.fates.extend.push('request lost');
      await rejection(held.keeper.extend(null));
      expect([held.leftMs(), held.mayShorten]).to.deep.equal([trusted(lifetimeMs), false]);
      expect(await held.keeper.extend(null)).to.equal(true);
      expect([held.leftMs(), held.isEndless]).to.deep.equal([Number.POSITIVE_INFINITY, true]);
      expect(openTimers()).to.equal(0);
      store.fates.extend.push('reply lost');
      await rejection(held.keeper.extend(null));
      expect(held.mayShorten).to.equal(false);
    });
  });

  describe('its renewal', () => {
    const lease = {};

    it('goes on at a third of the lifetime, and only makes the end later', async () => {
      const held = await acquire();
      held.keeper.startRenewing(lease);
      held.keeper.startRenewing({});
      expect(held.isEndless).to.equal(true);
      await pass(lifetimeMs / 3 + 20);
      expect(store.extensions).to.have.lengthOf(1);
      const { validUntilMs, exact, lifetimeMs: wanted } = last();
      expect([exact, wanted]).to.deep.equal([false, lifetimeMs]);
      expect(validUntilMs).to.be.within(1000 + trusted(lifetimeMs) - 30, 1000 + trusted(lifetimeMs) + 1);
      await pass(5 * lifetimeMs);
      expect(held.check()).to.equal(true);
      await held.release();
      expect([openTimers(), held.isEndless]).to.deep.equal([0, false]);
    });

    it('goes by the end that was set by hand: later, or sooner before that is known', async () => {
      const held = await acquire();
      held.keeper.startRenewing(lease);
      await held.keeper.extend(9000);
      await pass(6000);
      expect(store.extensions).to.have.lengthOf(1);
      store.fates.extend.push('held');
      const shortening = held.keeper.extend(600);
      await pass(250);
      expect(store.extensions).to.have.lengthOf(2);
      store.reply();
      await shortening;
      await pass(250);
      expect(store.extensions.length).to.be.greaterThan(2);
      await held.release();
    });

    it('of no end, or to no end: none', async () => {
      const forever = await acquire({ settings: { lifetimeMs: null } });
      forever.keeper.startRenewing(lease);
      expect(openTimers()).to.equal(0);
      await forever.release();
      const bounded = await acquire({ settings: { maxHoldMs: 5000 } });
      bounded.keeper.startRenewing(lease);
      expect(bounded.isEndless).to.equal(false);
      await pass(5000 + 2 * lifetimeMs);
      expect(bounded.loss?.reason).to.equal('expired');
    });

    it('H21: after `maxHold` it was to come: a late notice is no stall', async () => {
      const held = await acquire({ settings: { maxHoldMs: 1 } });
      held.signal.addEventListener('abort', () => {});
      held.keeper.startRenewing(lease);
      await pass(trusted(lifetimeMs) - 10);
      await stall(100);
      expect(held.loss?.reason).to.equal('expired');
    });

    it('without an answer until the end: unreachable; where this process stood still: stalled', async () => {
      const held = await acquire();
      held.keeper.startRenewing(lease);
      store.fates.extend.push(...Array.from({ length: 99 }, () => 'request lost' as const));
      await pass(lifetimeMs);
      expect(held.loss?.reason).to.equal('unreachable');
      store.fates.extend.length = 0;
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      const other = await acquire();
      other.keeper.startRenewing(lease);
      await stall(lifetimeMs + 60);
      expect(other.loss?.reason).to.equal('stalled');
      // Late, and in time: a renewal that had failed before.
      for (const [lateMs, reason] of [
        [60, 'stalled'],
        [20, 'unreachable'],
      ] as const) {
        await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
        const failing = await acquire();
        failing.keeper.startRenewing(lease);
        store.fates.extend.push('request lost');
        await pass(lifetimeMs / 3 + 20);
        await stall(failing.leftMs() + lateMs);
        expect(failing.loss?.reason).to.equal(reason);
      }
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      const unasked = await acquire();
      unasked.keeper.startRenewing(lease);
      await stall(trusted(lifetimeMs) + 20);
      expect(unasked.loss?.reason).to.equal('stalled');
    });
  });

  describe('the end of its validity', () => {
    it('nothing watches over it: it is noticed when it is asked for', async () => {
      const held = await acquire();
      expect([openTimers(), held.mayShorten]).to.deep.equal([0, false]);
      await pass(trusted(lifetimeMs) - 1);
      expect([held.check(), held.remaining()]).to.deep.equal([true, 1]);
      await pass(1);
      expect([ended.length, held.leftMs(), held.remaining()]).to.deep.equal([0, 0, 0]);
      expect([held.check(), held.loss?.reason, ended.length]).to.deep.equal([false, 'expired', 1]);
    });

    it('the signal aborts then, not before, and not on a release', async () => {
      const held = await acquire();
      await pass(500);
      const { signal } = held;
      await held.keeper.extend(lifetimeMs);
      await pass(lifetimeMs - 20);
      expect(signal.aborted).to.equal(false);
      await pass(20);
      expect([signal.aborted, signal.reason]).to.deep.equal([true, held.loss]);
      expect(held.loss?.reason).to.equal('expired');
      expect(openTimers()).to.equal(0);
      const other = await acquire();
      const { signal: released } = other;
      await other.release();
      await pass(lifetimeMs);
      expect([released.aborted, openTimers()]).to.deep.equal([false, 0]);
    });

    it('H70: listeners of signals that abort together run in the context that read their signal', async () => {
      const caller = new AsyncLocalStorage<string>();
      const heard: (string | undefined)[] = [];
      const callers = ['one', 'two', 'three'];
      for (const name of callers) {
        const held = await acquire();
        await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
        caller.run(name, () => held.signal.addEventListener('abort', () => heard.push(caller.getStore())));
      }
      await pass(lifetimeMs);
      expect(heard).to.deep.equal(callers);
    });

    it('read when it is over: aborted if it was lost, and not if it was released', async () => {
      const held = await acquire();
      held.lose('taken');
      expect([held.signal.aborted, held.signal.reason]).to.deep.equal([true, held.loss]);
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      const other = await acquire();
      await other.release();
      expect([other.signal.aborted, openTimers()]).to.deep.equal([false, 0]);
    });

    it('H18: the wall clock is checked meanwhile: a step forward ends it within a second', async () => {
      const held = await acquire({ settings: { lifetimeMs: 60_000 } });
      const { signal } = held;
      timers.setSystemTime(Date.now() + 60_000);
      await pass(1000);
      expect([signal.aborted, held.loss?.reason]).to.deep.equal([true, 'stalled']);
    });

    it('noticed more than 50 ms late although a timer watched: this process stood still', async () => {
      const reasons: (string | undefined)[] = [];
      for (const lateMs of [50, 51]) {
        const held = await acquire();
        held.signal.addEventListener('abort', () => {});
        await stall(trusted(lifetimeMs) + lateMs);
        reasons.push(held.loss?.reason);
        const unwatched = await acquire();
        await stall(trusted(lifetimeMs) + lateMs);
        reasons.push(unwatched.loss?.reason);
        const seen = await acquire();
        seen.keeper.watch();
        seen.keeper.watch();
        await stall(trusted(lifetimeMs) + lateMs);
        reasons.push(seen.loss?.reason);
      }
      expect(reasons).to.deep.equal(['expired', 'expired', 'expired', 'stalled', 'expired', 'expired']);
    });

    it('watched only: it is noticed when it comes, also once it has moved', async () => {
      const held = await acquire();
      held.keeper.watch();
      await held.keeper.extend(500);
      await pass(500);
      expect(ended).to.deep.equal([held]);
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      const other = await acquire();
      const { signal } = other;
      expect(other.signal).to.equal(signal);
      await other.keeper.extend(500);
      await pass(500);
      expect(signal.aborted).to.equal(true);
    });

    it('a lock that was forgotten is told of when its lifetime has ended, however often that moved', async () => {
      const told: string[] = [];
      const forgotten = await acquire();
      forgotten.keeper.whenForgotten(() => void told.push('forgotten'));
      await pass(1000);
      await forgotten.keeper.extend(lifetimeMs);
      await pass(lifetimeMs - 20);
      expect(told).to.deep.equal([]);
      await pass(20);
      expect(told).to.deep.equal(['forgotten']);
      const released = await acquire();
      released.keeper.whenForgotten(() => void told.push('released'));
      await released.release();
      expect(openTimers()).to.equal(0);
      const taken = await acquire();
      taken.keeper.whenForgotten(() => void told.push('taken'));
      taken.lose('taken');
      await pass(2 * lifetimeMs);
      expect(told).to.deep.equal(['forgotten']);
      const endless = await acquire({ settings: { lifetimeMs: null } });
      endless.keeper.whenForgotten(() => void told.push('endless'));
      expect(openTimers()).to.equal(0);
    });
  });

  describe('granted by message', () => {
    const lease = {};
    const grant = { provisionalMs: 2000 };
    /** Acquires a lock that another caller of its queue waits for. */
    async function acquireNext(terms: Terms): Promise<HeldLock> {
      const held = await acquire(terms);
      held.confirmNow();
      return held;
    }

    it('H83: it is confirmed after 20 ms, or a quarter of what is left', async () => {
      for (const [provisionalMs, pauseMs] of [
        [2000, 20],
        [40, 10],
      ] as const) {
        const held = await acquire({ grant: { provisionalMs } });
        await pass(pauseMs - 1);
        expect([held.isConfirmed, store.extensions.length]).to.deep.equal([false, 0]);
        await pass(1);
        expect([held.isConfirmed, store.extensions.length]).to.deep.equal([true, 1]);
        await held.release();
        store.extensions.length = 0;
      }
    });

    it('H83: if its queue asks, at the end of the turn, with half of what is left as the timeout at most', async () => {
      const held = await acquireNext({ grant, settings: { commandTimeoutMs: 5000 } });
      expect([held.isConfirmed, store.extensions.length]).to.deep.equal([false, 0]);
      await turn();
      await turn();
      const atMs = performance.now();
      const { begin, held: how, ...request } = last();
      const terms = {
        keys: 'k',
        token: 'ours',
        lifetimeMs,
        exact: false,
        commandTimeoutMs: Math.floor(trusted(2000) / 2),
      };
      expect(request).to.deep.equal({ ...terms, validUntilMs: atMs + trusted(2000) });
      expect([held.isConfirmed, held.leftMs()]).to.deep.equal([true, trusted(lifetimeMs)]);
    });

    it('the timeout of the caller counts if it is shorter; never less than 10 ms', async () => {
      await acquireNext({ grant, settings: { commandTimeoutMs: 30 } });
      await turn();
      expect(last().commandTimeoutMs).to.equal(30);
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      await acquireNext({ grant: { provisionalMs: 12 } });
      await turn();
      expect(last().commandTimeoutMs).to.equal(10);
    });

    it('without a reply it is tried again after a twentieth of what was left, until the end: unreachable', async () => {
      store.fates.extend.push('request lost', 'request lost');
      const held = await acquireNext({ grant });
      await turn();
      await pass(90);
      expect(store.extensions).to.have.lengthOf(1);
      await pass(20);
      expect(store.extensions).to.have.lengthOf(2);
      await pass(110);
      expect([store.extensions.length, held.isConfirmed, openTimers()]).to.deep.equal([3, true, 0]);
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      store.fates.extend.push(...Array.from({ length: 99 }, () => 'request lost' as const));
      const silent = await acquireNext({ grant: { provisionalMs: 100 } });
      await pass(70);
      // Each 10 ms at the least, so that what is left is used.
      expect(store.extensions.length).to.be.within(3 + 4, 3 + 8);
      await pass(100);
      expect(silent.loss?.reason).to.equal('unreachable');
      await pass(100);
      expect(openTimers()).to.equal(0);
    });

    it('released before the end of the turn, or while a confirmation is due: none is sent', async () => {
      const held = await acquireNext({ grant });
      await held.release();
      await turn();
      expect(store.extensions).to.deep.equal([]);
      store.fates.extend.push('held');
      const other = await acquireNext({ grant });
      await turn();
      const confirming = store.extensions.length;
      store.extend = async (request) => {
        store.extensions.push(request);
        throw new Error('silence');
      };
      await other.release();
      store.reply();
      await pass(300);
      expect([store.extensions.length - confirming, openTimers()]).to.deep.equal([0, 0]);
      const failing = await acquireNext({ grant });
      await turn();
      await turn();
      await failing.release();
      await pass(300);
      expect([store.extensions.length - confirming, openTimers()]).to.deep.equal([1, 0]);
      // One that fails after the release is not made again.
      let fail = (_: Error): void => {};
      store.extend = () => new Promise((_, reject) => (fail = reject));
      const pending = await acquireNext({ grant });
      await turn();
      await pending.release();
      fail(new Error('silence'));
      await turn();
      expect(openTimers()).to.equal(0);
    });

    it('where an extension is under way already, it is confirmed by that, or later', async () => {
      store.fates.extend.push('held');
      const held = await acquireNext({ grant });
      const renewing = held.keeper.renew(commandTimeoutMs);
      await turn();
      await pass(50);
      expect(store.extensions).to.have.lengthOf(1);
      store.reply();
      expect(await renewing).to.equal(true);
      await pass(300);
      expect([store.extensions.length, openTimers()]).to.deep.equal([1, 0]);
    });

    it('its queue need not ask where it is confirmed, or an extension is under way', async () => {
      const confirmed = await acquire({ settings: { maxHoldMs: 60_000 } });
      confirmed.keeper.startRenewing(lease);
      confirmed.confirmNow();
      await turn();
      expect(store.extensions).to.have.lengthOf(0);
      await confirmed.release();
      store.fates.extend.push('held');
      const held = await acquire({ grant });
      const renewing = held.keeper.renew(commandTimeoutMs);
      held.confirmNow();
      await turn();
      store.reply();
      expect(await renewing).to.equal(true);
      await pass(50);
      expect(store.extensions).to.have.lengthOf(1);
    });

    it('once confirmed, its renewal goes by the whole lifetime', async () => {
      const held = await acquireNext({ grant });
      held.keeper.startRenewing(lease);
      await pass(880);
      expect(store.extensions).to.have.lengthOf(1);
      await pass(200);
      expect(store.extensions).to.have.lengthOf(2);
      await held.release();
    });

    it('detached: confirmed once more, whatever becomes of what is held here; not where it is confirmed', async () => {
      const held = await acquireNext({ grant });
      await pass(10);
      held.letGo();
      expect([store.extensions.length, ended, lost]).to.deep.equal([1, [held], [held]]);
      expect([await held.release(), (await inRedis()) > 0]).to.deep.equal([false, true]);
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      store.fates.extend.push('request lost');
      const early = await acquireNext({ grant });
      early.letGo();
      const { begin, ...request } = last();
      const terms = { keys: 'k', token: 'ours', lifetimeMs, exact: false, commandTimeoutMs };
      expect(request).to.deep.equal({ ...terms, validUntilMs: performance.now() + trusted(2000) });
      expect(begin()).to.equal(true);
      await turn();
      expect([store.extensions.length, openTimers()]).to.deep.equal([2, 0]);
    });
  });

  describe('its release', () => {
    it('says what is known of it, and is made once', async () => {
      const held = await acquire();
      const [one, two] = [held.release(), held.release()];
      expect(one).to.equal(two);
      expect(await one).to.equal(true);
      const { yieldMs, ...request } = store.releases[0]!;
      const terms = {
        keys: 'k',
        token: 'ours',
        commandTimeoutMs,
        ticket: 0,
        isConfirmed: true,
        held: undefined,
        done: undefined,
        checkedMs: performance.now(),
      };
      expect(request).to.deep.equal(terms);
      expect(yieldMs).to.be.a('number');
      expect([ended, lost, held.loss, held.isLost]).to.deep.equal([[held], [], undefined, false]);
    });

    it('H2: its attempt may still execute: it is released until it cannot', async () => {
      const late = new LateRequest(performance.now(), 500);
      const held = await acquire({ grant: { late } });
      expect([held.confirmed(), held.releaseRequest().isConfirmed]).to.deep.equal([undefined, false]);
      await held.release();
      expect(store.abandoned).to.have.lengthOf(1);
      expect(store.abandoned[0]).to.deep.include({ untilMs: late.untilMs });
      expect(store.abandoned[0]!.request).to.include({ token: 'ours', ticket: -1, isConfirmed: false });
      const later = await acquire({ grant: { late } });
      await pass(500);
      expect([later.confirmed(), later.releaseRequest().isConfirmed]).to.deep.equal([
        later.validity.sent.monoMs && now(clock) && later.confirmed(),
        true,
      ]);
      await later.release();
      expect(store.abandoned).to.have.lengthOf(1);
    });

    it('without a reply: an error, and it may be tried again; that the key is gone then is no loss', async () => {
      const held = await acquire();
      store.fates.release.push('reply lost');
      expect(await rejection(held.release())).to.include({ unknown: true, key: 'k' });
      expect([ended.length, await held.release(), held.loss]).to.deep.equal([1, false, undefined]);
      const refused = await acquire();
      store.fates.release.push('refused');
      await rejection(refused.release());
      await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      expect(await refused.release()).to.equal(false);
      expect(refused.loss?.reason).to.equal('missing');
      expect(refused.isLost).to.equal(false);
    });

    it('after its loss it is released all the same, and stays lost', async () => {
      const held = await acquire();
      held.lose('taken');
      const { loss } = held;
      expect(await held.release()).to.equal(true);
      expect([held.loss, held.isLost]).to.deep.equal([loss, true]);
      const other = await acquire();
      await pass(lifetimeMs + 10);
      expect(await other.release()).to.equal(false);
      expect(other.loss?.reason).to.equal('expired');
    });

    it('quietly: a failure is left to the store, which tries it again', async () => {
      const held = await acquire();
      store.fates.release.push('request lost');
      expect(await held.releaseQuietly()).to.equal(undefined);
      expect(store.abandoned[0]!.untilMs).to.equal(performance.now() + commandTimeoutMs);
      expect(store.abandoned[0]!.request).to.include({ token: 'ours', ticket: -1 });
      const other = await acquire();
      expect(await other.releaseQuietly()).to.equal(true);
      expect(store.abandoned).to.have.lengthOf(1);
    });

    it('says for how long callers outside the queue pause: whole milliseconds, one at least', async () => {
      const pauses: number[] = [];
      for (const retryTimeoutMs of [10, 10.2, 0]) {
        const held = await acquire({ settings: { retryTimeoutMs } });
        pauses.push(held.releaseRequest().yieldMs!);
        await held.release();
      }
      expect(pauses).to.deep.equal([10, 11, 1]);
    });

    it('that came from no queue: by a request to its store', async () => {
      const held = await acquire({ source: undefined });
      expect(await held.release()).to.equal(true);
      expect(store.releases.map(({ token }) => token)).to.deep.equal(['ours']);
    });

    it('at once where the store is in this process, whose error is a rejection all the same', async () => {
      const fault = new LockBackendError('no such table');
      const replies: (() => ReleaseReply)[] = [
        () => {
          throw fault;
        },
        () => 'released',
      ];
      const synchronous = { release: () => replies.shift()!() } as unknown as SynchronousVerbs;
      const held = await acquire({ store: { synchronous }, source: undefined });
      expect(await rejection(held.release()))
        .to.equal(fault)
        .and.include({ key: 'k' });
      const releasing = held.release();
      expect([ended.length, replies.length]).to.deep.equal([2, 0]);
      expect(await releasing).to.equal(true);
      expect(store.releases).to.deep.equal([]);
    });

    it('of what several may hold: with its mode and fence; a change in place may be queued', async () => {
      const held = await acquire({ details: { mode } });
      expect(held.held()).to.deep.equal({ mode, fence: held.fence });
      expect(held.releaseRequest()).to.deep.include({ ticket: 0, held: { mode, fence: held.fence } });
      const writer: Mode = { ...mode, kind: 'exclusive', step: 1 };
      held.changed(writer, 77);
      expect([held.mode, held.fence]).to.deep.equal([writer, 77]);
      expect(held.releaseRequest()).to.deep.include({
        ticket: -1,
        isConfirmed: false,
        held: { mode: writer, fence: 77 },
      });
    });
  });

  describe('with others on one member', () => {
    const shared = (): any => {
      const calls: string[] = [];
      const noting = (name: string): void => void calls.push(name);
      return {
        calls,
        member: {
          token: 'member',
          fence: 9,
          release: (held: HeldLock) => [noting('release'), store.release(held.releaseRequest())][1],
          lost: () => noting('lost'),
          extend: (request: ExtendRequest) => [noting('extend'), store.extend({ ...request, token: 'ours' })][1],
          async part(held: HeldLock) {
            calls.push('part');
            held.parted('own', 10, now(clock));
          },
        },
      };
    };

    it('it is extended and released by the member, and lost to it', async () => {
      const { calls, member } = shared();
      const held = await acquire({ details: { mode }, grant: { member } });
      expect([held.member, held.held()!.fence, held.releaseRequest().token]).to.deep.equal([member, 9, 'member']);
      expect(await held.keeper.renew(commandTimeoutMs)).to.equal(true);
      expect(await held.keeper.extend(lifetimeMs)).to.equal(true);
      await held.release();
      const other = await acquire({ details: { mode }, grant: { member } });
      other.lose('taken');
      expect(calls).to.deep.equal(['extend', 'extend', 'release', 'lost']);
      expect(lost).to.deep.equal([]);
    });

    it('an end of its own needs a member of its own first; an error says which key', async () => {
      const { calls, member } = shared();
      const held = await acquire({ details: { mode }, grant: { member } });
      store.fates.extend.push('late');
      await rejection(held.keeper.extend(700));
      expect([held.member, held.token, held.fence, calls]).to.deep.equal([undefined, 'own', 10, ['part']]);
      const other = shared();
      other.member.part = async () => {
        throw Object.assign(new Error('silence'), { key: undefined });
      };
      const grant = { token: 'x', fence: 1, sent: now(clock), member: other.member };
      const failing = new HeldLock(grant, held, held.context, 0);
      expect((await rejection(failing.keeper.extend(700))).message).to.equal('silence');
      await pass(0);
    });

    it('it parts once no extension is in flight; without a member there is nothing to part from', async () => {
      const { calls, member } = shared();
      const held = await acquire({ details: { mode }, grant: { member } });
      store.fates.extend.push('held');
      const renewing = held.keeper.renew(commandTimeoutMs);
      const parting = held.keeper.part();
      await turn();
      expect([calls, held.keeper.isExtending]).to.deep.equal([['extend'], true]);
      store.reply();
      await renewing;
      await parting;
      expect(calls).to.deep.equal(['extend', 'part']);
      const waiting = shared();
      waiting.member.part = () => new Promise(() => {});
      const other = await acquire({ details: { mode }, grant: { member: waiting.member } });
      void other.keeper.part();
      await turn();
      expect([other.keeper.isExtending, other.mayShorten]).to.deep.equal([true, false]);
      const longer = await acquire({ details: { mode }, grant: { member: shared().member } });
      longer.confirm(now(clock), 9000, false);
      await longer.keeper.part();
      expect([longer.leftMs(), longer.token]).to.deep.equal([trusted(9000), 'own']);
      await held.keeper.part();
      expect(calls).to.deep.equal(['extend', 'part']);
    });
  });

  describe('where no other process can have it', () => {
    function alone(): { renewed: HeldLock[]; store: Partial<Store>; requests: any[] } {
      const renewed: HeldLock[] = [];
      const requests: any[] = [];
      const remove = (_: unknown, held: any): void => void renewed.splice(renewed.indexOf(held), 1);
      const add = (_: unknown, held: any): void => void renewed.push(held);
      const extend = (request: ExtendRequest): any => {
        requests.push(request);
        return outcomes.shift() ?? { outcome: 'extended', sent: now(clock) };
      };
      return {
        renewed,
        requests,
        store: { synchronous: { renewed: { add, remove }, extend } as unknown as SynchronousVerbs },
      };
    }
    let outcomes: object[];
    const lease = {};
    beforeEach(() => {
      outcomes = [];
    });

    it('a renewal that comes late is as good as one in time', async () => {
      const { renewed, requests, store: more } = alone();
      const held = await acquire({ store: more, settings: { maxHoldMs: 60_000 } });
      held.keeper.startRenewing(lease);
      expect(renewed).to.deep.equal([held]);
      await stall(lifetimeMs + 500);
      expect([held.check(), held.loss]).to.deep.equal([true, undefined]);
      const { begin, endedMs, validUntilMs, ...request } = requests[0];
      const terms = { keys: 'k', token: 'ours', exact: false, commandTimeoutMs, held: undefined, lifetimeMs };
      expect(request).to.deep.equal(terms);
      expect([begin(), validUntilMs - performance.now()]).to.deep.equal([true, commandTimeoutMs]);
      expect(endedMs).to.be.closeTo(1000 + trusted(lifetimeMs), 1);
      expect(held.remaining()).to.equal(trusted(lifetimeMs));
      await held.release();
      expect(renewed).to.deep.equal([]);
    });

    it('what remains counts from such a renewal', async () => {
      const { store: more } = alone();
      const held = await acquire({ store: more });
      held.keeper.startRenewing(lease);
      await stall(trusted(lifetimeMs));
      expect(held.remaining()).to.equal(trusted(lifetimeMs));
      await held.release();
    });

    it('that of `maxHold` counts as the last one in time; beyond that it has expired', async () => {
      const { requests, store: more } = alone();
      const held = await acquire({ store: more, settings: { maxHoldMs: 1000 } });
      held.keeper.startRenewing(lease);
      await stall(lifetimeMs + 500);
      expect(held.check()).to.equal(true);
      expect(requests[0].lifetimeMs).to.equal(lifetimeMs - (lifetimeMs + 500 - 1000));
      expect(held.remaining()).to.be.closeTo(trusted(lifetimeMs) - (lifetimeMs - 500), 1);
      await held.release();
      const late = await acquire({ settings: { maxHoldMs: 1000 } });
      late.keeper.startRenewing(lease);
      await stall(lifetimeMs + 1000);
      expect([late.check(), late.loss?.reason, requests.length]).to.deep.equal([false, 'expired', 1]);
    });

    it('found to be another’s, or gone: lost for that reason', async () => {
      for (const [outcome, reason] of Object.entries({ taken: 'taken', missing: 'missing', late: 'expired' })) {
        const { store: more } = alone();
        outcomes = [{ outcome }];
        const held = await acquire({ store: more });
        held.keeper.startRenewing(lease);
        await stall(lifetimeMs + 500);
        expect([held.check(), held.loss?.reason]).to.deep.equal([false, reason]);
        await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
      }
    });

    it('without a renewal it ends as anywhere', async () => {
      const { requests, store: more } = alone();
      const held = await acquire({ store: more });
      held.signal.addEventListener('abort', () => {});
      await stall(lifetimeMs + 500);
      expect([held.loss?.reason, requests.length]).to.deep.equal(['stalled', 0]);
    });
  });

  it('observed: its beginning, its end, and what could not be released', async () => {
    const unobserved = await acquire();
    unobserved.begin();
    expect([unobserved.observation, openTimers()]).to.deep.equal([undefined, 0]);
    await unobserved.release();
    hearing(['warning', 'lost', 'release']);
    const held = await acquire();
    held.begin();
    expect(held.observation).to.be.an('object');
    expect(openTimers()).to.equal(0);
    store.fates.release.push('refused');
    await held.releaseQuietly();
    const { code, message } = heard('warning')[0];
    expect([code, message]).to.deep.equal(['release-failed', '"k" could not be released; it is being tried again']);
    hearing(['hold']);
    const watched = await acquire();
    watched.begin();
    await pass(lifetimeMs);
    expect(ended.at(-1)).to.equal(watched);
    expect(watched.loss!.message).to.equal('"k" may belong to somebody else now (expired)');
    expect(heard('lost').map(({ reason }) => reason)).to.deep.equal(['expired']);
    const detached = await acquire();
    detached.begin();
    detached.letGo();
    expect(heard('hold').at(-1).hold.outcome).to.equal('detached');
    const refused = await acquire();
    refused.begin();
    store.fates.release.push('refused');
    await rejection(refused.release());
    expect(heard('hold').at(-1).hold.outcome).to.equal('released');
  });

  it('excludes others of its store from its keys, but readers of its group and permits that are left', async () => {
    const other = lossyStore();
    const held = await acquire({ details: { keys: ['a', 'b'], key: ['a', 'b'] } });
    const over = (keys: string | string[], how?: Mode, at: Store = store): boolean => excludes(held, at, keys, how);
    expect([over('a'), over(['c', 'b']), over('c'), over('a', undefined, other), over('a', mode)]).to.deep.equal([
      true,
      true,
      false,
      false,
      true,
    ]);
    await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
    const reader = await acquire({ details: { mode } });
    const beside = (how?: Mode): boolean => excludes(reader, store, 'k', how);
    const writer: Mode = { ...mode, kind: 'exclusive' };
    expect([beside(), beside(mode), beside({ ...mode, group: 'b' }), beside(writer)]).to.deep.equal([
      true,
      false,
      true,
      true,
    ]);
    reader.changed(writer, 2);
    expect(beside(mode)).to.equal(true);
    const permits: Mode = { ...mode, kind: 'counted', permits: 2, total: 3 };
    reader.changed(permits, 2);
    expect([beside(permits), beside({ ...permits, permits: 1 })]).to.deep.equal([true, false]);
  });

  it('is joined for keys of its own, in its own store, where only one may hold them', async () => {
    const held = await acquire({ details: { keys: ['a', 'b'], key: ['a', 'b'] } });
    const may = (keys: string | string[], at: Store = store): boolean => mayJoin(held, keys, at);
    expect([may('a'), may(['b', 'a']), may(['a', 'c']), may('a', lossyStore())]).to.deep.equal([
      true,
      true,
      false,
      false,
    ]);
    await held.release();
    expect(may('a')).to.equal(false);
    await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
    expect(mayJoin(await acquire({ details: { mode } }), 'k', store)).to.equal(false);
  });

  it('knows its keys, its attempts and its validity', async () => {
    const held = await acquire({ details: { retries: 3 } });
    expect([held.key, held.retries, held.validity.sent.monoMs, held.mode, held.member]).to.deep.equal([
      'k',
      3,
      1000,
      undefined,
      undefined,
    ]);
    expect(held.confirmed()).to.deep.equal(now(clock));
    const several = await acquire({ details: { key: ['k'] } });
    expect([several.key, several.retries]).to.deep.equal([['k'], 0]);
    await store.abandon({ keys: 'k', token: 'ours', commandTimeoutMs });
    const plain = await acquire({
      settings: { prefix: 'p:' },
      details: { keys: 'app:p:k' },
      store: { keyPrefix: 'app:' },
    });
    expect([plain.key, plain.retries, plain.isConfirmed, plain.held()]).to.deep.equal(['k', 0, true, undefined]);
    plain.confirm(now(clock), 5000, false);
    expect(plain.leftMs()).to.equal(trusted(5000));
    (plain.context.source as { release: unknown }).release = () => 'released';
    expect(await plain.release()).to.equal(true);
    const detached = await acquire();
    detached.letGo();
    expect(await detached.release()).to.equal(false);
    const longer = await acquire();
    await longer.keeper.extend(9000);
    expect(longer.confirmed()).to.equal(undefined);
    store.fates.extend.push('held');
    const same = await acquire();
    const renewing = same.keeper.renew(commandTimeoutMs);
    expect(same.confirmed()).to.equal(undefined);
    await turn();
    store.reply();
    await renewing;
    expect(same.confirmed()).to.deep.equal(now(clock));
  });
});
