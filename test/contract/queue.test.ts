// Waiting by place: who asks with nothing but a `timeout` stands in line, and is told when it is his turn. What depends on the
// client (being told, on a connection of ours, under any name) is tried at every place; the rest of the protocol at one.
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { companionOf } from '../../src/keys';
import { isAcquire } from '../redis/holding';
import { type Action, answer, dropRequest, holdReply, holdRequest } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { type Client, connect, uniqueKey } from '../support/redis';
import { failure, libraryTimers, pending, published } from './outcomes';
import { describeEach, type Here, type Line, places, type Redis } from './places';

type Options = redisExpLock.Options;
type Lease = redisExpLock.Lease;

const channels = 'redis-exp-lock:1:*';
/** Long enough for nothing but the event itself to end a wait. */
const patient: Options = { lifetime: 10_000, timeout: 15_000 };

/** A key, those who want it, and what Redis knows of their line. */
class Scene {
  readonly here: Here;
  direct!: Client;
  key = '';
  readonly #locks: redisExpLock.WithLock[] = [];

  constructor(here: Here) {
    this.here = here;
    before(async () => {
      this.direct = await connect(here.address);
    });
    after(() => this.direct.destroy());
    beforeEach(() => {
      this.key = uniqueKey();
    });
    afterEach(async () => {
      await Promise.all(this.#locks.splice(0).map((lock) => lock.close({ drain: false })));
    });
  }

  /** A factory that is closed with the test. */
  lock(redis: Redis, options: Options = {}): redisExpLock.WithLock {
    const lock = redisExpLock({ redis, ...patient, ...options });
    this.#locks.push(lock);
    return lock;
  }

  get queue(): string {
    return companionOf(this.key, 'queue');
  }

  standing(key = this.key): Promise<number> {
    return this.direct.zCount(companionOf(key, 'queue'), 0, '+inf');
  }

  /** Waits until so many processes stand in line. */
  async stands(count: number, key = this.key): Promise<void> {
    await waitFor(async () => (await this.standing(key)) === count, { what: `${count} in line` });
  }

  /** The key is free, and nothing but its fence is left of it. */
  async nothingLeft(key = this.key): Promise<void> {
    await waitFor(async () => (await this.direct.exists([key, companionOf(key, 'queue')])) === 0, {
      what: 'the lock and its line to be gone',
    });
  }

  openChannels(): Promise<string[]> {
    return this.direct.pubSubChannels(channels) as Promise<string[]>;
  }

  async connections(): Promise<number> {
    return String(await this.direct.sendCommand(['CLIENT', 'LIST']))
      .trim()
      .split('\n').length;
  }
}

/** What comes after the confirmation of a subscription is lost, and the connection stays. */
const loseMessages: Action = {
  async reply(link, reply) {
    await link.toClient(reply);
    link.mute();
  },
};

async function takeAndGive(
  waits: readonly Promise<Lease>[],
  each: (lease: Lease, n: number) => unknown,
): Promise<void> {
  await Promise.all(
    waits.map(async (wait, n) => {
      const lease = await wait;
      await each(lease, n);
      expect(await lease.release()).to.equal(true);
    }),
  );
}

describeEach(
  'a place in line',
  (here) => {
    const scene = new Scene(here);
    let line: Line;

    if (here.place.name.startsWith('Valkey GLIDE')) {
      it('where nobody can be woken a wait counts, and gets the lock all the same (H27)', async () => {
        const held = await scene.lock(here.elsewhere).promise(scene.key);
        const waiting = scene.lock(here.redis).promise(scene.key);
        expect(await pending(waiting)).to.equal(true);
        expect(await scene.standing()).to.equal(0);
        await held.release();
        expect(await (await waiting).release()).to.equal(true);
        await scene.nothingLeft();
      });
      return;
    }

    beforeEach(async () => {
      line = await here.line();
    });

    it('the next in line has it after one message and one question, and gives it back; nothing is left', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const waiting = scene.lock(line.redis).promise(scene.key);
      await scene.stands(1);
      const before = line.proxy.count('script');
      expect(await held.release()).to.equal(true);
      const lease = await waiting;
      expect(line.proxy.count('script') - before).to.equal(1);
      expect(lease.fence).to.be.greaterThan(held.fence);
      expect(await here.holder(scene.key)).to.equal(lease.token);
      expect(await here.leftMs(scene.key), 'the provisional grant was confirmed').to.be.greaterThan(5_000);
      expect(await lease.release()).to.equal(true);
      await scene.nothingLeft();
    });

    describe('H27: the lock is given back between the failed attempt and the ear', () => {
      it('while the answer to the first attempt is on its way', async () => {
        const held = await scene.lock(here.redis).promise(scene.key);
        const reply = holdReply();
        line.proxy.rule({ match: isAcquire, nth: 1 }, reply);
        const waiting = scene.lock(line.redis).promise(scene.key);
        await reply.arrived;
        await held.release();
        reply.release();
        expect(await (await waiting).release()).to.equal(true);
      });

      it('while the subscription is on its way', async () => {
        const held = await scene.lock(here.redis).promise(scene.key);
        const subscribe = holdRequest();
        line.proxy.rule({ match: 'SUBSCRIBE', nth: 1 }, subscribe);
        const waiting = scene.lock(line.redis).promise(scene.key);
        await subscribe.arrived;
        await held.release();
        expect(await scene.standing()).to.equal(0);
        subscribe.release();
        expect(await (await waiting).release()).to.equal(true);
      });

      it('while the answer that it stands in line is on its way', async () => {
        const held = await scene.lock(here.redis).promise(scene.key);
        const reply = holdReply();
        line.proxy.rule({ match: isAcquire, nth: 2 }, reply);
        const waiting = scene.lock(line.redis).promise(scene.key);
        await reply.arrived;
        await scene.stands(1);
        await held.release();
        reply.release();
        expect(await (await waiting).release()).to.equal(true);
        await scene.nothingLeft();
      });
    });

    it('H28: every subscription is cut, again and again; each time the next one has it', async () => {
      const [holder, lock] = [scene.lock(here.redis), scene.lock(line.redis)];
      for (let n = 0; n < 5; n++) {
        const held = await holder.promise(scene.key);
        const waiting = lock.promise(scene.key);
        await scene.stands(1);
        await scene.direct.sendCommand(['CLIENT', 'KILL', 'TYPE', 'pubsub']);
        if (n % 2 === 1) await waitFor(async () => (await scene.openChannels()).length > 0);
        await held.release();
        expect(await (await waiting).release()).to.equal(true);
        await scene.nothingLeft();
      }
    });

    it('H30: 1,000 waiters in one process: one connection more than none, and a few commands in all', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const lock = scene.lock(line.redis);
      await (await lock.promise(`${scene.key}:warm`)).release();
      const connections = await scene.connections();
      const before = line.proxy.commands.length;
      const waits = Array.from({ length: 1_000 }, () => lock.promise(scene.key));
      await scene.stands(1);
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
      // 65 for each question, the handshake of the connection for messages, and a look now and then.
      expect(line.proxy.commands.length - before).to.be.at.most(70);
      await scene.nothingLeft();
    });

