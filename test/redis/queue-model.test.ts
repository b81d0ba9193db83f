/**
 * The scripts that keep a queue, in a real Redis, beside the machine that says what they should do: the same commands at the same
 * moments give the same answers, tell the same processes, and leave the same holder, fence and order of those who stand there.
 *
 * Invariant: time is the test's. A prelude tells each script what TIME says and when a key ends; the rest is what Redis runs
 * for everybody. So answers are equal to the digit, and no test waits.
 */

import { expect } from 'chai';
import fc from 'fast-check';
import { companionOf } from '../../src/core/keys';
import { newToken } from '../../src/core/token';
import redisExpLock from '../../src/index';
import type { QueueEntry } from '../../src/store/contract';
import type { CommandOutcome } from '../../src/store/embedded/machine/command';
import { Machine } from '../../src/store/embedded/machine/mutex-machine';
import { limits } from '../../src/store/protocol';
import * as generated from '../../src/store/redis/scripts/generated';
import type { Script, ScriptCall } from '../../src/store/redis/scripts/script';
import { waitFor } from '../support/processes';
import { randomFactor, randomRuns } from '../support/random-runs';
import { type Client, type RedisServer, startRedis, uniqueKey } from '../support/redis';

const prelude = `
local real, ends, micros = redis, ARGV[#ARGV - 1], tonumber(ARGV[#ARGV])
ARGV[#ARGV] = nil
ARGV[#ARGV] = nil
local now = math.floor(micros / 1000)
local function told(call)
  local function endIn(key, ms)
    return call('HSET', ends, key, string.format('%.0f', now + tonumber(ms)))
  end
  return function(name, key, ...)
    local reply
    if name == 'TIME' then
      return { tostring(math.floor(micros / 1000000)), tostring(micros % 1000000) }
    elseif name == 'PEXPIRE' then
      reply = call(name, key, string.format('%.0f', tonumber((...)) + 1000000))
      if reply == 1 then endIn(key, (...)) end
    elseif name == 'PTTL' then
      reply = call(name, key)
      if reply >= 0 then reply = tonumber(call('HGET', ends, key)) - now end
    elseif name == 'SET' and select('#', ...) > 1 then
      local value, px, ms = ...
      reply = call(name, key, value, px, string.format('%.0f', tonumber(ms) + 1000000))
      endIn(key, ms)
    elseif key == nil then
      return call(name)
    else
      return call(name, key, ...)
    end
    return reply
  end
end
local redis = setmetatable({ call = told(real.call), pcall = told(real.pcall) }, { __index = real })
`;

const stranger = 'an old client';
const lifetimes = [1_500, 30_000];

/** A process with its position, as src/queue/queue.ts keeps it. */
interface Process {
  readonly channel: string;
  token: string;
  id: string;
  ticket: number;
  /** The token of the last grant, whether the caller knows of the grant or not. */
  held: string;
}

type Outcome = ReturnType<Machine['release']>['results'][number];
/** A lock that was free is granted by one integer, the server's time. */
function inFull(reply: unknown, fences: number): unknown {
  return typeof reply === 'number' ? [1, fences === 0 ? 0 : reply, 0, Math.floor(reply / 1000)] : reply;
}

const statusOf: Record<Outcome, number> = { released: 1, missing: 0, taken: -1 };

let server: RedisServer;
let client: Client;
let ear: Client;
const shas = new Map<string, string>();
let heard: string[] = [];

/** The words of an entry, as src/store/redis/commands.ts makes them. */
function wordsOf({ channel, id, ticket, silenceMs = 0 }: QueueEntry): string[] {
  return silenceMs > 0 ? [channel, id, String(ticket), String(silenceMs)] : [channel, id, String(ticket)];
}

