// One Redis (a server, or a cluster behind one client) as a store. A request becomes a call (commands), the call goes to Redis
// and its reply comes back (transport), and the reply is read (commands). An uncertain outcome is reported as unknown, and its
// token is released until Redis has answered (abandoned).
import { systemClock } from '../../core/clock';
import { LockBackendError } from '../../core/errors';
import { describe, newServerKey } from '../../core/keys';
import { perObject } from '../../core/per-object';
import { Abandoned } from '../abandoned';
import { acrossSlots, asUnknown, givenUp, notReady } from '../backend-errors';
import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type Moment,
  type Node,
  now,
  type ReleaseReply,
  type ReleaseRequest,
  type Slot,
} from '../contract';
import { placesOf } from '../permit-places';
import type { ScriptClient } from './client';
import { scriptClient } from './clients/script-client';
import * as commands from './commands';
import { deploymentWarnings } from './deployment-warnings';
import { redisOperator } from './operator';
import { withDeadline } from './pipeline/deadlines';
import type { StoreCall } from './pipeline/plain';
import { Transport } from './pipeline/transport';
import { Replicas } from './replicas';
import * as scripts from './scripts/generated';
import { integers, strangeReply } from './scripts/script';
import { ServerClock } from './server-clock';
import { redisValues } from './values';
import type { CallAt, SentReply } from './wait-connection';

/** The uptime, above every lifetime, from which a server no longer counts as new. */
const newMs = 86_400_000;

/** The store of a client, always the same one. @throws {TypeError} `ERR_LOCK_OPTION` for anything that is no known client. */
export const redisStore: (client: object) => RedisStore = perObject((client) => storeOver(scriptClient(client)));

/** With the transport, over which the shims send scripts of their own. */
interface RedisStore extends Node {
  readonly transport: Transport;
}

