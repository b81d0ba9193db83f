// The verbs of a store without a server. When a call returns, its command has been carried out, alone.
import { earlier, type Moment, now } from '../../core/clock';
import { optionError } from '../../core/errors';
import { listOf } from '../../core/keys';
import { givenUp, refusal } from '../backend-errors';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ReleaseReply,
  ReleaseRequest,
  SynchronousVerbs,
} from '../contract';
import { slotAt } from '../slots';
import type { CommandOutcome } from './machine/command';
import { neverMs, remainingOf } from './machine/inspection';
import type { Machine } from './machine/mutex-machine';
import type { RenewedLocks, Table } from './table';

/** The uncertainty of another process's grant: it counts from a whole ms, rounded down by that process's clock. */
const grantClockMs = 2;

export class EmbeddedVerbs implements SynchronousVerbs {
  readonly renewed: RenewedLocks | undefined;
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
      return slots === undefined ? reply : { ...reply, slot: slotAt(Math.floor(micros / 1000), slots) };
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
