// The stage of the wire tests: a server of their own, what lies there, and what was sent to it.
import redisExpLock from '../../src/index';
import { type FaultProxy, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import {
  type Client,
  type ClientOptions,
  connect,
  type RedisServer,
  recordCommands,
  startRedis,
  uniqueKey,
} from '../support/redis';

export interface Wire {
  /** The server of the suite, and a client of it. */
  server: RedisServer;
  client: Client;
  /** New for each test. */
  key: string;
  withLock: redisExpLock.WithLock;
  holder(name?: string): Promise<string | null>;
  ttl(name?: string): Promise<number>;
  freed(name?: string): Promise<unknown>;
  serverMicros(): Promise<number>;
  /** The commands about the key while `work` ran: sent by clients, and called by their scripts. */
  recorded(work: () => unknown, at?: RedisServer): Promise<{ sent: string[]; called: string[][] }>;
  /** A client of this test: gone after it, so that none reconnects while another test owns the clock. */
  connected(to: { url: string }, options?: ClientOptions): Promise<Client>;
  /** A way in through a proxy. */
  proxied(): Promise<{ proxy: FaultProxy; through: Client }>;
}

/** For a `describe`: its hooks make what the tests use, and end it. */
export function useWire(): Wire {
  const clients: Client[] = [];
  const proxies: FaultProxy[] = [];

  async function recorded(work: () => unknown, at = wire.server): Promise<{ sent: string[]; called: string[][] }> {
    const recording = await recordCommands(at);
    await work();
    let ours = false;
    const sent: string[] = [];
    const called: string[][] = [];
    for (const { lua, args } of await recording.stop()) {
      if (!lua) ours = args.some((word) => word.includes(wire.key));
      if (!ours) continue;
      if (lua) called.push([args[0]!.toUpperCase(), ...args.slice(1)]);
      else sent.push(args[0]!.toUpperCase());
    }
    return { sent, called };
  }

  async function connected(to: { url: string }, options?: ClientOptions): Promise<Client> {
    const made = await connect(to.url, options);
    clients.push(made);
    return made;
  }

  async function proxied(): Promise<{ proxy: FaultProxy; through: Client }> {
    const proxy = await startProxy(wire.server.port);
    proxies.push(proxy);
    return { proxy, through: await connected(proxy) };
  }

  const wire = {
    holder: (name = wire.key) => wire.server.command('GET', name),
    ttl: (name = wire.key) => wire.server.command('PTTL', name),
    freed: (name = wire.key) =>
      waitFor(async () => (await wire.server.command('EXISTS', name)) === 0, {
        what: `${name} to be free`,
      }),
    async serverMicros() {
      const [seconds, micros] = await wire.server.command<[string, string]>('TIME');
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    recorded,
    connected,
    proxied,
  } as Wire;

  before(async () => {
    wire.server = await startRedis();
    wire.client = await wire.server.connect();
  });

  after(async () => {
    wire.client.destroy();
    await wire.server.discard();
  });

  afterEach(async () => {
    for (const each of clients.splice(0)) if (each.isOpen) each.destroy();
    await Promise.all(proxies.splice(0).map((proxy) => proxy.stop()));
  });

  beforeEach(async () => {
    await wire.server.command('DEL', 'redis-exp-lock:fence');
    wire.key = uniqueKey();
    wire.withLock = redisExpLock({ redis: wire.client, lifetime: 10_000, commandTimeout: 10_000 });
  });

  return wire;
}
