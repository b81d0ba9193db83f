/**
 * Jobs once a slot among real processes: clocks far apart, timers early and late, and a process that is killed in the middle of its
 * job. 40 keys make 200 slots of 5 seconds; ONCE_SECONDS=200 proves it for longer.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { ownServer } from '../support/own-server';
import { exited, kill9, startChild, waitFor } from '../support/processes';
import { type Client, type RedisServer, uniqueKey } from '../support/redis';

const script = require.resolve('./children/slots.ts');
const seconds = Number(process.env.ONCE_SECONDS ?? 5);
const keys = 40;
const modes = ['at-most-once', 'until-success'] as const;

describe('once, among processes', function () {
  this.timeout(60_000 + 3_000 * seconds); // as many slots as are asked for
  let server: RedisServer;
  let client: Client;

  ownServer((own) => {
    ({ server, client } = own);
  });

  for (const mode of modes) {
    it(`H85: 4 processes, clocks up to 120 s apart, ${keys * seconds} slots: each runs exactly once, ${mode}`, async () => {
      const key = uniqueKey();
      const args = (wrongMs: number) => [server.url, key, String(keys), String(wrongMs), mode];
      const children = [-60_000, -20_000, 20_000, 60_000].map((wrongMs) => startChild(script, args(wrongMs)));
      for (const child of children) expect(await child.receive(), child.output()).to.equal('ready');
      const runs = async (): Promise<[n: string, index: number, times: number][]> => {
        const all = Object.entries(await client.hGetAll(`${key}:runs`));
        return all.map(([name, times]) => [name.split(' ')[0]!, Number(name.split(' ')[1]), Number(times)]);
      };
      /** The slots in which the job of each key ran. The first and the last may be cut short, and one in which the machine stood still. */
      const whole = async (): Promise<number[]> => {
        const ran = (await runs()).map(([, index]) => index);
        return [...new Set(ran)].filter((index) => ran.filter((each) => each === index).length === keys).sort();
      };
      await waitFor(async () => (await whole()).length >= seconds, { timeoutMs: 30_000 + 2_000 * seconds });
      for (const child of children) child.send('end');
      for (const child of children) expect((await exited(child)).code, child.output()).to.equal(0);

      expect((await whole())[0]! * 1000).to.be.closeTo(Date.now(), 30_000 + 2_000 * seconds);
      const all = await runs();
      expect(all.filter(([, , times]) => times !== 1)).to.deep.equal([]);
      // Whoever asks for a slot runs its job, hears that it has run, or that a job runs, which may still be that of the slot before.
      const told = await client.sMembers(`${key}:told`);
      expect(all.map(([name, index]) => `${name} ${index}`)).to.have.members(told);
      expect(all.length).to.be.at.least(keys * seconds);
    });

    it(`H85: a clock that ran ahead is put right: its marks do not count, and the slots run again, ${mode}`, async () => {
      const [key, every] = [uniqueKey(), 10 * 365 * 86_400_000];
      const withLock = redisExpLock({ redis: client, lifetime: 10_000 });
      const next = (value: number) => withLock.once(key, { every, mode }, () => value);
      const { slot } = await next(1);
      const mark = `{${key}}:slot`;
      expect(await client.get(mark)).to.equal(String(slot.start));
      for (const aheadMs of [every, Date.now() - slot.start + 600_000]) {
        // The mark of a server whose clock was ahead by a slot, and by ten minutes with slots that begin then.
        await client.set(mark, String(slot.start + aheadMs), {
          expiration: { type: 'PXAT', value: slot.end + aheadMs },
        });
        expect(await next(2), String(aheadMs)).to.deep.equal({ ran: true, slot, value: 2 });
        expect(await client.get(mark)).to.equal(String(slot.start));
        expect(await next(3)).to.deep.include({ ran: false, reason: 'done' });
      }
    });

    it(`H85: kill -9 in mid-job, ${mode}: ${mode === 'at-most-once' ? 'the slot is skipped' : 'the next caller runs it, once the lease is over'}`, async () => {
      const key = uniqueKey();
      const child = startChild(script, [server.url, key, '0', '0', mode]);
      expect(await child.receive(), child.output()).to.equal('running');
      await kill9(child);
      const withLock = redisExpLock({ redis: client });
      const next = () => withLock.once(key, { every: 10 * 365 * 86_400_000, mode }, () => 'next');
      if (mode === 'until-success') expect(await next()).to.deep.include({ ran: false, reason: 'busy' });
      await client.pExpire(key, 1); // in place of the rest of its lifetime
      await waitFor(async () => !(await withLock.inspect(key)).locked, { what: 'the lease to be over' });
      if (mode === 'until-success') {
        expect(await next()).to.include({ ran: true, value: 'next' });
        expect(await next()).to.deep.include({ ran: false, reason: 'done' });
        return;
      }
      for (let n = 0; n < 3; n += 1) {
        expect(await next()).to.deep.include({ ran: false, reason: 'done' });
        await sleep(50);
      }
    });
  }
});
