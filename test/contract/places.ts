/**
 * The places where locks live, and the face that each shows to the contract suite. The suite is a function of one of them:
 * a further client or store is a further row of `places`, and has to keep every promise that the others keep.
 *
 * Invariant: a place is its suite's own. It starts empty, nobody else writes there, and it is gone when the suite has run.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { type SinonStub, stub } from 'sinon';
import redisExpLock from '../../src/index';
import { scripts } from '../../src/store/redis/scripts/generated';
import { type ShardEndpoint, startEndpoint } from '../support/endpoint';
import { type FaultProxy, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { type Client, connect, newClient, type RedisServer, startRedis } from '../support/redis';
import { startBridge } from '../support/upstash';
import { embeddedPlaces, stranger } from './embedded-places';
import { quorum } from './quorum-place';

/** The value of a key that a stranger has seized. */
export { stranger };

/** The value of the option `redis`. */
export type Redis = redisExpLock.RedisLike | readonly redisExpLock.RedisLike[];

export interface Place {
  readonly name: string;
  /** True if the place is reached over a connection that can be cut: `Connection.proxy` is there. */
  readonly faults: boolean;
  /** True if another process can use the place; if not, `join` gives that process a place of its own. */
  readonly shared: boolean;
  /** The advice of an error to users of `Here.unconnected`. */
  readonly advice: string;
  /** True if the client itself resends, on its next connection, the commands that had no answer on the last (H4). */
  readonly resends: boolean;
  /** A client that was closed looks like one that connects again. */
  readonly hidesState?: true | undefined;
  /** Each request is by itself: there is no connection whose end a client could notice. */
  readonly connectionless?: true | undefined;
  /** `npm run integrations` runs all suites on it; npm cit a part of them, or none. Absent: npm cit runs them all. */
  readonly inCit?: 'part' | 'none' | undefined;
  /** No message comes over it: waiting polls. */
  readonly polls?: true | undefined;
  /** Why it cannot be tried here; its suites are pending. */
  readonly pending?: string | undefined;
  /** Several servers that know nothing of each other. */
  readonly isQuorum?: true;
  /** Shards: a fence counter for each slot, and calls of one tick go together only where their keys share a slot. */
  readonly bySlot?: true;
  create(): Here;
  /**
   * For a process of its own, that is given the name of the place and `Here.address`. A stranger has `seized`: where nothing
   * is shared, it is seized here.
   */
  join(address: string, seized?: string): Promise<{ redis: Redis; leave(): Promise<void> }>;
}

/** A place, as its suite sees it. */
export interface Here {
  readonly place: Place;
  open(): Promise<void>;
  close(): Promise<void>;
  readonly address: string;
  /** A way in. */
  readonly redis: Redis;
  /** A second one: another process, as far as the place can tell. */
  readonly elsewhere: Redis;
  /** A way in whose use is counted, and where things can go wrong. */
  connection(): Promise<Connection>;
  /** A way in that nobody has connected, or that was closed where nothing is connected. */
  unconnected(): Redis;

  // The state of the place, read past the library.

  /** The token that holds the key. */
  holder(key: string): Promise<string | null>;
  /** Ms until the place frees the key by itself; Infinity: never; 0: it is free. */
  leftMs(key: string): Promise<number>;
  /** A stranger takes the key from any holder. */
  seize(key: string, lifetimeMs?: number | null): Promise<void>;
  /** The holder's key is taken away. */
  remove(key: string): Promise<void>;
  /** Every key there is, of any kind. */
  keys(): Promise<string[]>;
}

export interface Connection {
  readonly redis: Redis;
  /** The number of requests over the connection, connecting not counted. All requests sent before the call count. */
  calls(): Promise<number>;
  /** The proxy of the connection, if the place has `faults`. */
  readonly proxy: FaultProxy;
  /** Ends a mode of the proxy, and resolves when the place can be asked again. For places with `faults`. */
  heal(): Promise<void>;
}

/** A client, and the words of its package for what a suite needs of it beyond the library. */
interface Way {
  readonly redis: Redis;
  ping(): Promise<unknown>;
  isReady(): boolean | Promise<boolean>;
  /** Another one, that nobody has connected. */
  unconnected(): Redis;
  /** Now; also a second time. */
  close(): void;
}

type Dial = (url: string) => Promise<Way>;

