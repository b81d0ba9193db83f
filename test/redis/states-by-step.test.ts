/**
 * A server that cannot or will not execute a command, at each step of a lock: acquire, wait, hand-off, renew, release. The states are those
 * of real servers, entered while locks are held and waited for, and left again; docs/operations.md has the same table (H54, H55).
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import redisExpLock from '../../src/index';
import { pending } from '../contract/outcomes';
import { describeAtOnce } from '../support/at-once';
import { waitFor } from '../support/processes';
import { connect, type RedisServer, startRedis, uniqueKey } from '../support/redis';
import { backendError, LONG_MS } from './faults';

/** `error`: the call rejects with the code; `retried`: it succeeds once the state has passed; `works`: it succeeds in the state. */
type Outcome = 'error' | 'retried' | 'works';

interface State {
  /** The state of the server, in the words of the table. */
  readonly what: string;
  readonly acquire: Outcome;
  readonly wait: Outcome;
  readonly handOff: Outcome;
  readonly renew: Outcome;
  readonly release: Outcome;
  /** The release of a lock that is waited for works: all of its keys are there. What the next one sends may fail. */
  readonly isPartial?: true;
  readonly args?: readonly string[];
  /** Prepares the server before locks are taken. */
  prepare?(server: RedisServer): Promise<unknown>;
  enter(server: RedisServer): Promise<unknown>;
  leave(server: RedisServer): Promise<unknown>;
  /** Begins each key: those of a single slot, for a client that knows none. */
  readonly prefix?: string;
}

/** Every step fails while it lasts. */
const all = { acquire: 'error', wait: 'retried', handOff: 'retried', renew: 'retried', release: 'error' } as const;
const ofCluster = { args: ['--cluster-enabled', 'yes'], prefix: '{redis-exp-lock:fence}:' };
const others: RedisServer[] = [];
const opened: Redis[] = [];
const set = (server: RedisServer, name: string, value: string | number): Promise<unknown> =>
  server.command('CONFIG', 'SET', name, value);
/** A replica of nobody that could be reached, with the data that it has. */
const follow = (server: RedisServer): Promise<unknown> => server.command('REPLICAOF', '127.0.0.1', 1);
const lead = (server: RedisServer): Promise<unknown> => server.command('REPLICAOF', 'NO', 'ONE');

const states: Readonly<Record<string, State>> = {
  READONLY: { ...all, what: 'a replica, such as a master after a failover', enter: follow, leave: lead },
  MASTERDOWN: {
    ...all,
    what: 'a replica without its master, with `replica-serve-stale-data no`',
    args: ['--replica-serve-stale-data', 'no'],
    enter: follow,
    leave: lead,
  },
  LOADING: {
    ...all,
    what: 'it reads its data back after a restart',
    args: ['--loading-process-events-interval-bytes', '1024'],
    prepare: (server) =>
      server.command('EVAL', "for i = 1, 10000 do redis.call('SET', 'filler' .. i, string.rep('x', 100)) end", 0),
    async enter(server) {
      await set(server, 'key-load-delay', 2_000); // µs: it would take 22 s, were it not for `leave`
      (await connect(server.url)).sendCommand(['DEBUG', 'RELOAD']).catch(() => {});
      await refuses(server, 'LOADING');
    },
    leave: (server) => set(server, 'key-load-delay', 0),
  },
  BUSY: {
    ...all,
    what: 'somebody’s script runs for long',
    args: ['--busy-reply-threshold', '20'],
    async enter(server) {
      (await connect(server.url)).eval('while true do end').catch(() => {});
      await refuses(server, 'BUSY');
    },
    leave: (server) => server.command('SCRIPT', 'KILL'),
  },
  NOREPLICAS: {
    ...all,
    what: 'fewer replicas than `min-replicas-to-write`',
    enter: (server) => set(server, 'min-replicas-to-write', 1),
    leave: (server) => set(server, 'min-replicas-to-write', 0),
  },
  OOM: {
    acquire: 'error',
    wait: 'retried',
    handOff: 'works',
    renew: 'works',
    release: 'works',
    what: 'its memory is full, with `noeviction`',
    enter: (server) => set(server, 'maxmemory', 1),
    leave: (server) => set(server, 'maxmemory', 0),
  },
  CLUSTERDOWN: {
    ...all,
    ...ofCluster,
    what: 'nobody serves the slot',
    prepare: serveAll,
    enter: async (server) => server.command('CLUSTER', 'DELSLOTS', await slotIn(server)),
    leave: async (server) => server.command('CLUSTER', 'ADDSLOTS', await slotIn(server)),
  },
  TRYAGAIN: {
    ...all,
    ...ofCluster,
    renew: 'works', // its only key is still there
    isPartial: true,
    what: 'the keys of the slot are on their way to another node',
    async prepare(server) {
      await serveAll(server);
      const other = await startRedis({ args: ofCluster.args });
      others.push(other);
      await server.command('CLUSTER', 'MEET', '127.0.0.1', other.port);
      const id = await other.command<string>('CLUSTER', 'MYID');
      await waitFor(async () => (await server.command<string>('CLUSTER', 'NODES')).includes(id), {
        what: 'the other node to be known',
      });
    },
    async enter(server) {
      const id = await others.at(-1)!.command<string>('CLUSTER', 'MYID');
      await server.command('CLUSTER', 'SETSLOT', await slotIn(server), 'MIGRATING', id);
    },
    leave: async (server) => server.command('CLUSTER', 'SETSLOT', await slotIn(server), 'STABLE'),
  },
};

