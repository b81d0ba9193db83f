/**
 * The line among processes: real ones, stopped and killed in front of others. What a dead one costs those behind it is one bounded
 * delay, however many died; commands do not grow with the waiters; and a queue keeps no process alive.
 */

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { limits } from '../../src/store/protocol';
import { ownServer } from '../support/own-server';
import { cont, exited, kill9, type NodeChild, startChild, stop, waitFor } from '../support/processes';
import { type Client, commandStats, diffCommandStats, type RedisServer, uniqueKey } from '../support/redis';

const child = (name: string): string => join(__dirname, 'children', name);

/** A provisional grant (2 s), and two questions (1 s each); the rest is for the machine. Five one after the other would be 10 s. */
const oneDelayMs = 2_000 + 2 * 1_000 + 5_000;

describe('the queue among processes', () => {
  const count = 5;
  let server: RedisServer;
  let client: Client;
  let key: string;
  let withLock: redisExpLock.WithLock;

  ownServer((own) => {
    ({ server, client } = own);
  });

  beforeEach(() => {
    key = uniqueKey('line');
    withLock = redisExpLock({ redis: client, lifetime: 20_000, timeout: 30_000 });
  });

  afterEach(() => withLock.close({ drain: false }));

  function stands(processes: number): Promise<unknown> {
    const queue = companionOf(key, 'queue');
    return waitFor(async () => (await client.zCount(queue, 0, '+inf')) === processes, {
      what: `${processes} queued processes`,
    });
  }

  async function nothingLeft(): Promise<void> {
    expect(await client.exists([key, companionOf(key, 'queue')])).to.equal(0);
  }

  describe('five processes', () => {
    let children: NodeChild[];

    before(async () => {
      children = Array.from({ length: count }, () => startChild(child('queuer.ts'), [server.url]));
      for (const each of children) expect(await each.receive()).to.equal('ready');
    });

    after(() => Promise.all(children.map(kill9)));

    interface Told {
      readonly fences: number[];
      readonly crowded: number;
      readonly failed?: string;
    }

    async function told(): Promise<Told[]> {
      const all = await Promise.all(children.map((each) => each.receive<Told>()));
      for (const { failed, crowded } of all)
        expect({ failed, crowded }).to.deep.equal({ failed: undefined, crowded: 0 });
      return all;
    }

    /** Queues all users, behind a holder of ours. */
    async function fillQueue(users: number, holdMs = 0): Promise<redisExpLock.Lease> {
      const held = await withLock.promise(key);
      for (const each of children) each.send({ key, users, holdMs });
      await stands(count);
      return held;
    }

    it('H30, H32: 200 waiters: a few commands for all, in turn, none left out', async () => {
      const usersEach = 40;
      const held = await fillQueue(usersEach);
      const before = await commandStats(client);
      const startedMs = performance.now();
      expect(await held.release()).to.equal(true);
      const all = await told();
      const { eval: whole = 0, evalsha = 0, publish } = diffCommandStats(before, await commandStats(client));
      // On a machine that takes seconds for it, each process also polls once a second.
      const polls = count * Math.floor((performance.now() - startedMs) / limits.pollMs);
      expect((whole + evalsha - polls) / (count * usersEach), 'commands for each acquisition').to.be.at.most(0.5);
      expect(publish).to.be.at.most(whole + evalsha);

      // Fences rise with each grant: they tell who had it after whom.
      const grants = all.flatMap(({ fences }, who) => fences.map((fence) => ({ fence, who })));
      grants.sort((one, other) => one.fence - other.fence);
      expect(new Set(grants.map(({ fence }) => fence)).size).to.equal(count * usersEach);
      const left = all.map(() => usersEach);
      let run = 0;
      grants.forEach(({ who }, n) => {
        run = grants[n - 1]?.who === who ? run + 1 : 1;
        left[who]! -= 1;
        const othersWait = left.some((waiting, other) => other !== who && waiting > 0);
        // One grant, handed off eight times. Alone in the queue for a moment, because the others are about to ask again, it may be more.
        if (othersWait) expect(run, `in a row, grant ${n}`).to.be.at.most(1 + 64);
      });
      for (const [who, { fences }] of all.entries()) {
        for (const [n, fence] of fences.entries()) {
          if (n === 0) continue;
          const between = grants.filter(
            (each) => each.fence > fences[n - 1]! && each.fence < fence && each.who !== who,
          );
          expect(between.length, 'grants of others between two of one process').to.be.at.most((count - 1) * (64 + 8));
          expect(fence, 'first come, first served within a process').to.be.greaterThan(fences[n - 1]!);
        }
      }
      await nothingLeft();
    });

    it('H29: five in front are stopped (SIGSTOP): the next behind them has it after one delay; later they go on', async () => {
      const held = await fillQueue(2);
      const waiting = withLock.promise(key);
      await stands(count + 1);
      await Promise.all(children.map(stop));
      expect(await held.release()).to.equal(true);
      const startedMs = performance.now();
      const lease = await waiting;
      expect(performance.now() - startedMs).to.be.below(oneDelayMs); // five delays are 10 s
      await Promise.all(children.map(cont));
      expect(await client.get(key)).to.equal(lease.token);
      await sleep(50);
      expect(await client.get(key), 'who was granted it and slept finds that it is not his').to.equal(lease.token);
      expect(await lease.release()).to.equal(true);
      const all = await told();
      for (const { fences } of all) {
        expect(fences).to.have.length(2);
        for (const fence of fences) expect(fence).to.be.greaterThan(lease.fence);
      }
      await nothingLeft();
    });

    it('H29: five in front are killed (kill -9): the next behind them has it after one delay', async () => {
      const held = await fillQueue(3);
      const waiting = withLock.promise(key);
      await stands(count + 1);
      await Promise.all(children.map(kill9));
      expect(await held.release()).to.equal(true);
      const startedMs = performance.now();
      const lease = await waiting;
      expect(performance.now() - startedMs).to.be.below(oneDelayMs); // five delays are 10 s
      expect(lease.fence).to.be.greaterThan(held.fence);
      expect(await client.get(key)).to.equal(lease.token);
      expect(await lease.release()).to.equal(true);
      await nothingLeft();
    });
  });

  describe('H35: a queue keeps no process alive whose wait is over', () => {
    const scenes = [
      'served, and the client unreferenced',
      'served, and the client closed',
      'served, and the client destroyed',
      'served, on ioredis, and the client disconnected',
      'timed out, and the client unreferenced',
      'closed while it waited, and the client unreferenced',
    ];
    let processes: Map<string, NodeChild>;
    let base: string;

    before('all at once, because each takes a while to start', async () => {
      base = uniqueKey('leaving');
      const holder = redisExpLock({ redis: client, lifetime: 60_000 });
      const leases = await Promise.all(scenes.map((scene) => holder.promise(`${base}:${scene}`)));
      processes = new Map(
        scenes.map((scene) => [
          scene,
          startChild(child('leaving-the-queue.ts'), [server.url, `${base}:${scene}`, scene]),
        ]),
      );
      for (const process of processes.values()) expect(await process.receive()).to.equal('standing');
      const served = scenes.filter((scene) => scene.startsWith('served'));
      await waitFor(async () => {
        const lines = served.map((scene) => client.zCard(companionOf(`${base}:${scene}`, 'queue')));
        return (await Promise.all(lines)).every((length) => length === 1);
      });
      for (const lease of leases) await lease.release();
    });

    for (const scene of scenes) {
      it(scene, async () => {
        const process = processes.get(scene)!;
        expect(await process.receive()).to.equal('over');
        const end = await Promise.race([exited(process), sleep(30_000, 'still alive', { ref: false })]);
        expect(end, process.output()).to.deep.equal({ code: 0, signal: null });
        expect(process.output()).to.equal('');
        const name = `${base}:${scene}`;
        expect(await client.exists([name, companionOf(name, 'queue')])).to.equal(0);
      });
    }
  });
});
