// One Redis (a server, or a cluster behind one client). Every command has our own deadline and goes out only when the
// client is ready: nothing is left to a client's offline queue, time-out or abort. What is not known for certain is told
// as unknown, and a token whose outcome is not known is released until Redis has answered.
import { LockBackendError } from '../errors';
import { warn, warningsWanted } from '../events';
import { companionOf, type Key } from '../keys';
import * as scripts from '../scripts/generated';
import type { ScriptCall } from '../scripts/script';
import {
  type AcquireReply,
  type AcquireRequest,
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
  type Store,
} from '../store';
import { ownerOf } from '../token';
import { type Answer, Batch } from './batch';
import { type DedicatedClient, type ScriptClient, scriptClient } from './clients';
import { CallQuestion, Question } from './questions';
import { describe, integers, isNoScript, listOf, strangeReply } from './replies';

/** `lifetime: null` starts with this, so that a grant whose reply we never read does not stay for ever. */
const probationMs = 10_000;
/** Calls in one batch. With many in flight two halves are under way: Redis works on one, we on the other. */
const mostInBatch = 128;
/** Integers in the reply of an acquire, and in that to somebody who stands in line. */
const acquireLength = 4;
const placedLength = 6;
/** How often a client that is connecting is looked at. */
const readinessPollMs = 5;
/** Whoever is silent for longer has let the key end by itself. */
const keepReleasingMs = 60_000;
/** A ghost is surely too late this long after its `notAfter`: two clocks are read in whole milliseconds. */
const clockStepMs = 2;

const stores = new WeakMap<object, RedisStore>();

/**
 * The store of a client; one for each client, whoever asks.
 *
 * @throws {TypeError} `ERR_LOCK_OPTION` when it is no client that we know.
 */
export function redisStore(client: object): Node {
  let store = stores.get(client);
  if (store === undefined) {
    store = new RedisStore(scriptClient(client));
    stores.set(client, store);
  }
  return store;
}

class RedisStore implements Node {
  readonly listen: Store['listen'];
  readonly keyPrefix: string;
  readonly generation: Node['generation'];
  readonly #client: ScriptClient;
  /** Scripts that this server was sent whole; later calls send the SHA alone. */
  readonly #sent = new Set<string>();
  /** Server time minus monotonic time, in ms: never more than that really is, so that a request is stale in time. */
  #serverOffsetMs = Date.now() - performance.now();
  #offsetKnown = false;
  readonly #batch: Batch;
  #turnEnds: Promise<void> | undefined;
  readonly #abandoned = new Set<Promise<void>>();
  #dedicated: DedicatedClient | undefined;
  #evictionLooked = false;
  #scopes = 0;

  constructor(client: ScriptClient) {
    this.#client = client;
    this.listen = client.subscribe;
    this.keyPrefix = client.keyPrefix;
    this.generation = client.generation;
    this.#batch = new Batch(client.clustered ? 1 : mostInBatch, (call, answer) => this.#send(call, answer));
  }

  get serverOffsetMs(): number {
    return this.#serverOffsetMs;
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const isPlain = request.minReplicas === 0 && request.lifetimeMs !== null;
    if (!isPlain || this.#client.readiness() !== 'ready' || !request.begin()) return this.#acquire(request, false);
    const sent = this.#batch.moment;
    const call = acquireCall(request, sent.monoMs + request.commandTimeoutMs + this.#serverOffsetMs);
    return this.#told(call, request.keys, request.commandTimeoutMs, (reply) => {
      return this.#acquired(reply, request, sent) ?? this.#acquire(request, true);
    });
  }

