// One acquisition over a store whose answers are the test's, by its clock: which requests it makes and when, what it settles with, and
// what it leaves behind. What a caller sees of it at every kind of store is in test/contract.
import { tracingChannel } from 'node:diagnostics_channel';
import { getEventListeners } from 'node:events';
import { expect } from 'chai';
import { useFakeTimers } from 'sinon';
import { acquire, type Terms, wait } from '../src/acquire';
import { LockBackendError } from '../src/errors';
import { runWithin } from '../src/flow';
import type { HeldLock } from '../src/held-lock';
import { defaults, type Settings } from '../src/options';
import { Scope } from '../src/scope';
import type { AcquireReply, AcquireRequest, Mode, Moment, Store } from '../src/store';
import { now } from '../src/store';
import { fencesInBlock } from '../src/wait/queue';
import type { Wanted } from '../src/wanted';
import { published } from './contract/outcomes';
import { clock, type LossyStore, lossyStore } from './support/lossy-store';

const lifetimeMs = 3000;
const commandTimeoutMs = 300;
const forever = Number.POSITIVE_INFINITY;
const writer: Mode = { kind: 'exclusive', prefer: 'fair', group: '', permits: 1, most: 0, step: 0 };
const reader: Mode = { ...writer, kind: 'shared' };
const permit: Mode = { ...writer, kind: 'counted', most: 1 };

interface Asked {
  readonly request: AcquireRequest;
  /** When it was sent, by the clock of the test. */
  readonly sent: Moment;
  resolve(reply: AcquireReply): void;
  reject(error: unknown): void;
}

/** What has become of an acquisition. */
interface Outcome {
  held: HeldLock | undefined;
  error: any;
}