/** Redis and the machine, told the same. */
class Both {
  readonly keys: readonly string[];
  readonly processes: readonly Process[];
  readonly #base = uniqueKey('line');
  readonly #ends = `${this.#base}:ends`;
  /** A counter of its own: each model begins with none. */
  readonly #fence = `${this.#base}:fence`;
  readonly #told: string[] = [];
  readonly #machine = new Machine((channel, id, key) => void this.#told.push(`${channel} ${id} ${key}`));
  /** The silences that processes announce, in turn. */
  silencesMs: readonly number[] = [0];
  #micros = 1_700_000_000_000_000;
  #ids = 0;

  constructor(processes: number) {
    this.keys = [`${this.#base} one`, `${this.#base} two`];
    this.processes = Array.from({ length: processes }, (_, n) => {
      return { channel: `${this.#base}:${n}`, token: '', id: '', ticket: 0, held: '' };
    });
    for (const process of this.processes) this.#renew(process);
  }

  get nowMs(): number {
    return Math.floor(this.#micros / 1000);
  }

  /** Asks by place, with the token and the ticket of last time. */
  async ask(
    process: Process,
    key: string,
    lifetimeMs = 30_000,
    notAfterMs = this.nowMs + 1_000,
  ): Promise<CommandOutcome> {
    this.#micros += 7; // less than a block of fences: the clock is not always ahead of the last one
    const { token } = process;
    const queueAs = this.#placeOf(process);
    const command = { keys: [key], token, lifetimeMs, notAfterMs, fences: 65, queueAs };
    const expected = this.#machine.acquire(command, this.#micros);
    const words = wordsOf(queueAs);
    const reply = await this.#run(
      generated.acquire(...named([key], this.#fence), token, lifetimeMs, notAfterMs, 65, words),
    );
    expect(reply, `${process.channel} asks`).to.deep.equal(this.#inWords(expected, true));
    this.#settle(process, expected);
    return expected;
  }

  /** Polls: for one key or for several, with a token of the moment or an old one. */
  async count(
    keys: readonly string[],
    token: string,
    lifetimeMs: number,
    fences: number,
    pauseMs?: number,
  ): Promise<CommandOutcome> {
    this.#micros += 7;
    const notAfterMs = this.nowMs;
    const expected = this.#machine.acquire({ keys, token, lifetimeMs, notAfterMs, fences, pauseMs }, this.#micros);
    const words = pauseMs === undefined ? [] : ['0', String(pauseMs)];
    const reply = await this.#run(
      generated.acquire(...named(keys, this.#fence), token, lifetimeMs, notAfterMs, fences, words),
    );
    expect(inFull(reply, fences), 'somebody polls').to.deep.equal(this.#inWords(expected, false));
    return expected;
  }

  /** Releases `token`, and queues `next` in the same command. */
  async release(
    keys: readonly string[],
    token: string,
    ticket: number,
    yieldMs: number,
    next?: Process,
  ): Promise<void> {
    this.#micros += 7;
    const queueAs = next && this.#placeOf(next);
    const claim = next && { token: next.token, lifetimeMs: 30_000, fences: 65, queueAs };
    const expected = this.#machine.release({ keys, token, ticket, yieldMs, next: claim }, this.#micros);
    const words = next ? [next.token, '30000', '65', ...wordsOf(queueAs!)] : [];
    const reply = await this.#run(generated.release(...named(keys, this.#fence), token, ticket, yieldMs, words));
    const results = expected.results.map((result) => statusOf[result]);
    const last = expected.next ? this.#inWords(expected.next, true) : [];
    // One lock that was released while nobody was queued is one integer.
    expect([reply].flat(), 'a release').to.deep.equal([...results, ...last]);
    if (next) this.#settle(next, expected.next!);
  }

  async extend(key: string, token: string, lifetimeMs: number, exact: boolean): Promise<void> {
    const notAfterMs = this.nowMs;
    const outcome = this.#machine.extend({ keys: [key], token, lifetimeMs, exact, notAfterMs }, this.#micros);
    const status = { extended: 1, missing: 0, taken: -1, late: -2 }[outcome];
    const reply = await this.#run(generated.extend([key], token, lifetimeMs, exact ? 1 : 0, notAfterMs));
    expect(reply, 'an extension').to.deep.equal([status, this.nowMs]);
  }

  /** A client that knows nothing of queues takes a free key, or gives it back. */
  async put(key: string, token: string | undefined, lifetimeMs: number): Promise<void> {
    const holder = this.#machine.row(key, this.#micros).token;
    if (token === undefined ? holder !== stranger : holder !== undefined) return;
    const endMs = token === undefined ? 0 : this.nowMs + lifetimeMs;
    this.#machine.put(key, token, endMs);
    if (token === undefined) await client.del(key);
    else {
      await client.set(key, token, { expiration: { type: 'PX', value: lifetimeMs + 1_000_000 } });
      await client.hSet(this.#ends, key, endMs);
    }
  }

  /** Time goes on, and keys end. */
  async pass(ms: number): Promise<void> {
    this.#micros += ms * 1000;
    for (const [key, endMs] of Object.entries(await client.hGetAll(this.#ends))) {
      if (Number(endMs) > this.nowMs) continue;
      await client.del(key);
      await client.hDel(this.#ends, key);
    }
  }

  /** Compares the holder and its fence on both sides. */
  async look(): Promise<void> {
    for (const key of this.keys) {
      const holder = this.#machine.row(key, this.#micros).token ?? null;
      expect(await client.get(key), 'the holder').to.equal(holder);
      const fence = Number(await client.get(this.#fence));
      expect(fence, 'the last fence').to.equal(this.#machine.rows.fence);
    }
  }

  /** Every queued caller is served, one after the other; then nothing is left but fences. */
  async drain(): Promise<void> {
    for (const key of this.keys) {
      for (let n = 0; n < 200; n++) {
        const holder = this.#machine.row(key, this.#micros).token;
        await this.release([key], holder ?? 'nobody', 0, 0);
        await this.look();
        if (this.#machine.row(key, this.#micros).token === undefined) break;
      }
      expect(await client.exists(companionOf(key, 'queue')), 'a queue without entries').to.equal(0);
    }
    await client.publish(`${this.#base}:end`, 'end');
    await waitFor(() => heard.includes(`${this.#base}:end end`), { what: 'the last message' });
    const ours = heard.filter((line) => line.startsWith(this.#base)).slice(0, -1);
    heard = [];
    expect(ours, 'what was told').to.deep.equal(this.#told);
  }

  holder(key: string): string | undefined {
    return this.#machine.row(key, this.#micros).token;
  }

  /** The process stands anew, with a token of its own. */
  #renew(process: Process): void {
    this.#ids += 1;
    Object.assign(process, { token: newToken(undefined), id: String(this.#ids), ticket: 0 });
  }

  leave(process: Process): void {
    this.#renew(process);
  }

  #placeOf({ channel, id, ticket }: Process): QueueEntry {
    return { channel, id, ticket, silenceMs: this.silencesMs[this.#micros % this.silencesMs.length]! };
  }

  #settle(process: Process, reply: CommandOutcome): void {
    if (reply.outcome === 'busy') process.ticket = reply.position!.ticket;
    if (reply.outcome !== 'granted') return;
    process.held = process.token;
    this.#renew(process);
  }

  #inWords(reply: CommandOutcome, placed: boolean): number[] {
    if (reply.outcome === 'late') return [-1, 0, 0, this.nowMs];
    if (reply.outcome === 'granted') return [1, reply.fence, placed ? reply.others : 0, this.nowMs];
    if (reply.outcome !== 'busy') throw new Error(`no mutex is ever ${reply.outcome}`);
    const { leftMs, position } = reply;
    return [
      0,
      leftMs,
      position?.ticket ?? 0,
      this.nowMs,
      ...(position ? [position.before, position.outside ? 1 : 0] : []),
    ];
  }

  #run({ script, keys, args }: ScriptCall): Promise<unknown> {
    const words = { keys: [...keys], arguments: [...args, this.#ends, String(this.#micros)] };
    return client.evalSha(shas.get(script.name)!, words) as Promise<unknown>;
  }
}

function named(keys: readonly string[], fence: string): [string[], string[], string] {
  return [[...keys], keys.map((key) => companionOf(key, 'queue')), fence];
}

before(async () => {
  server = await startRedis();
  client = await server.connect();
  ear = await server.connect();
  await ear.pSubscribe('line-*', (message, channel) => void heard.push(`${channel} ${message}`));
  for (const { name, lua } of generated.scripts as readonly Script[]) {
    shas.set(name, await client.scriptLoad(prelude + lua));
  }
});

after(async () => {
  client.destroy();
  ear.destroy();
  await server.discard();
});

describe('the queue in Redis and the machine that specifies it', function () {
  this.timeout(60_000 * randomFactor); // as many random runs as are asked for

  interface Step {
    readonly what: string;
    readonly who: number;
    readonly key: number;
    readonly ms: number;
    readonly sure: boolean;
  }

  /** Pauses of callers that poll, among the steps' ms. */
  const pauseOf = ({ ms, sure }: Step): number | undefined => (sure && ms > 0 ? ms : undefined);

  const step: fc.Arbitrary<Step> = fc.record({
    what: fc.constantFrom(
      ...[
        'ask',
        'ask',
        'ask',
        'ask',
        'give',
        'give',
        'give and stand',
        'give and stand',
        'leave',
        'count',
        'count both',
      ],
      ...['give what was counted', 'pass', 'pass', 'seize', 'unseize', 'extend', 'late', 'give anything'],
    ),
    who: fc.nat({ max: 3 }),
    key: fc.nat({ max: 1 }),
    ms: fc.constantFrom(0, 1, 6, 400, 999, 1_000, 1_500, 1_999, 2_000, 2_001, 12_000, 30_000, 3_700_000),
    sure: fc.boolean(),
  });

  function stepOf(text: string): Step {
    const [what, who = '0'] = text.split(' ') as [string, string?];
    return { what, who: Number(who), key: 0, ms: what === 'pass' ? 3_700_000 : 0, sure: false };
  }

  it('any order of commands: the same answers, the same messages, the same holder and the same order (H29, H32, H36)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60 }), async (steps) => {
        const both = new Both(4);
        both.silencesMs = [0, 0, 8_000, 20_000];
        let counted = newToken('somebody');
        for (const each of steps) {
          const { what, who, key: n, ms, sure } = each;
          const process = both.processes[who]!;
          // Each process stands for one key: what its token, ticket and entry are for.
          const key = both.keys[what === 'seize' || what === 'unseize' ? n : who % 2]!;
          const lifetime = lifetimes[sure ? 1 : 0]!;
          if (what === 'ask') await both.ask(process, key, lifetime);
          else if (what === 'late') await both.ask(process, key, lifetime, both.nowMs - 1);
          else if (what === 'give') await both.release([key], both.holder(key) ?? process.held, sure ? 0 : -1, ms);
          else if (what === 'give and stand') {
            await both.release([key], both.holder(key) ?? 'nobody', 0, sure ? 5 : 0, process);
          } else if (what === 'give anything') await both.release([key], process.held, -1, 0);
          else if (what === 'leave') {
            const { token, ticket } = process;
            both.leave(process);
            await both.release([key], token, sure && ticket > 0 ? ticket : -1, 0);
          } else if (what === 'count') {
            await both.count([both.keys[n]!], counted, lifetime, sure ? 1 : 0, pauseOf(each));
          } else if (what === 'count both') await both.count(both.keys, counted, lifetime, sure ? 1 : 0, pauseOf(each));
          else if (what === 'give what was counted') {
            await both.release(both.keys, counted, 0, sure ? 5 : 0);
            counted = newToken(undefined);
          } else if (what === 'seize') await both.put(key, stranger, lifetime);
          else if (what === 'unseize') await both.put(key, undefined, 0);
          else if (what === 'extend') await both.extend(key, both.holder(key) ?? 'nobody', Math.max(ms, 1), sure);
          else await both.pass(ms);
          await both.look();
        }
        await both.drain();
      }),
      {
        numRuns: randomRuns(100),
        // A queue that nobody has touched for ten minutes is gone, on both sides.
        examples: [[['ask 0', 'ask 2', 'pass', 'seize', 'ask 0'].map(stepOf)]],
      },
    );
  });

  it('H32: after 64 grants in a row the key is left free once, and then the queue goes on', async () => {
    const both = new Both(2);
    const [one, two] = both.processes as [Process, Process];
    const key = both.keys[0]!;
    await both.ask(one, key);
    await both.ask(two, key);
    let free = 0;
    for (let n = 0; n < 200; n++) {
      const holder = both.holder(key);
      if (holder === undefined) {
        free += 1;
        // Polling callers may have it now, queued ones may not; after the yield window it is the queue's again.
        if (free === 1) {
          expect(await both.ask(one, key)).to.include({ outcome: 'busy', leftMs: 20 });
          expect(await both.count([key], newToken('outside'), 1_500, 1)).to.include({ outcome: 'granted' });
        } else {
          await both.pass(21);
          await both.ask(one, key);
        }
        continue;
      }
      const mine = [one, two].find(({ token }) => token === holder) ?? two;
      if (mine.token === holder) await both.ask(mine, key); // confirmed
      await both.release([key], holder, 0, 20, mine);
    }
    expect(free).to.be.within(2, 4);
    await both.drain();
  });

  it('H29: expired entries go together, 2,048 at a time; 60 of them cost one attempt, and expire within 4 s', async () => {
    const both = new Both(62);
    const key = both.keys[0]!;
    const [holder, ...rest] = both.processes as [Process, ...Process[]];
    const live = rest.pop()!;
    await both.ask(holder, key);
    for (const process of rest) await both.ask(process, key);
    await both.extend(key, holder.held, 60_000, true);
    await both.pass(2 * limits.maxPollMs + 1);
    await both.ask(live, key);
    await both.release([key], holder.held, 0, 0);
    await both.look();
    expect(both.holder(key)).to.equal(live.token);
    await both.drain();
  });

  it('H80: beside callers that poll the key yields for their longest pause: after 64 hand-offs, or 8 pauses in vain', async () => {
    for (const [handOffs, msEach] of [
      [64, 1],
      [8, 120],
    ] as const) {
      const both = new Both(2);
      const [one, two] = both.processes as [Process, Process];
      const key = both.keys[0]!;
      await both.ask(one, key);
      await both.ask(two, key);
      const poll = (pauseMs: number) => both.count([key], newToken('polls'), 1_500, 1, pauseMs);
      await poll(100);
      await poll(30);
      let count = 0;
      for (; both.holder(key) !== undefined && count < 200; count++) {
        const mine = [one, two].find(({ token }) => token === both.holder(key)) ?? one;
        if (mine.token === both.holder(key)) await both.ask(mine, key);
        await both.pass(msEach);
        await poll(100);
        await both.release([key], both.holder(key)!, 0, 5, mine);
      }
      expect(count).to.be.within(handOffs, handOffs + 2);
      await both.pass(119);
      expect(await both.ask(one, key), 'the queue waits').to.include({ outcome: 'busy', leftMs: 1 });
      expect(await poll(100)).to.include({ outcome: 'granted' });
      await both.pass(2);
      await both.drain();
    }
  });

  it('H80: no mark is left by a caller that will not try again, that pauses for too long, or where nobody is queued', async () => {
    const both = new Both(1);
    const [one] = both.processes as [Process];
    const key = both.keys[0]!;
    const queue = companionOf(key, 'queue');
    await both.put(key, stranger, 30_000);
    await both.count([key], newToken('polls'), 1_500, 1, 100);
    expect(await client.exists(queue)).to.equal(0);
    await both.ask(one, key);
    await both.count([key], newToken('tries once'), 1_500, 1);
    await both.count([key], newToken('pauses for long'), 1_500, 1, 1_001);
    expect(await client.zCard(queue)).to.equal(1);
    await both.count([key], newToken('polls'), 1_500, 1, 1_000);
    expect(await client.zCard(queue)).to.equal(2);
    await both.put(key, undefined, 0);
    await both.drain();
  });

  it('H32: a newcomer, and a polling caller, do not pass queued callers on a free key', async () => {
    const both = new Both(2);
    const [first, second] = both.processes as [Process, Process];
    const key = both.keys[0]!;
    await both.put(key, stranger, 30_000);
    expect(await both.ask(first, key)).to.deep.include({ outcome: 'busy', leftMs: 30_000 });
    await both.put(key, undefined, 0);
    expect(await both.count([key], newToken('counts'), 1_500, 1)).to.include({ outcome: 'busy', leftMs: 2_000 });
    expect(both.holder(key)).to.equal(first.token);
    expect(await both.ask(second, key)).to.include({ outcome: 'busy', leftMs: 2_000 });
    expect(await both.ask(first, key)).to.include({ outcome: 'granted', others: 1 });
    await both.drain();
  });

  it('a grant that nobody confirms ends by itself after 2 s, and sooner with a shorter lifetime', async () => {
    const both = new Both(3);
    const [holder, short, long] = both.processes as [Process, Process, Process];
    const key = both.keys[0]!;
    await both.ask(holder, key);
    await both.ask(short, key, 1_500);
    await both.ask(long, key, 30_000);
    await both.release([key], holder.held, 0, 0);
    expect(both.holder(key)).to.equal(short.token);
    await both.pass(1_500);
    await both.look();
    expect(both.holder(key)).to.equal(undefined);
    await both.count([key], newToken('counts'), 1_500, 1);
    expect(both.holder(key), 'the next request lets the queue go on').to.equal(long.token);
    await both.pass(1_999);
    expect(both.holder(key)).to.equal(long.token);
    await both.pass(1);
    await both.look();
    expect(both.holder(key)).to.equal(undefined);
    await both.drain();
  });

  it('a lock that was handed off and then forgotten leaves no queue that stays for ever', async () => {
    const [holder, waiter] = [await server.connect(), await server.connect()];
    const key = uniqueKey();
    const options = { lifetime: 30_000, timeout: 20_000, commandTimeout: 10_000 };
    const lease = await redisExpLock({ redis: holder, ...options }).promise(key);
    const waits = redisExpLock({ redis: waiter, ...options }).promise(key);
    await waitFor(async () => (await client.zCard(companionOf(key, 'queue'))) === 1, { what: 'a queued waiter' });
    await lease();
    await waits;
    expect(await client.zRange(companionOf(key, 'queue'), 0, -1)).to.deep.equal(['passes']);
    expect(await client.pTTL(companionOf(key, 'queue'))).to.be.within(1, 10_000);
    holder.destroy();
    waiter.destroy();
  });

  it('an entry that vanished is put back under its first ticket, before later ones', async () => {
    const both = new Both(3);
    const [holder, first, later] = both.processes as [Process, Process, Process];
    const key = both.keys[0]!;
    await both.ask(holder, key);
    await both.ask(first, key);
    await both.ask(later, key);
    const all = await client.zRange(companionOf(key, 'queue'), 0, -1);
    await client.zRem(
      companionOf(key, 'queue'),
      all.filter((member) => member.endsWith(first.token)),
    );
    // The machine has lost nothing: asking again makes the two equal.
    expect(await both.ask(first, key)).to.deep.nested.include({ outcome: 'busy', 'position.before': 0 });
    await both.release([key], holder.held, 0, 0);
    expect(both.holder(key)).to.equal(first.token);
    await both.look();
    await both.drain();
  });
});
