/**
 * @upstash/redis: what is particular to a client over HTTP. The contract suites run on it as on the others; here are its options for
 * replies, the errors of HTTP, and what is none of its clients.
 */

import { Redis } from '@upstash/redis';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { type RedisServer, startRedis, uniqueKey } from '../support/redis';
import { type Bridge, startBridge } from '../support/upstash';
import { backendError, LONG_MS } from './faults';
import { rejectionOf } from './holding';
import { textsIn } from './texts';

const { Election } = redisExpLock;

describe('Upstash', () => {
  let server: RedisServer;
  let bridge: Bridge;
  let key: string;

  before(async () => {
    server = await startRedis();
    bridge = await startBridge(server.url);
  });
  beforeEach(() => {
    key = uniqueKey();
    bridge.answer = undefined;
  });
  after(async () => {
    bridge.close();
    await server.discard();
  });

  /** Nothing here is about how long a reply takes, but where a test says so. */
  const terms = { lifetime: LONG_MS, commandTimeout: 10_000 };
  const dial = (options: object = {}): Redis =>
    new Redis({ url: bridge.url, token: bridge.token, retry: false, enableTelemetry: false, ...options });

  describe('replies as its owner wants them for himself (H5)', () => {
    /** All that a client which only looks like one has. */
    const lookAlike = ({ eval: evaluate, evalsha }: Redis): redisExpLock.UpstashLike => ({ eval: evaluate, evalsha });
    const kinds: Record<string, () => redisExpLock.UpstashLike> = {
      'as it comes': () => dial(),
      'without automatic deserialization': () => dial({ automaticDeserialization: false }),
      'without base64': () => dial({ responseEncoding: false }),
      'without pipelining of its own': () => dial({ enableAutoPipelining: false }),
      'its methods alone': () => lookAlike(dial()),
    };

    for (const [name, make] of Object.entries(kinds)) {
      it(`${name}: all that a lock does`, async () => {
        const withLock = redisExpLock({ redis: make(), ...terms, owner: 'me' });
        const lease = await withLock.promise(key);
        expect(await server.command('GET', key)).to.equal(lease.token);
        expect(await withLock.tryLock(key)).to.equal(null);
        expect(await withLock.inspect(key)).to.include({ locked: true, owner: 'me', fence: lease.fence });
        expect(await lease.extend(2 * LONG_MS)).to.equal(true);
        const together = await Promise.all([1, 2, 3].map((n) => withLock.promise(`${key}-${n}`)));
        expect(await Promise.all(together.map((each) => each()))).to.deep.equal([true, true, true]);
        expect(await lease()).to.equal(true);
        await server.command('SET', key, '5', 'PX', 60_000); // a token that its owner would read as a number
        expect(await withLock.inspect(key)).to.include({ locked: true, owner: null });
      });
    }

    for (const name of ['as it comes', 'without automatic deserialization', 'without base64']) {
      it(`${name}: a text stays what it is, whatever it looks like`, async () => {
        const redis = kinds[name]!();
        const withLock = redisExpLock({ redis, ...terms });
        for (const [n, value] of ['5', 5, 'true', true, null, '"x"', { a: '1' }, ['ü😀', 'OK'], 'OK', ''].entries()) {
          await withLock.cached(`${key}${n}`, { ttl: LONG_MS }, () => value);
          expect(await withLock.cached(`${key}${n}`, { ttl: LONG_MS }, () => 'loaded again')).to.deep.equal(value);
        }
        for (const value of ['{ "a": 1 }', '1.0', '"x"', 'null']) {
          const election = new Election(key, { redis, ...terms });
          await election.lead(async (term) => {
            await term.proclaim(value);
            expect((await election.leader())!.value).to.equal(value);
          });
          await election.close();
        }
      });
    }
  });

  describe('the errors of HTTP: a LockBackendError, and nothing of the credential', () => {
    const password = 'the-password-of-the-address';

    async function expectRefusal(redis: Redis, of: object = {}): Promise<redisExpLock.LockBackendError> {
      const error = await backendError(redisExpLock({ redis, ...terms }).promise(key));
      expect(error).to.include(of);
      const said = textsIn(error).join('\n');
      for (const secret of [bridge.token, password, Buffer.from(bridge.token).toString('base64'), 'command was'])
        expect(said).not.to.contain(secret);
      expect(said).not.to.match(/\bBearer\b|return redis|EVALSHA/);
      return error;
    }

    it('a wrong token: not worth another attempt', async () => {
      const redis = dial({ token: `not-${bridge.token}` });
      const error = await expectRefusal(redis, { redisCode: 'NOAUTH', retryable: false });
      expect(textsIn(error).join()).not.to.contain(`not-${bridge.token}`);
    });

    it('an error of Redis, with its code', async () => {
      await server.command('LPUSH', key, 'a');
      await expectRefusal(dial(), { redisCode: 'WRONGTYPE', retryable: false });
    });

    for (const [name, status, page] of [
      ['a gateway’s page that echoes the request', 502, 'html'],
      ['a page in place of a reply', 200, 'html'],
      ['an error in JSON that echoes the request', 500, 'json'],
      ['nothing at all', 503, 'empty'],
    ] as const) {
      it(`${name}: of unknown outcome`, async () => {
        bridge.answer = (request, response) => {
          const echo = `BUSY OOM ${request.headers.authorization}`;
          const json = JSON.stringify({ error: `Internal error for ${request.headers.authorization}` });
          response.writeHead(status).end({ html: `<h1>${echo}</h1>`, json, empty: '' }[page]);
        };
        const error = await expectRefusal(dial(), { retryable: true });
        expect(error.redisCode).to.equal(undefined);
      });
    }

    it('no server', async () => {
      const error = await expectRefusal(dial({ url: 'http://127.0.0.1:1' }), { retryable: true });
      expect(error.message).to.match(/fetch failed|refused|bad port/i);
    });

    it('an address with a password, which fetch refuses and quotes', async () => {
      await expectRefusal(dial({ url: bridge.url.replace('//', `//user:${password}@`) }));
    });

    it('no answer: after commandTimeout; what it took meanwhile is released', async () => {
      let late: Promise<unknown> | undefined;
      bridge.answer = (request) => {
        bridge.answer = undefined;
        late ??= (async () => {
          let body = '';
          for await (const chunk of request) body += chunk;
          return server.command(...(JSON.parse(body) as [string, ...string[]]));
        })();
      };
      const withLock = redisExpLock({ redis: dial(), lifetime: LONG_MS });
      await backendError(withLock.promise(key));
      await late;
      await withLock.close();
      expect(await server.command('EXISTS', key)).to.equal(0);
    });

    it('no url and no token: it says so, and nothing is sent', async () => {
      const { warn } = console;
      console.warn = () => {};
      const redis = dial({ url: '', token: '' });
      console.warn = warn;
      const error = await expectRefusal(redis, { retryable: false });
      expect(error.message).to.contain('no url or no token');
    });
  });

  it('waiting polls; a release is seen at the next attempt', async () => {
    const [one, two] = [redisExpLock({ redis: dial(), ...terms }), redisExpLock({ redis: dial(), ...terms })];
    const held = await one.promise(key);
    const waiting = two.promise(key, { timeout: LONG_MS });
    const before = bridge.arrived;
    await waitFor(() => bridge.arrived > before + 2);
    await held.release();
    expect(await (await waiting).release()).to.equal(true);
  });

  it('a pipeline, a transaction and minReplicas are refused by name', async () => {
    for (const redis of [dial().pipeline(), dial().multi()]) {
      const error = await rejectionOf(redisExpLock().promise(key, { redis: redis as any }));
      expect(error).to.include({ code: 'ERR_LOCK_OPTION' });
      expect(error.message).to.contain('@upstash/redis');
    }
    const error = await rejectionOf(redisExpLock({ redis: dial(), minReplicas: 1 }).promise(key));
    expect(error).to.include({ code: 'ERR_LOCK_OPTION' });
  });

  it('a middleware of its owner sees our requests', async () => {
    const redis = dial();
    let seen = 0;
    // Where an earlier file of the process listens for warnings, a grant also asks for the eviction policy.
    redis.use((request, next) => {
      if (/^eval/i.test(String((request.body as string[])[0]))) seen += 1;
      return next(request);
    });
    // With a lifetime that the two requests do not outlast: a renewal would be a third.
    await redisExpLock({ redis, ...terms }).run(key, () => {});
    expect(seen).to.equal(2);
  });
});