  /** Whatever it takes: a client that is not ready yet, replicas that must know, a clock that was known badly. */
  async #acquire(request: AcquireRequest, wasLate: boolean): Promise<AcquireReply> {
    const { keys, lifetimeMs, commandTimeoutMs } = request;
    for (let resent = wasLate; ; resent = true) {
      const ready = this.#ready(keys, commandTimeoutMs);
      if (ready !== undefined) await ready;
      const dedicated = request.minReplicas > 0 ? await this.#openDedicated(keys, commandTimeoutMs) : undefined;
      if (!request.begin()) throw new LockBackendError(`nobody waits for ${describe(keys)} any more`, { key: keys });
      const sent = now();
      const call = acquireCall(request, sent.monoMs + commandTimeoutMs + this.#serverOffsetMs);
      const reply = dedicated
        ? await this.#replicate(dedicated, call, request)
        : await this.#exchange(call, keys, commandTimeoutMs, true);
      const acquired = this.#acquired(reply, request, sent);
      if (acquired !== undefined) {
        if (acquired.granted && lifetimeMs === null) await this.#makePermanent(request);
        return acquired;
      }
      // Too late by what we knew of the server's clock. Now we know better: once more, and that is all.
      if (resent) throw new LockBackendError(`Redis ran the request for ${describe(keys)} too late`, { key: keys });
    }
  }

  /** undefined: it ran after the last moment at which it was of use. */
  #acquired(reply: unknown, { keys, place }: AcquireRequest, sent: Moment): AcquireReply | undefined {
    const isLong = Array.isArray(reply) && reply.length > acquireLength;
    const numbers = integers(reply, isLong && place ? placedLength : acquireLength, keys) as [number, ...number[]];
    const [status, value, third, serverMs, before, outside] = numbers as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    if (serverMs > 0) this.#learn(serverMs, sent.monoMs);
    if (status === 1) {
      if (!this.#evictionLooked && warningsWanted()) this.#lookAtEviction();
      return { granted: true, fence: value, sent, others: third };
    }
    if (status === -1) return undefined;
    if (status !== 0) throw strangeReply(reply, keys);
    const stand = isLong ? { ticket: third, before, outside: outside === 1 } : undefined;
    return { granted: false, leftMs: value < 0 ? Number.POSITIVE_INFINITY : value, stand };
  }

  async extend(request: ExtendRequest): Promise<ExtendReply> {
    const { keys, commandTimeoutMs } = request;
    for (let resent = false; ; resent = true) {
      const ready = this.#ready(keys, commandTimeoutMs);
      if (ready !== undefined) await ready;
      // Renewals that come due together are timers of one turn; each would be a tick of its own.
      await this.#endOfTurn();
      if (!request.begin()) return { outcome: 'late' };
      const sent = now();
      const call = extendCall(request, request.validUntilMs + this.#serverOffsetMs);
      const reply = await this.#exchange(call, keys, commandTimeoutMs, false);
      const [result, serverMs] = integers(reply, 2, keys);
      this.#learn(serverMs!, sent.monoMs);
      if (result === 1) return { outcome: 'extended', sent };
      if (result === 0) return { outcome: 'missing' };
      if (result === -1) return { outcome: 'taken' };
      if (result !== -2) throw strangeReply(reply, keys);
      if (resent || now().monoMs >= request.validUntilMs) return { outcome: 'late' };
    }
  }

  release(request: ReleaseRequest): Promise<ReleaseReply> {
    const { keys, commandTimeoutMs } = request;
    const send = (): Promise<ReleaseReply> =>
      this.#told(releaseCall(request), keys, commandTimeoutMs, (reply) => released(reply, keys));
    const ready = this.#ready(keys, commandTimeoutMs);
    return ready === undefined ? send() : ready.then(send);
  }

  async releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]> {
    const { keys, commandTimeoutMs } = release;
    const ready = this.#ready(keys, commandTimeoutMs);
    if (ready !== undefined) await ready;
    const sent = now();
    const call = releaseCall(release, acquire);
    const reply = await this.#exchange(call, keys, commandTimeoutMs, true);
    if (!Array.isArray(reply)) throw strangeReply(reply, keys);
    const count = listOf(keys).length;
    const acquired = this.#acquired(reply.slice(count), acquire, sent);
    if (acquired === undefined) throw strangeReply(reply, keys);
    return [released(reply.slice(0, count), keys), acquired];
  }

  raise({ keys, token, fence, commandTimeoutMs }: RaiseRequest): Promise<boolean> {
    const [locks, fences] = keysOf(keys);
    const call = scripts.raise(locks, fences, token, fence.toFixed(0));
    return this.#told(call, keys, commandTimeoutMs, (reply) => integers(reply, 1, keys)[0] === 1);
  }