describe('an acquisition', () => {
  let timers: ReturnType<typeof useFakeTimers>;
  let store: LossyStore;
  let scope: Scope;
  let asked: Asked[];
  /** What the channel for wake-ups is opened with; and what it then hears. */
  let channel: {
    open(): void;
    fail(error: Error): void;
    hear(text: string): void;
    gap(): void;
  };
  let channels: number;
  /** How many wait in the scope. */
  let waits: number;

  beforeEach(() => {
    timers = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
    timers.tick(1000);
    build();
  });

  afterEach(() => timers.restore());

  function build(more: Partial<Store> = {}): void {
    [asked, channels, waits] = [[], 0, 0];
    scope = new Scope();
    const [begin, end] = [scope.beginWait, scope.endWait].map((of) => of.bind(scope)) as [
      typeof scope.endWait,
      typeof scope.endWait,
    ];
    const waiting = new Set<unknown>();
    scope.beginWait = (wait) => {
      waiting.add(wait);
      waits = waiting.size;
      begin(wait);
    };
    scope.endWait = (wait) => {
      waiting.delete(wait);
      waits = waiting.size;
      end(wait);
    };
    store = lossyStore({
      acquire: (request) =>
        new Promise((resolve, reject) => {
          if (request.begin()) asked.push({ request, sent: now(clock), resolve, reject });
        }),
      ...more,
    });
    scope.store = () => store;
  }

  const listening: Pick<Store, 'listen'> = {
    listen: (name, onMessage, onGap) =>
      new Promise((resolve, reject) => {
        if (!/^redis-exp-lock:1:[0-9a-f-]{36}$/.test(name)) return; // for operators
        channels += 1;
        channel = { open: () => resolve({ close() {} }), fail: reject, hear: onMessage, gap: onGap };
      }),
  };

  const settled = (more: Partial<Settings>): Settings => ({ ...defaults, lifetimeMs, commandTimeoutMs, ...more });
  const inQueue = (timeoutMs = 60_000): Partial<Settings> => ({ timeoutMs, maxRetries: forever, queued: true });

  function start(settings: Partial<Settings> = {}, terms: Partial<Terms> = {}, key: string | string[] = 'k'): Outcome {
    return outcomeOf(acquire(key, { settings: settled(settings), scope, ...terms }, (held) => held));
  }

  function outcomeOf(promise: Promise<HeldLock>): Outcome {
    const outcome: Outcome = { held: undefined, error: undefined };
    promise.then(
      (held) => Object.assign(outcome, { held }),
      (error) => Object.assign(outcome, { error }),
    );
    return outcome;
  }

  const answered = (): Promise<unknown> => timers.tickAsync(0);
  const pass = (ms: number): Promise<unknown> => timers.tickAsync(ms);
  const last = (): Asked => asked.at(-1)!;
  const grant = (fence = 1, more: object = {}): Promise<unknown> => {
    const { resolve, sent } = last();
    resolve({ granted: true, fence, sent, ...more });
    return answered();
  };
  const busy = (more: object = {}): Promise<unknown> => {
    const { resolve, sent } = last();
    resolve({ granted: false, leftMs: 5000, sent, ...more });
    return answered();
  };
  const fail = async (more: { unknown?: boolean; retryable?: boolean } = { unknown: true }): Promise<unknown> => {
    const error = new LockBackendError('silence', more);
    last().reject(error);
    await answered();
    return error;
  };
  const openChannel = (): Promise<unknown> => {
    channel.open();
    return answered();
  };
  const abandonedTokens = (): string[] => store.abandoned.map(({ request }) => request.token);
  const isHeldInScope = (held: HeldLock): boolean => scope.find((each) => each === held) !== undefined;

  describe('makes one attempt', () => {
    it('and resolves with what is held then: under its full key, and in its scope', async () => {
      build({ keyPrefix: 'client:' });
      const outcome = start({ prefix: 'p:', owner: 'me' });
      expect(last().request).to.include({ keys: 'client:p:k', lifetimeMs, commandTimeoutMs });
      await pass(20);
      await grant(7);
      const held = outcome.held!;
      expect(held).to.include({ key: 'k', keys: 'client:p:k', fence: 7, retries: 0, token: last().request.token });
      expect(held.leftMs()).to.equal(lifetimeMs * 0.999 - 20);
      expect([isHeldInScope(held), asked.length, timers.countTimers()]).to.deep.equal([true, 1, 0]);
    });

    it('busy: it rejects, with how many attempts it made', async () => {
      const outcome = start();
      await busy();
      expect(outcome.error).to.include({ code: 'ERR_LOCK_ATTEMPTS', key: 'k', attempts: 1 });
      expect([asked.length, timers.countTimers(), store.abandoned]).to.deep.equal([1, 0, []]);
    });

    it('with a timeout of 0 that is over', async () => {
      const outcome = start({ timeoutMs: 0, maxRetries: forever });
      await busy();
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT', key: 'k' });
      expect(outcome.error.message).to.equal('"k" was not free within 0 ms (attempts: 1)');
      const failed = start({ timeoutMs: 0, maxRetries: forever });
      const error = await fail({ retryable: true });
      expect([failed.error, asked.length]).to.deep.equal([error, 2]);
      expect(last().request.pauseMs).to.equal(undefined);
    });

    it('H54: what would be refused again is not tried again, and what is no answer of Redis is passed on', async () => {
      const outcome = start({ maxRetries: 5 });
      const error = await fail({ retryable: false });
      expect(outcome.error).to.equal(error).and.include({ key: 'k' });
      const foreign = start({ maxRetries: 5 });
      const fault = Object.assign(new Error('a fault of ours'), { retryable: true });
      last().reject(fault);
      await answered();
      expect([foreign.error, asked.length, store.abandoned]).to.deep.equal([fault, 2, []]);
    });

    it('H3: a release follows what may have been executed', async () => {
      const outcome = start();
      const error = await fail();
      expect(outcome.error).to.equal(error);
      const { token } = last().request;
      const untilMs = performance.now() + commandTimeoutMs;
      expect(store.abandoned).to.deep.equal([{ request: { keys: 'k', token, commandTimeoutMs }, untilMs }]);
    });

    it('nothing is sent for a lock that is closed, a wait that is aborted, or keys that can never be locked', async () => {
      const reason = new Error('no more');
      expect((await refused(start({ signal: AbortSignal.abort(reason) }))).error).to.equal(reason);
      build({ refuses: (keys, mode) => new LockBackendError(`${keys} ${mode?.kind}`) });
      const refusal = await refused(start({}, { mode: reader }));
      expect(refusal.error).to.include({ message: 'k shared', key: 'k' });
      build();
      await scope.close(0);
      expect((await refused(start())).error).to.include({ code: 'ERR_LOCK_CLOSED', key: 'k' });
    });

    async function refused(outcome: Outcome): Promise<Outcome> {
      await answered();
      expect([asked.length, timers.countTimers()]).to.deep.equal([0, 0]);
      return outcome;
    }

    it('a missing client is an error of the call', () => {
      const terms = { settings: settled({}), scope: new Scope() };
      expect(() => acquire('k', terms, (held) => held)).to.throw(TypeError, 'redis: expected a connected client');
    });

    it('an error of an answer has the stack of its caller', async () => {
      async function callerOfAcquire(): Promise<void> {
        await acquire('k', { settings: settled({}), scope }, (held) => held);
      }
      const failing = callerOfAcquire().catch((error) => error);
      await busy();
      expect((await failing).stack).to.include('callerOfAcquire');
    });

    it('where the answer is known at once it settles at once: it neither waits nor sets a timer', async () => {
      let granted = true;
      build({
        acquireNow: ({ begin }) => {
          expect(begin()).to.equal(true);
          return granted ? { granted, fence: 5, sent: now(clock) } : { granted, leftMs: 1 };
        },
      });
      const outcome = start({ timeoutMs: 60_000, maxRetries: forever });
      expect([waits, timers.countTimers()]).to.deep.equal([0, 0]);
      await answered();
      expect(outcome.held?.fence).to.equal(5);
      granted = false;
      const other = start();
      await answered();
      expect([other.error.code, waits]).to.deep.equal(['ERR_LOCK_ATTEMPTS', 0]);
      const waiting = start({ timeoutMs: 60_000, maxRetries: forever });
      expect([waits, timers.countTimers()]).to.deep.equal([1, 2]);
      granted = true;
      await pass(5);
      expect([waiting.held?.retries, waits, timers.countTimers()]).to.deep.equal([1, 0, 0]);
    });
  });

  describe('polls', () => {
    const polling = { maxRetries: 2, retryTimeoutMs: 10, retryRatio: 2 };

    it('so many further attempts, after pauses, with the same token; it says how long it pauses while another follows', async () => {
      const outcome = start(polling);
      const atMs: number[] = [];
      for (const pauseMs of [10, 20, 40]) {
        atMs.push(last().sent.monoMs);
        await busy();
        await pass(pauseMs);
      }
      expect(atMs.map((ms) => ms - atMs[0]!)).to.deep.equal([0, 10, 30]);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_ATTEMPTS', attempts: 3 });
      expect(asked.map(({ request }) => request.pauseMs)).to.deep.equal([undefined, 20, undefined]);
      expect(new Set(asked.map(({ request }) => request.token)).size).to.equal(1);
      expect([asked.length, timers.countTimers()]).to.deep.equal([3, 0]);
    });

    it('and says with which attempt it got the lock', async () => {
      const outcome = start(polling);
      await busy();
      expect(timers.countTimers()).to.equal(1);
      await pass(10);
      await grant();
      expect([outcome.held?.retries, timers.countTimers()]).to.deep.equal([1, 0]);
    });

    it('H54: with the last answer’s error: a failure, unless the lock was found busy after it', async () => {
      const failing = start({ ...polling, maxRetries: 1 });
      await busy();
      await pass(10);
      const error = await fail({ retryable: true });
      expect(failing.error).to.equal(error);
      const other = start({ ...polling, maxRetries: 1 });
      await fail({ retryable: true });
      await pass(10);
      await busy();
      expect(other.error).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    });

    it('until its timeout: the last pause is cut, and one last attempt follows, which pauses no more', async () => {
      const outcome = start({ timeoutMs: 25, maxRetries: forever, retryTimeoutMs: 10 });
      const startMs = performance.now();
      for (const waitMs of [10, 10, 5, 0]) {
        expect(outcome.error).to.equal(undefined);
        await busy();
        await pass(waitMs);
      }
      expect(asked.map(({ sent }) => sent.monoMs - startMs)).to.deep.equal([0, 10, 20, 25]);
      expect(asked.map(({ request }) => request.pauseMs)).to.deep.equal([undefined, 10, 10, undefined]);
      expect(outcome.error.message).to.equal('"k" was not free within 25 ms (attempts: 4)');
      expect(timers.countTimers()).to.equal(0);
    });

    it('with both bounds: until the first of them', async () => {
      const outcome = start({ timeoutMs: 15, maxRetries: 5, retryTimeoutMs: 10 });
      await busy();
      await pass(10);
      await busy();
      await pass(5);
      await busy();
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      const other = start({ timeoutMs: 60_000, maxRetries: 1, retryTimeoutMs: 10 });
      await busy();
      await pass(10);
      expect(last().request.pauseMs).to.equal(undefined);
      await busy();
      expect([other.error.code, timers.countTimers()]).to.deep.equal(['ERR_LOCK_ATTEMPTS', 0]);
    });

    it('H54: a timeout in the midst of failures says what failed', async () => {
      const outcome = start({ timeoutMs: 15, maxRetries: forever, retryTimeoutMs: 10 });
      await busy();
      await pass(10);
      const error = await fail({ retryable: true });
      await pass(5);
      expect(outcome.error, 'one last attempt').to.equal(undefined);
      await pass(commandTimeoutMs);
      expect(asked).to.have.lengthOf(3);
      const second = await fail({ retryable: true });
      expect([outcome.error === second, error === second]).to.deep.equal([true, false]);
    });

    it('H3: a timeout in the midst of an attempt gives that up: it is released until it can execute no more', async () => {
      const outcome = start({ timeoutMs: 40, maxRetries: forever, retryTimeoutMs: 10 });
      await pass(39);
      expect(outcome.error).to.equal(undefined);
      await pass(1);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      expect([store.abandoned[0]!.untilMs, abandonedTokens()]).to.deep.equal([
        performance.now() + commandTimeoutMs,
        [last().request.token],
      ]);
      expect([waits, timers.countTimers(), last().request.begin()]).to.deep.equal([0, 0, false]);
      await grant();
      expect([outcome.held, store.releases.length]).to.deep.equal([undefined, 1]);
      const failing = start({ timeoutMs: 40, maxRetries: forever, retryTimeoutMs: 10 });
      const error = await fail({ retryable: true });
      await pass(10);
      await pass(30);
      expect(failing.error).to.equal(error);
    });

    it('a timeout has a timer of its own only where an attempt may outlast it, or a pause follows', async () => {
      for (const [timeoutMs, count] of [
        [4 * commandTimeoutMs, 1],
        [4 * commandTimeoutMs + 1, 0],
      ]) {
        build();
        start({ timeoutMs, maxRetries: forever });
        expect(timers.countTimers(), `${timeoutMs}`).to.equal(count);
        await busy();
        expect(timers.countTimers()).to.equal(2);
        await grantAfterPause();
        expect(timers.countTimers()).to.equal(0);
      }
    });

    async function grantAfterPause(): Promise<void> {
      await pass(5);
      await grant();
    }

    it('H63: a grant whose answer took as long as it lasts is released, and another token is used', async () => {
      const outcome = start({ maxRetries: 1, retryTimeoutMs: 10 });
      const { token } = last().request;
      await pass(lifetimeMs * 0.999);
      await grant();
      expect([outcome.held, outcome.error, abandonedTokens()]).to.deep.equal([undefined, undefined, [token]]);
      await pass(10);
      expect(last().request.token).to.not.equal(token);
      await pass(lifetimeMs);
      await grant();
      expect(outcome.error).to.include({ code: 'ERR_LOCK_BACKEND', key: 'k' });
      expect(outcome.error.message).to.equal('the grant of "k" took 3000 ms, its lifetime is 3000 ms');
      expect(abandonedTokens()).to.have.lengthOf(2);
      const other = start();
      await pass(lifetimeMs * 0.999 - 1);
      await grant();
      expect(other.held?.leftMs()).to.be.closeTo(1, 0.001);
    });

    it('where a queue is not possible: without an end, with replicas, of several keys, or where nothing can be heard', async () => {
      const all: [Partial<Settings>, string | string[]][] = [
        [{ lifetimeMs: null }, 'k'],
        [{ minReplicas: 1 }, 'k'],
        [{}, ['1', '2']],
      ];
      for (const [settings, key] of all) {
        build(listening);
        start({ ...inQueue(), ...settings, retryTimeoutMs: 10 }, {}, key);
        await busy();
        await pass(10);
        expect([last().request.pauseMs, channels]).to.deep.equal([10, 0]);
      }
      build();
      start({ ...inQueue(), retryTimeoutMs: 10 });
      await busy();
      await pass(10);
      expect(last().request.pauseMs).to.equal(10);
    });
  });

  describe('is given up', () => {
    it('by its signal, with that one’s reason; the signal keeps nothing of a wait that is over', async () => {
      const aborter = new AbortController();
      const { signal } = aborter;
      const outcome = start({ signal, maxRetries: 5, retryTimeoutMs: 10 });
      await answered();
      expect(getEventListeners(signal, 'abort')).to.have.lengthOf(1);
      const granted = start({ signal });
      expect(getEventListeners(signal, 'abort')).to.have.lengthOf(2);
      await grant();
      expect([granted.held?.fence, getEventListeners(signal, 'abort').length]).to.deep.equal([1, 1]);
      const reason = new Error('enough');
      aborter.abort(reason);
      await answered();
      const [{ request }] = asked as [Asked];
      expect([outcome.error, abandonedTokens(), waits]).to.deep.equal([reason, [request.token], 0]);
      expect([getEventListeners(signal, 'abort').length, timers.countTimers()]).to.deep.equal([0, 0]);
    });

    it('in a pause: nothing was left behind, and nothing follows', async () => {
      const aborter = new AbortController();
      const outcome = start({ signal: aborter.signal, maxRetries: 5, retryTimeoutMs: 10 });
      await busy();
      aborter.abort('enough');
      await pass(50);
      expect(outcome.error).to.include({ name: 'AbortError', code: 'ABORT_ERR', cause: 'enough' });
      expect([asked.length, store.abandoned, timers.countTimers()]).to.deep.equal([1, [], 0]);
    });

    it('by close', async () => {
      const outcome = start({ maxRetries: 5, retryTimeoutMs: 10 });
      expect(waits).to.equal(1);
      await busy();
      const closing = scope.close(0);
      await answered();
      await closing;
      expect(outcome.error).to.include({ code: 'ERR_LOCK_CLOSED' });
      expect([waits, asked.length]).to.deep.equal([0, 1]);
    });
  });

  describe('is queued', () => {
    beforeEach(() => build(listening));

    const entryOf = ({ request }: Asked) => request.queueAs;

    it('once it was busy, and a wake-up would be heard; another of its process, then, at once', async () => {
      const first = start(inQueue());
      expect([entryOf(last()), last().request.pauseMs]).to.deep.equal([undefined, undefined]);
      await busy();
      expect([asked.length, channels]).to.deep.equal([1, 1]);
      await openChannel();
      expect([asked.length, entryOf(last())?.ticket, store.abandoned]).to.deep.equal([2, 0, []]);
      expect(last().request.token).to.not.equal(asked[0]!.request.token);
      await busy({ position: { ticket: 1, before: 0, outside: false } });
      const second = start(inQueue());
      expect([asked.length, first.held, second.held]).to.deep.equal([2, undefined, undefined]);
      await pass(1000);
      await grant(5);
      expect(first.held).to.include({ fence: 5, retries: 0 });
      expect(await first.held!.release()).to.equal(true);
      await answered();
      expect(second.held, 'handed off by its queue').to.include({ fence: 6, token: first.held!.token });
      // Of another key: without an attempt of its own.
      start(inQueue(), {}, 'other');
      expect([last().request.keys, entryOf(last())?.ticket]).to.deep.equal(['other', 0]);
    });

    it('behind those that wait already for the channel to open; none makes an attempt before them', async () => {
      start(inQueue());
      await busy();
      const behind = start(inQueue());
      start(inQueue(), {}, 'other');
      expect(asked.map(({ request }) => request.keys)).to.deep.equal(['k', 'other']);
      await openChannel();
      expect([asked.length, entryOf(last())?.ticket]).to.deep.equal([3, 0]);
      await grant();
      expect(behind.held).to.equal(undefined);
    });

    it('under a token of the queue: what its own attempt may have left is released', async () => {
      start({ ...inQueue(), retryTimeoutMs: 10 });
      const { token } = last().request;
      await fail();
      expect([channels, store.abandoned], 'it tries again first').to.deep.equal([0, []]);
      await pass(10);
      await busy();
      await openChannel();
      expect([abandonedTokens(), entryOf(last())?.ticket]).to.deep.equal([[token], 0]);
    });

    it('and polls where no wake-up can be heard, which it says', async () => {
      const fault = new LockBackendError('no channel');
      const warnings = await published('redis-exp-lock:warning', async () => {
        start({ ...inQueue(), retryTimeoutMs: 10, name: 'a job' });
        await busy();
        const behind = start({ ...inQueue(), retryTimeoutMs: 10 });
        channel.fail(fault);
        await answered();
        // That one has made no attempt yet.
        expect([asked.length, last().request.pauseMs, behind.error]).to.deep.equal([2, undefined, undefined]);
        await pass(10);
        expect([asked.length, last().request.pauseMs]).to.deep.equal([3, 10]);
        await busy();
        await pass(10);
        expect([asked.length, channels, last().request.pauseMs], 'and opens it no more').to.deep.equal([4, 1, 10]);
      });
      expect(warnings[0]).to.include({ code: 'no-wake-ups', key: 'k', name: 'a job', kind: 'mutex', store: 'redis' });
      expect((warnings[0] as any).message).to.equal('"k" is polled for: no message can be heard');
      expect((warnings[0] as any).error.message).to.include('no channel');
    });

    it('and polls where the channel is not open in time', async () => {
      start({ ...inQueue(), retryTimeoutMs: 10 });
      await busy();
      await pass(commandTimeoutMs);
      await new Promise((resolve) => setImmediate(resolve));
      await pass(10);
      expect([asked.length, last().request.pauseMs]).to.deep.equal([2, 10]);
      await openChannel();
      expect(asked).to.have.lengthOf(2);
    });

    it('not if it was given up before the channel was open', async () => {
      const outcome = start(inQueue(50));
      await busy();
      await pass(50);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      await openChannel();
      await pass(commandTimeoutMs);
      expect([asked.length, timers.countTimers()]).to.deep.equal([1, 0]);
    });

    /** Of a process whose channel is open. */
    async function queued(settings: Partial<Settings> = inQueue()): Promise<Outcome> {
      start(inQueue(), {}, 'first');
      await busy();
      await openChannel();
      await grant();
      asked.length = 0;
      return start(settings);
    }

    it('until its timeout: it leaves the queue, and its entry is abandoned', async () => {
      const outcome = await queued(inQueue(50));
      const { token } = last().request;
      await busy({ position: { ticket: 1, before: 0, outside: false } });
      await pass(50);
      expect(outcome.error.message).to.equal('"k" was not free within 50 ms (it was queued)');
      expect([abandonedTokens(), waits]).to.deep.equal([[token], 0]);
    });

    it('H54: until its timeout, which says what failed while Redis could not be reached', async () => {
      const outcome = await queued({ ...inQueue(50), retryTimeoutMs: 40 });
      await fail();
      await pass(40);
      await pass(10);
      expect(outcome.error).to.include({ message: 'silence', key: 'k' });
      const other = start({ ...inQueue(50), retryTimeoutMs: 10 });
      await fail();
      await pass(10);
      await busy();
      await pass(40);
      expect(other.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
    });

    it('and refused with it, under its key', async () => {
      const outcome = await queued();
      const error = await fail({ retryable: false });
      expect(outcome.error).to.equal(error).and.include({ key: 'k' });
    });

    it('given up while it is, it is granted no more', async () => {
      const aborter = new AbortController();
      const outcome = await queued({ ...inQueue(), signal: aborter.signal });
      const { token } = last().request;
      aborter.abort(new Error('enough'));
      await grant();
      expect(outcome).to.deep.include({ held: undefined });
      expect(outcome.error.message).to.equal('enough');
      expect(abandonedTokens()).to.include(token);
    });
  });

  describe('of a key that several may hold', () => {
    const woken = (id: string): Promise<unknown> => {
      channel.hear(`${id} k`);
      return answered();
    };
    const idOf = ({ request }: Asked): string => request.queueAs!.id;

    /** A writer that is queued. */
    async function waiting(settings: Partial<Settings> = inQueue()): Promise<Outcome> {
      build(listening);
      const outcome = start(settings, { mode: writer });
      await busy();
      await openChannel();
      return outcome;
    }

    it('has an entry of its own once a wake-up would be heard', async () => {
      build(listening);
      const outcome = start(inQueue(), { mode: writer });
      expect([last().request.mode, last().request.queueAs]).to.deep.equal([writer, undefined]);
      await busy();
      await openChannel();
      const { token, queueAs } = last().request;
      expect(queueAs).to.deep.include({ ticket: 0 });
      expect(token, 'it is the same caller').to.equal(asked[0]!.request.token);
      await busy({ position: { ticket: 77, before: 0, outside: false } });
      await woken(idOf(last()));
      expect([asked.length, last().request.queueAs?.ticket]).to.deep.equal([3, 77]);
      await grant(4);
      expect(outcome.held).to.include({ fence: 4, retries: 0, mode: writer });
      expect([timers.countTimers(), waits]).to.deep.equal([0, 0]);
    });

    it('woken in a pause it requests at once; in an attempt, once more after it; not once it is settled', async () => {
      const outcome = await waiting();
      const id = idOf(last());
      await woken(id);
      expect(asked).to.have.lengthOf(2);
      await busy();
      await pass(0);
      expect(asked, 'it may have been answered before').to.have.lengthOf(3);
      await busy();
      await pass(100);
      expect(asked, 'once').to.have.lengthOf(3);
      await woken(id);
      expect(asked).to.have.lengthOf(4);
      await grant();
      await woken(id);
      channel.gap();
      await answered();
      expect([asked.length, outcome.held?.fence, timers.countTimers()]).to.deep.equal([4, 1, 0]);
    });

    it('unwoken it requests when the time of those that hold it is over, but no sooner than it may poll', async () => {
      await waiting({ ...inQueue(), retryTimeoutMs: 50 });
      await busy({ leftMs: 200 });
      await pass(200);
      expect(asked).to.have.lengthOf(2);
      await pass(1);
      expect(asked).to.have.lengthOf(3);
      await busy({ leftMs: 1 });
      await pass(49);
      expect(asked).to.have.lengthOf(3);
      await pass(1);
      expect(asked).to.have.lengthOf(4);
    });

    it('after a failure it requests again as one that polls', async () => {
      await waiting({ ...inQueue(), retryTimeoutMs: 50 });
      await fail({ retryable: true });
      await pass(50);
      expect(asked).to.have.lengthOf(3);
    });

    it('H63: a grant whose answer took as long as it lasts is released with its entry, and another is queued', async () => {
      const outcome = await waiting();
      await busy({ position: { ticket: 77, before: 0, outside: false } });
      await woken(idOf(last()));
      const { token } = last().request;
      await pass(lifetimeMs);
      await grant();
      expect(store.abandoned.map(({ request }) => [request.token, request.ticket])).to.deep.equal([[token, 77]]);
      await pass(10);
      expect([last().request.token === token, last().request.queueAs?.ticket]).to.deep.equal([false, 0]);
      await grant(2);
      expect(outcome.held?.fence).to.equal(2);
    });

    /** Two writers that are queued behind one of their process, which holds the key. */
    async function behindHolder(): Promise<HeldLock> {
      build(listening);
      const holder = start({}, { mode: writer });
      await grant();
      start(inQueue(), { mode: writer });
      await busy();
      await openChannel();
      start(inQueue(), { mode: writer });
      expect(asked).to.have.lengthOf(4);
      return holder.held!;
    }

    it('a release of its own process lets the first of its writers request in the same tick, and no other', async () => {
      const held = await behindHolder();
      for (const { resolve, sent } of asked.slice(2)) resolve({ granted: false, leftMs: 5000, sent });
      await answered();
      void held.release();
      expect(asked).to.have.lengthOf(5);
      expect(last().request.token).to.equal(asked[2]!.request.token);
    });

    it('a release of its own process goes to the next where the first has a request on its way', async () => {
      const held = await behindHolder();
      await busy();
      void held.release();
      expect(asked).to.have.lengthOf(5);
      expect(last().request.token).to.equal(asked[3]!.request.token);
    });

    it('its last attempt queues nobody; its end takes its entry out', async () => {
      const outcome = await waiting(inQueue(100));
      await busy({ position: { ticket: 5, before: 3, outside: false } });
      await pass(100);
      expect(last().request.queueAs).to.equal(undefined);
      await busy();
      expect(outcome.error.message).to.equal('"k" was not free within 100 ms (it was queued)');
      expect(store.abandoned.map(({ request }) => request.ticket)).to.deep.equal([5]);
    });

    it('given up in an attempt it hears of no wake-up any more', async () => {
      const aborter = new AbortController();
      await waiting({ ...inQueue(), signal: aborter.signal });
      const id = idOf(last());
      aborter.abort();
      await woken(id);
      await busy();
      await pass(2000);
      expect([asked.length, store.abandoned.length, timers.countTimers()]).to.deep.equal([2, 1, 0]);
    });

    it('where it polls it says for how long its entry is silent; without a queue there is no such entry', async () => {
      build(listening);
      start({ ...inQueue(), retryTimeoutMs: 10 }, { mode: writer });
      await busy();
      channel.fail(new Error('no channel'));
      await pass(10);
      expect(last().request.queueAs).to.deep.equal({ channel: '-', id: '0', ticket: 0, silenceMs: 120 });
      expect(last().request.pauseMs).to.equal(undefined);
      build();
      const outcome = start({ maxRetries: 1, retryTimeoutMs: 10 }, { mode: writer });
      expect(last().request.queueAs, 'another attempt follows').to.include({ channel: '-' });
      await busy();
      await pass(10);
      expect(last().request.queueAs, 'the last one').to.equal(undefined);
      await grant();
      expect(outcome.held?.retries).to.equal(1);
      start({ timeoutMs: 0, maxRetries: forever }, { mode: writer });
      expect(last().request.queueAs, 'the only one').to.equal(undefined);
    });

    it('a grant in another mode than was asked for is held in that', async () => {
      build();
      const mode: Mode = { ...permit, group: ',1,' };
      const outcome = start({}, { mode: permit });
      await grant(1, { mode });
      expect(outcome.held?.mode).to.equal(mode);
    });

    it('says whether it has waited', async () => {
      const events = await traced(async () => {
        const outcome = await waiting();
        await busy();
        await pass(2000);
        await grant();
        expect(outcome.held?.fence).to.equal(1);
        build(listening);
        await waiting();
        await grant();
        build();
        start({ maxRetries: 1 }, { mode: writer });
        await busy();
        await pass(5);
        await grant();
      });
      expect(events.map(({ queued, attempts, kind }) => [queued, attempts, kind])).to.deep.equal([
        [true, 1, 'write'],
        [false, 2, 'write'],
        [false, 2, 'write'],
      ]);
    });
  });

  describe('that waits with others of its process', () => {
    beforeEach(() => build(listening));

    it('is fetched for all of them: one request, whose grant is shared', async () => {
      const outcomes = [start(inQueue(), { mode: reader }), start(inQueue(), { mode: reader })];
      expect([asked.length, waits, timers.countTimers()], 'each its own timeout').to.deep.equal([1, 2, 2]);
      await grant(6);
      expect(outcomes.map(({ held }) => held?.fence)).to.deep.equal([6, 6]);
      expect(outcomes[0]!.held!.member).to.equal(outcomes[1]!.held!.member);
      expect([waits, timers.countTimers()]).to.deep.equal([0, 0]);
    });

    it('each has its own timeout; the fetch has none, and is given up with the last of them', async () => {
      const first = start(inQueue(50), { mode: reader });
      const second = start(inQueue(5000), { mode: reader });
      await pass(50);
      expect(first.error.message).to.equal('"k" was not free within 50 ms (it was queued)');
      await busy();
      await openChannel();
      await busy({ position: { ticket: 9, before: 0, outside: false } });
      expect([store.abandoned.length, second.error]).to.deep.equal([0, undefined]);
      await pass(5000);
      expect(second.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      expect(abandonedTokens()).to.deep.equal([last().request.token]);
      expect(timers.countTimers()).to.equal(0);
    });

    it('a fetch goes on although the attempts of its first caller are bounded; what is final ends all', async () => {
      const outcomes = [start(inQueue(), { mode: reader }), start(inQueue(), { mode: reader })];
      for (let n = 0; n < 3; n++) {
        await fail();
        await pass(5);
      }
      expect(asked).to.have.lengthOf(4);
      const error = await fail({ retryable: false });
      expect(outcomes.map(({ error: each }) => each)).to.deep.equal([error, error]);
    });

    it('of permits, it reserves fences for those that they are handed off to; of a member of readers, none', async () => {
      start(inQueue(), { mode: permit });
      expect(last().request.fences).to.equal(fencesInBlock);
      start(inQueue(), { mode: reader }, 'other');
      expect(last().request.fences).to.equal(undefined);
      start(inQueue(), { mode: writer }, 'third');
      expect(last().request.fences).to.equal(undefined);
    });

    it('H63: a member whose grant took as long as it lasts is released, and fetched again', async () => {
      const outcome = start(inQueue(), { mode: reader });
      const { token } = last().request;
      await pass(lifetimeMs * 0.999);
      await grant();
      expect([outcome.held, abandonedTokens()]).to.deep.equal([undefined, [token]]);
      await pass(10);
      await grant(2);
      expect(outcome.held?.fence).to.equal(2);
    });

    it('says that it has waited once its fetch was busy, and hears of failures', async () => {
      const events = await traced(async () => {
        start(inQueue(), { mode: reader });
        await grant();
        build(listening);
        start(inQueue(), { mode: reader });
        await busy();
        await openChannel();
        await grant();
        build(listening);
        const outcome = start({ ...inQueue(50), retryTimeoutMs: 100 }, { mode: reader });
        const error = await fail();
        await pass(50);
        expect(outcome.error).to.equal(error);
      });
      expect(events.map(({ queued, attempts, outcome }) => [queued, attempts, outcome])).to.deep.equal([
        [false, 1, 'granted'],
        [true, 1, 'granted'],
        [false, 1, 'error'],
      ]);
    });
  });

  describe('that changes what is held', () => {
    const ended = new Error('it has ended');
    let change: { -readonly [K in keyof NonNullable<Wanted['change']>]: NonNullable<Wanted['change']>[K] };
    let reverted: string[];
    let held: HeldLock;

    beforeEach(async () => {
      reverted = [];
      const first = start({}, { mode: reader });
      await grant();
      held = first.held!;
      change = {
        token: held.token,
        revert: ({ token }) => void reverted.push(token),
        ended: () => undefined,
        granted: () => held,
        refused: (reason) => new Error(reason),
      };
    });

    function begin(settings: Partial<Settings> = {}): Outcome {
      const wanted = { key: 'k', keys: 'k', settings: settled(settings), scope, store, mode: { ...writer, step: 1 } };
      return outcomeOf(wait({ ...wanted, kind: undefined, trace: undefined, change } as Wanted, (each) => each));
    }

    it('resolves with what is held, which is in its scope already', async () => {
      const add = scope.add.bind(scope);
      let added = 0;
      scope.add = (each) => {
        added += 1;
        add(each);
      };
      const outcome = begin();
      await grant(9);
      expect([outcome.held === held, added, last().request.token]).to.deep.equal([true, 0, held.token]);
    });

    it('fails for good where it can never be made, and only a change does', async () => {
      const outcome = begin({ maxRetries: 5 });
      await busy({ impossible: 'deadlock' });
      expect([outcome.error.message, asked.length]).to.deep.equal(['deadlock', 2]);
      const busyOne = begin();
      await busy();
      expect(busyOne.error).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
      const other = start({}, { mode: writer });
      await busy({ impossible: 'deadlock' });
      expect(other.error).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    });

    it('H76: whatever the answer says, nothing is changed of what has ended meanwhile', async () => {
      let untilMs: number | undefined;
      change.ended = (ms) => {
        untilMs = ms;
        return ended;
      };
      const outcome = begin();
      await grant();
      expect([outcome.error, untilMs, reverted, store.abandoned]).to.deep.equal([ended, 0, [], []]);
    });

    it('given up, it is reverted', async () => {
      const aborter = new AbortController();
      begin({ signal: aborter.signal });
      aborter.abort();
      await answered();
      expect([reverted, store.abandoned]).to.deep.equal([[held.token], []]);
    });
  });

  describe('of a lock that the caller itself holds', () => {
    const waitForIt = (held: HeldLock, settings: Partial<Settings>): Promise<Outcome> =>
      runWithin(held, () => start(settings));

    it('H70: without end, while that is renewed: a deadlock, and nothing is sent', async () => {
      const first = start();
      await grant(8);
      const held = first.held!;
      held.upkeep.startRenewing({});
      const outcome = await waitForIt(held, { maxRetries: forever });
      await answered();
      expect([outcome.error.code, asked.length, waits]).to.deep.equal(['ERR_LOCK_DEADLOCK', 1, 0]);
      for (const settings of [{ timeoutMs: 50, maxRetries: forever }, { maxRetries: 5 }]) {
        const bounded = await waitForIt(held, settings);
        expect(bounded.error).to.equal(undefined);
      }
      expect(asked).to.have.lengthOf(3);
      await held.release();
    });

    it('H70: as a reader among others, with a timeout: it waits for that, though what they wait with has none', async () => {
      build(listening);
      const first = start({}, { mode: writer });
      await grant();
      first.held!.upkeep.startRenewing({});
      const outcome = await runWithin(first.held!, () => start(inQueue(50), { mode: reader }));
      expect([outcome.error, asked.length]).to.deep.equal([undefined, 2]);
      await pass(50);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      await first.held!.release();
    });

    it('H70: while that ends by itself it waits for that', async () => {
      const first = start();
      await grant();
      const outcome = await waitForIt(first.held!, { maxRetries: forever });
      expect([outcome.error, asked.length]).to.deep.equal([undefined, 2]);
    });
  });

  describe('is traced', () => {
    it('with its end, its effort and its fence', async () => {
      const events = await traced(async () => {
        start({ name: 'a job' });
        await grant(3);
        start({ maxRetries: 1 });
        await busy();
        await pass(5);
        await busy();
        start({ signal: AbortSignal.abort() });
        await answered();
        start({}, { isTry: true });
        await busy();
        start({}, { kind: 'once' });
        await grant();
      });
      const shown = events.map(({ outcome, attempts, queued, fence, kind }) => [
        outcome,
        attempts,
        queued,
        fence,
        kind,
      ]);
      expect(shown).to.deep.equal([
        ['granted', 1, false, 3, 'mutex'],
        ['busy', 2, false, 0, 'mutex'],
        ['aborted', 0, false, 0, 'mutex'],
        ['busy', 1, false, 0, 'mutex'],
        ['granted', 1, false, 1, 'once'],
      ]);
      expect(events[0]).to.include({ name: 'a job', key: 'k' });
      expect(events.map(({ result }) => result === null)).to.deep.equal([false, false, false, true, false]);
    });

    it('where it was queued: as one attempt, and whether it waited', async () => {
      build(listening);
      const events = await traced(async () => {
        start(inQueue());
        await busy();
        await openChannel();
        await grant(3);
        start(inQueue(), {}, 'other');
        await busy();
        await pass(2000);
        await grant(4);
      });
      expect(events.map(({ attempts, queued, fence }) => [attempts, queued, fence])).to.deep.equal([
        [1, false, 3],
        [1, true, 4],
      ]);
    });
  });

  /** The ends of the acquires that `work` makes, in order. */
  async function traced(work: () => Promise<void>): Promise<any[]> {
    const events: any[] = [];
    const ends = tracingChannel('redis-exp-lock:acquire').asyncEnd;
    const hear = (event: unknown): void => void events.push(event);
    ends.subscribe(hear);
    try {
      await work();
      await answered();
    } finally {
      ends.unsubscribe(hear);
    }
    return events;
  }
});
