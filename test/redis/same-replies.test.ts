// One state machine in three places: random commands, of every mode and those of a queue among them, are answered alike by memory, by shared
// memory and by Redis, and the same processes are notified of grants. Fences and tickets are clock readings, so their order is
// compared and not their values; ends are compared to some seconds.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import type { RedisLike } from '../../src/core/redis-like';
import type { Mode, Store } from '../../src/store/contract';
import { memoryStore } from '../../src/store/embedded/memory';
import { sharedMemoryStore } from '../../src/store/embedded/shared-memory/shared-memory';
import { storeOf } from '../../src/store/open';
import { noEngine } from '../embedded/engine';
import { waitFor } from '../support/processes';
import { randomFactor, randomRuns } from '../support/random-runs';
import { type Client, connect, sharedRedis, uniqueKey } from '../support/redis';
import { type Command, Run, worlds } from './any-commands';

/** The places other than Redis. */
const embedded = noEngine === undefined ? [0, 1] : [0];
const atRedis = embedded.length;

/** Commands that send a message: the commands drawn for a world may send none. */
const handOff: Command[] = [
  { do: 'acquire', who: 0, keys: [0], lifetime: 40_000, fences: 1, stands: false },
  { do: 'acquire', who: 1, keys: [0], lifetime: 40_000, fences: 1, stands: true },
  { do: 'release', who: 0, keys: [0], ticket: 0 },
];
const wakeUp: Command[] = [acquireMember(0, false), acquireMember(1, true), { do: 'free', who: 0, key: 2 }];

function acquireMember(who: number, stands: boolean): Command {
  const mode: Mode = { kind: 'exclusive', prefer: 'fair', group: '', permits: 1, total: 0, step: 0 };
  return { do: 'acquire member', who, lifetime: 40_000, stands, changes: false, mode, beside: undefined };
}

describe(`memory, ${noEngine === undefined ? 'shared memory and Redis' : `and Redis (shared memory is ${noEngine})`}`, function () {
  this.timeout(120_000 * randomFactor); // as many random runs as are asked for
  let client: Client;
  let folder: string;
  let given: string | undefined;
  let closing: (() => Promise<void>)[];
  const places: { name: string; store: Store; channel: string; heard: string[] }[] = [];

  before(async () => {
    given = process.env.XDG_RUNTIME_DIR;
    folder = process.env.XDG_RUNTIME_DIR = mkdtempSync(join(tmpdir(), 'redis-exp-lock-'));
    client = await connect((await sharedRedis()).url);
    const shared = noEngine === undefined ? { shared: sharedMemoryStore('same-replies') } : {};
    closing = [async () => client.destroy(), async () => shared.shared?.close()];
    for (const [name, redis] of Object.entries<RedisLike>({ memory: memoryStore(), ...shared, Redis: client })) {
      const heard: string[] = [];
      const place = { name, store: storeOf(redis), channel: uniqueKey('channel'), heard };
      const listening = await place.store.channels!.listen(
        place.channel,
        // In shared memory a listener also hears what the others say on the channel of operators.
        (text) => text.startsWith('!') || heard.push(text),
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

  for (const [what, commands] of worlds) {
    const seed = process.env.SAME_REPLIES_SEED === undefined ? undefined : Number(process.env.SAME_REPLIES_SEED);
    const any = fc.array(commands, { minLength: 1, maxLength: 60, size: 'max' });
    it(`${what}: the same replies to any commands, and the same messages of grants`, () =>
      sameFor(any, {
        numRuns: randomRuns(40),
        examples: [[what.startsWith('a mutex') || what.startsWith('jobs') ? handOff : wakeUp]],
        ...(seed !== undefined && { seed }),
      }));
  }

  it('one of three readers is taken away while a fourth one is queued: the same messages', () => {
    const acquire = (who: number, group: string, stands = false): Command => {
      const mode: Mode = { kind: 'shared', prefer: 'writer', group, permits: 1, total: 0, step: 0 };
      return { do: 'acquire member', who, lifetime: 40_000, stands, changes: false, mode, beside: undefined };
    };
    const free = (who: number): Command => ({ do: 'free', who, key: 2 });
    const queued = [acquire(0, 'a b'), acquire(4, '', true), free(0)];
    const commands = [...queued, acquire(1, ''), acquire(2, ''), acquire(3, ''), free(1), free(1), free(2)];
    return sameFor(fc.constant(commands), { numRuns: 1 });
  });

  async function sameFor(any: fc.Arbitrary<Command[]>, how: fc.Parameters<[Command[]]>): Promise<void> {
    for (const { heard } of places) heard.length = 0;
    await fc.assert(
      fc.asyncProperty(any, async (commands) => {
        const runs = places.map(({ store, channel }) => new Run(store, channel));
        for (const [n, each] of commands.entries()) {
          const replies = await Promise.all(runs.map((run) => run.answer(each)));
          for (const [at, reply] of replies.entries()) {
            expect(reply, `${places[at]!.name}, command ${n}: ${JSON.stringify(each)}`).to.deep.equal(replies[atRedis]);
          }
        }
        const heard = (at: number): string[] =>
          places[at]!.heard.filter((text) => runs[at]!.owns(text)).map((text) => runs[at]!.nameOf(text));
        // All earlier messages of Redis have arrived once a message that was sent after them has.
        const end = uniqueKey('end');
        await client.publish(places[atRedis]!.channel, end);
        await waitFor(() => places[atRedis]!.heard.includes(end), { what: 'the last message' });
        const areTheSame = () => embedded.every((at) => JSON.stringify(heard(at)) === JSON.stringify(heard(atRedis)));
        await waitFor(areTheSame).catch(() => {
          for (const at of embedded) expect(heard(at), places[at]!.name).to.deep.equal(heard(atRedis));
        });
      }),
      how,
    );
    for (const { name, heard } of places) expect(heard.length, name).to.be.greaterThan(0);
  }
});
