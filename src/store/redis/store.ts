// One Redis (a server, or a cluster behind one client) as a store. A request becomes a call (commands), the call goes to Redis
// and its reply comes back (transport), and the reply is read (commands). An uncertain outcome is reported as unknown, and its
// token is released until Redis has answered (abandoned).
import { LockBackendError } from '../../core/errors';
import { describe, type Key, newServerKey } from '../../core/keys';
import { perObject } from '../../core/per-object';
import { Abandoned } from '../abandoned';
import { acrossSlots, asUnknown, givenUp, notReady } from '../backend-errors';
import {
  type AcquireReply,
  type AcquireRequest,
  type Channels,
  type ExtendReply,
  type ExtendRequest,
  type Identity,
  type LockState,
  type Moment,
  type Node,
  now,
  type RaiseRequest,
  type ReleaseReply,
  type ReleaseRequest,
  type Slot,
  type Store,
} from '../contract';
import { stateFor } from '../inspected';
import type { LateRequest } from '../late-request';
import { placesOf } from '../permit-places';
import type { Values } from '../values';
import type { ScriptClient } from './client';
import { scriptClient } from './clients/script-client';
import * as commands from './commands';
import { deploymentWarnings } from './deployment-warnings';
import { type RedisOperator, redisOperator } from './operator';
import { withDeadline } from './pipeline/deadlines';
import type { StoreCall } from './pipeline/plain';
import { Transport } from './pipeline/transport';
import { Replicas } from './replicas';
import { integers, strangeReply } from './replies';
import * as scripts from './scripts/generated';
import { ServerClock } from './server-clock';
import { redisValues } from './values';
import type { CallAt, SentReply } from './wait-connection';

/** The uptime, above every lifetime, from which a server no longer counts as new. */
const newMs = 86_400_000;

/**
 * The store of a client; always the same one for the same client.
 *
 * @throws {TypeError} `ERR_LOCK_OPTION` for anything that is no known client.
 */
export const redisStore: (client: object) => RedisStore = perObject((client) => new RedisStore(scriptClient(client)));

/** The verbs that the shims use, which make one attempt at a time: a call leaves at once, unless many are on their way. */
export function directStore(client: object): Pick<Store, 'acquire' | 'release'> {
  return redisStore(client).direct;
}

class RedisStore implements Node {
  readonly kind = 'redis';
  readonly channels: Channels | undefined;
  readonly keyPrefix: string;
  readonly generation: Node['generation'];
  readonly values: Values;
  readonly operator: RedisOperator;
  readonly direct: Pick<Store, 'acquire' | 'release'> = {
    acquire: (request) => this.#atOnce(this.acquire(request)),
    release: (request) => this.#atOnce(this.release(request)),
  };
  readonly #client: ScriptClient;
  readonly #transport: Transport;
  readonly #replicas: Replicas;
  readonly #clock = new ServerClock();
  readonly #abandoned = new Abandoned((request) => this.release(request));
  readonly #warnAtGrant: (minReplicas: number) => void;
  #scopes = 0;

