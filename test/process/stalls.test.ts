/**
 * A holder that does not run when it should: its event loop is blocked, its process is stopped, its clock is set, its Redis
 * dies. What it sees first when it runs again is that it lost; and nothing of that ever reaches the process as a crash.
 */

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { blockFor, isExtension, lossOf, rejectionOf } from '../redis/holding';
import { cont, exited, type NodeChild, startChild, stop, waitFor } from '../support/processes';
import { type Client, connect, recordCommands, sharedRedis, startRedis, uniqueKey } from '../support/redis';

const child = (name: string): string => join(__dirname, 'children', name);

describe('stalls', () => {
  let url: string;
  let port: number;
  let direct: Client;
  let key: string;

  let stopped: string;
  let sleeper: NodeChild;
  let clock: NodeChild;

  before('the processes start together, because each takes a while', async () => {
    ({ url, port } = await sharedRedis());
    direct = await connect(url);
    stopped = uniqueKey('stopped');
    sleeper = startChild(child('sleeper.ts'), [url, stopped, '3000']);
    clock = startChild(child('clock.ts'), [url, uniqueKey('clock')]);
  });

  beforeEach(() => {
    key = uniqueKey('stall');
  });

  describe('H18: an event loop that is blocked for longer than the lifetime', () => {
    let client: Client;
    let withLock: redisExpLock.WithLock;

    beforeEach(async () => {
      client = await connect(url);
      withLock = redisExpLock({ redis: client, lifetime: 1_500, autoExtend: true });
    });

    afterEach(() => client.destroy());

    it('remaining() is 0 and the signal is aborted in the line that follows, and no later extension succeeds', async () => {
      const lease = await withLock.promise(key);
      await direct.pExpire(key, 60_000); // the key itself lives on, with our token
      const recording = await recordCommands({ port });
      blockFor(1_600);
      expect(lease.remaining()).to.equal(0);
      expect(lease.signal.aborted).to.equal(true);
      expect(lease.signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'stalled' });
      // What was sent before it was blocked is recorded before this.
      await direct.echo(`${key} is lost`);
      expect(await lease.extend(120_000)).to.equal(false);
      await sleep(700); // past a renewal
      const commands = await recording.stop();
      const lostAt = commands.findIndex(({ args }) => args[1] === `${key} is lost`);
      expect(lostAt).to.be.at.least(0);
      const later = commands.slice(lostAt).filter(({ args, lua }) => lua && args.includes(key));
      expect(later.filter(({ args }) => /expire|persist/i.test(args[0]!))).to.deep.equal([]);
      await direct.del(key);
    });

    it('a signal kept from before is aborted by the next tick, before any timer of the holder runs', async () => {
      const { signal } = await withLock.promise(key);
      let seen: boolean | undefined;
      setTimeout(() => {
        seen = signal.aborted;
      }, 1_550);
      blockFor(1_600);
      await sleep(0);
      expect(seen).to.equal(true);
      expect(signal.reason.reason).to.equal('stalled');
    });

    it('run rejects with the result and the reason, though the key is still there', async () => {
      const error = await rejectionOf(
        withLock.run(key, async () => {
          await direct.pExpire(key, 60_000);
          blockFor(1_600);
          return 'result';
        }),
      );
      expect(error).to.include({ code: 'ERR_LOCK_LOST', reason: 'stalled', result: 'result' });
      expect(await direct.exists(key), 'released').to.equal(0);
    });

    it('a stall shorter than what is left is no loss', async () => {
      const lease = await withLock.promise(key, { lifetime: 10_000 });
      blockFor(900);
      await sleep(100);
      expect(lease.signal.aborted).to.equal(false);
      expect(lease.remaining()).to.be.above(0);
    });
  });

  describe('H18: a process that is stopped (SIGSTOP) for longer than the lifetime', () => {
    const names = ['gone', 'taken', 'kept'];
    let report: any;
    let keys: string[];
    let sent: readonly string[][];
    let kept: { value: string | null; ttlMs: number; token: string | null };

    before('stopped and woken up', async () => {
      keys = names.map((name) => `${stopped}:${name}`);
      const [gone, taken, still] = keys as [string, string, string];
      await sleeper.receive();
      await stop(sleeper);
      sleeper.send('look');
      const stillUntilMs = performance.now() + (await direct.pTTL(still));
      await direct.pExpire(still, 60_000);
      const token = await direct.get(still);
      const expiring = [gone, taken, `${stopped}:quiet`, `${stopped}:run`];
      await waitFor(async () => (await direct.exists(expiring)) === 0, { what: 'expiry' });
      await direct.set(taken, 'stranger', { PX: 60_000 });
      await sleep(Math.max(stillUntilMs - performance.now(), 0) + 100); // its key stays, its lease is over
      const recording = await recordCommands({ port });
      await cont(sleeper);
      report = await sleeper.receive();
      await exited(sleeper);
      const commands = await recording.stop();
      sent = commands.filter(({ args }) => isExtension(args)).map(({ args }) => args.slice(3) as string[]);
      kept = { value: await direct.get(still), ttlMs: await direct.pTTL(still), token };
    });

    it('the first thing it sees is that it lost: nothing remains, the signals are aborted', () => {
      expect(report.first).to.deep.equal(names.map(() => [0, true]));
    });

    it('signals that it kept are aborted by the next tick, as stalled', () => {
      expect(report.reasons).to.deep.equal(Array(4).fill('stalled'));
    });

    it('no later extension succeeds, or is even sent, though one key still had its token', async () => {
      expect(report.extended).to.deep.equal([false, false, false]);
      expect(sent.filter((words) => keys.some((each) => words.includes(each)))).to.deep.equal([]);
      // null: it was stopped with a renewal under way, heard the answer too late, and gave the key back.
      expect(kept.value).to.be.oneOf([kept.token, null]);
      expect(kept.ttlMs).to.be.at.most(60_000);
    });

    it('the present holder is left alone', async () => {
      expect(await direct.get(keys[1]!)).to.equal('stranger');
    });

    it('run rejects with LockLostError and what its function resolved to', () => {
      expect(report.run).to.deep.equal({ code: 'ERR_LOCK_LOST', reason: 'stalled', result: 'result' });
    });
  });

  describe('H18: a wall clock that is set', () => {
    let report: any;

    before(async () => {
      report = await clock.receive();
      await exited(clock);
    });

    it('an hour back: nothing changes', () => {
      const { remaining, aborted, extended } = report.back;
      expect(aborted).to.deep.equal([false, false, false]);
      for (const ms of remaining.slice(0, 2)) expect(ms).to.be.within(1, 53_600);
      expect(remaining[2]).to.be.within(1, 6_000);
      expect(extended).to.equal(true);
    });

    it('ahead: lost at once, noticed within a second or so although the lifetime is a minute, and for good', () => {
      expect(report.ahead.remaining).to.deep.equal([0, 0]);
      expect(report.ahead.reason).to.equal('stalled');
      expect(report.ahead.extended).to.deep.equal([false, false, false]);
    });
  });

  describe('H20: nothing ever becomes a crash', () => {
    let careless: NodeChild;
    let report: any;

    before('its Redis dies while it holds', async () => {
      const server = await startRedis();
      careless = startChild(child('careless.ts'), [server.url]);
      await careless.receive();
      careless.send(server.pid);
      report = await careless.receive();
      await server.stop();
    });

    it('renewals that fail, locks that are lost and releases that fail are no unhandled rejection, exception or exit', async () => {
      expect(report.heard).to.deep.equal([]);
      expect(await exited(careless)).to.deep.equal({ code: 0, signal: null });
    });

    it('a listener is notified all the same', () => {
      expect(report.callbackErrors).to.equal(1);
      expect(report.lost.slice(0, 4), 'released by us').to.deep.equal([null, null, null, null]);
      // 'stalled' where the machine was too busy to notice the end in time.
      for (const reason of report.lost.slice(4)) expect(reason).to.be.oneOf(['unreachable', 'stalled']);
      expect(report.lost).to.have.length(7);
      expect(report.kept).to.deep.equal([false, false, false]);
    });
  });

  it('H20: a loss without a listener costs nothing', async () => {
    const client = await connect(url);
    const withLock = redisExpLock({ redis: client, lifetime: 1_500 });
    const leases = await Promise.all(Array.from({ length: 100 }, (_, i) => withLock.promise(`${key}:${i}`)));
    await waitFor(() => leases.every((lease) => lease.remaining() === 0));
    expect((await lossOf(leases[0]!)).reason).to.equal('expired');
    client.destroy();
  });
});
