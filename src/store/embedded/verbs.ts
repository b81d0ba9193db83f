// The verbs of a store without a server. When a call returns, its command has been carried out, alone.
import { earlier, type Moment, now } from '../../core/clock';
import { LockBackendError, optionError } from '../../core/errors';
import { describe, type Key, listOf } from '../../core/keys';
import { refusal } from '../backend-errors';
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
import { type RenewedLocks, runOn, type Table } from './table';

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
    const { keys, token, queueAs, minReplicas, lifetimeMs, mode, pauseMs, slots, beside } = request;
    if (minReplicas > 0) throw optionError('minReplicas', '0 for a store without replicas', minReplicas);
    if (!request.begin()) throw new LockBackendError(`the caller no longer waits for ${describe(keys)}`, { key: keys });
    const sent = this.#sendMoment();
    const claim = {
      keys: listOf(keys),
      token,
      lifetimeMs: lifetimeMs ?? neverMs,
      notAfterMs: Number.POSITIVE_INFINITY,
      fences: request.fences,
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

  extend({ keys, token, lifetimeMs, exact, held, endedMs, begin }: ExtendRequest): ExtendReply {
    const sent = this.#sendMoment();
    if (!begin()) return { outcome: 'late' };
    // A late extension is itself part of a check.
    if (endedMs === undefined) this.renewed?.check(keys);
    const lateMs = endedMs === undefined ? 0 : Math.ceil(sent.monoMs - endedMs) + 1;
    const [lifetime, notAfterMs] = [(lifetimeMs ?? neverMs) + lateMs, Number.POSITIVE_INFINITY];
    return this.#table.run((machine, micros): ExtendReply => {
      const inTime = micros - lateMs * 1000;
      const outcome = machine.extend(listOf(keys), token, lifetime, exact, notAfterMs, inTime, held?.mode);
      return outcome === 'extended' ? { outcome, sent: this.#from(sent, micros) } : { outcome };
    }, sent.monoMs);
  }

  release({ keys, token, ticket = 0, yieldMs = 0, held, done, checkedMs }: ReleaseRequest): ReleaseReply {
    const command = { keys: listOf(keys), token, ticket, yieldMs, mode: held?.mode };
    const work = (machine: Machine, micros: number): readonly ReleaseReply[] => {
      if (done !== undefined) machine.markSlot(command.keys[0]!, token, done, micros);
      return machine.release(command, micros).results;
    };
    return resultOf(runOn(this.#table, keys, work, checkedMs));
  }

  releaseAndAcquire(release: ReleaseRequest, acquire: AcquireRequest): [ReleaseReply, AcquireReply] {
    const { keys, token, ticket = 0, yieldMs = 0, checkedMs } = release;
    const moment = this.#sendMoment();
    const isAsChecked = this.renewed !== undefined && checkedMs !== undefined;
    const sent = isAsChecked ? earlier(moment, moment.monoMs - checkedMs) : moment;
    const { lifetimeMs, queueAs } = acquire;
    const next = { token: acquire.token, lifetimeMs: lifetimeMs ?? neverMs, fences: acquire.fences, queueAs };
    const command = { keys: listOf(keys), token, ticket, yieldMs, next };
    const work = (machine: Machine, micros: number): [ReleaseReply, AcquireReply] => {
      const reply = machine.release(command, micros);
      return [resultOf(reply.results), replyOf(reply.next!, this.#from(sent, micros))];
    };
    return runOn(this.#table, keys, work, sent.monoMs);
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

  /** Runs a command. A refusal becomes the error that Redis would give: another kind of key, or another number of permits. */
  #run<T>(keys: Key, work: (machine: Machine, micros: number) => T, monoMs: number): T {
    try {
      return runOn(this.#table, keys, work, monoMs);
    } catch (error) {
      throw refusal(error, keys);
    }
  }
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
    leftMs: remainingOf(leftMs),
    position,
    sent: position && earlier(sent, grantClockMs),
  };
}

function resultOf(results: readonly ReleaseReply[]): ReleaseReply {
  if (results.every((result) => result === 'released')) return 'released';
  return results.includes('taken') ? 'taken' : 'missing';
}
