// The clients of one Redlock as one store. The reply of a single client is its vote. With several clients, each request carries a
// ballot, on which the vote of each client is noted. The replies themselves are passed on unchanged.
import { LockBackendError } from '../../core/errors';
import type { Key } from '../../core/keys';
import { newToken } from '../../core/token';
import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type Identity,
  type Moment,
  type Node,
  now,
  type ReleaseRequest,
  type Store,
} from '../../store/contract';
import { LateRequest } from '../../store/late-request';
import { commandTimeoutMs, isClosed, nodeFor, placeOf, quorumOf, readyWithin, scriptClient } from '../stores';
import type { Ballot, Client, Vote } from './ballot';
import { owner } from './queued';
import type { Tenure } from './tenure';

/** The error of two clocks that are read in whole milliseconds. */
const clockStepMs = 2;
const always = (): boolean => true;

/** The property of a request that carries its ballot. */
const onBallot = Symbol('ballot');

interface Cast {
  readonly [onBallot]?: Ballot;
}

export class Electorate {
  readonly store: Store;
  /** The store, or the shorter path to it for a single client. */
  readonly #direct: Pick<Store, 'acquire' | 'release'>;
  readonly #clients: readonly Client[];
  readonly #guards: readonly RestartGuard[];
  /** Set when the clients need no wait. The store of a single client waits for that client itself. */
  #isReady: boolean;