/** A server, or what looks like one. */
type Server = Pick<RedisServer | ShardEndpoint, 'port' | 'url' | 'command' | 'discard'>;

/** Every client and major that the library promises to work with, by the name it has among our packages. */
export const redisPlaces: readonly Place[] = [
  oneRedis('node-redis 6', dialNodeRedis('redis')),
  oneRedis('node-redis 5', dialNodeRedis('redis-5')),
  oneRedis('node-redis 4', dialNodeRedis('redis-4'), { inCit: 'part' }),
  oneRedis('ioredis 6', dialIORedis('ioredis'), { resends: true }),
  oneRedis('ioredis 5', dialIORedis('ioredis-5'), { resends: true, inCit: 'part' }),
  oneRedis('iovalkey', dialIORedis('iovalkey'), { resends: true, inCit: 'part' }),
  oneRedis('Valkey GLIDE', dialGlide, { polls: true, inCit: 'part' }),
  oneRedis('Upstash', dialUpstash, {
    connectionless: true,
    inCit: 'none', // its client needs fetch, and that of Node 20 throws out of its parser now and then
    polls: true,
    resends: true,
    advice: 'no url or no token',
  }),
];

/** Shards behind one endpoint. They know the scripts: else the first call of each at each shard would count twice. */
async function startShards(): Promise<ShardEndpoint> {
  const endpoint = await startEndpoint();
  for (const node of endpoint.nodes) await Promise.all(scripts.map(({ lua }) => node.command('SCRIPT', 'LOAD', lua)));
  return endpoint;
}

/** The endpoints for plain clients. */
const endpoints = [
  redisPlace('node-redis 6, shards behind one endpoint', dialNodeRedis('redis'), { bySlot: true }, [], startShards),
  redisPlace(
    'ioredis 6, shards behind one endpoint',
    dialIORedis('ioredis'),
    { resends: true, bySlot: true, inCit: 'part' },
    [],
    startShards,
  ),
];

/** Bun's own client, if the tests themselves run on Bun. */
const bunPlaces =
  'Bun' in globalThis ? [oneRedis('Bun’s RedisClient', dialBun, { hidesState: true, advice: 'not connected' })] : [];

/** The lines of docs/operations.md, for any key: the whole suite runs with these rights and no others. */
const minRights = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8').match(/^ACL SETUSER lock .*$/gm)!;

/** A user who has a password, and the least rights. */
function asUser(dial: Dial): Dial {
  return (url) => dial(url.replace('//', '//lock:password@'));
}

/** One of them with the least rights, and where there is no Redis. */
export const places: readonly Place[] = [
  ...redisPlaces.filter(({ name }) => !name.startsWith('node-redis 5')),
  oneRedis('node-redis 5 with the least rights', asUser(dialNodeRedis('redis-5')), {}, minRights),
  ...endpoints,
  ...embeddedPlaces,
  ...bunPlaces,
  quorum,
];

function oneRedis(client: string, dial: Dial, particular: Partial<Place> = {}, rights: readonly string[] = []): Place {
  return redisPlace(`${client}, one Redis`, dial, particular, rights, startRedis);
}

function redisPlace(
  name: string,
  dial: Dial,
  particular: Partial<Place>,
  rights: readonly string[],
  start: () => Promise<Server>,
): Place {
  const place: Place = {
    name,
    faults: true,
    shared: true,
    advice: 'await client.connect()',
    resends: false,
    ...particular,
    create: () => new OneRedis(place, dial, rights, start),
    async join(address) {
      const way = await dial(address);
      return { redis: way.redis, leave: async () => way.close() };
    },
  };
  return place;
}

function dialNodeRedis(packageName: string): Dial {
  return async (url) => {
    const client = packageName === 'redis' ? await connect(url) : await dialOlder(packageName, url);
    return {
      redis: client,
      ping: () => client.ping(),
      isReady: () => client.isReady,
      unconnected: () => client.duplicate().on('error', () => {}),
      close() {
        if (client.isOpen) client.destroy();
      },
    };
  };
}

/** A client of an older major, with the words of the newest where they were others. */
async function dialOlder(packageName: string, url: string): Promise<Client> {
  const client = newClient({ url }, require(packageName));
  client.on('error', () => {});
  client.destroy ??= () => void client.disconnect().catch(() => {});
  await client.connect();
  return client;
}

