// One state machine in three places: random commands, those of a line among them, are answered alike by memory, by shared
// memory and by Redis, and the same processes are told of grants. Fences and tickets are clock readings, so their order is
// compared and not their values; ends are compared to some seconds.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import type { AcquireReply, AcquireRequest, ReleaseRequest, Store } from '../../src/store';
import { memoryStore } from '../../src/stores/memory';
import { type RedisLike, storeOf } from '../../src/stores/places';
import { sharedMemoryStore } from '../../src/stores/shared-memory';
import { newToken } from '../../src/token';
import { waitFor } from '../support/processes';
import { type Client, connect, sharedRedis, uniqueKey } from '../support/redis';

type Command =
  | {
      readonly do: 'acquire';
      readonly who: number;
      readonly keys: number[];
      readonly lifetime: number;
      readonly fences: number;
      readonly stands: boolean;
    }
  | {
      readonly do: 'extend';
      readonly who: number;
      readonly keys: number[];
      readonly lifetime: number;
      readonly exact: boolean;
    }
  | { readonly do: 'release'; readonly who: number; readonly keys: number[]; readonly ticket: number }
  | {
      readonly do: 'pass';
      readonly who: number;
      readonly next: number;
      readonly key: number;
      readonly lifetime: number;
      readonly fences: number;
    }
  | { readonly do: 'inspect'; readonly key: number };

const people = 5;
const keyCount = 2;
const commandTimeoutMs = 5_000;
/** Far apart, so that the same end is told from another whatever the machine is doing meanwhile. */
const lifetime = fc.integer({ min: 1, max: 5 }).map((n) => n * 40_000);
const fences = fc.constantFrom(0, 1, 65);
const who = fc.nat({ max: people - 1 });
const key = fc.nat({ max: keyCount - 1 });
const keys = fc.oneof(
  { weight: 5, arbitrary: key.map((one) => [one]) },
  { weight: 1, arbitrary: fc.constant<number[]>([0, 1]) },
);
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ do: fc.constant('acquire' as const), who, keys, lifetime, fences, stands: fc.boolean() }),
  fc.record({
    do: fc.constant('acquire' as const),
    who,
    keys: key.map((one) => [one]),
    lifetime,
    fences,
    stands: fc.constant(true),
  }),
  fc.record({ do: fc.constant('extend' as const), who, keys, lifetime, exact: fc.boolean() }),
  fc.record({ do: fc.constant('release' as const), who, keys, ticket: fc.constantFrom(0, -1) }),
  fc.record({ do: fc.constant('pass' as const), who, next: who, key, lifetime, fences }),
  fc.record({ do: fc.constant('inspect' as const), key }),
);

/** Numbers that are readings of a clock, by their order: the first one seen is 1, the next new one 2. */
class Order {
  readonly #seen = new Map<number, number>();

  of(value: number): number {
    if (value === 0) return 0;
    if (!this.#seen.has(value)) this.#seen.set(value, this.#seen.size + 1);
    return this.#seen.get(value)!;
  }
}

/** One run in one place. */
class Run {
  readonly #store: Store;
  readonly #channel: string;
  readonly #keys = Array.from({ length: keyCount }, () => uniqueKey());
  readonly #tokens = Array.from({ length: people }, (_, n) => newToken(n === 0 ? undefined : `owner ${n}`));
  readonly #tickets = new Map<string, number>();
  readonly #fences = new Order();
  readonly #order = new Order();

  constructor(store: Store, channel: string) {
    this.#store = store;
    this.#channel = channel;
  }

