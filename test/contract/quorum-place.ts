/**
 * A quorum of three servers as a place: what is on a majority is there. They do not tell when they were started, so that young
 * ones may vote.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { type FaultProxy, startProxy } from '../support/fault-proxy';
import { type Client, connect, type RedisServer, startRedis } from '../support/redis';
import { stranger } from './embedded-places';
import type { Connection, Here, Place } from './places';

const size = 3;
const majority = 2;

export const quorum: Place = {
  name: 'a quorum of three',
  faults: false,
  shared: true,
  advice: 'await client.connect()',
  resends: false,
  isQuorum: true,
  create: () => new QuorumHere(),
  async join(address) {
    const redis = await dial(address);
    return { redis, leave: async () => close(redis) };
  },
};

const dial = (address: string): Promise<Client[]> => Promise.all(address.split(' ').map((url) => connect(url)));

function close(clients: readonly Client[]): void {
  for (const client of clients) if (client.isOpen) client.destroy();
}

class QuorumHere implements Here {
  readonly place = quorum;
  #servers: readonly RedisServer[] = [];
  #redis: Client[] = [];
  #elsewhere: Client[] = [];
  readonly #ends: (() => unknown)[] = [];

  async open(): Promise<void> {
    this.#servers = await Promise.all(Array.from({ length: size }, () => startRedis()));
    await this.#all('ACL', 'SETUSER', 'default', '-info');
    [this.#redis, this.#elsewhere] = await Promise.all([dial(this.address), dial(this.address)]);
  }

  async close(): Promise<void> {
    close([...this.#redis, ...this.#elsewhere]);
    await Promise.all(this.#ends.map((end) => end()));
    await Promise.all(this.#servers.map((server) => server.discard()));
  }

  get address(): string {
    return this.#servers.map(({ url }) => url).join(' ');
  }

  get redis(): Client[] {
    return this.#redis;
  }

  get elsewhere(): Client[] {
    return this.#elsewhere;
  }

  /** A majority is sent the same; they are counted at the node that is sent most. */
  async connection(): Promise<Connection> {
    const proxies = await Promise.all(this.#servers.map(({ port }) => startProxy(port)));
    const redis = await dial(proxies.map(({ url }) => url).join(' '));
    this.#ends.push(
      () => close(redis),
      () => Promise.all(proxies.map((proxy) => proxy.stop())),
    );
    // Each is asked once who it is.
    const counted = (proxy: FaultProxy): number => proxy.commands.length - proxy.count('PING') - proxy.count('INFO');
    await Promise.all(redis.map((client) => client.ping()));
    const before = proxies.map(counted);
    return {
      redis,
      proxy: proxies[0]!,
      async calls() {
        await turn();
        await turn();
        await Promise.all(redis.map((client) => client.ping()));
        return Math.max(...proxies.map((proxy, n) => counted(proxy) - before[n]!));
      },
      heal() {
        throw new Error('one of three is not the place');
      },
    };
  }

  unconnected(): Client[] {
    return this.#redis.map((client) => client.duplicate().on('error', () => {}));
  }

  async holder(key: string): Promise<string | null> {
    const tokens = await this.#all('GET', key);
    return tokens.find((token) => tokens.filter((each) => each === token).length >= majority) ?? null;
  }

  async leftMs(key: string): Promise<number> {
    const lefts = (await this.#all('PTTL', key)).map((ms) => (ms === -1 ? Number.POSITIVE_INFINITY : Math.max(ms, 0)));
    return lefts.sort((a, b) => b - a)[majority - 1]!;
  }

  async seize(key: string, lifetimeMs: number | null = 60_000): Promise<void> {
    await this.#all('SET', key, stranger, ...(lifetimeMs === null ? [] : ['PX', lifetimeMs]));
  }

  async remove(key: string): Promise<void> {
    await this.#all('DEL', key);
  }

  async keys(): Promise<string[]> {
    return [...new Set((await this.#all('KEYS', '*')).flat())];
  }

  #all(...command: (string | number)[]): Promise<any[]> {
    return Promise.all(this.#servers.map((server) => server.command(...command)));
  }
}