function dialIORedis(packageName: string): Dial {
  return async (url) => {
    const IORedis = require(packageName);
    const make = () => new IORedis(url, { lazyConnect: true }).on('error', () => {});
    const client = make();
    await client.connect();
    return {
      redis: client,
      ping: () => client.ping(),
      isReady: () => client.status === 'ready',
      unconnected: make,
      close: () => client.disconnect(),
    };
  };
}

/** A client of GLIDE is connected when it is made, so one that is not connected was closed. It reports its state to nobody. */
async function dialGlide(url: string): Promise<Way> {
  const { GlideClient, Logger } = require('@valkey/valkey-glide');
  Logger.init('off'); // it would write every error of the server to stderr
  const { hostname, port } = new URL(url);
  const make = () =>
    GlideClient.createClient({ addresses: [{ host: hostname, port: Number(port) }], requestTimeout: 60_000 });
  const [client, closed] = await Promise.all([make(), make()]);
  closed.close();
  return {
    redis: client,
    ping: () => client.ping(),
    isReady: () => Promise.race([client.ping().then(Boolean, () => false), sleep(100, false)]), // of one answer
    unconnected: () => closed,
    close: () => client.close(),
  };
}

/** Over HTTP, by a bridge in this process. Its requests are counted where they leave, so that none is overtaken by a ping. */
async function dialUpstash(url: string): Promise<Way> {
  const { Redis } = require('@upstash/redis');
  const bridge = await startBridge(url);
  const client = new Redis({ url: bridge.url, token: bridge.token, retry: { retries: 5, backoff: () => 20 } });
  await client.ping(); // the first request of a process takes a while
  let sent = bridge.arrived;
  client.use((request: unknown, next: (request: unknown) => unknown) => {
    sent += 1;
    return next(request);
  });
  return {
    redis: client,
    async ping() {
      while (bridge.arrived < sent) await turn(); // no timer, whose clock may be a test's
      return client.ping();
    },
    isReady: () => client.ping().then(Boolean, () => false),
    unconnected: () => withoutAdvice(() => new Redis({ url: '', token: '' })),
    close: () => bridge.close(),
  };
}

/** A client that cannot connect stands for one that nobody has connected: the library would connect that one. */
async function dialBun(url: string): Promise<Way> {
  const { RedisClient } = (globalThis as any).Bun;
  const client = new RedisClient(url, { maxRetries: 1000 });
  await client.connect();
  return {
    redis: client,
    ping: () => client.ping(),
    isReady: () => client.connected && Promise.race([client.ping().then(Boolean, () => false), sleep(100, false)]), // of one answer
    unconnected: () => new RedisClient('redis://127.0.0.1:1', { maxRetries: 1 }),
    close: () => client.close(),
  };
}

/** Makes a client without the advice that it writes to the console. */
function withoutAdvice<T>(make: () => T): T {
  const { warn } = console;
  console.warn = () => {};
  try {
    return make();
  } finally {
    console.warn = warn;
  }
}

/** Every suite at every place. */
const isWhole = process.env.REDIS_EXP_LOCK_CONTRACT === 'whole';
/** The one place to run at, by name: `npm run mutate` needs memory only. */
const onlyPlace = process.env.REDIS_EXP_LOCK_PLACE;

/** The suites that a quorum passes as well. The other suites are about lines, or count to the last command and pause. */
const ofQuorums = [
  'RWLock',
  'Semaphore',
  'acquire',
  'detach and adopt',
  'extend and validity',
  'inspect',
  'release',
  'run',
  'tryRun',
];

/** The suites that npm cit runs where it runs a part: one that does not wait, and one that waits for messages. */
const ofPart = ['acquire', 'queued'];

/** Runs a suite at every place, or at those that have what it needs. */
export function describeEach(
  title: string,
  suite: (here: Here) => void,
  has: (place: Place) => boolean = ({ isQuorum }) => !isQuorum || ofQuorums.includes(title),
): void {
  const isRun = (place: Place) =>
    has(place) &&
    (onlyPlace === undefined || place.name === onlyPlace) &&
    (isWhole || place.inCit === undefined || (place.inCit === 'part' && ofPart.includes(title)));
  for (const place of places.filter(isRun)) {
    describe(`${title}, on ${place.name}`, () => {
      if (place.pending !== undefined) {
        it(place.pending);
        return;
      }
      const here = place.create();
      before(() => here.open());
      after(() => here.close());
      afterEach(() => random?.restore());
      suite(here);
    });
  }
}

