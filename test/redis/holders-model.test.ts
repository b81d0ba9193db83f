/**
 * The scripts and the machine are one thing said twice, also where several may hold a key (a mutex: queue-model.test.ts): random
 * commands give the same replies, the same messages, the same holders and the same ends in Redis and in src/store/embedded/machine/shared-machine.ts.
 *
 * Invariant: time is the test's. Scripts read it from a list, so that a moment can be given to both sides exactly; what Redis
 * itself lets end, the test moves on together with it.
 */
import { expect } from 'chai';
import fc from 'fast-check';
import type { Mode, QueueEntry } from '../../src/store/contract';
import { Machine } from '../../src/store/embedded/machine/mutex-machine';
import { placesText } from '../../src/store/permit-places';
import * as scripts from '../../src/store/redis/scripts/generated';
import type { BatchableCall } from '../../src/store/redis/scripts/script';
import { ownServer } from '../support/own-server';
import { randomFactor, randomRuns } from '../support/random-runs';
import type { Client } from '../support/redis';

const key = 'lock';
const companions = { fence: 'redis-exp-lock:fence', queue: '{lock}:queue', limit: '{lock}:limit' };
/** Real time passes too: what Redis lets end is this much sooner at most, and a run that takes longer proves nothing. */
const slackMs = 400;
const runs = randomRuns(50);
/** True if only the front of a long queue, and of many readers, is read. Two are many then; an expired entry counts as a waiter. */
let frontOnly = false;

let client: Client;

ownServer((own) => {
  ({ client } = own);
});

interface Model {
  asked: number;
}

interface Real {
  readonly machine: Machine;
  readonly told: string[];
  micros: number;
  /** The first ticket of each token. */
  readonly tickets: Map<string, number>;
  readonly steps: Map<string, number>;
  /** The mode that each token is queued for. */
  readonly queuedFor: Map<string, string>;
  /** The number of permits that each token asked for first. */
  readonly permits: Map<string, number>;
}

async function start(): Promise<{ model: Model; real: Real }> {
  await client.flushAll();
  const told: string[] = [];
  const machine = new Machine((channel, id, name) => told.push(`${channel} ${id} ${name}`));
  const maps = { tickets: new Map(), steps: new Map(), queuedFor: new Map(), permits: new Map() };
  const real = { machine, told, micros: 1_700_000_000_000_000, ...maps };
  return { model: { asked: 0 }, real };
}

interface Asked {
  readonly call: BatchableCall;
  readonly resolve: (reply: any) => void;
  readonly reject: (error: Error) => void;
}

let asked: Asked[] = [];

/**
 * Calls of one tick go out as one batch, as they do in life, and their callers go on in the same order.
 * @returns What the script replied, or the first word of its error.
 */
function inRedis(call: BatchableCall, micros: number): Promise<any> {
  return new Promise((resolve, reject) => {
    if (asked.length === 0) {
      process.nextTick(() => {
        const together = asked;
        asked = [];
        sendTogether(together, micros).catch((error) => {
          for (const each of together) each.reject(error);
        });
      });
    }
    asked.push({ call, resolve, reject });
  });
}

const chunkLine = (size: number): string => `local chunk = ${size}\n`;
const timeCall = "call('TIME')";
const clockCall = "call('LRANGE', 'clock', 0, 1)";

