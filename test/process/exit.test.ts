/**
 * The ends of processes: what keeps one alive (a pending wait, a pending close) and what does not (a lock), what a killed one
 * leaves behind, and what a development process is warned of: a lock that was forgotten.
 */

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { exited, kill9, type NodeChild, startChild, waitFor } from '../support/processes';
import { type Client, connect, sharedRedis, startRedis, uniqueKey } from '../support/redis';
import { startSentinels } from '../support/sentinel';

const child = (name: string): string => join(__dirname, 'children', name);

describe('the end of a process', () => {
  let url: string;
  let direct: Client;
  let key: string;

  before(async () => {
    ({ url } = await sharedRedis());
    direct = await connect(url);
  });

  beforeEach(() => {
    key = uniqueKey('exit');
  });

  /** The exit code of a process that ends by itself; one that does not is what these tests look for. */
  async function endOf(process: NodeChild): Promise<number | null> {
    const end = await Promise.race([exited(process), sleep(30_000, 'still alive', { ref: false })]);
    if (end === 'still alive') throw new Error(`still alive:\n${process.output()}`);
    return (end as { code: number | null }).code;
  }

  describe('H35: no lock keeps a process alive', () => {
    const scenes = {
      unref: 'two locks renewed and watched, never released, and the client unreferenced',
      destroy: 'two locks renewed and watched, never released, and the client destroyed',
      extending: 'an extension under way, and the client unreferenced',
      released: 'a lock that was renewed, watched and released, and the client unreferenced',
    };
    let processes: Record<string, NodeChild>;
    let base: string;

    before('all at once, because each takes a while to start', () => {
      base = uniqueKey('exit');
      const started = Object.keys(scenes).map((scene) => {
        return [scene, startChild(child('leaving.ts'), [url, `${base}:${scene}`, scene])] as const;
      });
      processes = Object.fromEntries(started);
    });

    for (const [scene, what] of Object.entries(scenes)) {
      it(what, async () => {
        const process = processes[scene]!;
        expect(await process.receive()).to.equal('held');
        expect(await endOf(process)).to.equal(0, process.output());
        await waitFor(async () => (await direct.exists(`${base}:${scene}`)) === 0, {
          what: 'the lifetime to free the key',
        });
        expect(process.output()).to.equal('');
      });
    }

    after(() => direct.del(Object.keys(scenes).map((scene) => `${base}:${scene}:long`)));
  });

  it('a pending wait keeps the process alive until it is served, with a timeout and with retries', async () => {
    const scenes = ['waiting', 'retrying'];
    const keys = scenes.map((scene) => `${key}:${scene}`);
    for (const each of keys) await direct.set(each, 'somebody');
    const processes = scenes.map((scene, i) => startChild(child('leaving.ts'), [url, keys[i]!, scene]));
    for (const process of processes) expect(await process.receive()).to.equal('held');
    await sleep(700);
    for (const process of processes) expect(process.exitCode).to.equal(null, process.output());
    await direct.del(keys);
    for (const process of processes) {
      expect(await process.receive()).to.equal('served');
      expect(await endOf(process)).to.equal(0);
    }
    expect(await direct.exists(keys)).to.equal(0);
  });

  it('H35: a pending close() ends, with holders that never release, and the process with it', async () => {
    const closing = startChild(child('leaving.ts'), [url, key, 'closing']);
    expect(await closing.receive()).to.equal('held');
    expect(await closing.receive()).to.equal('closed');
    expect(await endOf(closing)).to.equal(0, closing.output());
    expect(await direct.exists([key, `${key}:long`])).to.equal(0);
  });

  it('H35: a pending close() ends, with a grant that was given up to release first, and the process with it', async () => {
    const closing = startChild(child('leaving.ts'), [url, key, 'abandoned']);
    expect(await closing.receive()).to.equal('held');
    expect(await closing.receive()).to.equal('closed');
    expect(await endOf(closing)).to.equal(0, closing.output());
    expect(await direct.exists(key)).to.equal(0);
  });

  it('H35: a process whose Redis is gone for good, with ioredis and a factory that nobody closed, ends', async () => {
    const server = await startRedis();
    const deaf = startChild(child('deaf.ts'), [String(server.port)]);
    expect(await deaf.receive()).to.equal('heard');
    await server.kill();
    deaf.send('end');
    expect(await endOf(deaf)).to.equal(0, deaf.output());
  });

  for (const packageName of ['redis', 'redis-5']) {
    for (const when of ['before', 'later']) {
      it(`H35: a process whose master is gone for good, and that closes its client for sentinels (${packageName}, ${when}), ends`, async () => {
        const master = await startRedis();
        const sentinels = await startSentinels({ gone: master }, 1);
        await sentinels.givesUpAfter('gone', 500);
        const args = [packageName, when, ...[master.pid, ...sentinels.ports].map(String)];
        const deaf = startChild(child('deaf-sentinel.ts'), args);
        expect(await deaf.receive()).to.equal('closed');
        expect(await endOf(deaf)).to.equal(0, deaf.output());
        await sentinels.stop();
      });
    }
  }

  it('a holder that is killed (kill -9) frees its key within its lifetime, and a waiter elsewhere gets it', async () => {
    const lifetime = 3_000;
    const sleeper = startChild(child('sleeper.ts'), [url, key, String(lifetime)]);
    await sleeper.receive();
    const client = await connect(url);
    const withLock = redisExpLock({ redis: client, lifetime, timeout: 20_000 });
    let granted = false;
    const waiting = withLock.promise(`${key}:gone`).then((lease) => {
      granted = true;
      return lease;
    });
    await sleep(lifetime / 2); // it had been held for a lifetime when it said so
    expect(granted, 'the holder renews while it lives').to.equal(false);
    await kill9(sleeper);
    const killedMs = performance.now();
    expect(await direct.pTTL(`${key}:gone`)).to.be.at.most(lifetime);
    const lease = await waiting;
    expect(performance.now() - killedMs).to.be.below(lifetime + 10_000); // its own wait ends after 20 s
    expect(await direct.get(`${key}:gone`)).to.equal(lease.token);
    expect(await lease.release()).to.equal(true);
    client.destroy();
  });

  describe('H69: a lock that is never released', () => {
    const environments = { promise: 'development', callback: 'development', quiet: 'production' };
    let processes: Record<string, NodeChild>;
    let base: string;

    before('all at once', () => {
      base = uniqueKey('forgotten');
      const started = Object.entries(environments).map(([form, NODE_ENV]) => {
        return [
          form,
          startChild(child('forgetful.ts'), [url, `${base}:${form}`, form], { env: { NODE_ENV } }),
        ] as const;
      });
      processes = Object.fromEntries(started);
    });

    for (const form of ['promise', 'callback']) {
      it(`a development process is warned, by name, with the place where it was acquired (${form})`, async () => {
        const process = processes[form]!;
        expect((await exited(process)).code).to.equal(0, process.output());
        const output = process.output();
        expect(output)
          .to.contain('RedisExpLockWarning')
          .and.to.contain(JSON.stringify(`${base}:${form}`));
        expect(output.match(/never released/g), 'once').to.have.length(1);
        expect(output, 'the one that was released').not.to.contain('given-back');
        expect(await direct.exists(`${base}:${form}`)).to.equal(0);
        expect(output, 'where it was taken').to.match(/takeAndForget.*forgetful\.ts/);
      });
    }

    it('any other process gets no warning', async () => {
      const process = processes.quiet!;
      expect((await exited(process)).code).to.equal(0);
      expect(process.output()).to.equal('');
      expect(await direct.exists(`${base}:quiet`)).to.equal(0);
    });
  });
});
