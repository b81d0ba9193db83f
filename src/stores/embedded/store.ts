// A store without a server: the machine runs in this process, on a table that is in its memory or shared by the processes of
// the host. A command has been carried out, alone, when the call returns; so no outcome is unknown, no request comes too
// late, nothing has to be batched, and an abandoned token is gone at once.
import { LockBackendError, optionError } from '../../errors';
import { describe, type Key, listOf } from '../../keys';
import type { EmbeddedStore } from '../../redis-like';
import {
  type AcquireReply,
  type AcquireRequest,
  type Clock,
  type ExtendReply,
  type ExtendRequest,
  earlier,
  type Listening,
  type LockState,
  type Mode,
  type Moment,
  now,
  type ReleaseReply,
  type ReleaseRequest,
  type Store,
  type ValueRequest,
} from '../../store';
import { ownerOf } from '../../token';
import { refusal } from '../redis/replies';
import type { Acquired, Released } from './command';
import type { Machine } from './mutex-machine';
import type { RenewedLocks } from './renewed';

/** @internal Rows, a clock, and who hears of grants. */
export interface Table {
  /**
   * Runs one command; nobody else sees or changes the rows meanwhile.
   *
   * @param monoMs The monotonic clock, where it was just read: a table whose clock that is need not read it again.
   * @throws {LockBackendError} closed, or full.
   */
  run<T>(work: (machine: Machine, micros: number) => T, monoMs?: number): T;
  /** How far `micros` may lag behind the clock of another process at the same table. Default 0. */
  lagMs?(): number;
  /** Its own; absent: the clocks of this process. */
  readonly clock?: Clock | undefined;
  /** Where only this process uses it. */
  readonly renewed?: RenewedLocks | undefined;
  listen(channel: string, onMessage: (text: string) => void): Promise<Listening>;
  /** Of every row there is, those of free locks that were not yet forgotten included. */
  keys(): string[];
}

/** @internal An end so far away that it is none; finite, so that a table can keep it as text. */
export const neverMs = 2 ** 53;

/** A grant of another process is counted from the whole ms before by that one's clock. */
const grantClockMs = 2;

const tables = new WeakMap<object, Table>();
const stores = new WeakMap<Table, Embedded>();

/** @internal The store behind what one of our functions made; undefined for anything else. */
export function embeddedStore(given: object): Store | undefined {
  const table = tables.get(given);
  if (table === undefined) return undefined;
  let store = stores.get(table);
  if (store === undefined) {
    store = new Embedded(table, (given as EmbeddedStore).kind);
    stores.set(table, store);
  }
  return store;
}

/** @internal Makes `handle` stand for a table. */
export function standFor<Handle extends EmbeddedStore>(handle: Handle, table: Table): Handle {
  tables.set(handle, table);
  return handle;
}

/** @internal The table that one of our own handles stands for. */
export function tableOf(handle: EmbeddedStore): Table {
  return tables.get(handle)!;
}

class Embedded implements Store {
  readonly kind: Store['kind'];
  readonly keyPrefix = '';
  readonly listen: Store['listen'];
  readonly clock: Clock | undefined;
  readonly renewed: RenewedLocks | undefined;
  readonly #table: Table;

  constructor(table: Table, kind: Store['kind']) {
    this.kind = kind;
    this.#table = table;
    this.clock = table.clock;
    this.renewed = table.renewed;
    this.listen = (channel, onMessage) => table.listen(channel, onMessage);
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.acquireNow(request);
  }

  acquireNow(request: AcquireRequest): AcquireReply {
    const { keys, token, queueAs, minReplicas, lifetimeMs, mode, pauseMs } = request;
    if (minReplicas > 0) throw optionError('minReplicas', '0 for a store without replicas', minReplicas);
    if (!request.begin()) throw new LockBackendError(`nobody waits for ${describe(keys)} any more`, { key: keys });
    const sent = now(this.clock);
    const claim = {
      keys: listOf(keys),
      token,
      lifetimeMs: lifetimeMs ?? neverMs,
      notAfterMs: Number.POSITIVE_INFINITY,
      fences: fencesOf(request),
      queueAs,
      pauseMs,
      mode,
    };
    return this.#run(
      keys,
      (machine, micros) => replyOf(machine.acquire(claim, micros), this.#from(sent, micros)),
      sent.monoMs,
    );
  }

  async extend(request: ExtendRequest): Promise<ExtendReply> {
    if (!request.begin()) return { outcome: 'late' };
    this.renewed?.check(request.keys);
    return this.extendNow(request);
  }

