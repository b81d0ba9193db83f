// One acquisition where several may hold the key, over a store whose answers are the test's, by its clock.
import { expect } from 'chai';
import { acquire } from '../src/acquire/acquisition';
import type { AcquireSpec } from '../src/acquire/spec';
import type { Settings } from '../src/core/options';
import type { HeldLock } from '../src/hold/held-lock';
import { fencesInBlock } from '../src/queue/policy';
import { queuesOf } from '../src/queue/queues';
import type { Mode } from '../src/store/contract';
import {
  Acquisitions,
  type Asked,
  forever,
  inQueue,
  lifetimeMs,
  type Outcome,
  outcomeOf,
  permit,
  reader,
  settled,
  traced,
  writer,
} from './support/acquisitions';

const here = new Acquisitions();
const { build, start, answered, pass, last, grant, busy, fail, openChannel, abandonedTokens, listening } = here;

describe('an acquisition where several may hold the key', () => {
  beforeEach(here.begin);
  afterEach(here.end);

  describe('on its own', () => {
    const woken = (id: string): Promise<unknown> => {
      here.channel.hear(`${id} k`);
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
      expect(token, 'it is the same caller').to.equal(here.asked[0]!.request.token);
      await busy({ position: { ticket: 77, before: 0, outside: false } });
      await woken(idOf(last()));
      expect([here.asked.length, last().request.queueAs?.ticket]).to.deep.equal([3, 77]);
      await grant(4);
      expect(outcome.held).to.include({ fence: 4, retries: 0, mode: writer });
      expect([here.openTimers(), here.waits]).to.deep.equal([0, 0]);
    });

    it('woken in a pause it requests at once; in an attempt, once more after it; not once it is settled', async () => {
      const outcome = await waiting();
      const id = idOf(last());
      await woken(id);
      expect(here.asked).to.have.lengthOf(2);
      await busy();
      await pass(0);
      expect(here.asked, 'it may have been answered before').to.have.lengthOf(3);
      await busy();
      await pass(100);
      expect(here.asked, 'once').to.have.lengthOf(3);
      await woken(id);
      expect(here.asked).to.have.lengthOf(4);
      await grant();
      await woken(id);
      here.channel.gap();
      await answered();
      expect([here.asked.length, outcome.held?.fence, here.openTimers()]).to.deep.equal([4, 1, 0]);
    });

    it('unwoken it requests when the time of those that hold it is over, but no sooner than it may poll', async () => {
      await waiting({ ...inQueue(), retryTimeoutMs: 50 });
      await busy({ leftMs: 200 });
      await pass(200);
      expect(here.asked).to.have.lengthOf(2);
      await pass(1);
      expect(here.asked).to.have.lengthOf(3);
      await busy({ leftMs: 1 });
      await pass(49);
      expect(here.asked).to.have.lengthOf(3);
      await pass(1);
      expect(here.asked).to.have.lengthOf(4);
    });

    it('after a failure it requests again as one that polls', async () => {
      await waiting({ ...inQueue(), retryTimeoutMs: 50 });
      await fail({ retryable: true });
      await pass(50);
      expect(here.asked).to.have.lengthOf(3);
    });

    it('H63: a grant whose answer took as long as it lasts is released with its entry, and another is queued', async () => {
      const outcome = await waiting();
      await busy({ position: { ticket: 77, before: 0, outside: false } });
      await woken(idOf(last()));
      const { token } = last().request;
      await pass(lifetimeMs);
      await grant();
      expect(here.store.abandoned.map(({ request }) => [request.token, request.ticket])).to.deep.equal([[token, 77]]);
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
      expect(here.asked).to.have.lengthOf(4);
      return holder.held!;
    }

    it('a release of its own process lets the first of its writers request in the same tick, and no other', async () => {
      const held = await behindHolder();
      for (const { resolve, sent } of here.asked.slice(2)) resolve({ granted: false, leftMs: 5000, sent });
      await answered();
      void held.release();
      expect(here.asked).to.have.lengthOf(5);
      expect(last().request.token).to.equal(here.asked[2]!.request.token);
    });

    it('a release of its own process goes to the next where the first has a request on its way', async () => {
      const held = await behindHolder();
      await busy();
      void held.release();
      expect(here.asked).to.have.lengthOf(5);
      expect(last().request.token).to.equal(here.asked[3]!.request.token);
    });

    /**
     * The number of those in this process who request once a holder of theirs releases: each is queued, and pauses. Their lifetimes
     * differ, so that none is fetched for another.
     */
    async function wokenBy(holder: Mode, waiting: readonly Mode[]): Promise<number> {
      build(listening);
      const outcome = start({}, { mode: holder });
      await grant();
      const wait = (mode: Mode, n: number): Outcome => start({ ...inQueue(), lifetimeMs: lifetimeMs + n }, { mode });
      wait(waiting[0]!, 0);
      await busy();
      await openChannel();
      waiting.slice(1).forEach((mode, n) => void wait(mode, n + 1));
      for (const { resolve, sent } of here.asked.slice(2)) resolve({ granted: false, leftMs: 5000, sent });
      await answered();
      const before = here.asked.length;
      void outcome.held!.release();
      return here.asked.length - before;
    }

    it('a release of its own process lets those request for whom it makes room', async () => {
      const two: Mode = { ...permit, permits: 2, total: 4 };
      const one: Mode = { ...two, permits: 1 };
      expect(await wokenBy(writer, [reader, reader, reader]), 'readers').to.equal(3);
      expect(await wokenBy(writer, [reader, writer, reader]), 'up to a writer').to.equal(2);
      expect(await wokenBy(two, [one, one, one]), 'permits').to.equal(2);
      expect(await wokenBy(two, [two, one]), 'more permits each').to.equal(1);
      expect(await wokenBy(reader, [writer]), 'a reader releases nothing by itself').to.equal(0);
    });

    it('unwoken those further back request later, and without a known end of the hold only when it may poll', async () => {
      await waiting({ ...inQueue(), retryTimeoutMs: 5 });
      await busy({ leftMs: 200, position: { ticket: 5, before: 3, outside: false } });
      await pass(203);
      expect(here.asked).to.have.lengthOf(2);
      await pass(1);
      expect(here.asked).to.have.lengthOf(3);
      for (const leftMs of [-1, 0]) {
        const before = here.asked.length;
        await busy({ leftMs });
        await pass(799);
        expect(here.asked, `${leftMs}`).to.have.lengthOf(before);
        await pass(201);
        expect(here.asked, `${leftMs}`).to.have.lengthOf(before + 1);
      }
    });

    it('once it is settled nothing of it stays among those who can be woken', async () => {
      const outcome = await waiting();
      const { wakeUps } = queuesOf(here.scope, here.store)!;
      expect(wakeUps.subscribers).to.equal(1);
      await grant();
      expect([outcome.held?.fence, wakeUps.subscribers]).to.deep.equal([1, 0]);
    });

    it('its last attempt queues nobody; its end takes its entry out', async () => {
      const outcome = await waiting(inQueue(100));
      await busy({ position: { ticket: 5, before: 3, outside: false } });
      await pass(100);
      expect(last().request.queueAs).to.equal(undefined);
      await busy();
      expect(outcome.error.message).to.equal('"k" was not free within 100 ms (it was queued)');
      expect(here.store.abandoned.map(({ request }) => request.ticket)).to.deep.equal([5]);
    });

    it('given up in an attempt it no longer hears of wake-ups', async () => {
      const aborter = new AbortController();
      await waiting({ ...inQueue(), signal: aborter.signal });
      const id = idOf(last());
      aborter.abort();
      await woken(id);
      await busy();
      await pass(2000);
      expect([here.asked.length, here.store.abandoned.length, here.openTimers()]).to.deep.equal([2, 1, 0]);
    });

    it('where it polls it says for how long its entry is silent; without a queue there is no such entry', async () => {
      build(listening);
      start({ ...inQueue(), retryTimeoutMs: 10 }, { mode: writer });
      await busy();
      here.channel.fail(new Error('no channel'));
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

  describe('together with others of its process', () => {
    beforeEach(() => build(listening));

    it('is fetched for all of them: one request, whose grant is shared', async () => {
      const later = { ...inQueue(), timeoutMs: inQueue().timeoutMs! + 1 };
      const outcomes = [start(inQueue(), { mode: reader }), start(later, { mode: reader })];
      expect([here.asked.length, here.waits, here.openTimers()], 'each its own timeout').to.deep.equal([1, 2, 2]);
      await grant(6);
      expect(outcomes.map(({ held }) => held?.fence)).to.deep.equal([6, 6]);
      expect(outcomes[0]!.held!.member).to.equal(outcomes[1]!.held!.member);
      expect([here.waits, here.openTimers()]).to.deep.equal([0, 0]);
    });

    it('each has its own timeout; the fetch has none, and is given up with the last of them', async () => {
      const first = start(inQueue(50), { mode: reader });
      const second = start(inQueue(5000), { mode: reader });
      await pass(50);
      expect(first.error.message).to.equal('"k" was not free within 50 ms (it was queued)');
      await busy();
      await openChannel();
      await busy({ position: { ticket: 9, before: 0, outside: false } });
      expect([here.store.abandoned.length, second.error]).to.deep.equal([0, undefined]);
      await pass(5000);
      expect(second.error).to.include({ code: 'ERR_LOCK_TIMEOUT' });
      expect(abandonedTokens()).to.deep.equal([last().request.token]);
      expect(here.openTimers()).to.equal(0);
    });

    it('a fetch goes on although the attempts of its first caller are bounded; what is final ends all', async () => {
      const outcomes = [start(inQueue(), { mode: reader }), start(inQueue(), { mode: reader })];
      for (let n = 0; n < 3; n++) {
        await fail();
        await pass(5);
      }
      expect(here.asked).to.have.lengthOf(4);
      const error = await fail({ retryable: false });
      expect(outcomes.map(({ error: each }) => each)).to.deep.equal([error, error]);
    });

    it('a writer of the process closes what readers share, unless they prefer readers', async () => {
      for (const [prefer, requests] of [
        ['fair', 3],
        ['writer', 3],
        ['reader', 2],
      ] as const) {
        build(listening);
        const read = (): Outcome => start(inQueue(), { mode: { ...reader, prefer } });
        read();
        await grant();
        expect(read().error).to.equal(undefined);
        expect(here.asked, 'the second joins the first').to.have.lengthOf(1);
        start(inQueue(), { mode: { ...writer, prefer } });
        read();
        expect(here.asked, prefer).to.have.lengthOf(requests);
      }
    });

    it('of permits, it reserves fences for those that they are handed off to; of a member of readers, none', async () => {
      start(inQueue(), { mode: permit });
      expect(last().request.fences).to.equal(fencesInBlock);
      start(inQueue(), { mode: reader }, 'other');
      expect(last().request.fences).to.equal(1);
      start(inQueue(), { mode: writer }, 'third');
      expect(last().request.fences).to.equal(1);
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

  describe('as a change of what is held', () => {
    const ended = new Error('it has ended');
    let change: { -readonly [K in keyof NonNullable<AcquireSpec['change']>]: NonNullable<AcquireSpec['change']>[K] };
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

    function begin(settings: Partial<Settings> = {}, mode = writer): Outcome {
      const wanted = {
        key: 'k',
        keys: 'k',
        settings: settled(settings),
        scope: here.scope,
        store: here.store,
        mode: { ...mode, step: 1 },
      };
      return outcomeOf(acquire({ ...wanted, kind: undefined, change } as AcquireSpec, (each) => each));
    }

    it('resolves with what is held, which is in its scope already', async () => {
      const hold = here.scope.hold.bind(here.scope);
      let added = 0;
      here.scope.hold = (...granted) => {
        added += 1;
        return hold(...granted);
      };
      const outcome = begin();
      await grant(9);
      expect([outcome.held === held, added, last().request.token]).to.deep.equal([true, 0, held.token]);
    });

    it('waits with no others, to become a reader either', async () => {
      build(listening);
      start(inQueue(), { mode: reader });
      const outcome = begin(inQueue(), reader);
      expect([here.asked.length, last().request.token]).to.deep.equal([2, held.token]);
      await grant();
      expect(outcome.held).to.equal(held);
    });

    it('fails for good where it can never be made, and only a change does', async () => {
      const outcome = begin({ maxRetries: 5 });
      await busy({ impossible: 'deadlock' });
      expect([outcome.error.message, here.asked.length]).to.deep.equal(['deadlock', 2]);
      const busyOne = begin();
      await busy();
      expect(busyOne.error).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
      const other = start({}, { mode: writer });
      await busy({ impossible: 'deadlock' });
      expect(other.error).to.include({ code: 'ERR_LOCK_ATTEMPTS' });
    });

    it('H76: whatever the answer says, nothing is changed of what has ended meanwhile', async () => {
      change.ended = () => ended;
      const outcome = begin();
      await grant();
      expect([outcome.error, reverted, here.store.abandoned]).to.deep.equal([ended, [held.token], []]);
    });

    it('given up, it is reverted', async () => {
      const aborter = new AbortController();
      begin({ signal: aborter.signal });
      aborter.abort();
      await answered();
      expect([reverted, here.store.abandoned]).to.deep.equal([[held.token], []]);
    });
  });
});