function storeOver(client: ScriptClient): RedisStore {
  const { subscribe, keyPrefix, generation } = client;
  const clock = new ServerClock();
  const transport = new Transport(client);
  const replicas = new Replicas(client);
  const operator = redisOperator(client, transport, clock);
  const warnAtGrant = deploymentWarnings(client);
  const abandoned = new Abandoned();
  let scopes = 0;

  function acquireCall(request: AcquireRequest, sent: Moment): StoreCall {
    const notAfter = clock.serverMs(sent.monoMs + request.commandTimeoutMs);
    return commands.acquireCall(request, notAfter, clock);
  }

  /** The reply; undefined if the script ran after the last moment at which it was of use. */
  function acquired(reply: unknown, request: AcquireRequest, sent: Moment): AcquireReply | undefined {
    const meaning = commands.acquireReply(reply, request, sent, clock);
    if (meaning?.granted) warnAtGrant(request.minReplicas);
    return meaning;
  }

  /** Acquires a lock. A plain request goes straight: the loop below would cost 5 % of a sequential pair, 10 % of a batched one. */
  function acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { keys, commandTimeoutMs } = request;
    const isPlain = request.minReplicas === 0 && request.lifetimeMs !== null; // S12
    if (!isPlain || !transport.isReady || !request.begin()) return acquireSlowly(request, false);
    const sent = transport.sentAt(request.mode === undefined);
    return transport.send(acquireCall(request, sent), keys, commandTimeoutMs, (reply) => {
      return acquired(reply, request, sent) ?? acquireSlowly(request, true); // H6
    });
  }

  /** Waits for a client that is not ready yet, and for replicas. Tries once more if our estimate of the server's clock was bad. */
  async function acquireSlowly(request: AcquireRequest, wasLate: boolean): Promise<AcquireReply> {
    const { keys, lifetimeMs, commandTimeoutMs, minReplicas } = request;
    const callAt = (sent: Moment): StoreCall => acquireCall(request, sent);
    for (let resent = wasLate; ; resent = true) {
      await transport.ready(keys, commandTimeoutMs, false);
      const [reply, sent] = await (minReplicas > 0 ? replicas.acquire(request, callAt) : send(request, callAt));
      const meaning = acquired(reply, request, sent);
      if (meaning !== undefined) {
        if (meaning.granted && lifetimeMs === null) await makePermanent(request, meaning.fence);
        return meaning;
      }
      // Too late by our estimate of the server's clock. The estimate is better now: one more try.
      if (resent) throw new LockBackendError(`Redis ran the request for ${describe(keys)} too late`, { key: keys });
    }
  }

  async function send(request: AcquireRequest, callAt: CallAt): Promise<SentReply> {
    const { keys, commandTimeoutMs } = request;
    if (!request.begin()) throw givenUp(keys);
    const sent = now();
    return [await transport.send(callAt(sent), keys, commandTimeoutMs, asItIs), sent];
  }

  async function makePermanent(request: AcquireRequest, fence: number): Promise<void> {
    const { keys, token, commandTimeoutMs, mode } = request;
    const validUntilMs = now().monoMs + commands.probationMs;
    const held = mode && { mode, fence };
    const begin = (): boolean => true;
    const endless = { keys, token, lifetimeMs: null, exact: true, validUntilMs, commandTimeoutMs, begin, held };
    const { outcome } = await extend(endless).catch((error) => {
      throw asUnknown(error);
    });
    if (outcome === 'extended') return;
    const message = `${describe(keys)} was ${outcome} before it could be made permanent`;
    throw new LockBackendError(message, { key: keys, unknown: true });
  }

  async function extend(request: ExtendRequest): Promise<ExtendReply> {
    const { keys, commandTimeoutMs, validUntilMs } = request;
    for (let resent = false; ; resent = true) {
      const ready = transport.ready(keys, commandTimeoutMs, true);
      if (ready !== undefined) await ready;
      if (!request.begin()) return { outcome: 'late' };
      const sent = now();
      const call = commands.extendCall(request, clock.serverMs(validUntilMs));
      const reply = await transport.send(call, keys, commandTimeoutMs, asItIs, false);
      const extended = commands.extendReply(reply, request, sent, clock);
      if (extended.outcome !== 'late' || resent || now().monoMs >= validUntilMs) return extended; // H19
    }
  }

  function release(request: ReleaseRequest): Promise<ReleaseReply> {
    const { keys, commandTimeoutMs, done, counted } = request;
    if (done !== undefined) return markAndRelease(request, done);
    const call = commands.releaseCall(request);
    return transport.request(call, keys, commandTimeoutMs, (reply) => commands.releaseReply(reply, keys, counted));
  }

  /** Marks the slot and releases in one command: both calls leave in one tick, in this order. */
  async function markAndRelease(request: ReleaseRequest, slot: Slot): Promise<ReleaseReply> {
    const { keys, commandTimeoutMs } = request;
    await transport.ready(keys, commandTimeoutMs, true);
    const call = commands.markSlotCall(request, slot);
    const marked = transport.send(call, keys, commandTimeoutMs, (reply) => integers(reply, 1, keys));
    const [reply] = await Promise.all([release({ ...request, done: undefined }), marked]);
    return reply;
  }

  /** True if an operator marked this run as new; never for a cluster, which has no single server. */
  async function isMarkedNew(runId: string, timeoutMs: number): Promise<boolean> {
    if (client.clustered || runId === '') return false;
    return transport.requestAlone(scripts.readValue(newServerKey), newServerKey, timeoutMs).then(
      (reply) => reply === runId,
      () => false,
    );
  }

  return {
    kind: 'redis',
    clock: systemClock,
    keyPrefix,
    generation,
    channels: subscribe && { listen: subscribe, listensAlone: false },
    values: redisValues(transport),
    operator,
    flushIfQuiet: () => transport.flushIfQuiet(),
    transport,
    refuses: (keys) => (client.clustered ? acrossSlots(keys) : undefined),
    acquire,
    extend,
    release,
    async releaseAndAcquire(released, request) {
      const { keys, commandTimeoutMs } = released;
      const ready = transport.ready(keys, commandTimeoutMs, true);
      if (ready !== undefined) await ready;
      const sent = now();
      const call = commands.releaseCall(released, commands.nextOf(request, clock));
      const reply = await transport.send(call, keys, commandTimeoutMs, asItIs);
      if (!Array.isArray(reply)) throw strangeReply(reply, keys);
      const meaning = acquired(reply.slice(1), request, sent);
      if (meaning === undefined) throw strangeReply(reply, keys);
      return [commands.releaseReply(reply.slice(0, 1), keys), meaning];
    },
    abandon: (request, late) => abandoned.add(() => release(request), request.commandTimeoutMs, late),
    raise(request) {
      const { keys, commandTimeoutMs } = request;
      const call = commands.raiseCall(request);
      return transport.request(call, keys, commandTimeoutMs, (reply) => integers(reply, 1, keys)[0] === 1);
    },
    async identify(timeoutMs) {
      const readiness = client.readiness();
      if (readiness !== 'ready') throw notReady('', readiness, client.advice);
      // The process does not stay alive for this reply.
      const text = await withDeadline(client.command('INFO', 'server'), '', timeoutMs, false);
      const number = (name: string): number => Number(new RegExp(`${name}:(\\d+)`).exec(text)?.[1] ?? 0);
      // Both times are differences of whole seconds; the finer clock gives the part of a second that has surely passed.
      const uptimeMs = (number('uptime_in_seconds') - 1) * 1000 + ((number('server_time_usec') / 1000) % 1000);
      const runId = /run_id:(\w+)/.exec(text)?.[1] ?? '';
      return { runId, uptimeMs, isNew: uptimeMs < newMs && (await isMarkedNew(runId, timeoutMs)) };
    },
    async inspect(key, commandTimeoutMs, token) {
      const [seen] = await operator.inspect([key], commandTimeoutMs, token);
      if (seen instanceof LockBackendError) throw seen;
      return seen!;
    },
    async readPlaces(key, commandTimeoutMs) {
      const reply = await transport.requestAlone(scripts.readPlaces(key), key, commandTimeoutMs);
      if (!Array.isArray(reply)) throw strangeReply(reply, key);
      return reply.map((each) => placesOf(String(each)));
    },
    join() {
      scopes += 1;
    },
    leave() {
      scopes -= 1;
      if (scopes === 0) replicas.close();
      return abandoned.settled();
    },
  };
}

function asItIs(reply: unknown): unknown {
  return reply;
}
