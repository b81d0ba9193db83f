// `npm run wire:generate`: writes wire/vectors.json. Vectors are situations by hand (situations.ts), and calls drawn from the random
// comparison of the scripts with their specification, each kind of outcome once. What is expected is what this library did.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { type Command, worlds } from '../test/redis/any-commands';
import { killChildren } from '../test/support/processes';
import { closeAll, connect, startRedis, stopServers } from '../test/support/redis';
import { ours } from './check';
import { Implementation } from './implementation';
import { situations, token } from './situations';
import {
  type Call,
  channels,
  differences,
  type Mode,
  type Outcome,
  openServer,
  play,
  type Reply,
  type Server,
  type State,
  type Value,
  type Vector,
} from './vector';

const seed = 20261123;
const sequences = 40;
/** The counter is ahead of the clock, so that each fence is known. */
const firstFence = '{us+3600000000}';
const counter = 'redis-exp-lock:fence';
const start: State = { [counter]: { type: 'string', value: firstFence, ttl: null } };

async function main(): Promise<void> {
  const { url } = await startRedis();
  const server = await openServer(await connect(url), await connect(url));
  const implementation = new Implementation(ours, url);
  const perform = (call: object): Promise<unknown> => implementation.call(call);
  const vectors = await allVectors(server, perform).finally(() => implementation.close());
  const text = vectors.map((each) => `    ${JSON.stringify(each)}`).join(',\n');
  writeFileSync(join(__dirname, 'vectors.json'), `{\n  "wire": 1,\n  "vectors": [\n${text}\n  ]\n}\n`);
  console.log(`${vectors.length} vectors, ${vectors.length - situations.length} of them drawn at random`);
}

async function allVectors(server: Server, perform: (call: object) => Promise<unknown>): Promise<Vector[]> {
  const vectors: Vector[] = [];
  for (const { name, state, call, level } of situations) {
    vectors.push(vectorOf(name, level, state, call, await play({ state, call }, server, perform)));
  }
  const random = await randomVectors(server, perform);
  vectors.push(...random.sort((a, b) => a.level - b.level));
  return vectors;
}

async function randomVectors(server: Server, perform: (call: object) => Promise<unknown>): Promise<Vector[]> {
  const kinds = new Set<string>();
  const vectors: Vector[] = [];
  for (const [world, [, commands]] of worlds.entries()) {
    for (const drawn of fc.sample(fc.array(commands, { minLength: 40, maxLength: 40 }), {
      seed: seed + world,
      numRuns: sequences,
    })) {
      const tickets = new Map<string, Value>();
      const modes = new Map<string, Mode>();
      let state = start;
      for (const [n, command] of drawn.entries()) {
        const call = callOf(command, String(n + 1), tickets, modes);
        if (call === undefined) continue;
        const outcome = await play({ state, call }, server, perform);
        const vector = vectorOf(nameOf(call), levelOf(state, call), state, call, outcome);
        const kind = kindOf(vector);
        // Played once more: a vector that depends on how busy the machine is would be no use.
        const isNew = !kinds.has(kind);
        if (isNew && differences(vector, await play(vector, server, perform)).length === 0) {
          kinds.add(kind);
          vectors.push(vector);
        }
        if ('ticket' in vector.reply && vector.reply.ticket !== undefined) {
          tickets.set(`${call.token} ${call.keys[0]}`, later(vector.reply.ticket));
        } else tickets.delete(`${call.token} ${call.keys[0]}`);
        for (const [name, ticket] of tickets) tickets.set(name, aMillisecondAgo(ticket) as Value);
        state = aMillisecondAgo(laterState(vector.after)) as State;
      }
    }
  }
  return vectors;
}

function callOf(command: Command, id: string, tickets: Map<string, Value>, modes: Map<string, Mode>): Call | undefined {
  const soon = '{ms+60000}';
  if (!('who' in command)) return undefined;
  const by = token(command.who + 1);
  const channel = channels[command.who % 2]!;
  const placeAt = (key: string): { place: { channel: string; id: string; ticket: Value } } => ({
    place: { channel, id, ticket: tickets.get(`${by} ${key}`) ?? 0 },
  });
  if (command.do === 'acquire') {
    const { lifetime, fences } = command;
    const keys = command.keys.map((n) => `k${n + 1}`);
    const queued = command.stands && keys.length === 1 ? placeAt(keys[0]!) : {};
    return { do: 'acquire', keys, token: by, lifetime, notAfter: soon, fences, ...queued };
  }
  if (command.do === 'extend') {
    const keys = command.keys.map((n) => `k${n + 1}`);
    return { do: 'extend', keys, token: by, lifetime: command.lifetime, exact: command.exact, notAfter: soon };
  }
  if (command.do === 'release') {
    const keys = command.keys.map((n) => `k${n + 1}`);
    return { do: 'release', keys, token: by, ticket: tickets.get(`${by} ${keys[0]}`) ?? 0, yield: 50 };
  }
  const keys = ['m'];
  if (command.do === 'acquire member' && !command.changes && command.beside === undefined) {
    const mode = modeOf(command.mode);
    modes.set(by, mode);
    const fences = command.who === 0 ? 0 : 1;
    const queued = command.stands ? placeAt('m') : {};
    return { do: 'acquire', keys, token: by, lifetime: command.lifetime, notAfter: soon, fences, mode, ...queued };
  }
  const mode = modes.get(by);
  if (mode === undefined) return undefined;
  if (command.do === 'extend member') {
    return { do: 'extend', keys, token: by, lifetime: command.lifetime, exact: command.exact, notAfter: soon, mode };
  }
  if (command.do === 'release member') {
    modes.delete(by);
    return { do: 'release', keys, token: by, ticket: tickets.get(`${by} m`) ?? 0, yield: 50, mode };
  }
  return undefined;
}

