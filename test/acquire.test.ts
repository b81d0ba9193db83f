// One acquisition over a store whose answers are the test's, by its clock: which requests it makes and when, what it settles with, and
// what it leaves behind. What a caller sees of it at every kind of store is in test/contract.
import { getEventListeners } from 'node:events';
import { expect } from 'chai';
import { acquire } from '../src/acquire/acquisition';
import { specFor } from '../src/acquire/spec';
import { LockBackendError } from '../src/core/errors';
import type { Settings } from '../src/core/options';
import { runWithin } from '../src/hold/async-context';
import type { HeldLock } from '../src/hold/held-lock';
import { Scope } from '../src/hold/scope';
import { type AcquireRequest, now, type SynchronousVerbs } from '../src/store/contract';
import { published } from './contract/outcomes';
import {
  Acquisitions,
  type Asked,
  commandTimeoutMs,
  forever,
  inQueue,
  lifetimeMs,
  type Outcome,
  outcomeOf,
  reader,
  settled,
  traced,
  writer,
} from './support/acquisitions';
import { clock } from './support/lossy-store';

const here = new Acquisitions();
const { build, start, answered, pass, last, grant, busy, fail, openChannel, abandonedTokens, listening } = here;

describe('an acquisition', () => {
  beforeEach(here.begin);
  afterEach(here.end);

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
      expect([
        here.scope.find((each) => each === held, 1) === held,
        here.asked.length,
        here.openTimers(),
      ]).to.deep.equal([true, 1, 0]);
    });

    it('busy: it rejects, with how many attempts it made', async () => {
      const outcome = start();
      await busy();
      expect(outcome.error).to.include({ code: 'ERR_LOCK_ATTEMPTS', key: 'k', attempts: 1 });
      expect([here.asked.length, here.openTimers(), here.store.abandoned]).to.deep.equal([1, 0, []]);
    });

    it('with a timeout of 0 that is over', async () => {
      const outcome = start({ timeoutMs: 0, maxRetries: forever });
      await busy();
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT', key: 'k' });
      expect(outcome.error.message).to.match(
        /^"k" was not free within 0 ms \(attempts: 1\); to wait for it, set `timeout`/,
      );
      const failed = start({ timeoutMs: 0, maxRetries: forever });
      const error = await fail({ retryable: true });
      expect([failed.error, here.asked.length]).to.deep.equal([error, 2]);
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
      expect([foreign.error, here.asked.length, here.store.abandoned]).to.deep.equal([fault, 2, []]);
    });

    it('H3: a release follows what may have been executed', async () => {
      const outcome = start();
      const error = await fail();
      expect(outcome.error).to.equal(error);
      const { token } = last().request;
      const untilMs = performance.now() + commandTimeoutMs;
      expect(here.store.abandoned).to.deep.equal([{ request: { keys: 'k', token, commandTimeoutMs }, untilMs }]);
    });

    it('nothing is sent for a lock that is closed, a wait that is aborted, or keys that can never be locked', async () => {
      const reason = new Error('no more');
      expect((await refused(start({ signal: AbortSignal.abort(reason) }))).error).to.equal(reason);
      build({ refuses: (keys, mode) => new LockBackendError(`${keys} ${mode?.kind}`) });
      const refusal = await refused(start({}, { mode: reader }));
      expect(refusal.error).to.include({ message: 'k shared', key: 'k' });
      build();
      await here.scope.close({ drain: 0 });
      expect((await refused(start())).error).to.include({ code: 'ERR_LOCK_CLOSED', key: 'k' });
    });

    async function refused(outcome: Outcome): Promise<Outcome> {
      await answered();
      expect([here.asked.length, here.openTimers()]).to.deep.equal([0, 0]);
      return outcome;
    }

    it('H90: a grant that its caller cannot be given is released, and the call fails with that error', async () => {
      const fault = new Error('no lease can be made');
      const fail = (): never => {
        throw fault;
      };
      const outcome = outcomeOf(acquire(specFor('k', settled({}), here.scope, {}), fail));
      await grant();
      expect(outcome.error).to.equal(fault);
      expect(here.store.releases.map(({ token }) => token)).to.deep.equal([last().request.token]);
      expect([here.waits, here.openTimers()]).to.deep.equal([0, 0]);
    });

    it('a missing client is an error of the call', () => {
      expect(() => acquire(specFor('k', settled({}), new Scope(), {}), (held) => held)).to.throw(
        TypeError,
        'redis: expected a connected client',
      );
    });

    it('an error of an answer has the stack of its caller', async () => {
      async function callerOfAcquire(): Promise<void> {
        await acquire(specFor('k', settled({}), here.scope, {}), (held) => held);
      }
      const failing = callerOfAcquire().catch((error) => error);
      await busy();
      expect((await failing).stack).to.include('callerOfAcquire');
    });

    it('where the answer is known at once it settles at once: it neither waits nor sets a timer', async () => {
      let granted = true;
      build({
        synchronous: {
          acquire: ({ begin }: AcquireRequest) => {
            expect(begin()).to.equal(true);
            return granted ? { granted, fence: 5, sent: now(clock) } : { granted, leftMs: 1 };
          },
        } as unknown as SynchronousVerbs,
      });
      const outcome = start({ timeoutMs: 60_000, maxRetries: forever });
      expect([here.waits, here.openTimers()]).to.deep.equal([0, 0]);
      await answered();
      expect(outcome.held?.fence).to.equal(5);
      granted = false;
      const other = start();
      await answered();
      expect([other.error.code, here.waits]).to.deep.equal(['ERR_LOCK_ATTEMPTS', 0]);
      const waiting = start({ timeoutMs: 60_000, maxRetries: forever });
      expect([here.waits, here.openTimers()]).to.deep.equal([1, 2]);
      granted = true;
      await pass(5);
      expect([waiting.held?.retries, here.waits, here.openTimers()]).to.deep.equal([1, 0, 0]);
    });
  });

  describe('polls', () => {
    const polling = { maxRetries: 2, retryTimeoutMs: 10, retryRatio: 2 };

    it('at most `retries` further attempts, after pauses, with the same token; it says how long it pauses while another follows', async () => {
      const outcome = start(polling);
      const atMs: number[] = [];
      for (const pauseMs of [10, 20, 40]) {
        atMs.push(last().sent.monoMs);
        await busy();
        await pass(pauseMs);
      }
      expect(atMs.map((ms) => ms - atMs[0]!)).to.deep.equal([0, 10, 30]);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_ATTEMPTS', attempts: 3 });
      expect(here.asked.map(({ request }) => request.pauseMs)).to.deep.equal([undefined, 20, undefined]);
      expect(new Set(here.asked.map(({ request }) => request.token)).size).to.equal(1);
      expect([here.asked.length, here.openTimers()]).to.deep.equal([3, 0]);
    });

    it('and says with which attempt it got the lock', async () => {
      const outcome = start(polling);
      await busy();
      expect(here.openTimers()).to.equal(1);
      await pass(10);
      await grant();
      expect([outcome.held?.retries, here.openTimers()]).to.deep.equal([1, 0]);
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

    it('until its timeout: the last pause is cut, and one last attempt follows, without another pause', async () => {
      const outcome = start({ timeoutMs: 25, maxRetries: forever, retryTimeoutMs: 10 });
      const startMs = performance.now();
      for (const waitMs of [10, 10, 5, 0]) {
        expect(outcome.error).to.equal(undefined);
        await busy();
        await pass(waitMs);
      }
      expect(here.asked.map(({ sent }) => sent.monoMs - startMs)).to.deep.equal([0, 10, 20, 25]);
      expect(here.asked.map(({ request }) => request.pauseMs)).to.deep.equal([undefined, 10, 10, undefined]);
      expect(outcome.error.message).to.equal('"k" was not free within 25 ms (attempts: 4)');
      expect(here.openTimers()).to.equal(0);
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
      expect([other.error.code, here.openTimers()]).to.deep.equal(['ERR_LOCK_ATTEMPTS', 0]);
    });

    it('H54: a timeout in the midst of failures says what failed', async () => {
      const outcome = start({ timeoutMs: 15, maxRetries: forever, retryTimeoutMs: 10 });
      await busy();
      await pass(10);
      const error = await fail({ retryable: true });
      await pass(5);
      expect(outcome.error, 'one last attempt').to.equal(undefined);
      await pass(commandTimeoutMs);
      expect(here.asked).to.have.lengthOf(3);
      const second = await fail({ retryable: true });
      expect([outcome.error === second, error === second]).to.deep.equal([true, false]);
    });

    it('H3: a timeout in the midst of an attempt gives that up: it is released until it can no longer execute', async () => {
      const outcome = start({ timeoutMs: 40, maxRetries: forever, retryTimeoutMs: 10 });
      await pass(39);
      expect(outcome.error).to.equal(undefined);
      await pass(1);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      expect([here.store.abandoned[0]!.untilMs, abandonedTokens()]).to.deep.equal([
        performance.now() + commandTimeoutMs,
        [last().request.token],
      ]);
      expect([here.waits, here.openTimers(), last().request.begin()]).to.deep.equal([0, 0, false]);
      await grant();
      expect([outcome.held, here.store.releases.length]).to.deep.equal([undefined, 1]);
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
        expect(here.openTimers(), `${timeoutMs}`).to.equal(count);
        await busy();
        expect(here.openTimers()).to.equal(2);
        await grantAfterPause();
        expect(here.openTimers()).to.equal(0);
      }
    });

    it('a timeout has its timer at once where the caller is behind others that wait for the channel', async () => {
      build(listening);
      start(inQueue());
      await busy();
      const before = here.openTimers();
      const timeoutMs = 4 * commandTimeoutMs + 1;
      const outcome = start(inQueue(timeoutMs));
      expect(here.openTimers() - before).to.equal(1);
      await openChannel();
      await pass(timeoutMs);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
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
        expect([last().request.pauseMs, here.channels]).to.deep.equal([10, 0]);
      }
      build();
      start({ ...inQueue(), retryTimeoutMs: 10 });
      await busy();
      await pass(10);
      expect(last().request.pauseMs).to.equal(10);
    });
  });

  describe('lines up with the callers of its process, where nothing can be heard', () => {
    const waits = { ...inQueue(1000), retryTimeoutMs: 10 };
    const fences = (outcomes: Outcome[]) => outcomes.map(({ held }) => held?.fence);

    it('H99: the first polls, and each requests when the lock of the one before has ended', async () => {
      const outcomes = [start(waits), start(waits), start(waits)];
      await busy();
      await pass(10);
      await grant(7);
      expect([here.asked.length, fences(outcomes)]).to.deep.equal([2, [7, undefined, undefined]]);
      await outcomes[0]!.held!.release();
      await answered();
      await grant(8);
      await pass(10); // longer than a pause: the third finds the lock held
      await busy();
      expect([here.asked.length, fences(outcomes)]).to.deep.equal([4, [7, 8, undefined]]);
      outcomes[1]!.held!.lose('taken');
      await grant(9);
      expect([here.asked.length, fences(outcomes)]).to.deep.equal([5, [7, 8, 9]]);
      expect(new Set(here.asked.map(({ request }) => request.token)).size).to.equal(3);
      expect([here.waits, here.store.abandoned]).to.deep.equal([0, []]);
    });

    it('and requests again at once if a lock of its process ended while its request was in flight', async () => {
      const outcomes = [start(waits), start(waits)];
      await grant(7);
      await pass(10);
      await outcomes[0]!.held!.release();
      await answered();
      expect(here.asked.length).to.equal(2);
      await busy();
      await pass(0);
      expect(here.asked.length).to.equal(3);
    });

    it('H99: after 64 of them it pauses first, for the callers of other processes', async () => {
      const outcomes = Array.from({ length: 70 }, () => start({ ...waits, timeoutMs: 60_000 }));
      for (let n = 0; n < 64; n += 1) {
        await grant(n + 1);
        await outcomes[n]!.held!.release();
        await answered();
        expect(here.asked.length).to.equal(n + 2);
      }
      await grant(65);
      await pass(5);
      await outcomes[64]!.held!.release();
      await pass(9);
      expect(here.asked.length).to.equal(65);
      await pass(1);
      await grant(66);
      await outcomes[65]!.held!.release();
      await answered();
      expect(here.asked.length).to.equal(67);
    });

    it('H99: after 64 of them an attempt under way is left alone, and the pause follows the next', async () => {
      const outcomes = Array.from({ length: 70 }, () => start({ ...waits, timeoutMs: 60_000 }));
      for (let n = 0; n < 64; n += 1) {
        await grant(n + 1);
        await outcomes[n]!.held!.release();
        await answered();
      }
      await grant(65);
      await pass(10);
      expect(here.asked.length).to.equal(66);
      await outcomes[64]!.held!.release();
      await pass(100);
      expect(here.asked.length, 'it has one attempt under way').to.equal(66);
      await grant(66);
      await pass(5);
      await outcomes[65]!.held!.release();
      await pass(9);
      expect(here.asked.length).to.equal(66);
      await pass(1);
      expect(here.asked.length).to.equal(67);
    });

    it('the next goes on if the first gives up, and nobody waits for one that has given up', async () => {
      const aborts = [new AbortController(), new AbortController()];
      const given = aborts.map(({ signal }) => start({ ...waits, signal }));
      const outcome = start(waits);
      for (const abort of aborts.toReversed()) abort.abort(new Error('enough'));
      await answered();
      expect(given.map(({ error }) => error.message)).to.deep.equal(['enough', 'enough']);
      expect(here.asked.length).to.equal(1);
      await pass(10);
      await grant(7);
      expect([here.asked.length, outcome.held?.fence, here.waits]).to.deep.equal([2, 7, 0]);
    });

    it('H72: its timeout blames Redis only if the last attempt of the first had failed', async () => {
      const silent = [start(waits), start(waits)];
      const error = await fail({ retryable: true });
      const late = start(waits);
      await pass(1000);
      expect([...silent, late].map((each) => each.error)).to.deep.equal([error, error, error]);
      build();
      const refused = [start(waits), start(waits)];
      await fail({ retryable: true });
      await pass(10);
      await busy();
      await pass(1000);
      expect(refused.map((each) => each.error.code)).to.deep.equal(Array(2).fill('ERR_LOCK_TIMEOUT'));
      expect(refused[1]!.error.message).to.include('was not free within 1000 ms (it was queued)');
    });

    it('H72: the next blames Redis if the last attempt of the first had failed, and its own has no answer', async () => {
      const abort = new AbortController();
      start({ ...waits, signal: abort.signal });
      const next = start(waits);
      const error = await fail({ retryable: true });
      abort.abort();
      await pass(10);
      expect(here.asked.length).to.equal(2);
      await pass(990);
      expect(next.error).to.equal(error);
    });

    it('not with those that poll at another pace or by a number of attempts, or want another key', async () => {
      start(waits);
      start({ ...waits, retryTimeoutMs: 20 });
      start({ maxRetries: 3, retryTimeoutMs: 10 });
      start(waits, {}, 'other');
      await answered();
      expect(here.asked.map(({ request }) => request.keys)).to.deep.equal(['k', 'k', 'k', 'other']);
    });

    it('H99: nor with those that may be queued; with replicas, or without an end, they line up all the same', async () => {
      for (const more of [{ minReplicas: 1 }, { lifetimeMs: null }]) {
        build(listening);
        const outcomes = [start({ ...waits, ...more }), start(waits), start({ ...waits, ...more })];
        await answered();
        expect(here.asked.length).to.equal(2);
        here.asked[0]!.resolve({ granted: true, fence: 7, sent: here.asked[0]!.sent });
        await answered();
        await outcomes[0]!.held!.release();
        await answered();
        expect(here.asked.length).to.equal(3);
        await grant(8);
        expect(outcomes[2]!.held).to.include({ fence: 8 });
      }
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
      expect(getEventListeners(signal, 'abort')).to.have.lengthOf(1);
      await grant();
      expect([granted.held?.fence, getEventListeners(signal, 'abort').length]).to.deep.equal([1, 1]);
      const reason = new Error('enough');
      aborter.abort(reason);
      await answered();
      const [{ request }] = here.asked as [Asked];
      expect([outcome.error, abandonedTokens(), here.waits]).to.deep.equal([reason, [request.token], 0]);
      expect([getEventListeners(signal, 'abort').length, here.openTimers()]).to.deep.equal([0, 0]);
    });

    it('in a pause: nothing was left behind, and nothing follows', async () => {
      const aborter = new AbortController();
      const outcome = start({ signal: aborter.signal, maxRetries: 5, retryTimeoutMs: 10 });
      await busy();
      aborter.abort('enough');
      await pass(50);
      expect(outcome.error).to.include({ name: 'AbortError', code: 'ABORT_ERR', cause: 'enough' });
      expect([here.asked.length, here.store.abandoned, here.openTimers()]).to.deep.equal([1, [], 0]);
    });

    it('by close', async () => {
      const outcome = start({ maxRetries: 5, retryTimeoutMs: 10 });
      expect(here.waits).to.equal(1);
      await busy();
      const closing = here.scope.close({ drain: 0 });
      await answered();
      await closing;
      expect(outcome.error).to.include({ code: 'ERR_LOCK_CLOSED' });
      expect([here.waits, here.asked.length]).to.deep.equal([0, 1]);
    });
  });

  describe('is queued', () => {
    beforeEach(() => build(listening));

    const entryOf = ({ request }: Asked) => request.queueAs;

    it('once it was busy, and a wake-up would be heard; another of its process, then, at once', async () => {
      const first = start(inQueue());
      expect([entryOf(last()), last().request.pauseMs]).to.deep.equal([undefined, undefined]);
      await busy();
      expect([here.asked.length, here.channels]).to.deep.equal([1, 1]);
      await openChannel();
      expect([here.asked.length, entryOf(last())?.ticket, here.store.abandoned]).to.deep.equal([2, 0, []]);
      expect(last().request.token).to.not.equal(here.asked[0]!.request.token);
      await busy({ position: { ticket: 1, before: 0, outside: false } });
      const second = start(inQueue());
      expect([here.asked.length, first.held, second.held]).to.deep.equal([2, undefined, undefined]);
      await pass(1000);
      await grant(5);
      expect(first.held).to.include({ fence: 5, retries: 0 });
      expect(await first.held!.release()).to.equal(true);
      await answered();
      expect(second.held, 'handed off by its queue').to.include({ fence: 6, token: first.held!.token });
      // A caller for another key does not join, but has its own attempt.
      start(inQueue(), {}, 'other');
      expect([last().request.keys, entryOf(last())?.ticket]).to.deep.equal(['other', 0]);
    });

    it('behind those that wait already for the channel to open; none makes an attempt before them', async () => {
      start(inQueue());
      await busy();
      const behind = start(inQueue());
      start(inQueue(), {}, 'other');
      expect(here.asked.map(({ request }) => request.keys)).to.deep.equal(['k', 'other']);
      await openChannel();
      expect([here.asked.length, entryOf(last())?.ticket]).to.deep.equal([3, 0]);
      await grant();
      expect(behind.held).to.equal(undefined);
    });

    it('behind the attempt of the first of its process, whatever the pauses of each', async () => {
      start({ ...inQueue(), retryTimeoutMs: 10 });
      const behind = start({ ...inQueue(50), retryTimeoutMs: 20 });
      await pass(50);
      expect([here.asked.length, behind.error?.message]).to.deep.equal([
        1,
        '"k" was not free within 50 ms (attempts: 0)',
      ]);
    });

    it('H7: not before the first of its process could begin its work', async () => {
      const first = start(inQueue());
      start(inQueue());
      const { resolve, sent } = last();
      resolve({ granted: true, fence: 1, sent });
      while (!first.held) await undefined;
      expect(here.channels).to.equal(0);
      await new Promise((turn) => setImmediate(turn));
      expect(here.channels).to.equal(1);
    });

    it('behind nobody whose attempt is over', async () => {
      const first = start(inQueue());
      const { resolve, sent } = last();
      resolve({ granted: true, fence: 1, sent });
      while (!first.held) await undefined;
      start(inQueue());
      expect(here.asked.length).to.equal(2);
    });

    it('under a token of the queue: what its own attempt may have left is released', async () => {
      start({ ...inQueue(), retryTimeoutMs: 10 });
      const { token } = last().request;
      await fail();
      expect([here.channels, here.store.abandoned], 'it tries again first').to.deep.equal([0, []]);
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
        here.channel.fail(fault);
        await answered();
        // That one has made no attempt yet.
        expect([here.asked.length, last().request.pauseMs, behind.error]).to.deep.equal([2, undefined, undefined]);
        await pass(10);
        expect([here.asked.length, last().request.pauseMs]).to.deep.equal([3, 10]);
        await busy();
        await pass(10);
        expect([here.asked.length, here.channels, last().request.pauseMs], 'and does not open it again').to.deep.equal([
          4, 1, 10,
        ]);
      });
      expect(warnings[0]).to.include({ code: 'no-wake-ups', key: 'k', name: 'a job', kind: 'mutex', store: 'redis' });
      expect((warnings[0] as any).message).to.equal('"k" is polled for: no message can be heard');
      expect((warnings[0] as any).error.message).to.include('no channel');
    });

    it('H27: and polls where the channel is not open in time, until it is', async () => {
      start({ ...inQueue(), retryTimeoutMs: 10 });
      await busy();
      await pass(commandTimeoutMs);
      await new Promise((resolve) => setImmediate(resolve));
      await pass(10);
      expect([here.asked.length, last().request.pauseMs]).to.deep.equal([2, 10]);
      await openChannel();
      expect(here.asked).to.have.lengthOf(2);
      await busy();
      expect([here.asked.length, entryOf(last())?.ticket], 'queued').to.deep.equal([3, 0]);
    });

    it('not if it was given up before the channel was open', async () => {
      const outcome = start(inQueue(50));
      await busy();
      await pass(50);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      await openChannel();
      await pass(commandTimeoutMs);
      expect([here.asked.length, here.openTimers()]).to.deep.equal([1, 0]);
    });

    it('H27: nor polls, or warns, if it was given up before the channel failed', async () => {
      const warnings = await published('redis-exp-lock:warning', async () => {
        const outcome = start(inQueue(50));
        await busy();
        await pass(50);
        expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
        here.channel.fail(new LockBackendError('no channel'));
        await answered();
        await pass(commandTimeoutMs);
        expect([here.asked.length, here.openTimers()]).to.deep.equal([1, 0]);
      });
      expect(warnings).to.deep.equal([]);
    });

    /** Starts an acquisition that is queued, in a process whose channel is open. */
    async function queued(settings: Partial<Settings> = inQueue()): Promise<Outcome> {
      start(inQueue(), {}, 'first');
      await busy();
      await openChannel();
      await grant();
      here.asked.length = 0;
      return start(settings);
    }

    it('until its timeout: it leaves the queue, and its entry is abandoned', async () => {
      const outcome = await queued(inQueue(50));
      const { token } = last().request;
      await busy({ position: { ticket: 1, before: 0, outside: false } });
      await pass(50);
      expect(outcome.error.message).to.equal('"k" was not free within 50 ms (it was queued)');
      expect([abandonedTokens(), here.waits]).to.deep.equal([[token], 0]);
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

    it('given up while it is, it is no longer granted', async () => {
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

  describe('of a lock that the caller itself holds', () => {
    const waitForIt = (held: HeldLock, settings: Partial<Settings>): Promise<Outcome> =>
      runWithin(held, () => start(settings));

    it('H70: without end, while that is renewed: a deadlock, and nothing is sent', async () => {
      const first = start();
      await grant(8);
      const held = first.held!;
      held.keeper.startRenewing({});
      const outcome = await waitForIt(held, { maxRetries: forever });
      await answered();
      expect(outcome.error?.code).to.equal('ERR_LOCK_DEADLOCK');
      expect([here.asked.length, here.waits]).to.deep.equal([1, 0]);
      for (const settings of [{ timeoutMs: 50, maxRetries: forever }, { maxRetries: 5 }]) {
        const bounded = await waitForIt(held, settings);
        expect(bounded.error).to.equal(undefined);
      }
      expect(here.asked).to.have.lengthOf(3);
      await held.release();
    });

    it('H70: as a reader among others, with a timeout: it waits for that, though what they wait with has none', async () => {
      build(listening);
      const first = start({}, { mode: writer });
      await grant();
      first.held!.keeper.startRenewing({});
      const outcome = await runWithin(first.held!, () => start(inQueue(50), { mode: reader }));
      expect([outcome.error, here.asked.length]).to.deep.equal([undefined, 2]);
      await pass(50);
      expect(outcome.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      await first.held!.release();
    });

    it('H70: while that ends by itself it waits for that', async () => {
      const first = start();
      await grant();
      const outcome = await waitForIt(first.held!, { maxRetries: forever });
      expect([outcome.error, here.asked.length]).to.deep.equal([undefined, 2]);
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
});
