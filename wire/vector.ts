// A vector of the wire: the state of a server, one call, its reply, the state after it, and the messages that it published.
//
// Times and fences are written relative to the server's clock, as `{ms+5000}` (ms of the epoch) or `{us+5000}` (µs), anywhere in a
// text. The clock is read once, just before the state is written. `{now.ms+2000}` and `{now.us}`, in what is expected, count from the
// time at which the call ran: any value between the readings just before and just after the call is right.

import type { Client } from '../test/support/redis';

/** A number, or a text with relative times. */
export type Value = number | string;

export interface StoredString {
  readonly type: 'string';
  readonly value: Value;
  /** Ms until the key expires; null: never. In what is expected, up to `ttlSlackMs` less is right. */
  readonly ttl: number | null;
}

export interface StoredSet {
  readonly type: 'zset';
  /** The members with their scores, in order. */
  readonly members: readonly (readonly [member: string, score: Value])[];
  readonly ttl: number | null;
}

/** Keys by name. No other key exists. */
export type State = Readonly<Record<string, StoredString | StoredSet>>;

export type Mode = {
  readonly kind: 'reader' | 'writer' | 'permits';
  readonly prefer: 'writer' | 'reader' | 'fair';
  readonly group: string;
  readonly permits: number;
  /** The number of permits of the semaphore; 0 for readers and writers. */
  readonly most: number;
};

export interface Place {
  readonly channel: string;
  readonly id: string;
  /** 0: the token was never queued. */
  readonly ticket: Value;
}

export type Call =
  | {
      readonly do: 'acquire';
      readonly keys: readonly string[];
      readonly token: string;
      /** Ms. */
      readonly lifetime: Value;
      readonly notAfter: Value;
      /** The number of fences to reserve; 0: none. */
      readonly fences: number;
      /** The caller is queued if the key is busy. */
      readonly place?: Place;
      /** The caller polls, with this pause in ms. */
      readonly pause?: number;
      readonly mode?: Mode;
    }
  | {
      readonly do: 'extend';
      readonly keys: readonly string[];
      readonly token: string;
      readonly lifetime: Value;
      /** False: the end only moves later. */
      readonly exact: boolean;
      readonly notAfter: Value;
      readonly mode?: Mode;
    }
  | {
      readonly do: 'release';
      readonly keys: readonly string[];
      readonly token: string;
      /** 0: the token is not queued. */
      readonly ticket: Value;
      /** Ms for which the key yields after 64 hand-offs. */
      readonly yield: number;
      readonly mode?: Mode;
    };

export type Reply =
  | { readonly granted: true; readonly fence: Value }
  | { readonly granted: false; readonly ticket?: Value; readonly before?: number }
  | { readonly error: 'late' | string }
  | { readonly result: 'extended' | 'released' | 'missing' | 'taken' | 'late' };

export interface Vector {
  readonly name: string;
  /** 1: a plain key. 2: fences, `notAfter`, several keys. 3: queued. 4: several holders. */
  readonly level: 1 | 2 | 3 | 4;
  readonly state: State;
  readonly call: Call;
  readonly reply: Reply;
  readonly after: State;
  /** The messages with their channels, in order. */
  readonly messages: readonly (readonly [channel: string, text: string])[];
}

/** The outcome of a call, with the absolute values that were read. */
export interface Outcome {
  readonly reply: unknown;
  readonly after: State;
  readonly messages: readonly (readonly [string, string])[];
  readonly clock: Clock;
}

/** Readings of the server's clock in µs: when the state was written, and just before and after the call. */
export interface Clock {
  readonly setUp: number;
  readonly before: number;
  readonly after: number;
}

/** The time that a TTL may have lost between the call and the reading. */
export const ttlSlackMs = 5_000;
/** The channels that vectors name. */
export const channels = ['c1', 'c2'];

/** A server that vectors may use: its database must be empty. */
export interface Server {
  readonly client: Client;
  /** Messages on `channels`, and those of `endChannel`. */
  readonly heard: (readonly [string, string])[];
}

const endChannel = 'end-of-vector';

export async function openServer(client: Client, listener: Client): Promise<Server> {
  const heard: (readonly [string, string])[] = [];
  if ((await client.dbSize()) > 0) throw new Error('the database is not empty: vectors need one of their own');
  await listener.subscribe([...channels, endChannel], (text, channel) => heard.push([channel, text]));
  return { client, heard };
}

/** Writes the state, has `perform` make the call, and reads what came of it. Removes all keys. */
export async function play(
  { state, call }: Pick<Vector, 'state' | 'call'>,
  { client, heard }: Server,
  perform: (call: object) => Promise<unknown>,
): Promise<Outcome> {
  await client.flushDb();
  heard.length = 0;
  const setUp = await microsOf(client);
  for (const [key, stored] of Object.entries(state)) await write(client, key, stored, setUp);
  const before = await microsOf(client);
  const reply = await perform(resolved(call, setUp) as object);
  const after = await microsOf(client);
  const found = await read(client);
  // A message that was sent earlier has arrived once this one has.
  await client.publish(endChannel, '');
  while (heard.at(-1)?.[0] !== endChannel) await new Promise((resolve) => setTimeout(resolve, 1));
  await client.flushDb();
  return { reply, after: found, messages: heard.slice(0, -1), clock: { setUp, before, after } };
}

async function write(client: Client, key: string, stored: StoredString | StoredSet, setUp: number): Promise<void> {
  if (stored.type === 'string') await client.set(key, String(resolved(stored.value, setUp)));
  else {
    for (const [member, score] of stored.members) {
      await client.sendCommand(['ZADD', key, String(resolved(score, setUp)), String(resolved(member, setUp))]);
    }
  }
  if (stored.ttl !== null) await client.pExpire(key, stored.ttl);
}

