// The store's verbs in Redis's words: each request as a call of its script, and the meaning of its reply. No state, no I/O.

import { earlier } from '../../core/clock';
import { companionOf, fenceKey, type Key, listOf } from '../../core/keys';
import { byteLength } from '../../core/runtime';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  HeldMode,
  Mode,
  Moment,
  QueueEntry,
  RaiseRequest,
  ReleaseReply,
  ReleaseRequest,
  Slot,
} from '../contract';
import { slotAt } from '../slots';
import type { StoreCall } from './pipeline/plain';
import * as scripts from './scripts/generated';
import { type BatchableCall, integers, strangeReply } from './scripts/script';
import type { ServerClock } from './server-clock';

/** The first lifetime under `lifetime: null`: a grant whose reply our side never reads must not stay for ever. */
export const probationMs = 10_000; // H2d
/** The number of integers in the reply to an acquire, and in the reply to a queued one. */
const acquireLength = 4;
const queuedLength = 6;

const notQueued: QueueEntry = { channel: '', id: '0', ticket: 0 };

const letters = { shared: 'r', exclusive: 'w', counted: 'p' } as const;

/** @param clock Tells since when a token may be queued. */
export function acquireCall(request: AcquireRequest, notAfter: number, clock: ServerClock): StoreCall {
  const { keys, token, mode, slots, queueAs, fences, minFence = 0, pauseMs } = request;
  const lifetimeMs = request.lifetimeMs ?? probationMs;
  const until = Math.ceil(notAfter); // H3b
  if (mode !== undefined) return acquireSharedCall(request, mode, lifetimeMs, until);
  const isUsual = slots === undefined && queueAs === undefined && pauseMs === undefined && fences <= 1;
  if (isUsual && typeof keys === 'string')
    return { verb: 'acquire', key: keys, token, lifetimeMs, notAfter: until, fences, minFence, yieldMs: 0 };
  const [locks, queues] = keysOf(keys);
  const beside = slots === undefined ? queues : [...queues, companionOf(locks[0]!, 'slot')];
  return scripts.acquire(locks, beside, fenceKey, token, lifetimeMs, until, fences, placeOf(request, clock));
}

/** The script's last arguments: the slots of a job, the queue entry, or what a caller that is not queued has of its own. */
function placeOf({ slots, queueAs, minFence = 0, pauseMs }: AcquireRequest, clock: ServerClock): string[] {
  if (slots !== undefined) return [String(slots.everyMs), String(slots.offsetMs), slots.marks ? '1' : '0'];
  if (queueAs !== undefined) return entryOf(queueAs, clock);
  if (pauseMs !== undefined) return [minFence.toFixed(0), String(Math.max(Math.ceil(pauseMs), 1))];
  return minFence > 0 ? [minFence.toFixed(0)] : [];
}

export function markSlotCall({ keys, token }: ReleaseRequest, { start, end }: Slot): BatchableCall {
  const key = listOf(keys)[0]!;
  return scripts.writeValue(key, companionOf(key, 'slot'), token, start, 'PXAT', end, '', '');
}

export function releaseCall(
  { keys, token, ticket = 0, yieldMs = 0, held, isConfirmed }: ReleaseRequest,
  next: string[] = [],
): StoreCall {
  if (held !== undefined) {
    const key = listOf(keys)[0]!;
    const queue = companionOf(key, 'queue');
    return scripts.releaseShared(key, queue, companionOf(key, 'limit'), token, memberOf(token, held), ticket);
  }
  if (isConfirmed && typeof keys === 'string' && ticket === 0)
    return { verb: 'release', key: keys, token, lifetimeMs: 0, notAfter: 0, fences: 0, minFence: 0, yieldMs };
  return scripts.release(...keysOf(keys), fenceKey, token, ticket, yieldMs, next);
}

/** The last arguments of a release that requests the lock again for its process. */
export function nextOf(request: AcquireRequest, clock: ServerClock): string[] {
  return [request.token, String(request.lifetimeMs), String(request.fences), ...entryOf(request.queueAs!, clock)];
}

/** The arguments of an entry in the queue of a mutex. */
function entryOf({ channel, id, ticket, sinceMs = 0, silenceMs = 0 }: QueueEntry, clock: ServerClock): string[] {
  const since = Math.max(Math.floor(clock.serverMs(sinceMs) * 1000), 1);
  const entry = [channel, id, String(ticket === 0 && sinceMs > 0 ? -since : ticket)]; // H95b
  return silenceMs > 0 ? [...entry, String(silenceMs)] : entry;
}

function keysOf(keys: Key): [lock: readonly string[], queue: readonly string[]] {
  if (typeof keys === 'string') return [[keys], [companionOf(keys, 'queue')]];
  return [keys, keys.map((key) => companionOf(key, 'queue'))];
}

function acquireSharedCall(
  request: AcquireRequest,
  { kind, prefer, permits, total, step, group }: Mode,
  lifetimeMs: number,
  notAfter: number,
): BatchableCall {
  const key = listOf(request.keys)[0]!;
  return scripts.acquireShared(
    key,
    fenceKey,
    companionOf(key, 'queue'),
    companionOf(key, 'limit'),
    request.token,
    lifetimeMs,
    notAfter,
    request.fences,
    letters[kind],
    prefer[0]!,
    permits,
    total,
    step,
    group,
    sharedPlaceOf(request),
  );
}

