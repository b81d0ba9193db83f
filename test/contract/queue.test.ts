// Queued waits: a caller with nothing but a `timeout` is queued, and notified when it is its turn. Here what depends on the
// client (notified, on a connection of ours, under any name), at every place; queue-fairness, hand-off and lost-wake-ups have
// the rest of the protocol, at one.
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { limits } from '../../src/store/protocol';
import { isAcquire } from '../redis/holding';
import { holdReply, holdRequest } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { connect } from '../support/redis';
import { failure, libraryTimers, pending } from './outcomes';
import { type Connection, describeEach } from './places';
import { channels, cutOff, type Lease, loseMessages, Scene, takeAndGive } from './queue-scene';

/** The number of requests at most that a queue makes by itself in that time: it waits for 0.8 to 1 s between two of them. */
function pollsSince(startedMs: number): number {
  return Math.floor((performance.now() - startedMs) / (0.8 * limits.pollMs));
}

describeEach(
  'queued',
  (here) => {
    const scene = new Scene(here);
    let connection: Connection;

    if (here.place.polls) {
      it('without a subscription a wait polls, and gets the lock all the same (H27)', async () => {
        const held = await scene.lock(here.elsewhere).promise(scene.key);
        const waiting = scene.lock(here.redis).promise(scene.key);
        expect(await pending(waiting)).to.equal(true);
        expect(await scene.queueLength()).to.equal(0);
        await held.release();
        expect(await (await waiting).release()).to.equal(true);
        await scene.nothingLeft();
      });
      return;
    }

    beforeEach(async () => {
      connection = await here.connection();
    });

    it('the next in the queue holds after one message, which one request confirms, and releases; nothing is left', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const startedMs = performance.now();
      const waiting = scene.lock(connection.redis).promise(scene.key);
      await scene.queued(1);
      const before = connection.proxy.count('script');
      expect(await held.release()).to.equal(true);
      const lease = await waiting;
      expect(lease.fence).to.be.greaterThan(held.fence);
      expect(await here.holder(scene.key)).to.equal(lease.token);
      await waitFor(async () => (await here.leftMs(scene.key)) > 5_000, { what: 'the grant to be confirmed' });
      // None but the confirmation, unless a second has passed meanwhile.
      expect(connection.proxy.count('script') - before).to.be.within(1, 1 + pollsSince(startedMs));
      expect(await lease.release()).to.equal(true);
      await scene.nothingLeft();
    });

    describe('H27: the lock is released between the failed attempt and the subscription', () => {
      it('while the answer to the first attempt is on its way', async () => {
        const held = await scene.lock(here.redis).promise(scene.key);
        const reply = holdReply();
        connection.proxy.rule({ match: isAcquire, nth: 1 }, reply);
        const waiting = scene.lock(connection.redis).promise(scene.key);
        await reply.arrived;
        await held.release();
        reply.release();
        expect(await (await waiting).release()).to.equal(true);
      });

      it('while the subscription is on its way', async () => {
        const held = await scene.lock(here.redis).promise(scene.key);
        const subscribe = holdRequest();
        connection.proxy.rule({ match: 'SUBSCRIBE', nth: 1 }, subscribe);
        const waiting = scene.lock(connection.redis).promise(scene.key);
        await subscribe.arrived;
        await connection.calls(); // whatever was sent has arrived
        expect(await scene.queueLength(), 'not queued yet').to.equal(0);
        await held.release();
        expect(await here.holder(scene.key), 'nobody was granted it').to.equal(null);
        subscribe.release();
        expect(await (await waiting).release()).to.equal(true);
      });

      it('while the reply that it is queued is on its way', async () => {
        const held = await scene.lock(here.redis).promise(scene.key);
        const reply = holdReply();
        connection.proxy.rule({ match: isAcquire, nth: 2 }, reply);
        const waiting = scene.lock(connection.redis).promise(scene.key);
        await reply.arrived;
        await scene.queued(1);
        await held.release();
        reply.release();
        expect(await (await waiting).release()).to.equal(true);
        await scene.nothingLeft();
      });
    });

    it('H28: every subscription is cut, again and again; each time the next one has it', async () => {
      const [holder, lock] = [scene.lock(here.redis), scene.lock(connection.redis, { timeout: 6_000 })];
      for (let n = 0; n < 5; n++) {
        const held = await holder.promise(scene.key);
        const waiting = lock.promise(scene.key);
        await scene.queued(1);
        await scene.direct.sendCommand(['CLIENT', 'KILL', 'TYPE', 'pubsub']);
        if (n % 2 === 1) await waitFor(async () => (await scene.openChannels()).length > 0);
        await held.release();
        expect(await (await waiting).release()).to.equal(true);
        await scene.nothingLeft();
      }
    });

    it('H30: 1,000 waiters in one process: one connection more than none, and a few commands in all', async () => {
      // A thousand callers keep a busy machine from reading any reply for a second, and take longer to have their turns.
      const long = { lifetime: 60_000, timeout: 50_000, commandTimeout: 30_000 };
      const held = await scene.lock(here.redis, long).promise(scene.key);
      const lock = scene.lock(connection.redis, long);
      await (await lock.promise(`${scene.key}:warm`)).release();
      const connections = await scene.connections();
      const before = connection.proxy.commands.length;
      const startedMs = performance.now();
      const waits = Array.from({ length: 1_000 }, () => lock.promise(scene.key));
      await scene.queued(1);
      expect((await scene.connections()) - connections).to.equal(1);
      await held.release();
      let holders = 0;
      let most = 0;
      await takeAndGive(waits, async () => {
        most = Math.max(most, ++holders);
        await turn();
        holders -= 1;
      });
      expect(most).to.equal(1);
      // 65 for each question, the handshake of the connection for messages, and a poll now and then: once a second.
      const polls = Math.floor((performance.now() - startedMs) / limits.pollMs);
      expect(connection.proxy.commands.length - before - polls).to.be.at.most(70);
      await scene.nothingLeft();
    });

    it('H31: one factory is closed, another on the same client goes on waiting, and is notified', async () => {
      const [mine, yours] = [scene.lock(connection.redis, cutOff), scene.lock(connection.redis)];
      const other = `${scene.key}:other`;
      const held = await scene.lock(here.redis).promise(scene.key);
      const heldToo = await scene.lock(here.redis).promise(other);
      const startedMs = performance.now();
      const closing = failure(mine.promise(scene.key));
      const closingToo = failure(mine.promise(other));
      const waits = [yours.promise(scene.key), yours.promise(other)];
      await scene.queued(1);
      await scene.queued(1, other);
      const count = (await scene.openChannels()).length;
      await mine.close();
      expect((await closing).code).to.equal('ERR_LOCK_CLOSED');
      expect((await closingToo).code).to.equal('ERR_LOCK_CLOSED');
      await waitFor(async () => (await scene.queueLength()) === 1 && (await scene.queueLength(other)) === 1);
      const before = connection.proxy.count('script');
      await Promise.all([held.release(), heldToo.release()]);
      for (const lease of await Promise.all(waits)) expect(await lease.release()).to.equal(true);
      expect(connection.proxy.count('script') - before).to.be.within(2, 6 + 2 * pollsSince(startedMs));
      expect((await scene.openChannels()).length).to.equal(count);
      await yours.close();
      await waitFor(async () => (await scene.openChannels()).length < count, { what: 'the channel to be closed' });
    });

    it('H34: wake-ups carry names with quotes, braces, newlines, spaces, NUL and emoji as they are', async () => {
      const lock = scene.lock(connection.redis);
      const holder = scene.lock(here.redis);
      const names = [
        '"quoted" \'too\'',
        '{tag}:rest',
        '{whole}',
        'open{',
        'a\r\nb\n',
        ' two  spaces ',
        'nul\0nul',
        '🔒🧵',
      ];
      names.push('a{b}c', '1 2 3', '\\', '%s*?[x]', 'ä\u2028ö', '{"json":["', 'é'.repeat(400));
      const ear = await connect(here.address);
      const told: string[] = [];
      await ear.pSubscribe(channels, (message) => void told.push(message));
      /** Ms from a release until the next one has it. */
      const wakeUp = async (key: string): Promise<number> => {
        const held = await holder.promise(key);
        const waiting = lock.promise(key);
        await scene.queued(1, key);
        const startedMs = performance.now();
        await held.release();
        const lease = await waiting;
        const tookMs = performance.now() - startedMs;
        expect(await lease.release(), key).to.equal(true);
        await scene.nothingLeft(key);
        return tookMs;
      };
      for (const name of names) {
        const key = `${name}${scene.key}`;
        told.length = 0;
        let tries = 0;
        // Who is not woken asks by itself, after 0.8 to 1 s, every time; a machine that stands still does not do so every time.
        for (let tookMs = 800; tookMs >= 700; tries++) {
          expect(tries, `${JSON.stringify(name)} was not heard`).to.be.below(5);
          tookMs = await wakeUp(key);
        }
        await waitFor(() => told.length >= tries, { what: 'each message' });
        expect(told.map((message) => message.slice(message.indexOf(' ') + 1))).to.deep.equal(Array(tries).fill(key));
      }
      ear.destroy();
    });

    describe('H35: close()', () => {
      it('ends with waiters in the queue; nothing of them is left: no entry, no channel, no connection, no timer', async () => {
        const { setTimeout, clearTimeout } = globalThis;
        const timers = libraryTimers();
        try {
          const held = await scene.lock(here.redis, { lifetime: 60_000 }).promise(scene.key);
          const connections = await scene.connections();
          const open = (await scene.openChannels()).length;
          const lock = scene.lock(connection.redis, cutOff);
          const waits = Array.from({ length: 20 }, () => failure(lock.promise(scene.key)));
          await scene.queued(1);
          expect(timers()).to.be.greaterThan(0);
          await lock.close();
          for (const error of await Promise.all(waits)) expect(error).to.be.instanceOf(redisExpLock.LockClosedError);
          await scene.queued(0);
          const isOver = async () =>
            (await scene.openChannels()).length === open && (await scene.connections()) <= connections;
          await waitFor(isOver, { what: 'the connection for messages to end' });
          expect(timers()).to.equal(0);
          expect(await held.release()).to.equal(true);
          expect(timers()).to.equal(0);
          await scene.nothingLeft();
        } finally {
          Object.assign(globalThis, { setTimeout, clearTimeout });
        }
      });

      it('ends while the channel is still being opened, and a later waiter is notified all the same', async () => {
        const held = await scene.lock(here.redis).promise(scene.key);
        const connections = await scene.connections();
        const subscribe = holdRequest();
        connection.proxy.rule({ match: 'SUBSCRIBE', nth: 1 }, subscribe);
        const first = scene.lock(connection.redis, cutOff);
        const closed = failure(first.promise(scene.key));
        await subscribe.arrived;
        await first.close();
        expect(await closed).to.be.instanceOf(redisExpLock.LockClosedError);
        subscribe.release(); // that it is confirmed now must not count for anybody
        const isOver = async () => (await scene.connections()) <= connections;
        await waitFor(isOver, { what: 'the connection for messages to end' });
        const waiting = scene.lock(connection.redis).promise(scene.key);
        await scene.queued(1);
        const subscribed = connection.proxy.commands.filter(
          ({ name, args }) => name === 'SUBSCRIBE' && !args[1]!.endsWith(':freed'),
        );
        expect(subscribed, 'a new channel for the present waiters').to.have.length(2);
        await held.release();
        expect(await (await waiting).release()).to.equal(true);
      });
    });

    describe('H36: aborted', () => {
      let abort: AbortController;
      let held: Lease;

      beforeEach(async () => {
        abort = new AbortController();
        held = await scene.lock(here.redis).promise(scene.key);
      });

      const start = (): Promise<Error> =>
        failure(scene.lock(connection.redis, cutOff).promise(scene.key, { signal: abort.signal }));

      async function gone(): Promise<void> {
        await scene.queued(0, scene.key, 5_000); // well before the holder's end
        expect(await held.release()).to.equal(true);
        await scene.nothingLeft();
      }

      for (const [when, nth] of [
        ['while it asks for the first time', 1],
        ['while it asks for its place', 2],
      ] as const) {
        it(`${when}: it rejects at once, and no entry is left`, async () => {
          const reply = holdReply();
          connection.proxy.rule({ match: isAcquire, nth }, reply);
          const waiting = start();
          await reply.arrived;
          abort.abort();
          expect(await waiting).to.equal(abort.signal.reason);
          reply.release();
          await gone();
        });
      }

      it('while the channel is being opened: it rejects at once, and is never queued', async () => {
        const subscribe = holdRequest();
        connection.proxy.rule({ match: 'SUBSCRIBE', nth: 1 }, subscribe);
        const waiting = start();
        await subscribe.arrived;
        abort.abort();
        expect(await waiting).to.equal(abort.signal.reason);
        const before = connection.proxy.count(isAcquire);
        subscribe.release();
        await waitFor(async () => connection.proxy.count('SUBSCRIBE') > 0);
        await connection.calls();
        expect(connection.proxy.count(isAcquire)).to.equal(before);
        await gone();
      });

      it('while it is queued: its entry goes', async () => {
        const waiting = start();
        await scene.queued(1);
        abort.abort();
        expect(await waiting).to.equal(abort.signal.reason);
        await gone();
      });

      it('granted, and not notified yet: the lock goes on to the next', async () => {
        connection.proxy.rule({ match: 'SUBSCRIBE' }, loseMessages);
        const waiting = start();
        await scene.queued(1);
        const next = scene.lock(here.elsewhere).promise(scene.key);
        await scene.queued(2);
        // It must not find out by itself, about a second after it was queued.
        const poll = holdRequest();
        connection.proxy.rule({ match: isAcquire }, poll);
        await held.release();
        expect(await here.holder(scene.key), 'granted').to.not.equal(null);
        expect(await pending(next)).to.equal(true);
        abort.abort();
        expect(await waiting).to.equal(abort.signal.reason);
        poll.release();
        const lease = await next;
        expect(await here.holder(scene.key)).to.equal(lease.token);
        expect(await lease.release()).to.equal(true);
        await scene.nothingLeft();
      });

      it('afterwards: it has no effect on what is held, nor on the waiters behind it', async () => {
        const lock = scene.lock(connection.redis);
        const first = lock.promise(scene.key, { signal: abort.signal });
        const second = lock.promise(scene.key);
        await scene.queued(1);
        await held.release();
        const lease = await first;
        abort.abort();
        await turn();
        expect(lease.remaining()).to.be.greaterThan(0);
        expect(await lease.release()).to.equal(true);
        expect(await (await second).release()).to.equal(true);
        await scene.nothingLeft();
      });
    });

    describe('a queue that cannot be read', () => {
      const spoilt: [what: string, code: string, spoil: (scene: Scene) => Promise<unknown>][] = [
        ['of a foreign type', 'WRONGTYPE', ({ direct, queue }) => direct.set(queue, 'foreign')],
        [
          'with an entry of another version',
          'VERSION',
          ({ direct, queue }) => direct.zAdd(queue, { score: Date.now() * 1000, value: '2 what nobody knows yet' }),
        ],
      ];
      for (const [what, code, spoil] of spoilt) {
        it(`${what}: waiters fail by name (${code}), and the holder releases as ever`, async () => {
          const held = await scene.lock(here.redis).promise(scene.key);
          await spoil(scene);
          const error = await failure(scene.lock(connection.redis).promise(scene.key));
          expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
          expect(error).to.include({ redisCode: code, retryable: false, key: scene.key });
          expect(await held.release()).to.equal(true);
          expect(await here.holder(scene.key)).to.equal(null);
          await scene.direct.del(scene.queue);
          expect(await (await scene.lock(connection.redis).promise(scene.key)).release()).to.equal(true);
        });
      }
    });
  },
  (place) => place.faults,
);
