// A store without a server: the machine runs in this process, on a table in its memory or shared by the processes of the host.
// When a call returns, its command has been carried out, alone. So no outcome is unknown, no request comes too late, nothing
// has to be batched, and an abandoned token is gone at once.

import { earlier } from '../../core/clock';
import { LockBackendError, optionError } from '../../core/errors';
import { describe, type Key, listOf } from '../../core/keys';
import type { EmbeddedStore } from '../../core/redis-like';
import { Abandoned } from '../abandoned';
import { refusal } from '../backend-errors';
import {
  type AcquireReply,
  type AcquireRequest,
  type Clock,
  type ExtendReply,
  type ExtendRequest,
  type HolderText,
  type LockState,
  type Moment,
  now,
  type ProclaimRequest,
  type ReleaseReply,
  type ReleaseRequest,
  type Store,
  type ValueRequest,
} from '../contract';
import { slotAt } from '../slots';
import type { CommandOutcome, Released } from './command';
import { neverMs } from './inspection';
import type { Machine } from './mutex-machine';
import { EmbeddedOperator } from './operator';
import type { RenewedLocks } from './renewed';
import type { Table } from './table';

/** The uncertainty of another process's grant: it counts from a whole ms, rounded down by that process's clock. */
const grantClockMs = 2;

const tables = new WeakMap<object, Table>();
const stores = new WeakMap<Table, Embedded>();

/** @internal The store behind a handle that one of our functions made; undefined for anything else. */
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

/** @internal The table behind one of our own handles. */
export function tableOf(handle: EmbeddedStore): Table {
  return tables.get(handle)!;
}

class Embedded implements Store {
  readonly kind: Store['kind'];
  readonly keyPrefix = '';
  readonly listen: Store['listen'];
  readonly listensAlone: boolean;
  readonly clock: Clock | undefined;
  readonly renewed: RenewedLocks | undefined;
  readonly operator: Store['operator'];
  readonly #table: Table;
  readonly #abandoned = new Abandoned((request) => this.release(request));

  constructor(table: Table, kind: Store['kind']) {
    this.kind = kind;
    this.#table = table;
    this.listensAlone = table.listensAlone === true;
    this.clock = table.clock;
    this.renewed = table.renewed;
    this.operator = new EmbeddedOperator(table);
    this.listen = (channel, onMessage) => table.listen(channel, onMessage);
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.acquireNow(request);
  }

  acquireNow(request: AcquireRequest): AcquireReply {
    const { keys, token, queueAs, minReplicas, lifetimeMs, mode, pauseMs, slots, beside } = request;
    if (minReplicas > 0) throw optionError('minReplicas', '0 for a store without replicas', minReplicas);
    if (!request.begin()) throw new LockBackendError(`nobody waits for ${describe(keys)} any more`, { key: keys });
    const sent = this.#sendMoment();
    const claim = {
      keys: listOf(keys),
      token,
      lifetimeMs: lifetimeMs ?? neverMs,
      notAfterMs: Number.POSITIVE_INFINITY,
      fences: fencesOf(request),
      queueAs,
      pauseMs,
      mode,
      slots,
      beside: beside?.token,
    };
    const work = (machine: Machine, micros: number): AcquireReply => {
      const reply = replyOf(machine.acquire(claim, micros), this.#from(sent, micros));
      return slots === undefined ? reply : { ...reply, slot: slotAt(Math.floor(micros / 1000), slots) };
    };
    return this.#run(keys, work, sent.monoMs);
  }

  async extend(request: ExtendRequest): Promise<ExtendReply> {
    if (!request.begin()) return { outcome: 'late' };
    this.renewed?.check(request.keys);
    return this.extendNow(request);
  }

  extendNow({ keys, token, lifetimeMs, exact, held, endedMs }: ExtendRequest): ExtendReply {
    const sent = this.#sendMoment();
    const lateMs = endedMs === undefined ? 0 : Math.ceil(sent.monoMs - endedMs) + 1;
    const [lifetime, notAfterMs] = [(lifetimeMs ?? neverMs) + lateMs, Number.POSITIVE_INFINITY];
    return this.#table.run((machine, micros): ExtendReply => {
      const inTime = micros - lateMs * 1000;
      const outcome = machine.extend(listOf(keys), token, lifetime, exact, notAfterMs, inTime, held?.mode);
      return outcome === 'extended' ? { outcome, sent: this.#from(sent, micros) } : { outcome };
    }, sent.monoMs);
  }

