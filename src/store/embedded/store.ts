// A store without a server: the machine runs in this process, on a table in its memory or shared by the processes of the host.
// When a call returns, its command has been carried out, alone. So no outcome is unknown, no request comes too late, nothing
// has to be batched, and an abandoned token is gone at once.

import { type Clock, earlier, type Moment, now } from '../../core/clock';
import { LockBackendError, optionError } from '../../core/errors';
import { type Key, listOf, mayBeLock } from '../../core/keys';
import type { EmbeddedStore } from '../../core/redis-like';
import { Abandoned } from '../abandoned';
import { givenUp, refusal } from '../backend-errors';
import type {
  AcquireReply,
  AcquireRequest,
  Channels,
  ExtendReply,
  ExtendRequest,
  ReleaseReply,
  ReleaseRequest,
  Renewed,
  Store,
} from '../contract';
import { changedChannel, isOfRegistry, type Operator, processKey } from '../operator';
import { slotAt } from '../slots';
import { newsOf, type Values } from '../values';
import type { CommandOutcome } from './machine/command';
import type { Machine } from './machine/mutex-machine';
import { msOf, neverMs, remainingOf } from './machine/row';

/** @internal The rows, their clock, and the listeners for grants. */
export interface Table extends Channels {
  /** Opens the table before its first command; otherwise `run` does so. */
  open?(): void;
  /**
   * Runs one command; nobody else sees or changes the rows meanwhile.
   *
   * @param keys The keys whose renewed locks are checked first. The command counts from before the check, so that a process that
   *             stands still between the two loses no lock. A late renewal of one lock lets time pass for the other locks.
   * @param monoMs A reading of this table's clock from which the command counts, if no later command has run. Absent: now. A table
   *               that other processes use reads its clock anew.
   * @throws {LockBackendError} the table is closed or full.
   */
  run<T>(work: (machine: Machine, micros: number) => T, keys?: Key, monoMs?: number): T;
  /** The largest lag of `micros` behind the clock of another process at the same table. Default 0. */
  lagMs?(): number;
  /** The clock by which the table is used: that of this process, unless the table has its own. */
  readonly clock: Clock;
  /** The renewed locks, if only this process uses the table. */
  readonly renewed?: Renewed | undefined;
}

/** The uncertainty of another process's grant: it counts from a whole ms, rounded down by that process's clock. */
const grantClockMs = 2;
const keysAtOnce = 1000;

/** The stores by handle. */
const stores = new WeakMap<object, Store>();

/** @internal The store behind a handle that one of our functions made; undefined for anything else. */
export function embeddedStore(given: object): Store | undefined {
  return stores.get(given);
}

/** @internal Makes `handle` stand for a table. */
export function standFor<Handle extends EmbeddedStore>(handle: Handle, table: Table): Handle {
  stores.set(handle, storeOn(table, handle.kind));
  return handle;
}

function storeOn(table: Table, kind: Store['kind']): Store {
  const verbs = verbsOn(table);
  const release = async (request: ReleaseRequest): Promise<ReleaseReply> => verbs.release(request);
  const abandoned = new Abandoned();
  return {
    kind,
    keyPrefix: '',
    clock: table.clock,
    channels: table,
    synchronous: verbs,
    operator: operatorOn(table),
    values: valuesOn(table),
    acquire: async (request) => verbs.acquire(request),
    extend: async (request) => verbs.extend(request),
    release,
    releaseAndAcquire: async (...requests) => verbs.releaseAndAcquire(...requests),
    // All commands of the token have been carried out, so a single release is enough, once the table can be written.
    abandon: (request) => abandoned.add(() => release(request), request.commandTimeoutMs),
    async inspect(key, _commandTimeoutMs, token) {
      return table.run((machine, micros) => machine.inspect(key, micros, token), key);
    },
    join() {},
    leave: () => abandoned.settled(),
  };
}