  async answer(each: Command): Promise<unknown> {
    switch (each.do) {
      case 'acquire': {
        const stands = each.stands && each.keys.length === 1;
        const request = this.#acquire(each, each.who, each.keys, stands);
        return this.#told(each.who, each.keys, stands, await this.#store.acquire(request));
      }
      case 'extend': {
        const until = { validUntilMs: performance.now() + 60_000, begin: () => true };
        const request = { ...this.#claim(each.who, each.keys), lifetimeMs: each.lifetime, exact: each.exact, ...until };
        return (await this.#store.extend(request)).outcome;
      }
      case 'release':
        return this.#store.release(this.#release(each.who, each.keys, each.ticket));
      case 'pass': {
        const release = this.#release(each.who, [each.key], 0);
        const acquire = this.#acquire(each, each.next, [each.key], true);
        const [result, next] = await this.#store.releaseAndAcquire(release, acquire);
        return [result, this.#told(each.next, [each.key], true, next)];
      }
      case 'inspect': {
        const { remaining, fence, ...state } = await this.#store.inspect(this.#keys[each.key]!, commandTimeoutMs);
        return { ...state, remaining: coarse(remaining), fence: this.#fences.of(fence) };
      }
    }
  }

  /** Keys by their number, for messages. */
  nameOf(text: string): string {
    return this.#keys.reduce((named, each, n) => named.replace(each, `key ${n}`), text);
  }

  owns(text: string): boolean {
    return this.#keys.some((each) => text.includes(each));
  }

  #claim(by: number, which: readonly number[]) {
    const names = which.map((n) => this.#keys[n]!);
    return { keys: names.length === 1 ? names[0]! : names, token: this.#tokens[by]!, commandTimeoutMs };
  }

  #acquire(
    { lifetime: lifetimeMs, fences: count }: { lifetime: number; fences: number },
    by: number,
    which: readonly number[],
    stands: boolean,
  ): AcquireRequest {
    const place = { channel: this.#channel, id: String(by), ticket: this.#tickets.get(`${by} ${which[0]}`) ?? 0 };
    const terms = { lifetimeMs, fencing: count > 0, fences: count, minReplicas: 0, begin: () => true };
    return { ...this.#claim(by, which), ...terms, place: stands ? place : undefined };
  }

  #release(by: number, which: readonly number[], ticket: number): ReleaseRequest {
    if (ticket !== 0) for (const n of which) this.#tickets.delete(`${by} ${n}`);
    return { ...this.#claim(by, which), ticket, restMs: 5 };
  }

  #told(by: number, which: readonly number[], stands: boolean, reply: AcquireReply): unknown {
    // How many others wait is told to those who stand in line.
    if (reply.granted) return { fence: this.#fences.of(reply.fence), others: stands ? reply.others : 0 };
    const { stand } = reply;
    if (stand) this.#tickets.set(`${by} ${which[0]}`, stand.ticket);
    return {
      left: coarse(reply.leftMs),
      stand: stand && { before: stand.before, outside: stand.outside, ticket: this.#order.of(stand.ticket) },
    };
  }
}

function coarse(ms: number): number {
  return Math.round(ms / 20_000);
}

describe('memory, shared memory and Redis', function () {
  this.timeout(120_000);
  let client: Client;
  let folder: string;
  let given: string | undefined;
  let closing: (() => Promise<void>)[];
  const places: { name: string; store: Store; channel: string; heard: string[] }[] = [];

  before(async () => {
    given = process.env.XDG_RUNTIME_DIR;
    folder = process.env.XDG_RUNTIME_DIR = mkdtempSync(join(tmpdir(), 'redis-exp-lock-'));
    client = await connect((await sharedRedis()).url);
    const shared = sharedMemoryStore('same-replies');
    closing = [async () => client.destroy(), () => shared.close()];
    for (const [name, redis] of Object.entries<RedisLike>({ memory: memoryStore(), shared, Redis: client })) {
      const heard: string[] = [];
      const place = { name, store: storeOf(redis), channel: uniqueKey('channel'), heard };
      const listening = await place.store.listen!(
        place.channel,
        (text) => heard.push(text),
        () => {},
      );
      closing.unshift(async () => listening.close());
      places.push(place);
    }
  });

  after(async () => {
    for (const close of closing) await close();
    if (given === undefined) delete process.env.XDG_RUNTIME_DIR;
    else process.env.XDG_RUNTIME_DIR = given;
    rmSync(folder, { recursive: true, force: true });
  });

  it('give the same replies to any commands, and tell the same of grants', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 60, size: 'max' }), async (commands) => {
        const runs = places.map(({ store, channel }) => new Run(store, channel));
        for (const [n, each] of commands.entries()) {
          const replies = await Promise.all(runs.map((run) => run.answer(each)));
          for (const [at, reply] of replies.entries()) {
            expect(reply, `${places[at]!.name}, command ${n}: ${JSON.stringify(each)}`).to.deep.equal(replies[2]);
          }
        }
        const heard = (at: number): string[] =>
          places[at]!.heard.filter((text) => runs[at]!.owns(text)).map((text) => runs[at]!.nameOf(text));
        const areTheSame = () => [0, 1].every((at) => JSON.stringify(heard(at)) === JSON.stringify(heard(2)));
        await waitFor(areTheSame, { timeoutMs: 2000 }).catch(() => {
          for (const at of [0, 1]) expect(heard(at), places[at]!.name).to.deep.equal(heard(2));
        });
      }),
      { numRuns: 200 },
    );
    for (const { name, heard } of places) expect(heard.length, name).to.be.greaterThan(50);
  });
});
