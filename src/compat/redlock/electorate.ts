// The clients of one Redlock as one store. The answer of an only client is its vote. Of several, the store says of each operation
// how each of them voted: a request carries its ballot; what a client answers is noted on it, and handed on unchanged.
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
import { commandTimeoutMs, isClosed, nodeFor, placeOf, quorumOf, readyWithin, scriptClient } from '../stores';
import type { Ballot, Client, Vote } from './ballot';
import { owner } from './queued';
import type { Tenure } from './tenure';

/** Two clocks are read in whole milliseconds. */
const clockStepMs = 2;
const always = (): boolean => true;

/** Where a request carries its ballot. */
const onBallot = Symbol('ballot');

interface Cast {
  readonly [onBallot]?: Ballot;
}

export class Electorate {
  readonly store: Store;
  /** The store; of an only client, the short way to it. */
  readonly #direct: Pick<Store, 'acquire' | 'release'>;
  readonly #clients: readonly Client[];
  readonly #guards: readonly RestartGuard[];
  /** One client is waited for by its store. */
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

  /** Resolves when all clients of a quorum have been connected, or had time enough for that; at once from then on. */
  ready(): Promise<unknown> | undefined {
    if (this.#isReady) return undefined;
    const waits = this.#clients.map((client) => readyWithin(scriptClient(client), commandTimeoutMs));
    return Promise.all(waits).then(() => {
      this.#isReady = true;
    });
  }

  /**
   * One attempt; a number: not all of it was still ours, and of an only client how much of it was.
   *
   * @param yieldMs How long the lock is left free, when it is the turn of callers that only poll.
   * @throws {LockBackendError} no usable answer of a majority.
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
   * One attempt: when the request was sent that extended it; 0: it is not ours any more, or was asked too late.
   *
   * @param endOf Until when it is held after a request that was sent then.
   * @throws {LockBackendError} no usable answer of a majority.
   */
  async extend(
    { keys, token }: HeldValue,
    tenure: Tenure,
    lifetimeMs: number,
    endOf: (sent: Moment) => Moment,
    ballot?: Ballot,
  ): Promise<Moment | 0> {
    this.uses(lifetimeMs);
    // Redis may shorten it without our ever hearing so.
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

  /** Locks are taken for so long. */
  uses(durationMs: number): void {
    for (const guard of this.#guards) guard.longestMs = Math.max(guard.longestMs, durationMs);
  }
}

/** Keys in Redis's words, and what they hold. */
export interface HeldValue {
  readonly keys: Key;
  readonly token: string;
  /** It was granted, and no request for it is on its way any more. */
  readonly isConfirmed?: boolean | undefined;
}

export interface VotedGrant {
  readonly token: string;
  readonly fence: number;
  /** Before the request was sent: from then on the duration counts. */
  readonly sent: Moment;
}

/** One call that wants locks by their values, from its first attempt to its last. */
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

  /** What the last attempt asked with. */
  get token(): string {
    return this.#token;
  }

  /** Whether a request of unknown outcome may still take the lock. */
  get mayExecute(): boolean {
    return this.#mayExecuteUntilMs > 0 && this.#mayExecuteUntilMs > performance.now();
  }

  /** One attempt: the grant, or 0 where somebody else holds a lock. @throws {LockBackendError} no usable answer. */
  async ask(ballot?: Ballot): Promise<VotedGrant | 0> {
    // The releases of a failed attempt of a quorum may still be on their way.
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
    // The answer came when the lock may have ended: what follows needs a token that was never released.
    this.#mayExecuteUntilMs ||= 1;
    this.retract();
    this.#token = newToken(owner);
    return 0;
  }

  /** Releases what a request of unknown outcome may have taken, or may still take; nobody waits for that. */
  retract(): void {
    if (this.#mayExecuteUntilMs === 0) return;
    const request = { keys: this.#keys, token: this.#token, commandTimeoutMs };
    void this.#store.abandon(request, this.#mayExecuteUntilMs);
    this.#mayExecuteUntilMs = 0;
  }

  #request(token: string): AcquireRequest {
    const keys = this.#keys;
    const lifetimeMs = this.#durationMs;
    return { keys, token, lifetimeMs, fencing: true, minReplicas: 0, commandTimeoutMs, begin: always };
  }
}

/** The request, with its ballot where there is one: all have a vote then. A copy costs an only client 2 % of a pair. */
function cast<T extends object>(request: T, ballot: Ballot | undefined): T & Cast {
  return ballot === undefined ? request : { ...request, asksAll: true, [onBallot]: ballot };
}

/** Whether a node has a vote, as its quorum sees it: not when it may have forgotten a lock in a restart. */
class RestartGuard {
  longestMs = 0;
  #startedMs = Number.NEGATIVE_INFINITY;
  /** Why it is not known when it was started. */
  #meeting: Promise<LockBackendError | undefined> | undefined;

  met(identity: Promise<Identity>): Promise<Identity> {
    this.#meeting = identity.then(
      ({ uptimeMs }) => {
        this.#startedMs = performance.now() - uptimeMs;
        return undefined;
      },
      // A server that refuses to tell has its vote all the same.
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

/** Why a client could not be asked, in the words that a program for ioredis knows. */
export function errorOf(error: unknown, client: Client): Error {
  if (isClosed(client)) return new Error('Connection is closed.', { cause: error });
  return error instanceof Error ? error : new Error(String(error));
}