  extendNow({ keys, token, lifetimeMs, exact, held, lateMs = 0 }: ExtendRequest): ExtendReply {
    const sent = now(this.clock);
    const [lifetime, notAfterMs] = [(lifetimeMs ?? neverMs) + lateMs, Number.POSITIVE_INFINITY];
    return this.#table.run((machine, micros): ExtendReply => {
      const inTime = micros - lateMs * 1000;
      const outcome = machine.extend(listOf(keys), token, lifetime, exact, notAfterMs, inTime, held?.mode);
      return outcome === 'extended' ? { outcome, sent: this.#from(sent, micros) } : { outcome };
    });
  }

  async release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.releaseNow(request);
  }

  releaseNow({ keys, token, ticket = 0, yieldMs = 0, held }: ReleaseRequest): ReleaseReply {
    this.renewed?.check(keys);
    const command = { keys: listOf(keys), token, ticket, yieldMs, mode: held?.mode };
    return resultOf(this.#table.run((machine, micros) => machine.release(command, micros)).results);
  }

  async releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]> {
    const { keys, token, ticket = 0, yieldMs = 0 } = release;
    this.renewed?.check(keys);
    const sent = now(this.clock);
    const { lifetimeMs, queueAs } = acquire;
    const next = { token: acquire.token, lifetimeMs: lifetimeMs ?? neverMs, fences: fencesOf(acquire), queueAs };
    const command = { keys: listOf(keys), token, ticket, yieldMs, next };
    return this.#table.run((machine, micros) => {
      const reply = machine.release(command, micros);
      return [resultOf(reply.results), replyOf(reply.next!, this.#from(sent, micros))];
    }, sent.monoMs);
  }

  /** What was asked with the token has been carried out: one release ends it all. */
  async abandon(request: ReleaseRequest): Promise<void> {
    await this.release(request).catch(() => {});
  }

  async inspect(key: string, _commandTimeoutMs: number, token?: string): Promise<LockState & { owned?: boolean }> {
    this.renewed?.check(key);
    const seen = this.#table.run((machine, micros) => machine.inspect(key, micros));
    const locked = seen.token !== undefined;
    return {
      locked,
      owner: ownerOf(seen.token),
      remaining: isNever(seen.leftMs) ? Number.POSITIVE_INFINITY : seen.leftMs,
      waiters: seen.waiters,
      fence: seen.fence,
      mode: locked ? modeOf(seen.kind) : null,
      ...(token !== undefined && { owned: seen.token === token }),
    };
  }

  async permitsOut(key: string): Promise<number> {
    this.renewed?.check(key);
    return this.#table.run((machine, micros) => machine.permitsOut(key, micros));
  }

  async readValue(key: string): Promise<string | null> {
    return this.#table.run((machine, micros) => machine.readValue(key, micros));
  }

  async writeValue({ key, token, text, ttlMs }: ValueRequest): Promise<boolean> {
    this.renewed?.check(key);
    return this.#table.run((machine, micros) => machine.writeValue(key, token, text, ttlMs, micros));
  }

  join(): void {}

  async leave(): Promise<void> {}

  /** The machine counts a lifetime from the whole ms before, by a clock that may lag. */
  #from(sent: Moment, micros: number): Moment {
    return earlier(sent, (micros % 1000) / 1000 + (this.#table.lagMs?.() ?? 0));
  }

  /** What the machine refuses as Redis would: the key is of another kind, or has another number of permits. */
  #run<T>(keys: Key, work: (machine: Machine, micros: number) => T, monoMs: number): T {
    try {
      this.renewed?.check(keys);
      return this.#table.run(work, monoMs);
    } catch (error) {
      throw refusal(error, keys);
    }
  }
}

/** @internal The error of a call on a store that was closed. */
export function closedStore(key: Key = ''): LockBackendError {
  return new LockBackendError('the store was closed: make another one', { key, retryable: false });
}

function fencesOf({ fencing, fences = 1 }: AcquireRequest): number {
  return fencing ? fences : 0;
}

function modeOf(kind: Mode['kind'] | undefined): LockState['mode'] {
  if (kind === 'shared') return 'read';
  if (kind === 'counted') return 'permits';
  return kind === undefined ? 'exclusive' : 'write';
}

function replyOf(acquired: Acquired, sent: Moment): AcquireReply {
  if (acquired.outcome === 'granted') {
    return { granted: true, fence: acquired.fence, others: acquired.others, sent };
  }
  // Nothing is ever late here; a change that a later one has overtaken is as good as gone.
  if (acquired.outcome !== 'busy') {
    return {
      granted: false,
      leftMs: Number.POSITIVE_INFINITY,
      impossible: acquired.outcome === 'deadlock' ? 'deadlock' : 'gone',
    };
  }
  const { leftMs, position } = acquired;
  return {
    granted: false,
    leftMs: isNever(leftMs) ? Number.POSITIVE_INFINITY : leftMs,
    position,
    sent: position && earlier(sent, grantClockMs),
  };
}

function resultOf(results: readonly Released[]): ReleaseReply {
  if (results.every((result) => result === 'released')) return 'released';
  return results.includes('taken') ? 'taken' : 'missing';
}

function isNever(leftMs: number): boolean {
  return leftMs > neverMs / 2;
}