    it('H31: one factory is closed, another on the same client goes on waiting, and is told', async () => {
      const [mine, yours] = [scene.lock(line.redis), scene.lock(line.redis)];
      const other = `${scene.key}:other`;
      const held = await scene.lock(here.redis).promise(scene.key);
      const heldToo = await scene.lock(here.redis).promise(other);
      const closing = failure(mine.promise(scene.key));
      const closingToo = failure(mine.promise(other));
      const waits = [yours.promise(scene.key), yours.promise(other)];
      await scene.stands(1);
      await scene.stands(1, other);
      const count = (await scene.openChannels()).length;
      await mine.close();
      expect((await closing).code).to.equal('ERR_LOCK_CLOSED');
      expect((await closingToo).code).to.equal('ERR_LOCK_CLOSED');
      await waitFor(async () => (await scene.standing()) === 1 && (await scene.standing(other)) === 1);
      const before = line.proxy.count('script');
      await Promise.all([held.release(), heldToo.release()]);
      for (const lease of await Promise.all(waits)) expect(await lease.release()).to.equal(true);
      expect(line.proxy.count('script') - before).to.be.within(2, 6);
      expect((await scene.openChannels()).length).to.equal(count);
      await yours.close();
      await waitFor(async () => (await scene.openChannels()).length < count, { what: 'the channel to be closed' });
    });

    it('H34: names with quotes, braces, newlines, spaces, NUL and emoji are told as they are', async () => {
      const lock = scene.lock(line.redis);
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
      const startedMs = performance.now();
      for (const name of names) {
        const key = `${name}${scene.key}`;
        const held = await holder.promise(key);
        const waiting = lock.promise(key);
        await scene.stands(1, key);
        await held.release();
        expect(await (await waiting).release(), name).to.equal(true);
        await scene.nothingLeft(key);
      }
      const tookMs = performance.now() - startedMs;
      expect(told.map((message) => message.slice(message.indexOf(' ') + 1))).to.deep.equal(
        names.map((name) => `${name}${scene.key}`),
      );
      // Asking on its own each would have had it after 0.8 to 1 s.
      expect(tookMs).to.be.below(names.length * 600);
      ear.destroy();
    });