/** At a time and to a listener of the test's; with another call after them, whose arguments are nobody else's. */
async function sendTogether(together: readonly Asked[], micros: number): Promise<void> {
  const calls = [...together.map(({ call }) => call), scripts.countPermits('nobody has this')];
  const parts = calls.map(({ script, keys, args }) => [`${script.name} ${keys.length} ${args.length}`, ...args]);
  const batch = scripts.batchShared(
    calls.flatMap(({ keys }) => keys),
    parts.flat(),
  );
  const lua = batch.script.lua
    .replace(chunkLine(16), chunkLine(frontOnly ? 1 : 16))
    .replaceAll(timeCall, clockCall)
    .replaceAll(/redis\.pcall\('PUBLISH', ([^,\s]+),/g, "redis.call('RPUSH', 'told', $1 .. ' ' .. ");
  const clock = [String(Math.floor(micros / 1e6)), String(micros % 1e6)];
  await client.multi().del('clock').rPush('clock', clock).exec();
  const reply = (await client.eval(lua, { keys: [...batch.keys], arguments: [...batch.args] })) as any[];
  expect(reply.splice(-2), 'the other call').to.deep.equal([1, 0]);
  for (const { resolve } of together) {
    const count = reply.shift();
    if (count === -1) resolve(reply.shift().split(' ')[0]);
    else resolve(reply.splice(0, count));
  }
}

abstract class Step implements fc.AsyncCommand<Model, Real> {
  check(): boolean {
    return true;
  }

  async run(model: Model, real: Real): Promise<void> {
    model.asked += 1;
    real.micros += 1_003;
    await this.act(real);
    if (frontOnly) await forgetMessages(real);
    expect(await client.lRange('told', 0, -1), 'messages').to.deep.equal(real.told);
    await compareState(real);
  }

  abstract act(real: Real): Promise<void>;
}

/** Forgets messages: an entry that expired behind the front is noticed later, and others are notified once more then. */
async function forgetMessages({ told }: Real): Promise<void> {
  await client.del('told');
  told.length = 0;
}

async function compareState({ machine, micros }: Real): Promise<void> {
  if ((await client.type(key)) === 'zset') {
    const nowMs = Math.floor(micros / 1000);
    const found = (await client.zRangeWithScores(key, 0, -1)).filter(({ score }) => score > nowMs);
    const ours = machine.holders(key, micros).map((each) => {
      const kind = { shared: 'r', exclusive: 'w', counted: 'p' }[each.kind];
      const { permits, step, fence, token, group, endMs } = each;
      return { value: `1 ${kind} ${permits} ${step} ${fence} ${token.length} ${token}${group}`, score: endMs };
    });
    const byName = (a: { value: string }, b: { value: string }) => (a.value < b.value ? -1 : 1);
    expect(found.map(({ value, score }) => ({ value, score })).sort(byName)).to.deep.equal(ours.sort(byName));
  } else {
    expect(machine.holders(key, micros), 'members').to.deep.equal([]);
    expect(await client.get(key), 'holder').to.equal(machine.row(key, micros).token ?? null);
  }
  const fence = await client.get(companions.fence);
  if (fence !== null) expect(Number(fence), 'fence').to.equal(machine.rows.fence);
}

/** Compares the replies to an acquire, both in the machine's words. */
function compareAcquired(reply: any, expected: any, { tickets }: Real, token: string): void {
  const [status, value, third, , before] = reply;
  if (status === 1) {
    const others = frontOnly ? expected.others : third;
    expect(expected).to.deep.equal({ outcome: 'granted', fence: value, others });
  } else if (status === -1) expect(expected.outcome).to.equal('late');
  else if (status === -2) expect(expected.outcome).to.equal('deadlock');
  else if (status === -3) expect(expected.outcome).to.equal('gone');
  else {
    expect(expected.outcome).to.equal('busy');
    const expectedMs = expected.leftMs === Number.POSITIVE_INFINITY ? -1 : expected.leftMs;
    expect(value, 'ms left').to.be.within(expectedMs - slackMs, expectedMs + slackMs);
    if (expected.position) {
      expect({ ticket: third, before }).to.deep.include({
        ticket: expected.position.ticket,
        before: frontOnly ? before : expected.position.before,
      });
      if (!tickets.has(token)) tickets.set(token, third);
    }
  }
}

/** Time passes, for Redis's own clock too. */
class Pass extends Step {
  readonly #ms: number;

  constructor(ms: number) {
    super();
    this.#ms = ms;
  }

  override async act(real: Real): Promise<void> {
    real.micros += this.#ms * 1000;
    if ((await client.type(key)) !== 'string') return;
    const leftMs = await client.pTTL(key);
    if (leftMs > this.#ms) await client.pExpire(key, leftMs - this.#ms);
    else if (leftMs >= 0) await client.del(key);
  }

  override toString(): string {
    return `pass(${this.#ms})`;
  }
}

const lateness = (late: boolean, micros: number): number => Math.floor(micros / 1000) + (late ? -10 : 1000);

const entryOf = (who: number, { tickets }: Real, token: string): QueueEntry => ({
  channel: `channel${who % 2}`,
  id: String(who),
  ticket: tickets.get(token) ?? 0,
});

const results: Record<string, string> = { '1': 'released', '0': 'missing', '-1': 'taken' };

interface MemberAsk {
  readonly who: number;
  readonly lifetimeMs: number;
  readonly placed: boolean;
  readonly late: boolean;
  readonly silenceMs: number;
  readonly mode: Mode;
  /** The reader whose member this reader has shared, beside which it asks for its own. */
  readonly beside: number | undefined;
}

const memberToken = (who: number): string => (who % 2 === 0 ? `label\n_${who}` : `t${who}`);
const letter = { shared: 'r', exclusive: 'w', counted: 'p' } as const;

class AcquireMember extends Step {
  readonly #ask: MemberAsk;
  readonly #change: boolean;

  constructor(ask: MemberAsk, change: boolean) {
    super();
    this.#ask = ask;
    this.#change = change;
  }

  override async act(real: Real): Promise<void> {
    const { who, lifetimeMs, placed, late, silenceMs } = this.#ask;
    const fences = who === 0 ? 0 : 1; // a token asks for the same each time
    const token = memberToken(who);
    // A token that was changed in place is not asked for anew: only its release ends it.
    if (!this.#change && real.steps.has(token)) return;
    if (!this.#change && frontOnly && asksOtherwise(token, this.#ask.mode, real)) return;
    if (this.#change) real.steps.set(token, (real.steps.get(token) ?? 0) + 1);
    const asked = { ...this.#ask.mode, step: this.#change ? real.steps.get(token)! : 0 };
    const mode =
      isOfQuorum(who) && asked.kind === 'counted' ? { ...asked, group: placesText(placesFor(asked)) } : asked;
    const minFence = isOfQuorum(who) ? real.micros + 500 : undefined;
    const notAfterMs = lateness(late, real.micros);
    const queuedAs = isOfQuorum(who) && !this.#change ? `${token} waits` : token;
    const queueAs = placed ? { ...entryOf(who, real, token), silenceMs, token: queuedAs } : undefined;
    const sharedWith = this.#besideIn(real);
    const beside = sharedWith === undefined ? undefined : { token: sharedWith };
    const command = { keys: [key], token, lifetimeMs, notAfterMs, fences, minFence, queueAs, mode, beside };
    const parted = beside === undefined ? [] : [textOf(real.machine, beside.token, mode, real.micros)];
    const expected = outcome(() => real.machine.acquire(command, real.micros));
    if (typeof expected !== 'string' && expected.outcome === 'granted') real.queuedFor.delete(token);
    else if (placed && typeof expected !== 'string' && expected.outcome === 'busy')
      real.queuedFor.set(token, wantOf(mode));
    const place = queueAs ? [queueAs.channel, queueAs.id, String(queueAs.ticket), String(silenceMs)] : parted;
    const where = minFence
      ? [...(queueAs ? place : ['', '0', '0', '0']), queueAs?.token ?? token, String(minFence)]
      : place;
    const { fence, queue, limit } = companions;
    const call = scripts.acquireShared(
      ...([key, fence, queue, limit, token, lifetimeMs, notAfterMs, fences] as const),
      ...([letter[mode.kind], mode.prefer[0]!, mode.permits, mode.total, mode.step, mode.group, where] as const),
    );
    const reply = await inRedis(call, real.micros);
    if (typeof expected === 'string' || typeof reply === 'string') expect(reply).to.equal(expected);
    else compareAcquired(reply, expected, real, token);
    if (Array.isArray(reply) && reply[0] === 1) real.tickets.delete(token);
    if (isOfQuorum(who)) await raise(token, mode, real);
  }

  /** A reader that leaves those of its group that it shares a member with is not queued, and no quorum has such. */
  #besideIn({ machine, micros }: Real): string | undefined {
    const { who, placed, mode, beside } = this.#ask;
    const mayPart = mode.kind === 'shared' && !placed && !this.#change && !isOfQuorum(who) && beside !== who;
    if (!mayPart || beside === undefined) return undefined;
    const token = memberToken(beside);
    const shared = machine.holders(key, micros).find((each) => each.token === token);
    return shared === undefined || shared.group === mode.group ? token : undefined;
  }

  override toString(): string {
    return `${this.#change ? 'change' : 'acquire'}(${JSON.stringify(this.#ask)})`;
  }
}

/** One of them asks as a quorum does: with places, a least fence, and an entry of another name than its token. */
function isOfQuorum(who: number): boolean {
  return who === 3;
}

function placesFor({ permits, total }: Mode): number[] {
  return Array.from({ length: permits }, (_, n) => (permits + n) % total);
}

async function raise(token: string, mode: Mode, { machine, micros }: Real): Promise<void> {
  const least = micros + 700;
  const expected = outcome(() => machine.raise([key], token, least, micros, mode));
  const call = scripts.raiseFenceShared(key, companions.fence, token, least);
  const reply = await inRedis(call, micros);
  expect(Array.isArray(reply) ? reply[0] === 1 : reply, 'raise').to.equal(expected);
}

/**
 * A token asks for the same each time: so among many holders and waiters its own is found by what it asks for. An expired holder that was
 * not read since may still be there, and has the permits that were asked for then.
 */
function asksOtherwise(token: string, mode: Mode, { machine, micros, queuedFor, permits }: Real): boolean {
  const { kind, group } = mode;
  if (!permits.has(token)) permits.set(token, mode.permits);
  if (permits.get(token) !== mode.permits) return true;
  if ((queuedFor.get(token) ?? wantOf(mode)) !== wantOf(mode)) return true;
  return machine
    .holders(key, micros)
    .some((each) => each.token === token && (each.kind !== kind || each.group !== group));
}

function wantOf({ kind, prefer, group }: Mode): string {
  return `${kind} ${prefer} ${group}`;
}

function outcome<T>(work: () => T): T | string {
  try {
    return work();
  } catch (error) {
    return String((error as Error).message).split(' ')[0]!;
  }
}

class ExtendMember extends Step {
  readonly #who: number;
  readonly #mode: Mode;
  readonly #lifetimeMs: number;
  readonly #exact: boolean;
  readonly #late: boolean;

  constructor(who: number, mode: Mode, lifetimeMs: number, exact: boolean, late: boolean) {
    super();
    this.#who = who;
    this.#mode = mode;
    this.#lifetimeMs = lifetimeMs;
    this.#exact = exact;
    this.#late = late;
  }

  override async act({ machine, micros }: Real): Promise<void> {
    const token = memberToken(this.#who);
    const notAfter = lateness(this.#late, micros);
    const known = memberText(machine, token, this.#mode, micros);
    const [lifetimeMs, exact, mode] = [this.#lifetimeMs, this.#exact, this.#mode];
    const strictly = isOfQuorum(this.#who);
    const command = { keys: [key], token, lifetimeMs, exact, notAfterMs: notAfter, held: { mode }, strictly };
    const expected = machine.extend(command, micros);
    const as = strictly && mode.kind === 'exclusive' ? ['w'] : [];
    const call = scripts.extendShared(
      ...([key, companions.limit, token, known, lifetimeMs, exact ? 1 : 0, notAfter, as] as const),
    );
    const [result] = await inRedis(call, micros);
    expect({ '1': 'extended', '0': 'missing', '-1': 'taken', '-2': 'late' }[String(result)]).to.equal(expected);
  }

  override toString(): string {
    return `extend(${this.#who}, ${this.#mode.kind}, ${this.#lifetimeMs}, ${this.#exact}, ${this.#late})`;
  }
}

/** As it lies in Redis; of no holder, what none has. */
function textOf(machine: Machine, token: string, mode: Mode, micros: number): string {
  const mine = machine.holders(key, micros).find((each) => each.token === token);
  const { kind, permits, step, fence, group } = mine ?? { ...mode, fence: 7 };
  return `1 ${letter[kind]} ${permits} ${step} ${fence} ${token.length} ${token}${group}`;
}

/** As a holder knows it: sometimes with another fence, and then it is looked for. */
function memberText(machine: Machine, token: string, mode: Mode, micros: number): string {
  const mine = machine.holders(key, micros).find((each) => each.token === token);
  const fence = mine && micros % 2 === 0 ? mine.fence : 7;
  return `1 ${letter[mode.kind]} ${mode.permits} ${mine?.step ?? 0} ${fence} ${token.length} ${token}${mode.group}`;
}

class ReleaseMember extends Step {
  readonly #who: number;
  readonly #mode: Mode;
  readonly #leaves: boolean;

  constructor(who: number, mode: Mode, leaves: boolean) {
    super();
    this.#who = who;
    this.#mode = mode;
    this.#leaves = leaves;
  }

  override async act(real: Real): Promise<void> {
    const token = memberToken(this.#who);
    const ticket = this.#leaves ? -1 : 0;
    const known = memberText(real.machine, token, this.#mode, real.micros);
    const command = { keys: [key], token, ticket, yieldMs: 0, held: { mode: this.#mode } };
    const expected = real.machine.release(command, real.micros);
    if (this.#leaves) real.queuedFor.delete(token);
    const { queue, limit } = companions;
    const reply = await inRedis(scripts.releaseShared(key, queue, limit, token, known, ticket), real.micros);
    expect([results[reply[0]]]).to.deep.equal(expected.results);
    if (this.#leaves) real.tickets.delete(token);
    if (isOfQuorum(this.#who)) {
      const queued = `${token} waits`;
      real.machine.release({ ...command, token: queued, ticket: -1 }, real.micros);
      await inRedis(scripts.releaseShared(key, queue, limit, queued, '', -1), real.micros);
    }
    real.steps.delete(token);
  }

  override toString(): string {
    return `release(${this.#who}, ${this.#mode.kind}, ${this.#leaves})`;
  }
}

/** Several of the others in one tick. Who is told is then settled when all is done, so messages are fewer. */
class Together extends Step {
  readonly #steps: readonly Step[];

  constructor(steps: readonly Step[]) {
    super();
    this.#steps = steps;
  }

  override async act(real: Real): Promise<void> {
    await Promise.all(this.#steps.map((step) => step.act(real)));
    await forgetMessages(real);
  }

  override toString(): string {
    return `together(${this.#steps.join(', ')})`;
  }
}

// The commands to draw from.

const anyone = fc.nat({ max: 4 });
/** Ends and passes never fall together: Redis's own clock, and so ours, is not exact. */
const lifetime = fc.constantFrom(2000, 4000, 8000);
const pass = fc.constantFrom(1500, 2500, 5500).map((ms) => new Pass(ms));
const sometimes = fc.integer({ min: 0, max: 9 }).map((n) => n === 0);
const often = fc.integer({ min: 0, max: 3 }).map((n) => n > 0);

const prefer = fc.constantFrom('writer' as const, 'reader' as const, 'fair' as const);
const reads = fc
  .record({ prefer, group: fc.constantFrom('', 'a b', 'ü') })
  .map((each): Mode => ({ ...each, kind: 'shared', permits: 1, total: 0, step: 0 }));
const writes = fc
  .record({ prefer })
  .map((each): Mode => ({ ...each, kind: 'exclusive', group: '', permits: 1, total: 0, step: 0 }));
const permits = fc
  .record({ permits: fc.integer({ min: 1, max: 3 }), total: fc.constantFrom(3, 3, 3, 3, 3, 4) })
  .map((each): Mode => ({ ...each, kind: 'counted', prefer: 'fair', group: '', step: 0 }));

/** Calls of one tick, and time that passes. */
function togetherOf(mode: fc.Arbitrary<Mode>, changes: boolean): fc.Arbitrary<Step>[] {
  const calls = membersOf(mode, changes).filter((each) => each !== pass);
  const some = fc.array(fc.oneof(...calls), { minLength: 2, maxLength: 10 });
  return [some.map((steps) => new Together(steps)), some.map((steps) => new Together(steps)), pass];
}

function membersOf(mode: fc.Arbitrary<Mode>, changes: boolean): fc.Arbitrary<Step>[] {
  const ask = fc.record({
    who: anyone,
    lifetimeMs: lifetime,
    placed: often,
    late: sometimes,
    silenceMs: fc.constantFrom(0, 0, 700),
    mode,
    beside: fc.option(anyone, { nil: undefined }),
  });
  const steps: fc.Arbitrary<Step>[] = [
    ask.map((each) => new AcquireMember(each, false)),
    fc.tuple(anyone, mode, fc.boolean()).map(([who, how, leaves]) => new ReleaseMember(who, how, leaves)),
    fc
      .tuple(anyone, mode, lifetime, fc.boolean(), sometimes)
      .map(([who, how, ms, exact, late]) => new ExtendMember(who, how, ms, exact, late)),
    pass,
  ];
  return changes ? [...steps, ask.map((each) => new AcquireMember(each, true))] : steps;
}

describe('the scripts and the machine: the same replies, messages, holders and ends', function () {
  this.timeout(120_000 * randomFactor); // as many random runs as are asked for

  const worlds: [string, fc.Arbitrary<Step>[]][] = [
    ['readers and writers', membersOf(fc.oneof(reads, writes), true)],
    ['permits', membersOf(permits, false)],
    ['readers and writers of one tick, in one batch', togetherOf(fc.oneof(reads, writes), true)],
    ['permits of one tick, in one batch', togetherOf(permits, false)],
    ['a key that is used as a semaphore and as a readers-writer lock', membersOf(fc.oneof(reads, permits), false)],
  ];
  for (const [what, steps] of worlds) {
    it(what, () => same(steps));
  }

  const fronts: [string, fc.Arbitrary<Step>[]][] = [
    ['permits', membersOf(permits, false)],
    ['readers and writers', membersOf(fc.oneof(reads, writes), true)],
    ['readers and writers of one tick', togetherOf(fc.oneof(reads, writes), true)],
  ];
  for (const [what, steps] of fronts) {
    it(`H81: ${what}, of whose queue and holders only the front is read`, async () => {
      frontOnly = true;
      await same(steps).finally(() => {
        frontOnly = false;
      });
    });
  }

  function same(steps: fc.Arbitrary<Step>[]): Promise<void> {
    return fc.assert(
      fc.asyncProperty(fc.commands<Model, Real, false>(steps, { maxCommands: 40, size: 'max' }), async (commands) => {
        const startMs = performance.now();
        await fc
          .asyncModelRun(() => start(), commands)
          .catch((error) => {
            fc.pre(performance.now() - startMs < slackMs); // else a machine that stood still has let something end
            throw error;
          });
      }),
      { numRuns: runs },
    );
  }
});
