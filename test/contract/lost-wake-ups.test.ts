// A queued wait whose wake-up, channel or queue is lost. It depends on no client: one is tried.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import { isAcquire } from '../redis/holding';
import { answer, dropRequest, holdRequest } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { failure, pending, published } from './outcomes';
import { type Connection, places } from './places';
import { type Lease, loseMessages, Scene, takeAndGive } from './queue-scene';

describe('queued: lost wake-ups', () => {
  const here = places[0]!.create();
  before(() => here.open());
  after(() => here.close());
  const scene = new Scene(here);

  describe('H28: a wake-up is not received', () => {
    it('messages are lost on a connection that stays: the head of the queue polls', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const connection = await here.connection();
      connection.proxy.rule({ match: 'SUBSCRIBE' }, loseMessages);
      const waiting = scene.lock(connection.redis).promise(scene.key);
      await scene.queued(1);
      await held.release();
      expect(await here.holder(scene.key), 'it was granted').to.not.equal(null);
      // At most 1 s after it asked last; that the connection is deaf is noticed after 10 s at the earliest.
      const lease = await Promise.race([waiting, sleep(8_000, undefined, { ref: false })]);
      expect(lease, 'asked by itself').to.not.equal(undefined);
      expect(await lease!.release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('a slow subscriber is closed by the server: it subscribes again, and polls', async () => {
      await scene.direct.configSet('client-output-buffer-limit', 'pubsub 32kb 0 0');
      const held = await scene.lock(here.redis).promise(scene.key);
      const waiting = scene.lock(here.elsewhere).promise(scene.key);
      await scene.queued(1);
      const all = await scene.openChannels();
      for (const channel of all) await scene.direct.publish(channel, 'x'.repeat(2_000_000));
      await held.release();
      expect(await (await waiting).release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('messages that are none of ours, or come twice, do no harm', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const waiting = scene.lock(here.elsewhere).promise(scene.key);
      await scene.queued(1);
      for (const channel of await scene.openChannels()) {
        for (const text of ['', ' ', 'x', `1 ${scene.key}`, `2 ${scene.key}`, '1 another', `-1 ${scene.key}`, '\0']) {
          await scene.direct.publish(channel, text);
        }
      }
      await sleep(20);
      expect(await pending(waiting)).to.equal(true);
      expect(await here.holder(scene.key)).to.equal(held.token);
      await held.release();
      expect(await (await waiting).release()).to.equal(true);
      await scene.nothingLeft();
    });
  });

  describe('the channel cannot be opened', () => {
    let held: Lease;
    let connection: Connection;

    beforeEach(async () => {
      held = await scene.lock(here.redis).promise(scene.key);
      connection = await here.connection();
    });

    it('H27: refused, the wait polls, warns once, and subscribes once; it gets the lock all the same', async () => {
      connection.proxy.rule({ match: 'SUBSCRIBE' }, answer('-NOPERM this user has no permissions\r\n'));
      const warnings = await published('redis-exp-lock:warning', async () => {
        const waiting = scene.lock(connection.redis).promise(scene.key);
        await waitFor(() => connection.proxy.count(isAcquire) > 20);
        await held.release();
        expect(await (await waiting).release()).to.equal(true);
      });
      expect(warnings.map(({ code, key }) => [code, key])).to.deep.equal([['no-wake-ups', scene.key]]);
      // To its own channel, and to that of locks that are freed by hand.
      const channels = connection.proxy.commands.filter(({ name }) => name === 'SUBSCRIBE').map(({ args }) => args[1]);
      expect(new Set(channels)).to.have.property('size', channels.length);
      expect(channels).to.have.length(2);
      expect(connection.proxy.connections).to.equal(2);
    });

    it('H27: never answered, the wait goes on without it, however long its timeout', async () => {
      connection.proxy.rule({ match: 'SUBSCRIBE' }, dropRequest());
      const waiting = scene.lock(connection.redis, { timeout: Infinity, commandTimeout: 1_000 }).promise(scene.key);
      await waitFor(() => connection.proxy.count('SUBSCRIBE') > 0);
      await held.release();
      expect(await (await waiting).release()).to.equal(true);
    });

    it('H32: not yet open, a later caller does not overtake the one that waits for it', async () => {
      const subscribe = holdRequest();
      connection.proxy.rule({ match: 'SUBSCRIBE', nth: 1 }, subscribe);
      const order: string[] = [];
      const lock = scene.lock(connection.redis);
      const first = lock.run(scene.key, () => void order.push('first'));
      await subscribe.arrived;
      await held.release();
      const second = lock.run(scene.key, () => void order.push('second'));
      // Another key is nobody's business.
      expect(await (await lock.promise(`${scene.key}:other`)).release()).to.equal(true);
      subscribe.release();
      await Promise.all([first, second]);
      expect(order).to.deep.equal(['first', 'second']);
    });
  });

  describe('the queue itself is lost', () => {
    it('the key of the queue is deleted: every waiter still gets its turn', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const connection = await here.connection();
      const other = await here.connection();
      const waits = [other.redis, connection.redis].flatMap((redis) => {
        const lock = scene.lock(redis);
        return [lock.promise(scene.key), lock.promise(scene.key)];
      });
      await scene.queued(2);
      // They must not ask by themselves meanwhile, and be queued again.
      const poll = holdRequest();
      for (const each of [connection, other]) {
        await each.calls(); // what it sent before was answered
        each.proxy.rule({ match: isAcquire }, poll);
      }
      await scene.direct.del(scene.queue);
      await held.release();
      expect(await here.holder(scene.key), 'nobody was told').to.equal(null);
      poll.release();
      await takeAndGive(waits, () => {});
      await scene.nothingLeft();
    });

    it('a waiter fails by name at its next request, once the queue is of a foreign type or another version', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const other = `${scene.key}:other`;
      const heldToo = await scene.lock(here.redis).promise(other);
      const lock = scene.lock(here.elsewhere);
      const waits = [failure(lock.promise(scene.key)), failure(lock.promise(other))];
      await scene.queued(1);
      await scene.queued(1, other);
      await scene.direct.multi().del(scene.queue).set(scene.queue, 'foreign').exec();
      await scene.direct.zAdd(companionOf(other, 'queue'), { score: 1, value: '2 unheard of' });
      expect(await held.release()).to.equal(true);
      expect(await heldToo.release()).to.equal(true);
      const errors = await Promise.all(waits);
      expect(errors.map(({ redisCode }) => redisCode)).to.deep.equal(['WRONGTYPE', 'VERSION']);
      expect(await scene.direct.exists([scene.key, other])).to.equal(0);
    });
  });
});