    describe('H35: close()', () => {
      it('ends with waiters in line; nothing of them is left: no entry, no channel, no connection, no timer', async () => {
        const { setTimeout, clearTimeout } = globalThis;
        const timers = libraryTimers();
        try {
          const held = await scene.lock(here.redis).promise(scene.key);
          const connections = await scene.connections();
          const open = (await scene.openChannels()).length;
          const lock = scene.lock(line.redis);
          const waits = Array.from({ length: 20 }, () => failure(lock.promise(scene.key)));
          await scene.stands(1);
          expect(timers()).to.be.greaterThan(0);
          await lock.close();
          for (const error of await Promise.all(waits)) expect(error).to.be.instanceOf(redisExpLock.LockClosedError);
          await scene.stands(0);
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

      it('ends while the channel is still being opened, and who waits there later is told all the same', async () => {
        const held = await scene.lock(here.redis).promise(scene.key);
        const subscribe = holdRequest();
        line.proxy.rule({ match: 'SUBSCRIBE', nth: 1 }, subscribe);
        const first = scene.lock(line.redis);
        const closed = failure(first.promise(scene.key));
        await subscribe.arrived;
        await first.close();
        expect(await closed).to.be.instanceOf(redisExpLock.LockClosedError);
        subscribe.release();
        await sleep(30); // that it is confirmed now must not count for anybody
        const waiting = scene.lock(line.redis).promise(scene.key);
        await scene.stands(1);
        expect(line.proxy.count('SUBSCRIBE'), 'a new channel for who waits now').to.equal(2);
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
        failure(scene.lock(line.redis).promise(scene.key, { signal: abort.signal, commandTimeout: 200 }));

      async function gone(): Promise<void> {
        await scene.stands(0);
        await held.release();
        await scene.nothingLeft();
      }

      for (const [when, nth] of [
        ['while it asks for the first time', 1],
        ['while it asks for its place', 2],
      ] as const) {
        it(`${when}: it rejects at once, and no entry is left`, async () => {
          const reply = holdReply();
          line.proxy.rule({ match: isAcquire, nth }, reply);
          const waiting = start();
          await reply.arrived;
          abort.abort();
          expect(await waiting).to.equal(abort.signal.reason);
          reply.release();
          await gone();
        });
      }

      it('while the channel is being opened: it rejects at once, and never stands in line', async () => {
        const subscribe = holdRequest();
        line.proxy.rule({ match: 'SUBSCRIBE', nth: 1 }, subscribe);
        const waiting = start();
        await subscribe.arrived;
        abort.abort();
        expect(await waiting).to.equal(abort.signal.reason);
        const before = line.proxy.count(isAcquire);
        subscribe.release();
        await waitFor(async () => line.proxy.count('SUBSCRIBE') > 0);
        await line.calls();
        expect(line.proxy.count(isAcquire)).to.equal(before);
        await gone();
      });

      it('while it stands in line: its entry goes', async () => {
        const waiting = start();
        await scene.stands(1);
        abort.abort();
        expect(await waiting).to.equal(abort.signal.reason);
        await gone();
      });

      it('granted, and not confirmed yet: the lock goes on to the next', async () => {
        const waiting = start();
        await scene.stands(1);
        const next = scene.lock(here.elsewhere).promise(scene.key);
        await scene.stands(2);
        const reply = holdReply();
        line.proxy.rule({ match: isAcquire, nth: 1 }, reply);
        await held.release();
        await reply.arrived;
        abort.abort();
        expect(await waiting).to.equal(abort.signal.reason);
        reply.release();
        const lease = await next;
        expect(await here.holder(scene.key)).to.equal(lease.token);
        expect(await lease.release()).to.equal(true);
        await scene.nothingLeft();
      });

      it('afterwards: it has no effect on what is held, nor on who waits behind it', async () => {
        const lock = scene.lock(line.redis);
        const first = lock.promise(scene.key, { signal: abort.signal });
        const second = lock.promise(scene.key);
        await scene.stands(1);
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

    describe('a line that cannot be read', () => {
      const spoilt: [what: string, code: string, spoil: (scene: Scene) => Promise<unknown>][] = [
        ['of a foreign type', 'WRONGTYPE', ({ direct, queue }) => direct.set(queue, 'foreign')],
        [
          'with an entry of another version',
          'VERSION',
          ({ direct, queue }) => direct.zAdd(queue, { score: Date.now() * 1000, value: '2 what nobody knows yet' }),
        ],
      ];
      for (const [what, code, spoil] of spoilt) {
        it(`${what}: waiters fail by name (${code}), and the holder gives back as ever`, async () => {
          const held = await scene.lock(here.redis).promise(scene.key);
          await spoil(scene);
          const error = await failure(scene.lock(line.redis).promise(scene.key));
          expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
          expect(error).to.include({ redisCode: code, retryable: false, key: scene.key });
          expect(await held.release()).to.equal(true);
          expect(await here.holder(scene.key)).to.equal(null);
          await scene.direct.del(scene.queue);
          expect(await (await scene.lock(line.redis).promise(scene.key)).release()).to.equal(true);
        });
      }
    });
  },
  (place) => place.faults,
);

describe('waiting by place, whatever the client', function () {
  this.timeout(30_000);

  const here = places[0]!.create();
  before(() => here.open());
  after(() => here.close());
  const scene = new Scene(here);

  describe('H28: what was told is not heard', () => {
    it('messages are lost on a connection that stays: the first in line asks by itself', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const line = await here.line();
      line.proxy.rule({ match: 'SUBSCRIBE' }, loseMessages);
      const waiting = scene.lock(line.redis).promise(scene.key);
      await scene.stands(1);
      await held.release();
      expect(await here.holder(scene.key), 'it was granted').to.not.equal(null);
      expect(await (await waiting).release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('a slow subscriber is closed by the server: it subscribes again, and asks', async () => {
      await scene.direct.configSet('client-output-buffer-limit', 'pubsub 32kb 0 0');
      const held = await scene.lock(here.redis).promise(scene.key);
      const waiting = scene.lock(here.elsewhere).promise(scene.key);
      await scene.stands(1);
      const all = await scene.openChannels();
      for (const channel of all) await scene.direct.publish(channel, 'x'.repeat(2_000_000));
      await held.release();
      expect(await (await waiting).release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('messages that are none of ours, or come twice, do no harm', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const waiting = scene.lock(here.elsewhere).promise(scene.key);
      await scene.stands(1);
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
    let line: Line;

    beforeEach(async () => {
      held = await scene.lock(here.redis).promise(scene.key);
      line = await here.line();
    });

    it('H27: refused, the wait counts, says so once, and knocks once; it has the lock all the same', async () => {
      line.proxy.rule({ match: 'SUBSCRIBE' }, answer('-NOPERM this user has no permissions\r\n'));
      const warnings = await published('redis-exp-lock:warning', async () => {
        const waiting = scene.lock(line.redis).promise(scene.key);
        await waitFor(() => line.proxy.count(isAcquire) > 20);
        await held.release();
        expect(await (await waiting).release()).to.equal(true);
      });
      expect(warnings.map(({ code, key }) => [code, key])).to.deep.equal([['no-wake-ups', scene.key]]);
      expect(line.proxy.count('SUBSCRIBE')).to.equal(1);
      expect(line.proxy.connections).to.equal(2);
    });

    it('H27: never answered, the wait goes on without it, however patient', async () => {
      line.proxy.rule({ match: 'SUBSCRIBE' }, dropRequest());
      const waiting = scene.lock(line.redis, { timeout: Infinity, commandTimeout: 200 }).promise(scene.key);
      await waitFor(() => line.proxy.count('SUBSCRIBE') > 0);
      await held.release();
      const lease = await Promise.race([waiting, sleep(5_000, undefined, { ref: false })]);
      expect(lease, 'asked again').to.not.equal(undefined);
      expect(await lease!.release()).to.equal(true);
    });

    it('H32: not yet open, who comes later does not pass who waits for it', async () => {
      const subscribe = holdRequest();
      line.proxy.rule({ match: 'SUBSCRIBE', nth: 1 }, subscribe);
      const order: string[] = [];
      const lock = scene.lock(line.redis);
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

  describe('H29: who was first in line gives up', () => {
    it('aborts, times out and closes in front: the lock goes on to who is left', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const lines = await Promise.all([here.line(), here.line(), here.line()]);
      const abort = new AbortController();
      const closing = scene.lock(lines[2]!.redis);
      const gone = [
        failure(scene.lock(lines[0]!.redis).promise(scene.key, { signal: abort.signal })),
        failure(scene.lock(lines[1]!.redis).promise(scene.key, { timeout: 250 })),
        failure(closing.promise(scene.key)),
      ];
      await scene.stands(3);
      const waiting = scene.lock(here.elsewhere).promise(scene.key);
      await scene.stands(4);
      abort.abort();
      await closing.close();
      const [aborted, timedOut, closed] = await Promise.all(gone);
      expect(aborted).to.equal(abort.signal.reason);
      expect(timedOut).to.be.instanceOf(redisExpLock.LockTimeoutError);
      expect(closed).to.be.instanceOf(redisExpLock.LockClosedError);
      await scene.stands(1);
      await held.release();
      expect(await (await waiting).release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('some of one process give up: the others keep their place and their order', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const lock = scene.lock(here.elsewhere);
      const aborts = Array.from({ length: 30 }, () => new AbortController());
      const order: number[] = [];
      const waits = aborts.map(({ signal }, n) =>
        lock
          .run(scene.key, { signal }, () => void order.push(n))
          .catch((error) => expect(error).to.equal(signal.reason)),
      );
      await scene.stands(1);
      for (let n = 0; n < 30; n += 3) aborts[n]!.abort();
      expect(await scene.standing()).to.equal(1);
      await held.release();
      await Promise.all(waits);
      expect(order).to.deep.equal(Array.from({ length: 30 }, (_, n) => n).filter((n) => n % 3 !== 0));
      await scene.nothingLeft();
    });
  });

  describe('H32: nobody jumps the line', () => {
    it('in one process: first come, first served, exactly', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const lock = scene.lock(here.elsewhere);
      const order: number[] = [];
      const waits = Array.from({ length: 300 }, (_, n) => {
        return lock.run(scene.key, async () => {
          order.push(n);
          if (n % 50 === 0) await sleep(2);
        });
      });
      await scene.stands(1);
      await held.release();
      await Promise.all(waits);
      expect(order).to.deep.equal(waits.map((_, n) => n));
    });

    it('two processes: who stands behind another has it after one grant of the other and eight it passes on', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const [one, two] = [await here.line(), await here.line()];
      let before = 0;
      const many = scene.lock(one.redis);
      const waits = Array.from({ length: 60 }, () =>
        many.run(scene.key, () => {
          before += 1;
        }),
      );
      await scene.stands(1);
      const waiting = scene.lock(two.redis).run(scene.key, () => before);
      await scene.stands(2);
      await held.release();
      expect(await waiting).to.be.within(1, 9);
      await Promise.all(waits);
      expect(before).to.equal(60);
      await scene.nothingLeft();
    });

    it('a process that was alone passes it on 64 times at most once another stands in line', async () => {
      const [one, two] = [await here.line(), await here.line()];
      const lock = scene.lock(one.redis);
      let grants = 0;
      const waits = Array.from({ length: 300 }, () =>
        lock.run(scene.key, async () => {
          grants += 1;
          await sleep(1);
        }),
      );
      await waitFor(() => grants > 5);
      const other = scene.lock(two.redis);
      await (await other.promise(`${scene.key}:warm`)).release();
      const stood = two.proxy.seen({ match: isAcquire, nth: 2 }).then(() => grants);
      const served = other.run(scene.key, () => grants);
      const overtaken = (await served) - (await stood);
      expect(overtaken).to.be.at.most(64 + 1 + 8 + 4); // the last: what happened here before it was seen here
      await Promise.all(waits);
      await scene.nothingLeft();
    });

    it('tryLock and counting callers do not pass a line on a free key', async () => {
      await here.seize(scene.key);
      const line = await here.line();
      const order: string[] = [];
      const waiting = scene.lock(line.redis, { retryTimeout: 5_000 }).run(scene.key, () => void order.push('waited'));
      await scene.stands(1);
      await here.remove(scene.key);
      expect(await scene.lock(here.redis).tryLock(scene.key)).to.equal(null);
      const options = { maxRetries: Number.POSITIVE_INFINITY, retryTimeout: 1 };
      const counting = scene.lock(here.elsewhere).run(scene.key, options, () => void order.push('counted'));
      await Promise.all([waiting, counting]);
      expect(order).to.deep.equal(['waited', 'counted']);
      await scene.nothingLeft();
    });

    it('a line that never ends leaves the key free for a moment after 64 grants: callers outside are not starved', async () => {
      const locks = [here.redis, here.elsewhere].map((redis) => scene.lock(redis, { retryTimeout: 25 }));
      const line = await here.line();
      let over = false;
      let grants = 0;
      const users = Array.from({ length: 8 }, async (_, n) => {
        while (!over) {
          await locks[n % 2]!.run(scene.key, () => {
            grants += 1;
          });
        }
      });
      await scene.stands(1);
      const lease = await scene.lock(line.redis).promise(scene.key, { maxRetries: 5_000, retryTimeout: 5 });
      expect(await lease.release()).to.equal(true);
      over = true;
      await Promise.all(users);
      // 64 grants, each passed on 8 times at most: a few rounds of that, should a moment be missed.
      expect(grants).to.be.at.most(10 * 64 * 9);
      await scene.nothingLeft();
    });

    it('so it is with retryTimeout 0: the key is left free for a moment at least', async () => {
      const locks = [here.redis, here.elsewhere].map((redis) => scene.lock(redis, { retryTimeout: 0 }));
      let over = false;
      const users = Array.from({ length: 8 }, async (_, n) => {
        while (!over) await locks[n % 2]!.run(scene.key, () => {});
      });
      try {
        await scene.stands(1);
        const counting = scene.lock((await here.line()).redis);
        const options = { maxRetries: Infinity, retryTimeout: 0, timeout: 5_000 };
        expect(await (await counting.promise(scene.key, options)).release()).to.equal(true);
      } finally {
        over = true;
        await Promise.all(users);
      }
    });

    it('an old client (SETNX, GET, DEL) among those in line: it starves nobody, and is not starved', async () => {
      const { key, direct } = scene;
      const locks = [here.redis, here.elsewhere].map((redis) => scene.lock(redis, { retryTimeout: 25 }));
      let holders = 0;
      let over = false;
      const served = new Array(6).fill(0);
      const enter = async (): Promise<void> => {
        expect(++holders).to.equal(1);
        await turn();
        holders -= 1;
      };
      const users = served.map(async (_, n) => {
        while (!over || served[n] < 20) {
          await locks[n % 2]!.run(key, enter);
          served[n] += 1;
        }
      });
      await scene.stands(1);
      for (let turns = 0; turns < 5; ) {
        if ((await direct.set(key, 'old', { condition: 'NX', expiration: { type: 'PX', value: 5_000 } })) === null) {
          await sleep(5);
          continue;
        }
        await enter();
        const before = [...served];
        expect(await direct.get(key)).to.equal('old');
        await direct.del(key);
        turns += 1;
        await waitFor(() => served.some((count, n) => count > before[n]), { what: 'the line to go on' });
      }
      over = true;
      await Promise.all(users);
      expect(Math.min(...served)).to.be.at.least(20);
      await scene.nothingLeft();
    });
  });

  it('H33: 10,000 waiters in one process: each is served once, in order, within a budget of memory', async () => {
    const held = await scene.lock(here.redis, { lifetime: 60_000 }).promise(scene.key);
    const lock = scene.lock(here.elsewhere, { lifetime: 60_000, timeout: 60_000 });
    const count = 10_000;
    global.gc!();
    const before = process.memoryUsage().heapUsed;
    const waits = Array.from({ length: count }, () => lock.promise(scene.key));
    await scene.stands(1);
    await sleep(1_200); // it has asked again since, for all of them
    global.gc!();
    const bytesEach = (process.memoryUsage().heapUsed - before) / count;
    const order: number[] = [];
    await held.release();
    await takeAndGive(waits, (_, n) => void order.push(n));
    expect(order).to.deep.equal(waits.map((_, n) => n));
    expect(bytesEach).to.be.below(4_000);
    await scene.nothingLeft();
  });

  describe('the line itself is lost', () => {
    it('the key of the line is deleted: everybody still has his turn', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const line = await here.line();
      const waits = [here.elsewhere, line.redis].flatMap((redis) => {
        const lock = scene.lock(redis);
        return [lock.promise(scene.key), lock.promise(scene.key)];
      });
      await scene.stands(2);
      await scene.direct.del(scene.queue);
      await held.release();
      expect(await here.holder(scene.key), 'nobody was told').to.equal(null);
      await takeAndGive(waits, () => {});
      await scene.nothingLeft();
    });

    it('who stood in it fails by name at his next question, once it is of a foreign type or another version', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const other = `${scene.key}:other`;
      const heldToo = await scene.lock(here.redis).promise(other);
      const lock = scene.lock(here.elsewhere);
      const waits = [failure(lock.promise(scene.key)), failure(lock.promise(other))];
      await scene.stands(1);
      await scene.stands(1, other);
      await scene.direct.multi().del(scene.queue).set(scene.queue, 'foreign').exec();
      await scene.direct.zAdd(companionOf(other, 'queue'), { score: 1, value: '2 unheard of' });
      expect(await held.release()).to.equal(true);
      expect(await heldToo.release()).to.equal(true);
      const errors = await Promise.all(waits);
      expect(errors.map(({ redisCode }) => redisCode)).to.deep.equal(['WRONGTYPE', 'VERSION']);
      expect(await scene.direct.exists([scene.key, other])).to.equal(0);
    });
  });

  describe('what the holder sees', () => {
    const lifetime = 10_000;

    /** Two of one process: the first holds, by its place; the second waits behind it. */
    async function two(options: Options = {}, behind = options, lines = 1): Promise<[Lease, Promise<Lease>, Line]> {
      const held = await scene.lock(here.redis).promise(scene.key);
      const line = await here.line();
      const lock = scene.lock(line.redis, { lifetime });
      const first = lock.promise(scene.key, options);
      const second = lock.promise(scene.key, behind);
      await scene.stands(lines);
      await held.release();
      return [await first, second, line];
    }

    it('passed on within a process or not: fences rise, the validity is almost all of the lifetime, Redis agrees', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      let last = held.fence;
      const lines = [here.elsewhere, (await here.line()).redis].map((redis) => scene.lock(redis, { lifetime }));
      const waits = Array.from({ length: 100 }, (_, n) => lines[n % 2]!.promise(scene.key));
      await scene.stands(2);
      await held.release();
      await takeAndGive(waits, async (lease) => {
        expect(lease.fence).to.be.greaterThan(last);
        last = lease.fence;
        expect(lease.remaining()).to.be.at.most(lifetime);
        expect(lease.remaining()).to.be.at.least((lifetime * 2) / 3 - 500);
        expect(await here.leftMs(scene.key)).to.be.at.least(Math.floor(lease.remaining()));
        expect(await here.holder(scene.key)).to.equal(lease.token);
      });
      const fence = Number(await scene.direct.get(companionOf(scene.key, 'fence')));
      expect(fence, 'the fences that were handed out were reserved').to.be.at.least(last);
      const next = await scene.lock(here.redis).promise(scene.key);
      expect(next.fence).to.be.greaterThan(last);
    });

    it('H22: who has passed it on can neither release nor extend it for the next', async () => {
      const [first, waiting, line] = await two();
      expect(await first.release()).to.equal(true);
      const second = await waiting;
      expect(second.token, 'passed on without a word to Redis').to.equal(first.token);
      expect(second.fence).to.be.greaterThan(first.fence);
      const before = line.proxy.count('script');
      expect(await first.extend(1)).to.equal(false);
      expect(await first.release()).to.equal(true);
      await first[Symbol.asyncDispose]?.();
      expect(first.remaining()).to.equal(0);
      expect(first.signal.aborted).to.equal(false);
      expect(line.proxy.count('script') - before).to.equal(0);
      expect(await here.holder(scene.key)).to.equal(second.token);
      expect(second.remaining()).to.be.greaterThan(lifetime / 2);
      expect(await second.extend()).to.equal(true);
      expect(await second.release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('extended to another lifetime it is not passed on: the next has its own from Redis', async () => {
      const [first, waiting] = await two();
      expect(await first.extend(60_000)).to.equal(true);
      expect(await first.release()).to.equal(true);
      const second = await waiting;
      expect(second.token).to.not.equal(first.token);
      expect(second.remaining()).to.be.at.most(lifetime);
      expect(await here.leftMs(scene.key)).to.be.at.most(lifetime);
      expect(await second.release()).to.equal(true);
    });

    it('while an extension of it is under way it is not passed on', async () => {
      const [first, waiting] = await two();
      const extending = first.extend();
      expect(await first.release()).to.equal(true);
      await extending;
      const second = await waiting;
      expect(second.token).to.not.equal(first.token);
      expect(await second.release()).to.equal(true);
      await scene.nothingLeft();
    });

    it('lost, it is not passed on: who waits has it from Redis, under a later fence', async () => {
      const [first, waiting] = await two();
      await here.remove(scene.key);
      expect(await first.extend()).to.equal(false);
      expect(await first.release()).to.equal(false);
      const second = await waiting;
      expect(second.token).to.not.equal(first.token);
      expect(second.fence).to.be.greaterThan(first.fence);
      expect(await second.release()).to.equal(true);
    });

    it('never given back: who waits behind it in the same process has it when its lifetime has ended', async () => {
      const [first, waiting] = await two({ lifetime: 300 });
      const second = await waiting;
      expect(first.remaining()).to.equal(0);
      expect(second.fence).to.be.greaterThan(first.fence);
      expect(await second.release()).to.equal(true);
      expect(await first.release()).to.equal(false);
    });

    it('renewed while held, for longer than its lifetime, it is handed over whole', async () => {
      const options = { lifetime: 300, autoExtend: true };
      const lock = scene.lock((await here.line()).redis, options);
      const other = scene.lock(here.elsewhere, options);
      let holders = 0;
      const hold = async (lease: Lease): Promise<void> => {
        expect(++holders).to.equal(1);
        const { signal } = lease;
        await sleep(400);
        expect(lease.remaining()).to.be.greaterThan(0);
        expect(signal.aborted).to.equal(false);
        holders -= 1;
      };
      await Promise.all([lock, lock, other].map((each) => each.run(scene.key, hold)));
      await scene.nothingLeft();
    });

    const apart: [what: string, one: Options, other: Options][] = [
      ['lifetimes', { lifetime: 10_000 }, { lifetime: 20_000 }],
      ['fencing', {}, { fencing: false }],
      ['owners', { owner: 'a' }, { owner: 'b' }],
    ];
    for (const [what, one, other] of apart) {
      it(`different ${what} do not share a line, and each has what it asked for`, async () => {
        const [first, waiting] = await two(one, other, 2);
        expect(await first.release()).to.equal(true);
        const second = await waiting;
        expect(second.token).to.not.equal(first.token);
        expect(second.remaining()).to.be.within((other.lifetime ?? lifetime) / 2, other.lifetime ?? lifetime);
        expect(second.fence > 0).to.equal(other.fencing !== false);
        const { owner } = await scene.lock(here.redis).inspect(scene.key);
        expect(owner).to.equal(other.owner ?? null);
        expect(await second.release()).to.equal(true);
      });
    }

    it('an owner of any text stands in line like everybody', async () => {
      const held = await scene.lock(here.redis).promise(scene.key);
      const owners = ['a b', '1 2 3 4 5 6 7', 'line\nline', 'nul\0nul', '"{}"', '🧵', ' '];
      const lock = scene.lock((await here.line()).redis);
      const waits = owners.map((owner) => lock.promise(scene.key, { owner }));
      await scene.stands(owners.length);
      await held.release();
      const { inspect } = scene.lock(here.redis);
      const seen: unknown[] = [];
      await takeAndGive(waits, async () => seen.push((await inspect(scene.key)).owner));
      expect(seen).to.have.members(owners);
    });
  });

  it('H31: a factory that is closed takes its own lock away; who waits behind it in another factory has it', async () => {
    const [mine, yours] = [scene.lock(here.redis), scene.lock(here.redis)];
    const held = await scene.lock(here.elsewhere).promise(scene.key);
    const first = mine.promise(scene.key);
    await scene.stands(1);
    const second = yours.promise(scene.key);
    await held.release();
    const lease = await first;
    const { signal } = lease;
    await mine.close({ drain: false });
    expect(signal.reason).to.include({ code: 'ERR_LOCK_LOST', reason: 'closed' });
    const next = await second;
    expect(next.fence).to.be.greaterThan(lease.fence);
    expect(next.token).to.not.equal(lease.token);
    expect(await next.release()).to.equal(true);
    await scene.nothingLeft();
  });

  it('inspect().waiters counts the processes that stand in line', async () => {
    const lock = scene.lock(here.redis);
    const held = await lock.promise(scene.key);
    expect((await lock.inspect(scene.key)).waiters).to.equal(0);
    const waits = [here.elsewhere, here.elsewhere, (await here.line()).redis].map((redis) =>
      scene.lock(redis).promise(scene.key),
    );
    await scene.stands(2);
    expect(await lock.inspect(scene.key)).to.include({ waiters: 2, locked: true, mode: 'exclusive' });
    await held.release();
    await takeAndGive(waits, () => {});
    expect(await lock.inspect(scene.key)).to.include({ waiters: 0, locked: false });
  });

  it('several keys, a lifetime without end, and replicas that must know: such waits count', async () => {
    const held = await scene.lock(here.redis).promise(scene.key);
    const line = await here.line();
    const lock = scene.lock(line.redis, { commandTimeout: 200 });
    const abort = new AbortController();
    const { signal } = abort;
    const waits = [
      failure(lock.promise([scene.key, `${scene.key}:2`], { signal })),
      failure(lock.promise(scene.key, { lifetime: null, signal })),
      failure(lock.promise(scene.key, { minReplicas: 1, signal })),
      failure(lock.promise(scene.key, { maxRetries: 1_000, timeout: 10_000, signal })),
    ];
    await waitFor(() => line.proxy.count(isAcquire) > 10);
    expect(await scene.standing()).to.equal(0);
    expect(line.proxy.count('SUBSCRIBE')).to.equal(0);
    abort.abort();
    for (const error of await Promise.all(waits)) expect(error).to.equal(signal.reason);
    expect(await held.release()).to.equal(true);
    await lock.close();
    await scene.nothingLeft();
  });

  it('the last wait ends by itself: a LockTimeoutError, no entry, and the holder undisturbed', async () => {
    const held = await scene.lock(here.redis).promise(scene.key);
    const lock = scene.lock(here.elsewhere);
    const errors = await Promise.all([60, 80, 100].map((timeout) => failure(lock.promise(scene.key, { timeout }))));
    for (const error of errors) expect(error).to.be.instanceOf(redisExpLock.LockTimeoutError);
    await scene.stands(0);
    expect(await here.holder(scene.key)).to.equal(held.token);
    expect(await held.release()).to.equal(true);
    await scene.nothingLeft();
  });
});