  async identify(timeoutMs: number): Promise<Identity> {
    const readiness = this.#client.readiness();
    if (readiness !== 'ready') throw notReady('', readiness);
    // Nobody's process stays alive for it.
    const text = await answered(this.#client.serverInfo(), '', timeoutMs, false);
    const number = (name: string): number => Number(new RegExp(`${name}:(\\d+)`).exec(text)?.[1] ?? 0);
    // Both are the difference of whole seconds: the part of a second that has surely passed comes from the finer clock.
    const uptimeMs = (number('uptime_in_seconds') - 1) * 1000 + ((number('server_time_usec') / 1000) % 1000);
    return { runId: /run_id:(\w+)/.exec(text)?.[1] ?? '', uptimeMs };
  }

  abandon(request: ReleaseRequest, untilMs: number): Promise<void> {
    const work = this.#releaseTwice(request, untilMs).finally(() => this.#abandoned.delete(work));
    this.#abandoned.add(work);
    return work;
  }

  async inspect(key: string, commandTimeoutMs: number): Promise<LockState> {
    const ready = this.#ready(key, commandTimeoutMs);
    if (ready !== undefined) await ready;
    const call = scripts.inspect(key, companionOf(key, 'fence'), companionOf(key, 'queue'));
    const reply = await new Promise((resolve, reject) => {
      this.#send(call, new Question(key, commandTimeoutMs, true, resolve, reject));
    });
    if (!Array.isArray(reply) || reply.length !== 4) throw strangeReply(reply, key);
    const [holder, leftMs, fence, waiters] = reply as [unknown, number, unknown, number];
    const locked = holder !== null;
    return {
      locked,
      owner: ownerOf(holder),
      remaining: !locked ? 0 : leftMs < 0 ? Number.POSITIVE_INFINITY : leftMs,
      waiters,
      fence: fence === null ? 0 : Number(fence),
      mode: locked ? 'exclusive' : null,
    };
  }

  join(): void {
    this.#scopes += 1;
  }

  async leave(): Promise<void> {
    this.#scopes -= 1;
    if (this.#scopes === 0) {
      this.#dedicated?.close();
      this.#dedicated = undefined;
    }
    while (this.#abandoned.size > 0) await Promise.all(this.#abandoned);
  }

  /**
   * The script and WAIT in one go on a connection of our own: WAIT speaks of what its own connection wrote, so a
   * reconnect between the two makes its answer worthless, and both are done again (the token makes that harmless).
   */
  async #replicate(
    connection: DedicatedClient,
    call: ScriptCall,
    { keys, minReplicas, commandTimeoutMs }: AcquireRequest,
  ): Promise<unknown> {
    const waitMs = Math.max(1, Math.floor(commandTimeoutMs / 2));
    for (;;) {
      const generation = connection.generation();
      // Whole text, never the SHA: after a NOSCRIPT the WAIT would have gone ahead of the write.
      const written = connection.script.eval(call.script.lua, call.keys, call.args);
      const both = Promise.all([written, connection.wait(minReplicas, waitMs)]);
      const [reply, replicas] = await answered(both, keys, commandTimeoutMs).catch((error) => {
        throw unsure(error);
      });
      if (connection.generation() !== generation) continue;
      if (Array.isArray(reply) && reply[0] === 1 && replicas < minReplicas) {
        const message = `${replicas} of ${minReplicas} replicas have the lock ${describe(keys)} after ${waitMs} ms`;
        throw new LockBackendError(message, { key: keys, redisCode: 'NOREPLICAS', unknown: true });
      }
      return reply;
    }
  }

  async #openDedicated(keys: Key, timeoutMs: number): Promise<DedicatedClient> {
    if (this.#dedicated === undefined) {
      const opening = this.#client.dedicate();
      opening.opened.catch(() => {
        if (this.#dedicated === opening) this.#dedicated = undefined;
      });
      this.#dedicated = opening;
    }
    const connection = this.#dedicated;
    await answered(connection.opened, keys, timeoutMs).catch((error) => {
      throw new LockBackendError(error.message, { key: keys, cause: error });
    });
    if (connection.script.readiness() !== 'ready') throw notReady(keys, 'soon');
    return connection;
  }

  /** The offset is at least (server time − our time of reading it), and at most (server time − our time of asking). */
  #learn(serverMs: number, sentMs: number): void {
    const least = serverMs - performance.now();
    const most = serverMs + 1 - sentMs;
    if (!this.#offsetKnown || this.#serverOffsetMs > most) this.#serverOffsetMs = least;
    else this.#serverOffsetMs = Math.max(this.#serverOffsetMs, least);
    this.#offsetKnown = true;
  }

  async #makePermanent({ keys, token, commandTimeoutMs }: AcquireRequest): Promise<void> {
    const validUntilMs = now().monoMs + probationMs;
    const begin = (): boolean => true;
    const request = { keys, token, lifetimeMs: null, exact: true, validUntilMs, commandTimeoutMs, begin };
    const { outcome } = await this.extend(request).catch((error) => {
      throw unsure(error);
    });
    if (outcome === 'extended') return;
    const message = `${describe(keys)} was ${outcome} before it could be made permanent`;
    throw new LockBackendError(message, { key: keys, unknown: true });
  }