  async release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.releaseNow(request);
  }

  releaseNow({ keys, token, ticket = 0, yieldMs = 0, held, done }: ReleaseRequest): ReleaseReply {
    this.renewed?.check(keys);
    const command = { keys: listOf(keys), token, ticket, yieldMs, mode: held?.mode };
    const work = (machine: Machine, micros: number): readonly Released[] => {
      if (done !== undefined) machine.markSlot(command.keys[0]!, token, done, micros);
      return machine.release(command, micros).results;
    };
    return resultOf(this.#table.run(work));
  }

  async releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): Promise<[ReleaseReply, AcquireReply]> {
    const { keys, token, ticket = 0, yieldMs = 0 } = release;
    this.renewed?.check(keys);
    const sent = this.#sendMoment();
    const { lifetimeMs, queueAs } = acquire;
    const next = { token: acquire.token, lifetimeMs: lifetimeMs ?? neverMs, fences: fencesOf(acquire), queueAs };
    const command = { keys: listOf(keys), token, ticket, yieldMs, next };
    return this.#table.run((machine, micros) => {
      const reply = machine.release(command, micros);
      return [resultOf(reply.results), replyOf(reply.next!, this.#from(sent, micros))];
    }, sent.monoMs);
  }

  /** Abandons a token. All its commands have been carried out, so a single release is enough, once the table can be written. */
  abandon(request: ReleaseRequest): Promise<void> {
    return this.#abandoned.add(request, undefined);
  }

  async inspect(key: string, _commandTimeoutMs: number, token?: string): Promise<LockState & { owned?: boolean }> {
    this.renewed?.check(key);
    const { token: holder, kind: _, ...state } = this.#table.run((machine, micros) => machine.inspect(key, micros));
    return token === undefined ? state : { ...state, owned: holder === token };
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

  async proclaim(request: ProclaimRequest): Promise<boolean> {
    return this.#table.run((machine, micros) => machine.proclaim(request, micros));
  }

  async readHolder(key: string): Promise<HolderText | null> {
    return this.#table.run((machine, micros) => {
      const { token, remaining, kind } = machine.inspect(key, micros);
      if (token === undefined || kind !== undefined) return null;
      return { token, leftMs: remaining, text: machine.readValue(key, micros) };
    });
  }

  join(): void {}

  leave(): Promise<void> {
    return this.#abandoned.settled();
  }

  /** The moment from which a lifetime counts: the opening of the table is no part of it. */
  #sendMoment(): Moment {
    this.#table.open?.();
    return now(this.clock);
  }

  /** The start of a grant: the machine counts a lifetime from the whole ms before, by a clock that may lag. */
  #from(sent: Moment, micros: number): Moment {
    return earlier(sent, (micros % 1000) / 1000 + (this.#table.lagMs?.() ?? 0));
  }

  /** Runs a command. A refusal becomes the error that Redis would give: another kind of key, or another number of permits. */
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

function replyOf(acquired: CommandOutcome, sent: Moment): AcquireReply {
  if (acquired.outcome === 'granted') {
    return { granted: true, fence: acquired.fence, others: acquired.others, sent };
  }
  if (acquired.outcome === 'done') return { granted: false, leftMs: 0, isDone: true };
  // Nothing is ever late here; a change in place that a later one has overtaken counts as gone.
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
