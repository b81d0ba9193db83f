// The verbs of a store without a server, and the table that they run on. When a call returns, its command has been carried out,
// alone.
import { earlier } from '../../core/clock';
import { optionError } from '../../core/errors';
import { type Key, listOf } from '../../core/keys';
import { givenUp, refusal } from '../backend-errors';
import {
  type AcquireReply,
  type AcquireRequest,
  type Channels,
  type Clock,
  type ExtendReply,
  type ExtendRequest,
  type Moment,
  now,
  type ReleaseReply,
  type ReleaseRequest,
  type Renewed,
  type SynchronousVerbs,
} from '../contract';
import { slotAt } from '../slots';
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
  /** The table's own clock; absent: the clocks of this process. */
  readonly clock?: Clock | undefined;
  /** The renewed locks, if only this process uses the table. */
  readonly renewed?: Renewed | undefined;
}

/** The uncertainty of another process's grant: it counts from a whole ms, rounded down by that process's clock. */
const grantClockMs = 2;

export class EmbeddedVerbs implements SynchronousVerbs {
  readonly renewed: Renewed | undefined;
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
    this.renewed = table.renewed;
  }

  acquire(request: AcquireRequest): AcquireReply {
    const { keys, minReplicas, slots } = request;
    if (minReplicas > 0) throw optionError('minReplicas', '0 for a store without replicas', minReplicas);
    if (!request.begin()) throw givenUp(keys);
    const sent = this.#sendMoment();
    const work = (machine: Machine, micros: number): AcquireReply => {
      const reply = replyOf(machine.acquire(request, micros), this.#from(sent, micros));
      return slots === undefined ? reply : { ...reply, slot: slotAt(msOf(micros), slots) };
    };
    try {
      return this.#table.run(work, keys, sent.monoMs);
    } catch (error) {
      throw refusal(error, keys); // as Redis would refuse another kind of key, or another number of permits
    }
  }

  extend(request: ExtendRequest): ExtendReply {
    const { keys, lifetimeMs, endedMs } = request;
    const sent = this.#sendMoment();
    if (!request.begin()) return { outcome: 'late' };
    const lateMs = endedMs === undefined ? 0 : Math.ceil(sent.monoMs - endedMs) + 1;
    const inTime = lateMs === 0 ? request : { ...request, lifetimeMs: (lifetimeMs ?? neverMs) + lateMs };
    const work = (machine: Machine, micros: number): ExtendReply => {
      const outcome = machine.extend(inTime, micros - lateMs * 1000);
      return outcome === 'extended' ? { outcome, sent: this.#from(sent, micros) } : { outcome };
    };
    // A late extension is itself part of a check.
    return this.#table.run(work, endedMs === undefined ? keys : undefined, sent.monoMs);
  }

  release(request: ReleaseRequest): ReleaseReply {
    const { keys, token, done, checkedMs } = request;
    const work = (machine: Machine, micros: number): ReleaseReply => {
      if (done !== undefined) machine.markSlot(listOf(keys)[0]!, token, done, micros);
      return resultOf(machine.release(request, micros).results);
    };
    return this.#table.run(work, keys, checkedMs);
  }

  releaseAndAcquire(release: ReleaseRequest, next: AcquireRequest): [ReleaseReply, AcquireReply] {
    const { keys, checkedMs } = release;
    const moment = this.#sendMoment();
    const isAsChecked = this.renewed !== undefined && checkedMs !== undefined;
    const sent = isAsChecked ? earlier(moment, moment.monoMs - checkedMs) : moment;
    const work = (machine: Machine, micros: number): [ReleaseReply, AcquireReply] => {
      const reply = machine.release({ ...release, next }, micros);
      return [resultOf(reply.results), replyOf(reply.next!, this.#from(sent, micros))];
    };
    return this.#table.run(work, keys, sent.monoMs);
  }

  /** The moment from which a lifetime counts: the opening of the table is no part of it. */
  #sendMoment(): Moment {
    this.#table.open?.();
    return now(this.#table.clock);
  }

  /** The start of a grant: the machine counts a lifetime from the whole ms before, by a clock that may lag. */
  #from(sent: Moment, micros: number): Moment {
    return earlier(sent, (micros % 1000) / 1000 + (this.#table.lagMs?.() ?? 0));
  }
}

function replyOf(acquired: CommandOutcome, sent: Moment): AcquireReply {
  if (acquired.outcome === 'granted') {
    return { granted: true, fence: acquired.fence, others: acquired.others, sent };
  }
  if (acquired.outcome === 'done') return { granted: false, leftMs: 0, isDone: true };
  // Nothing is ever late here; a change in place that a later one has overtaken counts as gone.
  if (acquired.outcome !== 'busy') {
    const impossible = acquired.outcome === 'deadlock' ? 'deadlock' : 'gone';
    return { granted: false, leftMs: Number.POSITIVE_INFINITY, impossible };
  }
  const { leftMs, position } = acquired;
  return { granted: false, leftMs: remainingOf(leftMs), position, sent: position && earlier(sent, grantClockMs) };
}

function resultOf(results: readonly ReleaseReply[]): ReleaseReply {
  if (results.every((result) => result === 'released')) return 'released';
  return results.includes('taken') ? 'taken' : 'missing';
}
