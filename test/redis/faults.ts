/**
 * The parts that the tests of faults share: a stage (a server of its own, and for each test a proxy in front of it), how a call ended,
 * and what a recording says was granted.
 *
 * Invariant: what a test opened on a stage is gone when the test is, and nothing that it started touches the next one.
 */

import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { type FaultProxy, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import {
  type Client,
  type ClientOptions,
  connect,
  type RecordedCommand,
  type RedisServer,
  type ServerOptions,
  startRedis,
  uniqueKey,
} from '../support/redis';
import { rejectionOf } from './holding';

/** Long enough that no test sees a key end by itself: what is gone was released. */
export const LONG_MS = 60_000;

/** Why a renewal that is never answered ends in a loss; a machine too busy to notice that in time says that it stood still. */
export const unreachable = ['unreachable', 'stalled'];

/** Redials at once, and as often as it takes. */
export const REDIAL: ClientOptions = { socket: { reconnectStrategy: 10 } };

export class Stage {
  readonly #clients: Client[] = [];
  readonly #options: ServerOptions;
  #server: RedisServer | undefined;
  #proxy: FaultProxy | undefined;
  /** A name that nobody else uses: a new one in each test. */
  key = '';

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  get server(): RedisServer {
    return this.#server!;
  }

  get proxy(): FaultProxy {
    return this.#proxy!;
  }

  /** A client that goes through the proxy. */
  async through(options: ClientOptions = REDIAL): Promise<Client> {
    return this.owns(await connect(this.proxy.url, options));
  }

  /** A client past the proxy. */
  async direct(options: ClientOptions = REDIAL): Promise<Client> {
    return this.owns(await connect(this.server.url, options));
  }

  /** Closes the client with the test. */
  owns(client: Client): Client {
    this.#clients.push(client);
    return client;
  }

  async open(): Promise<void> {
    this.#server = await startRedis(this.#options);
  }

  async openTest(): Promise<void> {
    await this.server.command('DEL', 'redis-exp-lock:fence');
    this.#proxy = await startProxy(this.server.port);
    this.key = uniqueKey();
  }

  async closeTest(): Promise<void> {
    for (const client of this.#clients.splice(0)) if (client.isOpen) client.destroy();
    await this.#proxy?.stop();
  }

  async close(): Promise<void> {
    await this.#server?.discard();
  }

  // The state of Redis.

  holder(key = this.key): Promise<string | null> {
    return this.server.command('GET', key);
  }

  /** Ms that the key has left; -1: it never ends, -2: there is none. */
  leftMs(key = this.key): Promise<number> {
    return this.server.command('PTTL', key);
  }

  /** The last fence that Redis remembers; null where there is none. */
  async fence(): Promise<number | null> {
    const fence = await this.server.command<string | null>('GET', 'redis-exp-lock:fence');
    return fence === null ? null : Number(fence);
  }

  /** Waits until nobody holds the key, for a third of `LONG_MS`: its end frees no key here. */
  async freed(key = this.key, timeoutMs = 20_000): Promise<void> {
    await waitFor(async () => (await this.holder(key)) === null, { timeoutMs, what: `${key} to be free` });
  }

  /** Checks that the key is free and its fences rise: another client takes it and gives it back. */
  async expectFree(key = this.key): Promise<void> {
    expect(await this.holder(key)).to.equal(null);
    const before = await this.fence();
    const options = { lifetime: LONG_MS, commandTimeout: 10_000 };
    const lease = await redisExpLock({ redis: await this.direct(), ...options }).promise(key);
    expect(lease.fence).to.be.greaterThan(before ?? 0);
    expect(await lease.release()).to.equal(true);
  }
}

/** A stage for the tests of one `describe`. */
export function useStage(options: ServerOptions = {}): Stage {
  const stage = new Stage(options);
  before(() => stage.open());
  beforeEach(() => stage.openTest());
  afterEach(() => stage.closeTest());
  after(() => stage.close());
  return stage;
}

// The content of a recording.

/** The number of grants: how often the recorded scripts set the key. */
export function grantsOf(key: string, commands: readonly RecordedCommand[]): number {
  return callsOf('setnx', key, commands) + callsOf('set', key, commands);
}

/** The number of times that fences were minted. */
export function fencesOf(commands: readonly RecordedCommand[]): number {
  return callsOf('set', 'redis-exp-lock:fence', commands);
}

/** The number of times that recorded scripts called the command on the key. */
export function callsOf(name: string, key: string, commands: readonly RecordedCommand[]): number {
  return commands.filter(({ args, lua }) => lua && args[0]!.toLowerCase() === name && args[1] === key).length;
}

// How a call ended.

/** The LockBackendError a promise rejects with. */
export async function backendError(promise: Promise<unknown>): Promise<redisExpLock.LockBackendError> {
  const error = await rejectionOf(promise);
  expect(error).to.be.instanceOf(redisExpLock.LockBackendError, String(error?.stack));
  expect(error.code).to.equal('ERR_LOCK_BACKEND');
  return error;
}