const slotIn = (server: RedisServer): Promise<number> => server.command('CLUSTER', 'KEYSLOT', ofCluster.prefix);

/** Gives the server all slots of a cluster. */
async function serveAll(server: RedisServer): Promise<void> {
  await server.command('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
  const isServed = async (): Promise<boolean> => /cluster_state:ok/.test(await server.command('CLUSTER', 'INFO'));
  await waitFor(isServed, { what: 'the slots to be served' });
}

/** Resolves when the server refuses a command with this code. */
async function refuses(server: RedisServer, code: string): Promise<void> {
  const isRefused = async (): Promise<boolean> =>
    server.command('GET', 'x').then(
      () => false,
      ({ message }) => message.startsWith(code),
    );
  await waitFor(isRefused, { what: code });
}

const clients: Readonly<Record<string, (url: string) => Promise<any>>> = {
  'node-redis': (url) => connect(url),
  async ioredis(url) {
    const client = new Redis(url, { lazyConnect: true });
    client.on('error', () => {});
    opened.push(client);
    await client.connect();
    return client;
  },
};

describe('each step of a lock in each state of a server', () => {
  after(async () => {
    for (const client of opened) client.disconnect();
    await Promise.all(others.map((server) => server.discard()));
  });

  const tests = Object.entries(states).map(([code, state]) => [
    `${code}: acquire, wait, hand-off, renew and release, on ${Object.keys(clients).join(' and ')} (H54, H55)`,
    () => checkState(code, state),
  ]);
  describeAtOnce('at once', Object.fromEntries(tests));

  it('the table in docs/operations.md is this one', () => {
    const page = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8');
    const [, section] = /^## States of a server\n(.*?)^## /ms.exec(page)!;
    const cells = Object.entries(states).map(
      ([code, { what, acquire, wait, handOff, renew, release }]) =>
        `| \`${code}\` | ${[what, acquire, wait, handOff, renew, release].join(' | ')} |`,
    );
    expect(section!.match(/^\| `[A-Z]+` .*$/gm)).to.deep.equal(cells);
  });
});

async function checkState(code: string, state: State): Promise<void> {
  const server = await startRedis(state.args ? { args: state.args } : {});
  await state.prepare?.(server);
  const held = await Promise.all(Object.values(clients).map((make) => Steps.begin(server, code, state, make)));
  await state.enter(server);
  await Promise.all(held.map((each) => each.during()));
  await state.leave(server);
  await Promise.all(held.map((each) => each.afterwards()));
  await server.discard();
}

/** The steps of one client, from before the state to after it. */
class Steps {
  readonly #code: string;
  readonly #state: State;
  readonly #server: RedisServer;
  readonly #clients: readonly any[];
  readonly #key: string;
  readonly #one: redisExpLock.WithLock;
  readonly #two: redisExpLock.WithLock;
  /** Has a client of its own: in one script with an extension, an attempt is granted although memory is full. */
  readonly #newcomer: redisExpLock.WithLock;
  #kept!: redisExpLock.Lease;
  #extended!: redisExpLock.Lease;
  #renewed!: redisExpLock.Lease;
  #run!: Promise<string>;
  #endRun!: () => void;
  #handedTo!: Promise<redisExpLock.Lease>;
  #waiting!: Promise<redisExpLock.Lease>;
  /** Codes of warnings, and `extend`, by key. */
  readonly #events: [key: unknown, code: string][] = [];
  readonly #onWarning = ({ key, code }: any): void => void this.#events.push([key, code]);
  readonly #onExtend = ({ key }: any): void => void this.#events.push([key, 'extend']);

  static async begin(
    server: RedisServer,
    code: string,
    state: State,
    make: (url: string) => Promise<any>,
  ): Promise<Steps> {
    const redis = [await make(server.url), await make(server.url), await make(server.url)] as const;
    const steps = new Steps(server, code, state, redis);
    await steps.#begin();
    return steps;
  }

  private constructor(server: RedisServer, code: string, state: State, clients: readonly [any, any, any]) {
    this.#server = server;
    this.#code = code;
    this.#state = state;
    this.#clients = clients;
    this.#key = (state.prefix ?? '') + uniqueKey();
    const options = { lifetime: LONG_MS, retryTimeout: 20, commandTimeout: 10_000 };
    this.#one = redisExpLock({ redis: clients[0], ...options });
    this.#two = redisExpLock({ redis: clients[1], ...options });
    this.#newcomer = redisExpLock({ redis: clients[2], ...options });
  }

  async #begin(): Promise<void> {
    const key = this.#key;
    this.#kept = await this.#one.promise(`${key}-kept`);
    this.#extended = await this.#one.promise(`${key}-extended`);
    // Renewed after four seconds, and lost after twelve: the state lasts for less than that.
    this.#renewed = await this.#one.promise(`${key}-renewed`, { autoExtend: true, lifetime: 12_000 });
    const isRunning = new Promise<void>((started) => {
      this.#run = this.#one.run(`${key}-run`, { autoExtend: false }, async () => {
        started();
        await new Promise<void>((resolve) => {
          this.#endRun = resolve;
        });
        return 'done';
      });
    });
    await isRunning;
    this.#handedTo = this.#two.promise(`${key}-run`, { timeout: LONG_MS });
    this.#handedTo.catch(() => {}); // a test that fails ends without it
    const isQueued = async (): Promise<boolean> => (await this.#one.inspect(`${key}-run`)).waiters === 1;
    await waitFor(isQueued, { what: 'a queued waiter' });
    subscribe('redis-exp-lock:warning', this.#onWarning);
    subscribe('redis-exp-lock:extend', this.#onExtend);
  }

  async during(): Promise<void> {
    const { acquire, wait, handOff, renew, release } = this.#state;
    expect([acquire, wait]).to.deep.equal(['error', 'retried']);
    for (const options of [{}, { timeout: 0 }, { maxRetries: 2 }]) {
      await this.#refused(this.#newcomer.promise(`${this.#key}-new`, options));
    }
    this.#waiting = this.#newcomer.promise(`${this.#key}-new`, { timeout: LONG_MS });
    this.#waiting.catch(() => {});
    if (release === 'error') await this.#refused(this.#kept.release());
    else expect(await this.#kept.release()).to.equal(true);
    if (renew === 'retried') await this.#refused(this.#extended.extend());
    else expect(await this.#extended.extend()).to.equal(true);
    expect(this.#extended.remaining()).to.be.greaterThan(0);
    this.#endRun();
    expect(await this.#run).to.equal('done');
    if (handOff === 'works') expect((await this.#handedTo).retries).to.equal(0);
    else if (!this.#state.isPartial) await this.#sees(`${this.#key}-run`, 'release-failed');
    await this.#sees(`${this.#key}-renewed`, renew === 'works' ? 'extend' : 'renewal-failed');
    expect(await pending(this.#waiting)).to.equal(true);
  }

  async afterwards(): Promise<void> {
    const waited = await this.#waiting;
    expect(waited.fence).to.be.greaterThan(0);
    expect(await waited.release()).to.equal(true);
    const next = await this.#handedTo;
    expect(next.remaining()).to.be.greaterThan(0);
    expect(await next.release()).to.equal(true);
    if (this.#state.release === 'error') expect(await this.#kept.release()).to.equal(true);
    if (this.#state.renew === 'retried') await this.#sees(`${this.#key}-renewed`, 'extend');
    expect(this.#renewed.signal.aborted).to.equal(false);
    expect(await this.#renewed.release()).to.equal(true);
    expect(await this.#extended.release()).to.equal(true);
    unsubscribe('redis-exp-lock:warning', this.#onWarning);
    unsubscribe('redis-exp-lock:extend', this.#onExtend);
    await Promise.all([this.#one, this.#two, this.#newcomer].map((lock) => lock.close()));
    expect(await this.#server.command('KEYS', `*${this.#key.slice(-36)}*`)).to.deep.equal([]);
    for (const client of this.#clients) (client.destroy ?? client.disconnect).call(client);
  }

  async #refused(call: Promise<unknown>): Promise<void> {
    const { redisCode, retryable } = await backendError(call);
    expect([redisCode, retryable]).to.deep.equal([this.#code, true]);
  }

  async #sees(key: string, code: string): Promise<void> {
    const isSeen = (): boolean => this.#events.some((each) => each[0] === key && each[1] === code);
    await waitFor(isSeen, { what: `${code} of ${key}` });
  }
}