function verbsOn(table: Table) {
  /** The moment from which a lifetime counts: the opening of the table is no part of it. */
  const sendMoment = (): Moment => {
    table.open?.();
    return now(table.clock);
  };
  /** The start of a grant: the machine counts a lifetime from the whole ms before, by a clock that may lag. */
  const from = (sent: Moment, micros: number): Moment => earlier(sent, (micros % 1000) / 1000 + (table.lagMs?.() ?? 0));
  return {
    renewed: table.renewed,
    acquire(request: AcquireRequest): AcquireReply {
      const { keys, minReplicas, slots } = request;
      if (minReplicas > 0) throw optionError('minReplicas', '0 for a store without replicas', minReplicas);
      if (!request.begin()) throw givenUp(keys);
      const sent = sendMoment();
      const work = (machine: Machine, micros: number): AcquireReply => {
        const reply = replyOf(machine.acquire(request, micros), from(sent, micros));
        return slots === undefined ? reply : { ...reply, slot: slotAt(msOf(micros), slots) };
      };
      try {
        return table.run(work, keys, sent.monoMs);
      } catch (error) {
        throw refusal(error, keys); // as Redis would refuse another kind of key, or another number of permits
      }
    },
    extend(request: ExtendRequest): ExtendReply {
      const { keys, lifetimeMs, endedMs } = request;
      const sent = sendMoment();
      if (!request.begin()) return { outcome: 'late' };
      const lateMs = endedMs === undefined ? 0 : Math.ceil(sent.monoMs - endedMs) + 1;
      const inTime = lateMs === 0 ? request : { ...request, lifetimeMs: (lifetimeMs ?? neverMs) + lateMs };
      const work = (machine: Machine, micros: number): ExtendReply => {
        const outcome = machine.extend(inTime, micros - lateMs * 1000);
        return outcome === 'extended' ? { outcome, sent: from(sent, micros) } : { outcome };
      };
      // A late extension is itself part of a check.
      return table.run(work, endedMs === undefined ? keys : undefined, sent.monoMs);
    },
    release(request: ReleaseRequest): ReleaseReply {
      const { keys, token, done, checkedMs } = request;
      const work = (machine: Machine, micros: number): ReleaseReply => {
        if (done !== undefined) machine.markSlot(listOf(keys)[0]!, token, done, micros);
        return resultOf(machine.release(request, micros).results);
      };
      return table.run(work, keys, checkedMs);
    },
    releaseAndAcquire(release: ReleaseRequest, next: AcquireRequest): [ReleaseReply, AcquireReply] {
      const { keys, checkedMs } = release;
      const moment = sendMoment();
      const isAsChecked = table.renewed !== undefined && checkedMs !== undefined;
      const sent = isAsChecked ? earlier(moment, moment.monoMs - checkedMs) : moment;
      const work = (machine: Machine, micros: number): [ReleaseReply, AcquireReply] => {
        const reply = machine.release({ ...release, next }, micros);
        return [resultOf(reply.results), replyOf(reply.next!, from(sent, micros))];
      };
      return table.run(work, keys, sent.monoMs);
    },
  };
}

function replyOf(acquired: CommandOutcome, sent: Moment): AcquireReply {
  const { outcome } = acquired;
  if (outcome === 'granted') return { granted: true, fence: acquired.fence, others: acquired.others, sent };
  if (outcome === 'done') return { granted: false, leftMs: 0, isDone: true };
  if (outcome === 'busy') {
    const { leftMs, position } = acquired;
    return { granted: false, leftMs: remainingOf(leftMs), position, sent: position && earlier(sent, grantClockMs) };
  }
  // Nothing is ever late here; a change in place that a later one has overtaken counts as gone.
  const impossible = outcome === 'late' ? 'gone' : outcome;
  return { granted: false, leftMs: Number.POSITIVE_INFINITY, impossible };
}

function resultOf(results: readonly ReleaseReply[]): ReleaseReply {
  if (results.every((result) => result === 'released')) return 'released';
  return results.includes('taken') ? 'taken' : 'missing';
}

function valuesOn(table: Table): Values {
  return {
    async read(key) {
      return table.run((machine, micros) => machine.row(key, micros).value?.text ?? null);
    },
    async write({ key, token, text, ttlMs, channel }) {
      return table.run((machine, micros) => {
        const row = machine.row(key, micros);
        if (row.token !== token) return false;
        row.value = ttlMs > 0 ? { text, endMs: msOf(micros) + ttlMs } : undefined;
        if (channel !== undefined) machine.publish(channel, newsOf, key);
        return true;
      }, key);
    },
    async readHolder(key) {
      return table.run((machine, micros) => {
        const { token, endMs, value } = machine.row(key, micros);
        if (token === undefined) return null;
        return { token, leftMs: remainingOf(endMs - msOf(micros)), text: value?.text ?? null };
      }, key);
    },
  };
}

function operatorOn(table: Table): Operator {
  return {
    isLocal: true,
    get offsetMs() {
      return table.run((_, micros) => micros / 1000 - table.clock.nowMs());
    },
    async inspect(keys, _commandTimeoutMs, token) {
      return table.run((machine, micros) => keys.map((key) => machine.inspect(key, micros, token)), keys);
    },
    async permitsOut(key) {
      const holders = table.run((machine, micros) => machine.holders(key, micros), key);
      return holders.reduce((sum, { permits }) => sum + permits, 0);
    },
    async free(key, id = '') {
      return table.run((machine, micros) => machine.free(key, id, micros), key);
    },
    async register({ id, text, ttlMs }) {
      const key = processKey(id);
      return table.run((machine, micros) => {
        const row = machine.row(key, micros);
        const kept = text ?? row.value?.text;
        if (kept === undefined) return false;
        row.value = kept === '' ? undefined : { text: kept, endMs: msOf(micros) + ttlMs };
        if (text !== undefined) machine.publish(changedChannel, id, key);
        return true;
      });
    },
    async processes() {
      return table.run((machine, micros) => {
        const keys = [...machine.rows.keys()].filter(isOfRegistry);
        return { atMs: msOf(micros), texts: keys.flatMap((key) => machine.row(key, micros).value?.text ?? []) };
      });
    },
    async *keys(prefix) {
      const all = table.run((machine) => [...machine.rows.keys()]);
      const keys = all.filter((key) => key.startsWith(prefix) && mayBeLock(key) && !isOfRegistry(key));
      for (let n = 0; n < keys.length; n += keysAtOnce) yield keys.slice(n, n + keysAtOnce);
    },
  };
}

/** @internal The error of a call on a store that was closed. */
export function closedStore(): LockBackendError {
  return new LockBackendError('the store was closed: make another one', { retryable: false });
}