  /** undefined: ready now, without a turn of the event loop. Otherwise waits a while for the client to connect. */
  #ready(keys: Key, timeoutMs: number): Promise<void> | undefined {
    return this.#client.readiness() === 'ready' ? undefined : this.#becomeReady(keys, timeoutMs);
  }

  async #becomeReady(keys: Key, timeoutMs: number): Promise<void> {
    const deadlineMs = performance.now() + timeoutMs;
    for (;;) {
      const readiness = this.#client.readiness();
      if (readiness === 'ready') return;
      if (readiness === 'closed' || performance.now() >= deadlineMs) throw notReady(keys, readiness);
      await new Promise((resolve) => setTimeout(resolve, readinessPollMs));
    }
  }

  /** What `read` makes of the reply to one call. One promise, because every lock pays for each. */
  #told<T>(call: ScriptCall, keys: Key, timeoutMs: number, read: (reply: unknown) => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const onReply = (reply: unknown): void => {
        try {
          resolve(read(reply));
        } catch (error) {
          reject(error);
        }
      };
      this.#batch.add(new CallQuestion(call, keys, timeoutMs, true, onReply, reject));
    });
  }

  /** One call, alone or with others of the same tick, with our own deadline. */
  #exchange(call: ScriptCall, keys: Key, timeoutMs: number, waited: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#batch.add(new CallQuestion(call, keys, timeoutMs, waited, resolve, reject));
    });
  }

  #endOfTurn(): Promise<void> {
    this.#turnEnds ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#turnEnds = undefined;
        resolve();
      });
    });
    return this.#turnEnds;
  }

  #send(call: ScriptCall, answer: Answer): void {
    const { script, keys, args } = call;
    try {
      if (!this.#sent.has(script.sha)) return this.#sendWhole(call, answer);
      this.#client.evalsha(script.sha, keys, args).then(
        (reply) => answer.resolve(reply),
        (error) => {
          if (isNoScript(error)) this.#sendWhole(call, answer);
          else answer.reject(error);
        },
      );
    } catch (error) {
      answer.reject(error); // a client that throws instead of rejecting
    }
  }

  #sendWhole({ script, keys, args }: ScriptCall, answer: Answer): void {
    this.#client.eval(script.lua, keys, args).then(
      (reply) => {
        this.#sent.add(script.sha);
        answer.resolve(reply);
      },
      (error) => answer.reject(error),
    );
  }

  /**
   * Resolves when a release was tried after the last moment at which the token could take anything. A silent Redis is asked
   * on for a while, with nobody waiting for that.
   */
  async #releaseTwice(request: ReleaseRequest, untilMs: number): Promise<void> {
    const release = async (): Promise<boolean> =>
      this.release(request).then(
        () => true,
        (error: LockBackendError) => !error.retryable,
      );
    const isReleased = await release();
    const leftMs = untilMs - now().monoMs;
    if (isReleased && leftMs <= 0) return;
    // A ghost that ran before the first release is gone now; one that runs after it, and in time, dies by the second.
    await idle(leftMs + clockStepMs);
    if (!(await release())) void this.#releaseOn(release, request.commandTimeoutMs);
  }

  async #releaseOn(release: () => Promise<boolean>, pauseMs: number): Promise<void> {
    const endMs = now().monoMs + keepReleasingMs;
    do await idle(pauseMs);
    while (!(await release()) && now().monoMs < endMs);
  }

  #lookAtEviction(): void {
    this.#evictionLooked = true;
    this.#client.evictionPolicy().then(
      (policy) => {
        if (policy === 'noeviction') return;
        const message = `maxmemory-policy is ${policy}: Redis may evict held locks; use noeviction`;
        warn({ code: 'eviction', message, key: null });
      },
      () => {},
    );
  }
}