  constructor(client: ScriptClient) {
    this.#client = client;
    this.#warnAtGrant = deploymentWarnings(client);
    const { subscribe } = client;
    this.channels = subscribe && { listen: subscribe, listensAlone: false };
    this.keyPrefix = client.keyPrefix;
    this.generation = client.generation;
    this.#transport = new Transport(client);
    this.values = redisValues(this.#transport);
    this.operator = redisOperator(client, this.#transport, this.#clock);
    this.#replicas = new Replicas(client);
  }

  refuses(keys: Key): LockBackendError | undefined {
    return this.#client.clustered ? acrossSlots(keys) : undefined;
  }

  #atOnce<T>(reply: Promise<T>): Promise<T> {
    this.#transport.flushIfQuiet();
    return reply;
  }

  /** Acquires a lock. A plain request goes straight: the loop below would cost 5 % of a sequential pair, 10 % of a batched one. */
  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { keys, commandTimeoutMs } = request;
    const isPlain = request.minReplicas === 0 && request.lifetimeMs !== null; // S12
    if (!isPlain || !this.#transport.isReady || !request.begin()) return this.#acquireSlowly(request, false);
    const sent = this.#transport.sentAt(request.mode === undefined);
    return this.#transport.send(this.#acquireCall(request, sent), keys, commandTimeoutMs, (reply) => {
      return this.#acquired(reply, request, sent) ?? this.#acquireSlowly(request, true); // H6
    });
  }

  /** Waits for a client that is not ready yet, and for replicas. Tries once more if our estimate of the server's clock was bad. */
  async #acquireSlowly(request: AcquireRequest, wasLate: boolean): Promise<AcquireReply> {
    const { keys, lifetimeMs, commandTimeoutMs, minReplicas } = request;
    const callAt = (sent: Moment): StoreCall => this.#acquireCall(request, sent);
    for (let resent = wasLate; ; resent = true) {
      const ready = this.#transport.ready(keys, commandTimeoutMs, false);
      if (ready !== undefined) await ready;
      const attempt = minReplicas > 0 ? this.#replicas.acquire(request, callAt) : this.#send(request, callAt);
      const [reply, sent] = await attempt;
      const acquired = this.#acquired(reply, request, sent);
      if (acquired !== undefined) {
        if (acquired.granted && lifetimeMs === null) await this.#makePermanent(request, acquired.fence);
        return acquired;
      }
      // Too late by our estimate of the server's clock. The estimate is better now: one more try.
      if (resent) throw new LockBackendError(`Redis ran the request for ${describe(keys)} too late`, { key: keys });
    }
  }

  async #send(request: AcquireRequest, callAt: CallAt): Promise<SentReply> {
    const { keys, commandTimeoutMs } = request;
    if (!request.begin()) throw givenUp(keys);
    const sent = now();
    return [await this.#transport.send(callAt(sent), keys, commandTimeoutMs, asItIs), sent];
  }

  #acquireCall(request: AcquireRequest, sent: Moment): StoreCall {
    const notAfter = this.#clock.serverMs(sent.monoMs + request.commandTimeoutMs);
    return commands.acquireCall(request, this.#fenceKey(request.keys), notAfter, this.#clock);
  }

  /** The reply; undefined if the script ran after the last moment at which it was of use. */
  #acquired(reply: unknown, request: AcquireRequest, sent: Moment): AcquireReply | undefined {
    const acquired = commands.acquireReply(reply, request, sent, this.#clock);
    if (acquired?.granted) this.#warnAtGrant(request.minReplicas);
    return acquired;
  }

  async #makePermanent({ keys, token, commandTimeoutMs, mode }: AcquireRequest, fence: number): Promise<void> {
    const validUntilMs = now().monoMs + commands.probationMs;
    const begin = (): boolean => true;
    const held = mode && { mode, fence };
    const request = { keys, token, lifetimeMs: null, exact: true, validUntilMs, commandTimeoutMs, begin, held };
    const { outcome } = await this.extend(request).catch((error) => {
      throw asUnknown(error);
    });
    if (outcome === 'extended') return;
    const message = `${describe(keys)} was ${outcome} before it could be made permanent`;
    throw new LockBackendError(message, { key: keys, unknown: true });
  }

  async extend(request: ExtendRequest): Promise<ExtendReply> {
    const { keys, commandTimeoutMs, validUntilMs } = request;
    for (let resent = false; ; resent = true) {
      const ready = this.#transport.ready(keys, commandTimeoutMs, true);
      if (ready !== undefined) await ready;
      if (!request.begin()) return { outcome: 'late' };
      const sent = now();
      const call = commands.extendCall(request, this.#fenceKey(keys), this.#clock.serverMs(validUntilMs));
      const reply = await this.#transport.send(call, keys, commandTimeoutMs, asItIs, false);
      const extended = commands.extendReply(reply, request, sent, this.#clock);
      if (extended.outcome !== 'late' || resent || now().monoMs >= validUntilMs) return extended; // H19
    }
  }

  release(request: ReleaseRequest): Promise<ReleaseReply> {
    if (request.done !== undefined) return this.#markAndRelease(request, request.done);
    const { keys, commandTimeoutMs } = request;
    const call = commands.releaseCall(request, this.#fenceKey(keys));
    return this.#transport.request(call, keys, commandTimeoutMs, (reply) =>
      commands.releaseReply(reply, keys, request.counted),
    );
  }

  /** Marks the slot and releases in one command: both calls leave in one tick, in this order. */
  async #markAndRelease(request: ReleaseRequest, slot: Slot): Promise<ReleaseReply> {
    const { keys, commandTimeoutMs } = request;
    await this.#transport.ready(keys, commandTimeoutMs, true);
    const call = commands.markSlotCall(request, slot);
    const marked = this.#transport.send(call, keys, commandTimeoutMs, (reply) => integers(reply, 1, keys));
    const released = this.release({ ...request, done: undefined });
    const [reply] = await Promise.all([released, marked]);
    return reply;
  }

  async releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]> {
    const { keys, commandTimeoutMs } = release;
    const ready = this.#transport.ready(keys, commandTimeoutMs, true);
    if (ready !== undefined) await ready;
    const sent = now();
    const call = commands.releaseCall(release, this.#fenceKey(keys), commands.nextOf(acquire, this.#clock));
    const reply = await this.#transport.send(call, keys, commandTimeoutMs, asItIs);
    if (!Array.isArray(reply)) throw strangeReply(reply, keys);
    const acquired = this.#acquired(reply.slice(1), acquire, sent);
    if (acquired === undefined) throw strangeReply(reply, keys);
    return [commands.releaseReply(reply.slice(0, 1), keys), acquired];
  }

  raise(request: RaiseRequest): Promise<boolean> {
    const { keys, commandTimeoutMs } = request;
    const call = commands.raiseCall(request, this.#fenceKey(keys));
    return this.#transport.request(call, keys, commandTimeoutMs, (reply) => integers(reply, 1, keys)[0] === 1);
  }

  async identify(timeoutMs: number): Promise<Identity> {
    const readiness = this.#client.readiness();
    if (readiness !== 'ready') throw notReady('', readiness, this.#client.advice);
    // The process does not stay alive for this reply.
    const text = await withDeadline(this.#client.command('INFO', 'server'), '', timeoutMs, false);
    const number = (name: string): number => Number(new RegExp(`${name}:(\\d+)`).exec(text)?.[1] ?? 0);
    // Both times are differences of whole seconds; the finer clock gives the part of a second that has surely passed.
    const uptimeMs = (number('uptime_in_seconds') - 1) * 1000 + ((number('server_time_usec') / 1000) % 1000);
    const runId = /run_id:(\w+)/.exec(text)?.[1] ?? '';
    return { runId, uptimeMs, isNew: uptimeMs < newMs && (await this.#isMarkedNew(runId, timeoutMs)) };
  }

  /** True if an operator marked this run as new; never for a cluster, which has no single server. */
  async #isMarkedNew(runId: string, timeoutMs: number): Promise<boolean> {
    if (this.#client.clustered || runId === '') return false;
    return this.#transport.requestAlone(scripts.readValue(newServerKey), newServerKey, timeoutMs).then(
      (reply) => reply === runId,
      () => false,
    );
  }

  abandon(request: ReleaseRequest, late?: LateRequest): Promise<void> {
    return this.#abandoned.add(request, late);
  }

  async inspect(key: string, commandTimeoutMs: number, token?: string): Promise<LockState & { owned?: boolean }> {
    const [seen] = await this.operator.see([key], commandTimeoutMs);
    if (seen instanceof LockBackendError) throw seen;
    return stateFor(seen!, token);
  }

  async readPlaces(key: string, commandTimeoutMs: number): Promise<number[][]> {
    const reply = await this.#transport.requestAlone(scripts.readPlaces(key), key, commandTimeoutMs);
    if (!Array.isArray(reply)) throw strangeReply(reply, key);
    return reply.map((each) => placesOf(String(each)));
  }

  join(): void {
    this.#scopes += 1;
  }

  leave(): Promise<void> {
    this.#scopes -= 1;
    if (this.#scopes === 0) this.#replicas.close();
    return this.#abandoned.settled();
  }

  #fenceKey(keys: Key): string {
    return commands.fenceKeyOf(keys, this.#client);
  }
}

function asItIs(reply: unknown): unknown {
  return reply;
}
