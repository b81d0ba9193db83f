// One Redis (a server, or a cluster behind one client). Every command has our own deadline and goes out only when the
// client is ready: nothing is left to a client's offline queue, time-out or abort. What is not known for certain is told
// as unknown, and a token whose outcome is not known is released until Redis has answered.
import { LockBackendError } from '../errors';
import { warn, warningsWanted } from '../events';
import { companionOf, type Key, slotOf } from '../keys';
import * as scripts from '../scripts/generated';
import type { Call, ScriptCall } from '../scripts/script';
import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  earlier,
  type Held,
  type Identity,
  type LockState,
  type Mode,
  type Moment,
  type Node,
  now,
  type RaiseRequest,
  type ReleaseReply,
  type ReleaseRequest,
  type Store,
  type ValueRequest,
} from '../store';
import { ownerOf } from '../token';
import { type Answer, Batch, type Send } from './batch';
import { type DedicatedClient, type ScriptClient, scriptClient } from './clients';
import { CallQuestion, Question } from './questions';
import { codeOf, describe, integers, isNoScript, listOf, strangeReply } from './replies';

/** `lifetime: null` starts with this, so that a grant whose reply we never read does not stay for ever. */
const probationMs = 10_000;
/** Calls in one batch. With many in flight two halves are under way: Redis works on one, we on the other. */
const mostInBatch = 128;
/** Theirs cost several times as much each, and nobody else's command should wait for long. */
const mostMembersInBatch = 64;
/** Integers in the reply of an acquire, and in that to somebody who stands in line. */
const acquireLength = 4;
const placedLength = 6;
/** How often a client that is connecting is looked at. */
const readinessPollMs = 5;
/** What tells that a slot is on the move, to a client that does not follow it any further; and how often it is asked again. */
const moving = new Set<string | undefined>(['TRYAGAIN', 'CLUSTERDOWN', 'MOVED', 'ASK']);
const movingPauseMs = 20;
/** Whoever is silent for longer has let the key end by itself. */
const keepReleasingMs = 60_000;
/** A ghost is surely too late this long after its `notAfter`: two clocks are read in whole milliseconds. */
const clockStepMs = 2;

const letters = { shared: 'r', exclusive: 'w', counted: 'p' } as const;
const modesByLetter: Readonly<Record<string, LockState['mode']>> = { r: 'read', w: 'write', p: 'permits' };

const stores = new WeakMap<object, RedisStore>();

/**
 * The store of a client; one for each client, whoever asks.
 *
 * @throws {TypeError} `ERR_LOCK_OPTION` when it is no client that we know.
 */
export function redisStore(client: object): Store & Node {
  let store = stores.get(client);
  if (store === undefined) {
    store = new RedisStore(scriptClient(client));
    stores.set(client, store);
  }
  return store;
}

class RedisStore implements Store, Node {
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
  /** Their scripts are apart, so that what a mutex sends stays as small as it is. */
  readonly #memberBatch: Batch;
  #turnEnds: Promise<void> | undefined;
  readonly #abandoned = new Set<Promise<void>>();
  /** One for each node. */
  readonly #dedicated = new Map<string, DedicatedClient>();
  #evictionLooked = false;
  #scopes = 0;

  constructor(client: ScriptClient) {
    this.#client = client;
    this.listen = client.subscribe;
    this.keyPrefix = client.keyPrefix;
    this.generation = client.generation;
    const send: Send = (call, answer) => this.#send(call, answer);
    this.#batch = new Batch(mostInBatch, client.clustered, scripts.batch, send, process.nextTick);
    this.#memberBatch = new Batch(mostMembersInBatch, client.clustered, scripts.batchMembers, send, setImmediate);
  }

