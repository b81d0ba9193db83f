// The servers of a rolling upgrade: one Redis, three nodes of a quorum, and clients of both for each build.
import { type Client, type RedisServer, startRedis } from '../support/redis';
import type { Place } from './roles';

export interface Servers {
  readonly redis: RedisServer;
  readonly nodes: readonly RedisServer[];
  /** Clients of its own. */
  connect(): Promise<Place>;
}

/** Starts the servers before the tests of a suite, and ends them after. */
export function rollingServers(started: (servers: Servers) => void | Promise<void>): void {
  let all: RedisServer[] = [];

  before(async () => {
    all = await Promise.all([1, 2, 3, 4].map(() => startRedis()));
    // A server that does not say how long it has run may vote at once.
    await Promise.all(all.map((server) => server.command('ACL', 'SETUSER', 'default', '-info')));
    const [redis, ...nodes] = all as [RedisServer, ...RedisServer[]];
    const connect = async (): Promise<Place> => {
      const [first, ...others] = await Promise.all(all.map((server) => server.connect()));
      return { redis: first as Client, nodes: others };
    };
    await started({ redis, nodes, connect });
  });

  after(() => Promise.all(all.map((server) => server.discard())));
}