/** The script's last arguments: the queue entry, if the caller is to be queued; on a quorum also the entry's token and the minimum fence. */
function sharedPlaceOf({ queueAs, minFence, token, beside }: AcquireRequest): string[] {
  if (beside !== undefined) return [memberOf(beside.token, beside.held)];
  if (queueAs === undefined && minFence === undefined) return [];
  const { channel, id, ticket, silenceMs = 0, token: whose = token } = queueAs ?? notQueued;
  const place = [channel, id, String(ticket), String(silenceMs)];
  return minFence === undefined ? place : [...place, whose, minFence.toFixed(0)];
}

/** The holder's member of the sorted set, so that the script need not search for it; '' if our side does not know all of it. */
function memberOf(token: string, { mode, fence }: HeldMode): string {
  if (fence === undefined) return '';
  const { kind, permits, step, group } = mode;
  return `1 ${letters[kind]} ${permits} ${step} ${fence} ${byteLength(token)} ${token}${group}`;
}

export function extendCall(
  { keys, token, lifetimeMs, exact, held, strictly }: ExtendRequest,
  notAfter: number,
): StoreCall {
  const limit = Math.min(Math.ceil(notAfter), Number.MAX_SAFE_INTEGER);
  if (held !== undefined) {
    const key = listOf(keys)[0]!;
    const known = memberOf(token, held);
    const as = strictly && held.mode.kind === 'exclusive' ? [letters.exclusive] : [];
    const life = lifetimeMs ?? 0;
    return scripts.extendShared(key, companionOf(key, 'limit'), token, known, life, exact ? 1 : 0, limit, as);
  }
  if (!exact && lifetimeMs !== null && typeof keys === 'string')
    return { verb: 'renew', key: keys, token, lifetimeMs, notAfter: limit, fences: 0, minFence: 0, yieldMs: 0 };
  return scripts.extend(listOf(keys), token, lifetimeMs ?? 0, exact ? 1 : 0, limit);
}

export function raiseCall({ keys, token, fence, mode }: RaiseRequest): BatchableCall {
  if (mode !== undefined) return scripts.raiseFenceShared(listOf(keys)[0]!, fenceKey, token, fence.toFixed(0));
  return scripts.raiseFence(listOf(keys), fenceKey, token, fence.toFixed(0));
}

/** The meaning of the reply; undefined if the script ran after `notAfter`. The clock learns the server's time in either case. */
export function acquireReply(
  reply: unknown,
  { keys, queueAs, mode, slots, fences }: AcquireRequest,
  sent: Moment,
  clock: ServerClock,
): AcquireReply | undefined {
  const micros = microsOf(reply);
  if (micros !== undefined && mode === undefined && slots === undefined) {
    clock.learn(Math.floor(micros / 1000), sent.monoMs);
    return { granted: true, fence: fences > 0 ? micros : 0, sent, others: 0 };
  }
  const isLong = Array.isArray(reply) && reply.length > acquireLength;
  const mayBeLong = queueAs !== undefined || mode !== undefined;
  const numbers = integers(reply, isLong && mayBeLong ? queuedLength : acquireLength, keys);
  const [status, value, third, serverMs, before, outside] = numbers as [number, number, number, number, number, number];
  if (serverMs > 0) clock.learn(serverMs, sent.monoMs);
  const slot = slots && slotAt(serverMs, slots); // H85c
  if (status === 1)
    return { granted: true, fence: value, sent: mode === undefined ? sent : earlier(sent, 1), others: third, slot };
  if (status === -1) return undefined;
  if (slots !== undefined && status === -4) return { granted: false, leftMs: 0, slot, isDone: true };
  if (mode !== undefined && (status === -2 || status === -3)) {
    return { granted: false, leftMs: Number.POSITIVE_INFINITY, impossible: status === -2 ? 'deadlock' : 'gone' };
  }
  if (status !== 0) throw strangeReply(reply, keys);
  const position = isLong && queueAs ? { ticket: third, before, outside: outside === 1 } : undefined;
  const leftMs = value < 0 ? Number.POSITIVE_INFINITY : value;
  return { granted: false, leftMs, position, sent: position && sent, slot };
}

/** A moment in the year 2001; every fence and every clock is later. */
const minMicros = 1e15;

/** The server's time in µs, if it is the whole reply: the lock was free, and is now ours. */
function microsOf(reply: unknown): number | undefined {
  const only = Array.isArray(reply) && reply.length === 1 ? reply[0] : reply;
  return Number.isSafeInteger(only) && (only as number) > minMicros ? (only as number) : undefined; // H5b
}

/** True if a reply to an acquire is a grant. */
export function isGrant(reply: unknown): boolean {
  return microsOf(reply) !== undefined || (Array.isArray(reply) && reply[0] === 1);
}

/** The meaning of the reply. `late`: by the server's clock, the script ran after the holder's validity had ended. */
export function extendReply(reply: unknown, request: ExtendRequest, sent: Moment, clock: ServerClock): ExtendReply {
  const [result, serverMs] = integers(reply, 2, request.keys) as [number, number];
  clock.learn(serverMs, sent.monoMs);
  if (result === 1) return { outcome: 'extended', sent: request.held === undefined ? sent : earlier(sent, 1) };
  if (result === 0) return { outcome: 'missing' };
  if (result === -1) return { outcome: 'taken' };
  if (result !== -2) throw strangeReply(reply, request.keys);
  return { outcome: 'late' };
}

export function releaseReply(reply: unknown, keys: Key, counted?: ReleaseRequest['counted']): ReleaseReply {
  if (reply === 1 && listOf(keys).length === 1) return 'released'; // H5d
  const results = integers(reply, listOf(keys).length, keys);
  if (results.every((result) => result === 1)) return 'released';
  counted?.(results.filter((result) => result === 1).length);
  return results.includes(-1) ? 'taken' : 'missing';
}