function modeOf({
  kind,
  prefer,
  group,
  permits,
  total: most,
}: {
  kind: string;
  prefer: string;
  group: string;
  permits: number;
  total: number;
}): Mode {
  const kinds = { shared: 'reader', exclusive: 'writer', counted: 'permits' } as const;
  return { kind: kinds[kind as keyof typeof kinds], prefer: prefer as Mode['prefer'], group, permits, most };
}

function levelOf(state: State, call: Call): Vector['level'] {
  if (call.mode !== undefined) return 4;
  if (('place' in call && call.place) || Object.keys(state).some((key) => key.endsWith(':queue'))) return 3;
  if (call.keys.length > 1 || (call.do === 'acquire' && call.fences > 0)) return 2;
  return 1;
}

function nameOf({ keys, mode, ...call }: Call): string {
  const what = mode === undefined ? `${keys.length === 1 ? 'one key' : 'two keys'}` : mode.kind;
  const queued = 'place' in call && call.place ? ', queued if it is busy' : '';
  return `drawn: ${call.do} ${what}${queued}`;
}

/** Vectors of one kind differ in details: in who else holds the keys, and in how many are queued. */
function kindOf({ call, reply, state, messages, level }: Vector): string {
  const shape = Object.values(state).map((stored) => {
    if (stored.type === 'string') return stored.value === call.token;
    return [stored.members.some(([member]) => member.includes(call.token))];
  });
  const how = [call.do, call.keys.length, call.mode?.kind, 'place' in call && call.place !== undefined];
  const outcome = 'granted' in reply ? [reply.granted] : Object.values(reply);
  return JSON.stringify([level, how, outcome, shape, messages.length]);
}

/** The vector of what the call did, with its numbers relative to the clock. */
function vectorOf(
  name: string,
  level: Vector['level'],
  state: State,
  call: Call,
  { reply, after, messages, clock }: Outcome,
): Vector {
  const known = knownNumbers([state, call], clock.setUp);
  const told = (value: unknown): any => relativeTo(value, known, clock);
  const expected = Object.entries(after).map(([key, stored]) => {
    const ttl = stored.ttl === null ? null : Math.ceil(stored.ttl / 100) * 100;
    return [key, { ...told({ ...stored, ttl: null }), ttl }];
  });
  return {
    name,
    level,
    state,
    call,
    reply: told(reply) as Reply,
    after: Object.fromEntries(expected),
    messages: told(messages),
  };
}

/** The absolute values of all relative times, each with its offset. */
function knownNumbers(value: unknown, setUp: number): Map<number, string> {
  const known = new Map<number, string>();
  for (const [, unit, offset = '+0'] of JSON.stringify(value).matchAll(/\{(ms|us)([+-]\d+)?\}/g)) {
    const base = unit === 'ms' ? Math.floor(setUp / 1000) : setUp;
    // The numbers beside it are fences of a block and tickets behind one another; those far away are scores in other bands.
    const [most, shifts] = unit === 'ms' ? [0, [0]] : [70, [0, 5e14, -5e14, 1e15, -1e15]];
    for (const shift of shifts) {
      for (let more = -most; more <= most; more += 1) {
        const there = Number(offset) + shift + more;
        if (there === Number(offset) || !known.has(base + there)) known.set(base + there, `{${unit}${signed(there)}}`);
      }
    }
  }
  return known;
}

const signed = (n: number): string => (n === 0 ? '' : n > 0 ? `+${n}` : String(n));
/** The distances between tickets and scores, and the ends of blocks of fences. */
const offsetsOfMicros = [0, -1e15, -5e14, 8, 64];

function relativeTo(value: unknown, known: Map<number, string>, clock: Outcome['clock']): unknown {
  if (typeof value === 'number') return isTime(value) ? timeText(value, known, clock) : value;
  if (typeof value === 'string') {
    return value.replace(
      /(?<![\w.-])(-?)(\d{13,16})(?![\w-])/g,
      (_all, sign, digits) => sign + timeText(Number(digits), known, clock),
    );
  }
  if (Array.isArray(value)) return value.map((each) => relativeTo(each, known, clock));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, relativeTo(each, known, clock)]));
}

function isTime(value: number): boolean {
  return value > 1e12 && value < Number.MAX_SAFE_INTEGER;
}

function timeText(value: number, known: Map<number, string>, { before, after }: Outcome['clock']): string {
  const same = known.get(value);
  if (same !== undefined) return same;
  if (value < 1e13) {
    const [low, high] = [value - Math.floor(after / 1000), value - Math.floor(before / 1000)];
    // The roundest number in between: lifetimes and pauses are whole hundreds.
    const offset =
      [10_000, 1_000, 100, 10].map((step) => Math.ceil(low / step) * step).find((each) => each <= high) ?? low;
    return `{now.ms${signed(offset)}}`;
  }
  const offset = offsetsOfMicros.find((each) => value - each >= before && value - each <= after);
  if (offset === undefined) throw new Error(`${value} is no known time; the call ran from ${before} to ${after}`);
  return `{now.us${signed(offset)}}`;
}

/** Times of the call as times of the state of the next vector. */
function laterState(state: State): State {
  return JSON.parse(JSON.stringify(state).replaceAll('{now.', '{'));
}

function later(value: Value): Value {
  return typeof value === 'string' ? value.replaceAll('{now.', '{') : value;
}

function aMillisecondAgo(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value).replaceAll(/\{(ms|us)([+-]\d+)?\}/g, (_all, unit, offset = '0') => {
      return `{${unit}${signed(Number(offset) - (unit === 'ms' ? 1 : 1000))}}`;
    }),
  );
}

main().finally(async () => {
  closeAll();
  await stopServers();
  killChildren();
});