/** A lifetime that a test waits for the end of: each node of a quorum has an eighth of it to reply. */
export function shortLifetime({ place }: Here, ms = 1_000): number {
  return place.isQuorum ? 4 * ms : ms;
}

let random: SinonStub | undefined;

/**
 * Options of a wait whose entry outlasts a stall of a second, also where waiters poll. There, an entry lasts for two pauses, and on a quorum
 * pauses are random: they are the same until the test ends.
 */
export function slowly(): redisExpLock.WaitOptions {
  random = stub(Math, 'random').returns(0.9);
  return { timeout: 15_000, retryTimeout: 1000 };
}

/** Resolves once a renewal, or an extension, has moved the end of the lease. */
export async function renewed(lease: redisExpLock.Lease): Promise<void> {
  let leftMs = lease.remaining();
  const hasGrown = (): boolean => {
    const last = leftMs;
    leftMs = lease.remaining();
    return leftMs > last;
  };
  await waitFor(hasGrown, { what: 'the lease to be renewed' });
}

class OneRedis implements Here {
  readonly place: Place;
  readonly #dial: Dial;
  readonly #start: () => Promise<Server>;
  #server: Server | undefined;
  #way: Way | undefined;
  #elsewhere: Way | undefined;
  readonly #connections: { way: Way; proxy: FaultProxy }[] = [];

  readonly #rights: readonly string[];

  constructor(place: Place, dial: Dial, rights: readonly string[], start: () => Promise<Server>) {
    this.place = place;
    this.#dial = dial;
    this.#start = start;
    this.#rights = rights;
  }

  async open(): Promise<void> {
    this.#server = await this.#start();
    for (const right of this.#rights) {
      const words = right.split(' ').map((word) => word.replaceAll("'", '').replace(/^~.*/, '~*'));
      await this.#server.command(words[0]!, ...words.slice(1));
    }
    this.#way = await this.#dial(this.address);
    this.#elsewhere = await this.#dial(this.address);
  }

  async close(): Promise<void> {
    for (const way of [this.#way, this.#elsewhere, ...this.#connections.map((each) => each.way)]) way?.close();
    await Promise.all(this.#connections.map(({ proxy }) => proxy.stop()));
    await this.#server?.discard();
  }

  get address(): string {
    return this.#server!.url;
  }

  get redis(): Redis {
    return this.#way!.redis;
  }

  get elsewhere(): Redis {
    return this.#elsewhere!.redis;
  }

  async connection(): Promise<Connection> {
    const proxy = await startProxy(this.#server!.port);
    const way = await this.#dial(proxy.url);
    this.#connections.push({ way, proxy });
    const uncounted = (): number => proxy.count('PING');
    await way.ping();
    // Its first call is refused, and goes again: what is counted comes after that.
    if (this.place.bySlot) await redisExpLock({ redis: way.redis, commandTimeout: 10_000 }).inspect('any');
    const before = proxy.commands.length - uncounted();
    return {
      redis: way.redis,
      proxy,
      async calls() {
        await turn(); // what was asked for in this tick may leave at its end, or at that of the turn
        await turn();
        await way.ping(); // comes behind everything that was sent before
        return proxy.commands.length - uncounted() - before;
      },
      async heal() {
        const before = proxy.connections;
        proxy.heal();
        proxy.resetAll(); // whatever was lost or not: what is ready below is a new connection, and not one that is about to end
        // Not asked before: node-redis 5 never comes back when it is asked in the moment in which its connection is reset.
        const isBack = () => proxy.connections > before && way.isReady();
        await waitFor(isBack, { what: 'the connection to be healed' });
      },
    };
  }

  unconnected(): Redis {
    return this.#way!.unconnected();
  }

  holder(key: string): Promise<string | null> {
    return this.#server!.command('GET', key);
  }

  async leftMs(key: string): Promise<number> {
    const ms = await this.#server!.command<number>('PTTL', key);
    return ms === -1 ? Number.POSITIVE_INFINITY : Math.max(ms, 0);
  }

  async seize(key: string, lifetimeMs: number | null = 60_000): Promise<void> {
    await this.#server!.command('SET', key, stranger, ...(lifetimeMs === null ? [] : ['PX', lifetimeMs]));
  }

  async remove(key: string): Promise<void> {
    await this.#server!.command('DEL', key);
  }

  keys(): Promise<string[]> {
    return this.#server!.command('KEYS', '*');
  }
}
