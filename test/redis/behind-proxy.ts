// The stage of the tests of keeping and losing a lock: the shared server, a client that reaches it through a proxy of its own
// test, and one that reaches it directly.
import redisExpLock from '../../src/index';
import { type FaultProxy, startProxy } from '../support/fault-proxy';
import { type Client, connect, sharedRedis, uniqueKey } from '../support/redis';

export interface BehindProxy {
  port: number;
  direct: Client;
  /** New for each test, with the client behind it, its factory, and a key. */
  proxy: FaultProxy;
  client: Client;
  withLock: redisExpLock.WithLock;
  key: string;
}

/** For a `describe`: its hooks make what the tests use, and end it. */
export function useProxy(name: string): BehindProxy {
  const stage = {} as BehindProxy;

  before(async () => {
    stage.port = (await sharedRedis()).port;
    stage.direct = await connect(stage.port);
  });

  beforeEach(async () => {
    stage.proxy = await startProxy(stage.port);
    stage.client = await connect(stage.proxy.url);
    stage.withLock = redisExpLock({ redis: stage.client });
    stage.key = uniqueKey(name);
  });

  afterEach(async () => {
    stage.client.destroy();
    void stage.withLock.close({ drain: false }); // a lock that a test left held is no longer renewed
    await stage.proxy.stop();
  });

  return stage;
}
