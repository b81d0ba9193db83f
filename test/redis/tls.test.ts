/**
 * A server that speaks TLS alone, to a user with a password and the least rights (H54, H58): every client, the connections of
 * our own included (messages, WAIT), which have to be made as the client's own was.
 */

import { readFileSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { freePort } from '../support/processes';
import { type RedisServer, startRedis, uniqueKey } from '../support/redis';
import { everythingWorks, restrict, type Way } from './everything';
import { rejectionOf } from './holding';

const folder = join(__dirname, '../support/tls'); // made to last for a hundred years, and for loopback
const [ca, cert, key] = ['ca.pem', 'cert.pem', 'key.pem'].map((name) => readFileSync(join(folder, name)));

type Dial = (port: number, password: string) => Promise<Way>;

const nodeRedis =
  (packageName: string): Dial =>
  async (port, password) => {
    const socket = { port, host: '127.0.0.1', tls: true, ca, reconnectStrategy: false };
    const redis = require(packageName).createClient({ username: 'lock', password, socket });
    redis.on('error', () => {});
    await redis.connect();
    return { redis, close: () => void (redis.destroy ?? redis.disconnect).call(redis) };
  };

const ioredis =
  (packageName: string): Dial =>
  async (port, password) => {
    const IORedis = require(packageName);
    const options = {
      username: 'lock',
      password,
      tls: { ca },
      lazyConnect: true,
      retryStrategy: null,
      enableReadyCheck: false,
    };
    const redis = new IORedis(port, '127.0.0.1', options);
    let failure: unknown;
    redis.on('error', (error: unknown) => {
      failure = error;
    });
    const ready = async (): Promise<unknown> => redis.connect().then(() => redis.ping());
    await ready().catch((error: unknown) => {
      redis.disconnect();
      throw failure ?? error;
    });
    return { redis, close: () => redis.disconnect() };
  };

const glide: Dial = async (port, password) => {
  const { GlideClient, Logger } = require('@valkey/valkey-glide');
  Logger.init('off');
  const redis = await GlideClient.createClient({
    addresses: [{ port, host: '127.0.0.1' }],
    useTLS: true,
    requestTimeout: 20_000, // 250 ms by default, which a busy machine exceeds
    credentials: { username: 'lock', password },
    advancedConfiguration: {
      connectionTimeout: 20_000,
      tlsAdvancedConfiguration: { rootCertificates: ca },
    },
  });
  return { redis, close: () => redis.close() };
};

const kinds: [name: string, dial: Dial, hears: boolean][] = [
  ['node-redis 6', nodeRedis('redis'), true],
  ['node-redis 5', nodeRedis('redis-5'), true],
  ['node-redis 4', nodeRedis('redis-4'), true],
  ['ioredis 6', ioredis('ioredis'), true],
  ['ioredis 5', ioredis('ioredis-5'), true],
  ['iovalkey', ioredis('iovalkey'), true],
  ['Valkey GLIDE', glide, false],
];

describe('TLS, a password, and the least rights (H54, H58)', () => {
  let server: RedisServer;
  let port: number;
  let terminator: Server | undefined;
  const open: Way[] = [];

  before(async () => {
    port = await freePort();
    const files = ['--tls-cert-file', join(folder, 'cert.pem'), '--tls-key-file', join(folder, 'key.pem')];
    const args = ['--tls-port', String(port), ...files, '--tls-ca-cert-file', join(folder, 'ca.pem')];
    try {
      server = await startRedis({ args: [...args, '--tls-auth-clients', 'no'] });
    } catch {
      // A build without TLS: one that ends it stands in front, as with many a provider.
      server = await startRedis();
      terminator = createServer({ key, cert }, (socket) => {
        const inner = dial(server.port, '127.0.0.1');
        socket.pipe(inner).pipe(socket);
        for (const each of [socket, inner]) each.on('error', () => [socket, inner].map((one) => one.destroy()));
      }).listen(port, '127.0.0.1');
    }
    await restrict(server);
    await server.command('ACL', 'SETUSER', 'default', 'off', 'resetpass').catch(() => {});
  });
  afterEach(() => {
    for (const way of open.splice(0)) way.close();
  });
  after(async () => {
    terminator?.close();
    await server.discard();
  });

  for (const [name, dialIt, hears] of kinds) {
    it(`${name}: everything works, by its own connections too`, async () => {
      if (!hears) {
        const error = await rejectionOf(dialIt(port, 'password'));
        expect(error.message, 'without +info').to.match(/permission.*info/i);
        await server.command('ACL', 'SETUSER', 'lock', '+info');
      }
      for (const _ of [1, 2]) open.push(await dialIt(port, 'password'));
      await everythingWorks(open, { hears, replicas: hears ? 0 : undefined });
    });

    it(`${name}: a wrong password is named, by the client or by the first lock (H54)`, async () => {
      const locked = dialIt(port, 'wrong').then((way) => {
        open.push(way);
        return redisExpLock({ redis: way.redis, prefix: 'lk:', commandTimeout: 10_000 }).promise(uniqueKey());
      });
      const error = await rejectionOf(locked);
      expect(error.message).to.match(/WRONGPASS|NOAUTH|invalid username-password|authenticat/i);
      expect(error.retryable ?? false).to.equal(false);
    });
  }
});