  refuses(keys: Key): LockBackendError | undefined {
    if (typeof keys === 'string' || !this.#client.clustered || new Set(keys.map(slotOf)).size === 1) return undefined;
    const message =
      `${describe(keys)} lie in different slots of the cluster and cannot be locked together: ` +
      'give them one hash tag, such as "{bank}:alice" and "{bank}:bob"';
    return new LockBackendError(message, { key: keys, redisCode: 'CROSSSLOT', retryable: false });
  }

  get serverOffsetMs(): number {
    return this.#serverOffsetMs;
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const isPlain = request.minReplicas === 0 && request.lifetimeMs !== null;
    if (!isPlain || this.#client.readiness() !== 'ready' || !request.begin()) return this.#acquire(request, false);
    const sent = (request.mode === undefined ? this.#batch : this.#memberBatch).moment;
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
        if (acquired.granted && lifetimeMs === null) await this.#makePermanent(request, acquired.fence);
        return acquired;
      }
      // Too late by what we knew of the server's clock. Now we know better: once more, and that is all.
      if (resent) throw new LockBackendError(`Redis ran the request for ${describe(keys)} too late`, { key: keys });
    }
  }

  /** undefined: it ran after the last moment at which it was of use. */
  #acquired(reply: unknown, { keys, place, mode }: AcquireRequest, sent: Moment): AcquireReply | undefined {
    const isLong = Array.isArray(reply) && reply.length > acquireLength;
    const mayBeLong = place !== undefined || mode !== undefined;
    const numbers = integers(reply, isLong && mayBeLong ? placedLength : acquireLength, keys) as [number, ...number[]];
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
      return { granted: true, fence: value, sent: mode === undefined ? sent : earlier(sent, 1), others: third };
    }
    if (status === -1) return undefined;
    if (mode !== undefined && (status === -2 || status === -3)) {
      return { granted: false, leftMs: Number.POSITIVE_INFINITY, never: status === -2 ? 'deadlock' : 'gone' };
    }
    if (status !== 0) throw strangeReply(reply, keys);
    const stand = isLong && place ? { ticket: third, before, outside: outside === 1 } : undefined;
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
      if (result === 1) return { outcome: 'extended', sent: request.held === undefined ? sent : earlier(sent, 1) };
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

  async inspect(key: string, commandTimeoutMs: number, token?: string): Promise<LockState & { owned?: boolean }> {
    const call = scripts.inspect(key, companionOf(key, 'fence'), companionOf(key, 'queue'));
    const reply = await this.#look(call, key, commandTimeoutMs);
    if (!Array.isArray(reply) || reply.length !== 5) throw strangeReply(reply, key);
    const [holder, leftMs, fence, waiters, kind] = reply as [unknown, number, unknown, number, string];
    const locked = holder !== null;
    return {
      locked,
      owner: ownerOf(holder),
      remaining: !locked ? 0 : leftMs < 0 ? Number.POSITIVE_INFINITY : leftMs,
      waiters,
      fence: fence === null ? 0 : Number(fence),
      mode: locked ? (modesByLetter[String(kind)] ?? 'exclusive') : null,
      ...(token !== undefined && { owned: locked && String(holder) === token }),
    };
  }

  async permitsOut(key: string, commandTimeoutMs: number): Promise<number> {
    const ready = this.#ready(key, commandTimeoutMs);
    if (ready !== undefined) await ready;
    const reply = await this.#exchange(scripts.countMembers(key), key, commandTimeoutMs, true);
    return integers(reply, 1, key)[0]!;
  }

  async readValue(key: string, commandTimeoutMs: number): Promise<string | null> {
    const reply = await this.#look(scripts.readValue(companionOf(key, 'value')), key, commandTimeoutMs);
    return reply === null ? null : String(reply);
  }

  async writeValue({ key, token, text, ttlMs, commandTimeoutMs }: ValueRequest): Promise<boolean> {
    const call = scripts.writeValue(key, companionOf(key, 'value'), token, text, ttlMs);
    return integers(await this.#look(call, key, commandTimeoutMs), 1, key)[0] === 1;
  }

  /** A call that stands for itself: its answer is no list of integers, or nobody else asks in the same tick. */
  async #look(call: ScriptCall, key: string, commandTimeoutMs: number): Promise<unknown> {
    const ready = this.#ready(key, commandTimeoutMs);
    if (ready !== undefined) await ready;
    return new Promise((resolve, reject) => {
      this.#send(call, new Question(key, commandTimeoutMs, true, resolve, reject));
    });
  }

  join(): void {
    this.#scopes += 1;
  }

