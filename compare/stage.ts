// Where a fault is played: a Redis of its own, a proxy in front of it, and processes that use one library.
import { fork } from 'node:child_process';
import { join } from 'node:path';
import { type FaultProxy, startProxy } from '../test/support/fault-proxy';
import { kill9, track, waitFor } from '../test/support/processes';
import { type RedisServer, startRedis } from '../test/support/redis';

/** The lifetime of every lock here, in ms. */
export const lifetime = 2000;
export const now = (): number => Number(process.hrtime.bigint() / 1000n) / 1000;

export interface Answer {
  readonly at: number;
  readonly error?: string;
  readonly fence?: number;
  readonly none?: boolean;
  readonly turns?: readonly { n: number; ms: number }[];
}

/** A process with the library. `lostAt`: when it notified its holder of a loss. */
export class User {
  readonly process;
  redisKey = '';
  lostAt: number | undefined;
  readonly #answers = new Map<number, (answer: Answer) => void>();
  #asked = 0;
  #ready!: () => void;
  readonly ready = new Promise<void>((resolve) => {
    this.#ready = resolve;
  });

  constructor(library: string, url: string) {
    const file = join(__dirname, 'child.mjs');
    this.process = fork(file, [library, url, String(lifetime)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    track(this.process);
    this.process.on('error', () => {});
    this.process.on('message', (message: any) => {
      if (message.ready) {
        this.redisKey = message.ready;
        this.#ready();
      } else if (message.lost) this.lostAt ??= message.lost;
      else this.#answers.get(message.id)?.(message);
    });
  }

  ask(verb: string, words: object = {}): Promise<Answer> {
    const id = ++this.#asked;
    return new Promise((resolve) => {
      this.#answers.set(id, resolve);
      this.process.send({ id, verb, key: 'k', ...words });
    });
  }

  /** Acquires as the library does by default, or with `wait`: for that many ms at most. */
  acquire = (wait?: number) => this.ask('acquire', { wait });
}

export class Stage {
  readonly #users: User[] = [];

  private constructor(
    readonly library: string,
    readonly server: RedisServer,
    readonly proxy: FaultProxy,
  ) {}

  static async set(library: string): Promise<Stage> {
    const server = await startRedis();
    return new Stage(library, server, await startProxy(server.port));
  }

  async user(url = this.server.url): Promise<User> {
    const user = new User(this.library, url);
    this.#users.push(user);
    await user.ready;
    return user;
  }

  /** The value at the key of a lock, which is a string for our locks and for those of the peers. */
  value = (user: User): Promise<string | null> => this.server.command('GET', user.redisKey);
  end = (user: User): Promise<number> => this.server.command('PTTL', user.redisKey);

  /** The key of a lock that was just taken, from now on without an end: if it goes, it was deleted. */
  async pin(user: User): Promise<string | null> {
    const found = await this.server.command('PERSIST', user.redisKey);
    if (found !== 1) throw new Error(`${this.library}: ${user.redisKey} is not its key, or has no end`);
    return this.value(user);
  }

  async freed(user: User, timeoutMs = 60_000): Promise<void> {
    await waitFor(async () => (await this.value(user)) === null, { what: 'the key to be free', timeoutMs });
  }

  async strike(): Promise<void> {
    await Promise.all(this.#users.map((user) => kill9(user.process)));
    await this.proxy.stop();
    await this.server.discard();
  }
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Resolves with the answer, or with undefined after `ms`. */
export const within = <T>(promise: Promise<T>, ms: number): Promise<T | undefined> =>
  Promise.race([promise, sleep(ms).then(() => undefined)]);