async function read(client: Client): Promise<State> {
  const keys = (await client.keys('*')).sort();
  const state: Record<string, StoredString | StoredSet> = {};
  for (const key of keys) {
    const left = await client.pTTL(key);
    const ttl = left < 0 ? null : left;
    if ((await client.type(key)) === 'string') {
      state[key] = { type: 'string', value: (await client.get(key))!, ttl };
      continue;
    }
    const found = await client.zRangeWithScores(key, 0, -1);
    const members = found.map(
      ({ value, score }) => [value, Number.isFinite(score) ? score.toFixed(0) : '+inf'] as const,
    );
    state[key] = { type: 'zset', members, ttl };
  }
  return state;
}

async function microsOf(client: Client): Promise<number> {
  const [seconds, micros] = (await client.sendCommand(['TIME'])) as unknown as [string, string];
  return Number(seconds) * 1_000_000 + Number(micros);
}

const relative = /\{(now\.)?(ms|us)([+-]\d+)?\}/g;

/** Everything in `value` with its relative times resolved. */
function resolved(value: unknown, setUp: number): unknown {
  if (typeof value === 'string') {
    const text = value.replace(relative, (_all, _now, unit, offset) =>
      String(timeAt(setUp, unit) + Number(offset ?? 0)),
    );
    return text !== value && /^-?\d+$/.test(text) ? Number(text) : text;
  }
  if (Array.isArray(value)) return value.map((each) => resolved(each, setUp));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, resolved(each, setUp)]));
}

function timeAt(micros: number, unit: string): number {
  return unit === 'ms' ? Math.floor(micros / 1000) : micros;
}

/** The differences between what a vector expects and what came of its call; none if the call was right. */
export function differences({ reply, after, messages }: Vector, outcome: Outcome): string[] {
  const { clock } = outcome;
  const found: string[] = [];
  for (const [name, wanted] of Object.entries(reply)) {
    const given = (outcome.reply as Record<string, unknown> | null)?.[name];
    if (!matches(wanted, given, clock)) found.push(`reply.${name}: expected ${wanted}, got ${JSON.stringify(given)}`);
  }
  const keys = new Set([...Object.keys(after), ...Object.keys(outcome.after)]);
  for (const key of keys) found.push(...storedDifferences(key, after[key], outcome.after[key], clock));
  const count = Math.max(messages.length, outcome.messages.length);
  for (let n = 0; n < count; n += 1) {
    const [wanted, given] = [messages[n]?.join(': '), outcome.messages[n]?.join(': ')];
    if (wanted === undefined || given === undefined || !matches(wanted, given, clock)) {
      found.push(`message ${n + 1}: expected ${wanted ?? 'none'}, got ${given ?? 'none'}`);
    }
  }
  return found;
}

function storedDifferences(
  key: string,
  wanted: State[string] | undefined,
  given: State[string] | undefined,
  clock: Clock,
): string[] {
  if (wanted === undefined || given === undefined || wanted.type !== given.type) {
    return [
      `${key}: expected ${wanted?.type ?? 'no key'}, got ${given === undefined ? 'no key' : JSON.stringify(given)}`,
    ];
  }
  const found: string[] = [];
  const isTtl =
    wanted.ttl === null ? given.ttl === null : isWithin(given.ttl ?? -1, wanted.ttl - ttlSlackMs, wanted.ttl);
  if (!isTtl) found.push(`${key}: expected a TTL of ${wanted.ttl} ms, got ${given.ttl}`);
  if (wanted.type === 'string' && given.type === 'string') {
    if (!matches(wanted.value, given.value, clock)) found.push(`${key}: expected ${wanted.value}, got ${given.value}`);
  } else if (wanted.type === 'zset' && given.type === 'zset') {
    const left = [...given.members];
    for (const [member, score] of wanted.members) {
      const at = left.findIndex((each) => matches(member, each[0], clock) && matches(score, each[1], clock));
      if (at < 0) found.push(`${key}: expected the member ${score} "${member}"`);
      else left.splice(at, 1);
    }
    for (const [member, score] of left) found.push(`${key}: unexpected member ${score} "${member}"`);
  }
  return found;
}

/** True if `given` is what `wanted` says, with its relative times. */
function matches(wanted: unknown, given: unknown, clock: Clock): boolean {
  if (typeof wanted !== 'string' || !wanted.includes('{')) return String(wanted) === String(given);
  const ranges: [number, number][] = [];
  const pattern = wanted
    .split(/(\{(?:now\.)?(?:ms|us)(?:[+-]\d+)?\})/)
    .map((part) => {
      const time = [...part.matchAll(relative)][0];
      if (time === undefined) return part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
      const [, now, unit, offset] = time as unknown as [string, string | undefined, string, string | undefined];
      const [low, high] = now === undefined ? [clock.setUp, clock.setUp] : [clock.before, clock.after];
      ranges.push([timeAt(low, unit) + Number(offset ?? 0), timeAt(high, unit) + Number(offset ?? 0)]);
      return '(-?\\d+)';
    })
    .join('');
  const numbers = new RegExp(`^${pattern}$`, 's').exec(String(given))?.slice(1);
  return numbers?.every((text, n) => isWithin(Math.abs(Number(text)), ...absolute(ranges[n]!))) === true;
}

function absolute([low, high]: [number, number]): [number, number] {
  return low < 0 ? [-high, -low] : [low, high];
}

function isWithin(value: number, low: number, high: number): boolean {
  return value >= low && value <= high;
}