function acquireCall(request: AcquireRequest, notAfter: number): ScriptCall {
  const { keys, token, lifetimeMs, place, leastFence } = request;
  const least = leastFence === undefined ? [] : [leastFence.toFixed(0)];
  const where = place === undefined ? least : [place.channel, place.id, String(place.ticket)];
  const until = Math.ceil(notAfter);
  return scripts.acquire(...keysOf(keys), token, lifetimeMs ?? probationMs, until, fencesOf(request), where);
}

function releaseCall({ keys, token, ticket = 0, restMs = 0 }: ReleaseRequest, next?: AcquireRequest): ScriptCall {
  return scripts.release(...keysOf(keys), token, ticket, restMs, next === undefined ? [] : nextOf(next));
}

function nextOf(request: AcquireRequest): string[] {
  const { channel, id, ticket } = request.place!;
  return [request.token, String(request.lifetimeMs), String(fencesOf(request)), channel, id, String(ticket)];
}

function fencesOf({ fencing, fences = 1 }: AcquireRequest): number {
  return fencing ? fences : 0;
}

/** The locks and their companions, as every script wants them. */
function keysOf(keys: Key): [lock: readonly string[], fence: readonly string[], queue: readonly string[]] {
  if (typeof keys === 'string') return [[keys], [companionOf(keys, 'fence')], [companionOf(keys, 'queue')]];
  return [keys, keys.map((key) => companionOf(key, 'fence')), keys.map((key) => companionOf(key, 'queue'))];
}

function released(reply: unknown, keys: Key): ReleaseReply {
  const results = integers(reply, listOf(keys).length, keys);
  if (results.every((result) => result === 1)) return 'released';
  return results.includes(-1) ? 'taken' : 'missing';
}

function extendCall({ keys, token, lifetimeMs, exact }: ExtendRequest, notAfter: number): ScriptCall {
  const limit = Math.min(Math.ceil(notAfter), Number.MAX_SAFE_INTEGER);
  return scripts.extend(listOf(keys), token, lifetimeMs ?? 0, exact ? 1 : 0, limit);
}

/** What a promise comes to, errors as ours; or silence, when that takes longer than `timeoutMs`. */
function answered<T>(work: Promise<T>, keys: Key, timeoutMs: number, waited = true): Promise<T> {
  return new Promise((resolve, reject) => {
    const question = new Question(keys, timeoutMs, waited, (value) => resolve(value as T), reject);
    work.then(
      (value) => question.resolve(value),
      (error) => question.reject(error),
    );
  });
}

function idle(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(ms, 0)).unref());
}

/** The same error, of which it is not known what it has left behind. */
function unsure(error: LockBackendError): LockBackendError {
  const { message, key, cause, redisCode, retryable } = error;
  return new LockBackendError(message, { key, cause, redisCode, retryable, unknown: true });
}

function notReady(key: Key, readiness: string): LockBackendError {
  const advice =
    readiness === 'closed'
      ? 'the Redis client was never connected, or was closed: await client.connect() first'
      : 'the Redis client is not connected (it is still trying)';
  return new LockBackendError(`${describe(key)} could not be locked: ${advice}`, {
    key,
    retryable: readiness !== 'closed',
  });
}
