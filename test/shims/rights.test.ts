// The rights that docs/migration.md lists for the shim of redis-semaphore's semaphores: enough, and none can be taken.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { MultiSemaphore } from '../../src/compat/redis-semaphore';
import { type RedisServer, startRedis } from '../support/redis';

const page = readFileSync(join(__dirname, '../../docs/migration.md'), 'utf8');
const line = /^ACL SETUSER permits .*$/m.exec(page)![0].replaceAll("'", '').split(' ');
/** The rights that a client needs to be connected. */
const forClients = new Set(['+hello', '+auth', '+info']);
const rights = line.filter((word) => /^[+~]/.test(word) && !forClients.has(word));

/** Twice takes two of three permits, refreshes and releases them: a script goes as text at first, then by its SHA. undefined: all went well. */
async function failureOf(server: RedisServer, name: string): Promise<string | undefined> {
  const client = new Redis(server.port, { username: 'permits', password: 'password', retryStrategy: () => null });
  client.on('error', () => {});
  try {
    for (let times = 0; times < 2; times += 1) {
      const semaphore = new MultiSemaphore(client, name, 3, 2, { acquireAttemptsLimit: 1, refreshInterval: 0 });
      await semaphore.acquire();
      const { identifier } = semaphore;
      const same = new MultiSemaphore(client, name, 3, 2, { identifier, acquiredExternally: true, refreshInterval: 0 });
      await same.acquire();
      await same.release();
    }
    return undefined;
  } catch (error) {
    return (error as Error).message;
  } finally {
    client.disconnect();
  }
}

describe('the rights in docs/migration.md are enough, and none can be taken', () => {
  let server: RedisServer;

  before(async () => {
    server = await startRedis();
  });

  beforeEach(async () => {
    await server.command('SCRIPT', 'FLUSH');
    await server.command(...line);
  });

  after(() => server.discard());

  it('all of them', async () => {
    expect(await failureOf(server, 'all')).to.equal(undefined);
  });

  for (const right of rights) {
    it(`not without ${right}`, async () => {
      await server.command('ACL', 'SETUSER', 'permits', ...(right[0] === '~' ? ['resetkeys'] : [`-${right.slice(1)}`]));
      expect(await failureOf(server, right)).to.match(/NOPERM|no permissions|can't (run|access)|ACL failure/i);
    });
  }
});
