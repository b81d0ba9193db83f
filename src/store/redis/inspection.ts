// Reads the reply of inspect.lua: holders and waiters, from the members that holders.lua, queue.lua and waiters.lua write.
import { foreignHolders, type HolderState, type HoldKind, type WaiterState } from '../../core/lock-state';
import { utf8 } from '../../core/runtime';
import { isOurs, ownerOf } from '../../core/token';
import { refusal } from '../backend-errors';
import { holderOf, type Inspection, type OwnedState, waiterOf } from '../operator';
import { readersFirstMicros, writersFirstMicros } from '../protocol';
import { strangeReply } from './scripts/script';

const kinds: Readonly<Record<string, HoldKind>> = {
  m: 'exclusive',
  r: 'read',
  w: 'write',
  u: 'write',
  p: 'permits',
};

/** The states of the first keys, at least one, in their order. @throws {LockBackendError} a reply of another form. */
export function inspectReply(reply: unknown, keys: readonly string[], token?: string): Inspection[] {
  const isList = Array.isArray(reply) && reply.length > 2 && reply.length <= keys.length + 2;
  if (!isList || !Number.isSafeInteger(reply[0])) throw strangeReply(reply, keys);
  const [micros, last, ...locks] = reply as [number, unknown, ...unknown[]];
  const fence = last === null ? 0 : Number(last);
  return locks.map((lock, n) => {
    if (typeof lock === 'string') return refusal(new Error(lock), keys[n]!);
    if (!Array.isArray(lock) || lock.length !== 6) throw strangeReply(reply, keys);
    return stateOf(lock as InspectReply, fence, micros, token);
  });
}

type InspectReply = [
  token: unknown,
  leftMs: number,
  waiters: number,
  kind: unknown,
  holders: unknown[],
  queue: unknown[],
];

function stateOf(
  [holder, leftMs, waiters, kind, held, queued]: InspectReply,
  fence: number,
  micros: number,
  asked: string | undefined,
): OwnedState {
  const token = holder === null ? undefined : String(holder);
  const mode = kinds[String(kind)]!;
  const locked = token !== undefined;
  const remaining = !locked ? 0 : leftMs < 0 ? Number.POSITIVE_INFINITY : leftMs; // H10c
  const sole = locked ? [soleHolderOf(token, remaining)] : [];
  const holders =
    mode === 'exclusive' ? sole : pairs(held).flatMap(([text, ends]) => memberOf(text, ends, micros) ?? []);
  const queue = pairs(queued).map(([entry, score]) => waiterIn(entry, score, micros));
  return {
    locked,
    owner: ownerOf(holder),
    remaining,
    waiters,
    fence,
    mode: locked ? mode : null,
    holders,
    queue: queue.filter((waiter) => waiter !== undefined),
    ...(asked !== undefined && { owned: token === asked }),
  };
}

function pairs(flat: unknown[]): [string, number][] {
  const all: [string, number][] = [];
  for (let n = 0; n + 1 < flat.length; n += 2) all.push([String(flat[n]), scoreOf(flat[n + 1])]);
  return all;
}

function scoreOf(text: unknown): number {
  return text === 'inf' ? Number.POSITIVE_INFINITY : Number(text);
}

function soleHolderOf(token: string, remaining: number): HolderState {
  const holder = holderOf(token, 'exclusive', 1, remaining);
  if (!isOurs(token)) foreignHolders.add(holder);
  return holder;
}

const holder = /^1 ([rwp]) (\d+) \d+ \d+ (\d+) (.*)$/s;

function memberOf(text: string, endMs: number, micros: number): HolderState | undefined {
  const [, kind, permits, length, rest] = holder.exec(text) ?? [];
  if (kind === undefined) return undefined;
  return holderOf(firstBytes(rest!, Number(length)), kinds[kind]!, Number(permits), endMs - Math.floor(micros / 1000));
}

const mutexEntry = /^1 (\d+) \S+ \d+ \d+ \S+ (.+)$/s;
const sharedEntry = /^2 (\d+) \d+ ([rwpu]) \d+ ([wrf]) \S+ (\d+) (.+)$/s;

/** The waiter of an entry; undefined if the entry has expired or is damaged. */
function waiterIn(entry: string, score: number, micros: number): WaiterState | undefined {
  const [, deadline, token] = mutexEntry.exec(entry) ?? [];
  if (token !== undefined) return waiterOf(token, 'exclusive', score, Number(deadline), micros);
  const [, end, kind, prefer, length, rest] = sharedEntry.exec(entry) ?? [];
  if (kind === undefined) return undefined;
  const ticket = kind === 'u' ? micros : score + shiftOf(kind, prefer!);
  return waiterOf(firstBytes(rest!, Number(length)), kinds[kind]!, ticket, Number(end), micros);
}

/** The distance between a waiter's ticket and its score, which depends on its band. */
function shiftOf(kind: string, prefer: string): number {
  if (kind === 'r' && prefer === 'r') return readersFirstMicros;
  return kind === 'w' && prefer === 'w' ? writersFirstMicros : 0;
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

function firstBytes(text: string, length: number): string {
  return decoder.decode(utf8(text).subarray(0, length));
}