  constructor(clients: ReadonlySet<Client>) {
    this.#clients = [...clients];
    this.#isReady = clients.size === 1;
    const [first] = clients as unknown as [Client];
    this.#guards = clients.size === 1 ? [] : Array.from(clients, () => new RestartGuard());
    if (clients.size === 1) {
      const { store, direct } = placeOf(first);
      this.store = store;
      this.#direct = direct;
    } else {
      const nodes = Array.from(clients, (client, n) => witnessed(nodeFor(client), client, this.#guards[n]));
      this.#direct = this.store = quorumOf(nodes);
    }
  }

  /** Resolves when all clients of a quorum are connected or have had the time of one command for it; undefined after that. */
  ready(): Promise<unknown> | undefined {
    if (this.#isReady) return undefined;
    const waits = this.#clients.map((client) => readyWithin(scriptClient(client), commandTimeoutMs));
    return Promise.all(waits).then(() => {
      this.#isReady = true;
    });
  }

  /**
   * Attempts to release once. Resolves with a number if not every key was still ours; a single client counts the keys that were.
   *
   * @param yieldMs Ms for which the lock is left free when it is the turn of callers that only poll.
   * @throws {LockBackendError} no usable reply from a majority.
   */
  async release({ keys, token, isConfirmed }: HeldValue, yieldMs: number, ballot?: Ballot): Promise<true | number> {
    let released = 0;
    const counted = (count: number): void => {
      released = count;
    };
    const request: ReleaseRequest = { keys, token, commandTimeoutMs, isConfirmed, yieldMs, counted };
    const reply = await this.#direct.release(cast(request, ballot));
    return reply === 'released' || released;
  }

  /**
   * Attempts to extend once. Resolves with the moment at which the request was sent, or 0 if the lock is no longer ours or the
   * request would have been too late.
   *
   * @param endOf The end of the lock after an extension that was sent at the given moment.
   * @throws {LockBackendError} no usable reply from a majority.
   */
  async extend(
    { keys, token }: HeldValue,
    tenure: Tenure,
    lifetimeMs: number,
    endOf: (sent: Moment) => Moment,
    ballot?: Ballot,
  ): Promise<Moment | 0> {
    this.uses(lifetimeMs);
    // Redis may shorten the lifetime even if the reply is lost.
    tenure.shorten(endOf(now()));
    const validUntilMs = Math.min(tenure.endMs, performance.now() + commandTimeoutMs);
    const begin = (): boolean => tenure.leftMs > 0;
    const request: ExtendRequest = { keys, token, lifetimeMs, exact: true, validUntilMs, commandTimeoutMs, begin };
    const reply = await this.store.extend(cast(request, ballot));
    if (reply.outcome === 'taken' || reply.outcome === 'missing') tenure.lose(reply.outcome);
    if (reply.outcome !== 'extended') return 0;
    tenure.confirm(endOf(reply.sent));
    return reply.sent;
  }

  call(keys: Key, durationMs: number): ValueCall {
    return new ValueCall(this.store, this.#direct, keys, durationMs);
  }

  /** Notes a duration of locks: a restarted server has no vote for the longest of them. */
  uses(durationMs: number): void {
    for (const guard of this.#guards) guard.longestMs = Math.max(guard.longestMs, durationMs);
  }
}

/** The full keys of a lock, and the value that they hold. */
export interface HeldValue {
  readonly keys: Key;
  readonly token: string;
  /** Set when the lock was granted and no request for it is in flight. */
  readonly isConfirmed?: boolean | undefined;
}

export interface VotedGrant {
  readonly token: string;
  readonly fence: number;
  /** A moment just before the request was sent, from which the duration counts. */
  readonly sent: Moment;
}

/** One acquisition by value, from its first attempt to its last. */
export class ValueCall {
  readonly #store: Store;
  readonly #direct: Pick<Store, 'acquire'>;
  readonly #keys: Key;
  readonly #durationMs: number;
  #token = newToken(owner);
  #mayExecuteUntilMs = 0;

  constructor(store: Store, direct: Pick<Store, 'acquire'>, keys: Key, durationMs: number) {
    this.#store = store;
    this.#direct = direct;
    this.#keys = keys;
    this.#durationMs = durationMs;
  }

  /** The token of the last attempt. */
  get token(): string {
    return this.#token;
  }

  /** Tells if a request of unknown outcome may still execute and take the lock. */
  get mayExecute(): boolean {
    return this.#mayExecuteUntilMs > 0 && this.#mayExecuteUntilMs > performance.now();
  }

  /** Attempts once. Resolves with the grant, or 0 if a key is held. @throws {LockBackendError} no usable reply. */
  async ask(ballot?: Ballot): Promise<VotedGrant | 0> {
    // The releases of a quorum's failed attempt may still be in flight, so the next attempt needs a new token.
    if (this.#store.isQuorum) this.#token = newToken(owner);
    const token = this.#token;
    try {
      const reply = await this.#direct.acquire(cast(this.#request(token), ballot));
      if (!reply.granted) return 0;
      const { fence, sent } = reply;
      if (performance.now() - sent.monoMs < this.#durationMs) return { token, fence, sent };
    } catch (error) {
      if (!(error as LockBackendError).unknown) throw error;
      this.#mayExecuteUntilMs = performance.now() + commandTimeoutMs + clockStepMs;
      throw error;
    }
    // The lock may have ended before the reply came, so its token is released. The next attempt needs a token that was never released.
    this.#mayExecuteUntilMs ||= 1;
    this.retract();
    this.#token = newToken(owner);
    return 0;
  }

  /** Releases, in the background, the lock that a request of unknown outcome may have taken or may still take. */
  retract(): void {
    if (this.#mayExecuteUntilMs === 0) return;
    const request = { keys: this.#keys, token: this.#token, commandTimeoutMs };
    void this.#store.abandon(request, new LateRequest(this.#mayExecuteUntilMs, 0));
    this.#mayExecuteUntilMs = 0;
  }

  #request(token: string): AcquireRequest {
    const keys = this.#keys;
    const lifetimeMs = this.#durationMs;
    return { keys, token, lifetimeMs, fences: 1, minReplicas: 0, commandTimeoutMs, begin: always };
  }
}

/** Adds a ballot, so that all clients are asked. A request without a ballot is not copied: a copy costs a single client 2 % of a pair. */
function cast<T extends object>(request: T, ballot: Ballot | undefined): T & Cast {
  return ballot === undefined ? request : { ...request, asksAll: true, [onBallot]: ballot };
}

/** The right of a node to vote. A node has no vote while it may have forgotten a lock in a restart. */
class RestartGuard {
  longestMs = 0;
  #startedMs = Number.NEGATIVE_INFINITY;
  /** Resolves with the error if the start time of the node could not be read. */
  #meeting: Promise<LockBackendError | undefined> | undefined;

  met(identity: Promise<Identity>): Promise<Identity> {
    this.#meeting = identity.then(
      ({ uptimeMs }) => {
        this.#startedMs = performance.now() - uptimeMs;
        return undefined;
      },
      // A server that refuses the command keeps its vote.
      (error) => (error.redisCode === undefined || error.retryable ? error : undefined),
    );
    return identity;
  }

  async vote(): Promise<Vote> {
    const failure = await this.#meeting;
    if (failure !== undefined) return failure;
    const missingMs = this.#startedMs + this.longestMs - performance.now();
    if (missingMs <= 0) return true;
    const message = `it was started less than a duration ago, and has no vote for another ${Math.ceil(missingMs)} ms`;
    return new LockBackendError(message);
  }
}

function witnessed<T extends Store | Node>(store: T, client: Client, guard?: RestartGuard): T {
  const note = <R>(request: object, answer: Promise<R>, read: (reply: R) => Vote | Promise<Vote>): Promise<R> => {
    const ballot = (request as Cast)[onBallot];
    ballot?.cast(
      client,
      answer.then(read, (error) => errorOf(error, client)),
    );
    return answer;
  };
  const isGranted = (reply: AcquireReply): Vote | Promise<Vote> => reply.granted && (guard?.vote() ?? true);
  const isExtended = (reply: ExtendReply): Vote => reply.outcome === 'extended';
  const own: Record<PropertyKey, unknown> = {
    acquire: (request: any) => note(request, store.acquire(request), isGranted),
    extend: (request: any) => note(request, store.extend(request), isExtended),
    release: (request: any) => {
      let count = 0;
      const counted = (released: number): void => {
        count = released;
      };
      const answer = store.release({ ...request, counted } satisfies ReleaseRequest);
      return note(request, answer, (reply) => reply === 'released' || count);
    },
    identify: (timeoutMs: number) => guard!.met((store as Node).identify(timeoutMs)),
  };
  return new Proxy(store, {
    get(target, name) {
      if (Object.hasOwn(own, name)) return own[name];
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** The error of a client that could not be asked, in the words of ioredis. */
export function errorOf(error: unknown, client: Client): Error {
  if (isClosed(client)) return new Error('Connection is closed.', { cause: error });
  return error instanceof Error ? error : new Error(String(error));
}