  async leave(): Promise<void> {
    this.#scopes -= 1;
    if (this.#scopes === 0) {
      for (const connection of this.#dedicated.values()) connection.close();
      this.#dedicated.clear();
    }
    while (this.#abandoned.size > 0) await Promise.all(this.#abandoned);
  }

  /**
   * The script and WAIT in one go on a connection of our own: WAIT speaks of what its own connection wrote, so a
   * reconnect between the two makes its answer worthless, and both are done again (the token makes that harmless).
   */
  async #replicate(
    connection: DedicatedClient,
    call: Call,
    { keys, minReplicas, commandTimeoutMs }: AcquireRequest,
  ): Promise<unknown> {
    const waitMs = Math.max(1, Math.floor(commandTimeoutMs / 2));
    for (;;) {
      const generation = connection.generation();
      // Whole text, never the SHA: after a NOSCRIPT the WAIT would have gone ahead of the write.
      const written = new Promise((resolve, reject) => {
        this.#batchOf(call).sendAlone({ call, resolve, reject }, ({ script, keys, args }, answer) => {
          connection.script.eval(script.lua, keys, args).then(answer.resolve, answer.reject);
        });
      });
      const both = Promise.all([written, connection.wait(minReplicas, waitMs)]);
      const [reply, replicas] = await answered(both, keys, commandTimeoutMs).catch((error) => {
        this.#lookAround(connection, listOf(keys)[0]!, commandTimeoutMs);
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
    const [key] = listOf(keys) as [string];
    const node = this.#client.nodeOf(key);
    let connection = this.#dedicated.get(node);
    if (connection === undefined) {
      const opening = this.#client.dedicate(key);
      opening.opened.catch(() => this.#dropDedicated(opening));
      this.#dedicated.set(node, opening);
      connection = opening;
    }
    await answered(connection.opened, keys, timeoutMs).catch((error) => {
      throw new LockBackendError(error.message, { key: keys, cause: error });
    });
    if (connection.script.readiness() === 'ready') return connection;
    this.#lookAround(connection, key, timeoutMs);
    throw notReady(keys, 'soon');
  }

  #dropDedicated(connection: DedicatedClient): void {
    for (const [node, each] of this.#dedicated) if (each === connection) this.#dedicated.delete(node);
  }

  /** In a cluster the key may be elsewhere now: any question makes the client look where. */
  #lookAround(connection: DedicatedClient, key: string, timeoutMs: number): void {
    if (!this.#client.clustered) return;
    this.#dropDedicated(connection);
    connection.close();
    this.inspect(key, timeoutMs).catch(() => {});
  }

  /** The offset is at least (server time − our time of reading it), and at most (server time − our time of asking). */
  #learn(serverMs: number, sentMs: number): void {
    const least = serverMs - performance.now();
    const most = serverMs + 1 - sentMs;
    if (!this.#offsetKnown || this.#serverOffsetMs > most) this.#serverOffsetMs = least;
    else this.#serverOffsetMs = Math.max(this.#serverOffsetMs, least);
    this.#offsetKnown = true;
  }

  async #makePermanent({ keys, token, commandTimeoutMs, mode }: AcquireRequest, fence: number): Promise<void> {
    const validUntilMs = now().monoMs + probationMs;
    const begin = (): boolean => true;
    const held = mode && { mode, fence };
    const request = { keys, token, lifetimeMs: null, exact: true, validUntilMs, commandTimeoutMs, begin, held };
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
  #told<T>(call: Call, keys: Key, timeoutMs: number, read: (reply: unknown) => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const onReply = (reply: unknown): void => {
        try {
          resolve(read(reply));
        } catch (error) {
          reject(error);
        }
      };
      this.#batchOf(call).add(new CallQuestion(call, keys, timeoutMs, true, onReply, this.#lookingFor(keys, reject)));
    });
  }

  /** In a cluster, a node that stands still is not known to its clients as dead: whoever was not answered asks who has the key now. */
  #lookingFor(keys: Key, reject: (error: LockBackendError) => void): (error: any) => void {
    const { lookFor } = this.#client;
    if (lookFor === undefined) return reject;
    return (error: LockBackendError) => {
      if (error.unknown) lookFor(listOf(keys)[0]!);
      reject(error);
    };
  }

  #batchOf({ script }: Call): Batch {
    return 'lua' in script ? this.#batch : this.#memberBatch;
  }

  /** One call, alone or with others of the same tick, with our own deadline. */
  #exchange(call: Call, keys: Key, timeoutMs: number, waited: boolean): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#batchOf(call).add(new CallQuestion(call, keys, timeoutMs, waited, resolve, this.#lookingFor(keys, reject)));
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
          else this.#refused(error, call, answer);
        },
      );
    } catch (error) {
      answer.reject(error); // a client that throws instead of rejecting
    }
  }

  #sendWhole(call: ScriptCall, answer: Answer): void {
    const { script, keys, args } = call;
    this.#client.eval(script.lua, keys, args).then(
      (reply) => {
        this.#sent.add(script.sha);
        answer.resolve(reply);
      },
      (error) => this.#refused(error, call, answer),
    );
  }

  /** In a cluster, while a slot is on the move: its keys are partly here and partly there, or its node died. Nothing ran. */
  #refused(error: unknown, call: ScriptCall, answer: Answer): void {
    const { deadlineMs = 0 } = answer;
    const isMoving = this.#client.clustered && moving.has(codeOf(String((error as Error).message)));
    if (!isMoving || performance.now() + movingPauseMs >= deadlineMs) return answer.reject(error);
    setTimeout(() => this.#send(call, answer), movingPauseMs).unref();
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

function acquireCall(request: AcquireRequest, notAfter: number): Call {
  const { keys, token, lifetimeMs, place } = request;
  if (request.mode !== undefined) return acquireMemberCall(request, request.mode, notAfter);
  const where = place === undefined ? unqueued(request) : [place.channel, place.id, String(place.ticket)];
  const until = Math.ceil(notAfter);
  return scripts.acquire(...keysOf(keys), token, lifetimeMs ?? probationMs, until, fencesOf(request), where);
}

/** What the script wants of a caller that is not queued. */
function unqueued({ leastFence = 0, pauseMs }: AcquireRequest): string[] {
  if (pauseMs !== undefined) return [leastFence.toFixed(0), String(Math.max(Math.ceil(pauseMs), 1))];
  return leastFence > 0 ? [leastFence.toFixed(0)] : [];
}

function releaseCall({ keys, token, ticket = 0, restMs = 0, held }: ReleaseRequest, next?: AcquireRequest): Call {
  if (held !== undefined) return releaseMemberCall(keys, token, ticket, held);
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

function acquireMemberCall(request: AcquireRequest, mode: Mode, notAfter: number): Call {
  const { keys, token, lifetimeMs, place } = request;
  const key = listOf(keys)[0]!;
  const where =
    place === undefined ? [] : [place.channel, place.id, String(place.ticket), String(place.patienceMs ?? 0)];
  return scripts.acquireMember(
    key,
    companionOf(key, 'fence'),
    companionOf(key, 'queue'),
    companionOf(key, 'limit'),
    token,
    lifetimeMs ?? probationMs,
    Math.ceil(notAfter),
    fencesOf(request) > 0 ? 1 : 0,
    letters[mode.kind],
    mode.prefer[0]!,
    mode.permits,
    mode.most,
    mode.step,
    mode.group,
    where,
  );
}

function releaseMemberCall(keys: Key, token: string, ticket: number, held: Held): Call {
  const key = listOf(keys)[0]!;
  const queue = companionOf(key, 'queue');
  return scripts.releaseMember(key, queue, companionOf(key, 'limit'), token, memberOf(token, held), ticket);
}

/** The holder's member in its sorted set, so that it need not be looked for; '' where we do not know all of it. */
function memberOf(token: string, { mode, fence }: Held): string {
  if (fence < 0) return '';
  const { kind, permits, step, group } = mode;
  return `1 ${letters[kind]} ${permits} ${step} ${fence} ${Buffer.byteLength(token)} ${token}${group}`;
}

function extendCall({ keys, token, lifetimeMs, exact, held }: ExtendRequest, notAfter: number): Call {
  const limit = Math.min(Math.ceil(notAfter), Number.MAX_SAFE_INTEGER);
  if (held !== undefined) {
    const key = listOf(keys)[0]!;
    const known = memberOf(token, held);
    return scripts.extendMember(key, companionOf(key, 'limit'), token, known, lifetimeMs ?? 0, exact ? 1 : 0, limit);
  }
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
