// The scripts as plain TypeScript over a table of rows: the executable specification. The simulation runs the waiting protocol
// against it, random commands must give the same replies here and in Redis, and the memory store is this machine with a clock.
// The steps are those of the .lua files, in the same order. Nothing here waits; time comes with each command, like Redis's own
// clock.
//
// This file has the verbs of a mutex, and the entry to those of locks with a mode (shared-machine.ts).

import { listOf } from '../../../core/keys';
import { hashOf } from '../../../core/token';
import type { ExtendReply, Mode, ReleaseReply } from '../../contract';
import { freedChannel } from '../../operator';
import { limits, maxAheadMicros } from '../../protocol';
import { type Slots, slotAt } from '../../slots';
import type { AcquireCommand, CommandOutcome, ExtendCommand, LockRequest, ReleaseCommand } from './command';
import { neverMs } from './inspection';
import { LockTable } from './lock-table';
import { enqueue, front, hasQueue, markPoll, mustYield } from './mutex-queue';
import type { LockRow } from './row';
import { type SharedCommand, SharedLock } from './shared-machine';

const notMutex = 'WRONGTYPE this key is held by a readers-writer lock or a semaphore';

interface Handing {
  /** The caller's token, whose grant needs no message and no confirmation. */
  readonly mine: string | undefined;
  readonly yieldMs: number;
  /** True if the lock passes from one holder to the next without being free. */
  readonly isHandOff: boolean;
}

export class Machine extends LockTable {
  acquire(command: AcquireCommand, micros: number): CommandOutcome {
    const { token, queueAs, mode, notAfterMs = Number.POSITIVE_INFINITY } = command;
    if (mode !== undefined) return this.#acquireShared({ ...command, mode }, micros);
    if (command.slots !== undefined) return this.#acquireOnce({ ...command, slots: command.slots }, micros);
    const nowMs = Math.floor(micros / 1000);
    if (nowMs > notAfterMs) return { outcome: 'late' }; // H3g
    const rows = listOf(command.keys).map((key) => this.row(key, nowMs));
    for (const { shared } of rows) if (shared?.holders.some((each) => each.endMs > nowMs)) throw new Error(notMutex); // H79e
    let untilMs = -1;
    for (const row of rows) if (row.token !== undefined && row.token !== token) untilMs = Math.max(untilMs, row.endMs);
    if (untilMs >= 0) {
      if (queueAs === undefined) markPoll(rows, command.pauseMs, nowMs);
      return this.#busy(rows[0]!, untilMs, command, micros);
    }
    for (const row of rows) {
      if (row.token !== undefined || !hasQueue(row)) continue;
      if (queueAs) enqueue(row, command, queueAs, micros);
      const whose = this.#grant(row, micros, { mine: queueAs && token, yieldMs: 0, isHandOff: false });
      if (whose === 'mine') return this.#granted(row, command.fences);
      if (whose === 'given') {
        if (queueAs === undefined) markPoll(rows, command.pauseMs, nowMs);
        return this.#busy(row, row.endMs, command, micros);
      }
      if (queueAs) return this.#busy(row, row.yieldUntilMs, command, micros);
    }
    return this.#take(rows, command, command.minFence ?? 0, micros);
  }

  /** Raises the last fence to at least `least`, if all these locks are still `token`'s. */
  raise(keys: readonly string[], token: string, least: number, micros: number, mode?: Mode): boolean {
    const nowMs = Math.floor(micros / 1000);
    checkFence(least, nowMs);
    const rows = keys.map((key) => this.row(key, nowMs));
    const mine = mode && this.holders(keys[0]!, micros).find((each) => each.token === token);
    if (mode === undefined ? rows.some((row) => row.token !== token) : mine === undefined) return false;
    // A writer's own fence, which readers share after its downgrade.
    if (mine?.kind === 'exclusive') mine.fence = Math.max(mine.fence, least);
    this.rows.fence = Math.max(this.rows.fence, least);
    return true;
  }

  extend(command: ExtendCommand, micros: number): ExtendReply['outcome'] {
    const { token, lifetimeMs, exact, notAfterMs = Number.POSITIVE_INFINITY } = command;
    const keys = listOf(command.keys);
    if (command.held !== undefined) return this.#sharedLock(keys[0]!, micros).extend(command);
    const nowMs = Math.floor(micros / 1000);
    const endMs = nowMs + (lifetimeMs ?? neverMs);
    const rows = keys.map((key) => this.row(key, nowMs));
    if (rows.some((row) => row.token !== undefined && row.token !== token)) return 'taken'; // H48b
    if (rows.some((row) => row.token === undefined)) return 'missing';
    if (nowMs > notAfterMs) return 'late'; // H13i
    for (const row of rows) if (exact || row.endMs < endMs) row.endMs = endMs;
    return 'extended';
  }

  release(command: ReleaseCommand, micros: number): { results: ReleaseReply[]; next: CommandOutcome | undefined } {
    const { token, ticket = 0, yieldMs = 0, next, held } = command;
    const keys = listOf(command.keys);
    const nowMs = Math.floor(micros / 1000);
    if (held !== undefined) {
      const result = this.#sharedLock(keys[0]!, micros).release(token, ticket, held.mode.kind === 'exclusive');
      return { results: [result], next: undefined };
    }
    let answer: CommandOutcome | undefined;
    const results = keys.map((key): ReleaseReply => {
      const row = this.row(key, nowMs);
      const result = row.token === token ? 'released' : row.token === undefined ? 'missing' : 'taken'; // H48 H49c
      if (ticket !== 0) row.queue = row.queue.filter((entry) => entry.token !== token);
      if (next) enqueue(row, next, next.queueAs!, micros);
      if (result === 'taken') {
        if (next) answer = this.#busy(row, row.endMs, next, micros);
        return result;
      }
      row.token = undefined;
      const whose = this.#grant(row, micros, { mine: next?.token, yieldMs, isHandOff: result === 'released' });
      if (whose === 'mine') answer = this.#granted(row, next!.fences);
      else if (next) answer = this.#busy(row, whose === 'given' ? row.endMs : row.yieldUntilMs, next, micros);
      return result;
    });
    return { results, next: answer };
  }

  #acquireShared(command: SharedCommand, micros: number): CommandOutcome {
    const key = listOf(command.keys)[0]!;
    if (this.holder(key, micros) !== undefined) throw new Error('WRONGTYPE this key is held as a mutex');
    return this.#sharedLock(key, micros).acquire(command, (count, least) => this.#mint(count, micros, least));
  }

  /** Acquires as `acquire` does, unless the job of the current slot has run. */
  #acquireOnce({ slots, ...command }: AcquireCommand & { readonly slots: Slots }, micros: number): CommandOutcome {
    const nowMs = Math.floor(micros / 1000);
    if (nowMs > (command.notAfterMs ?? nowMs)) return { outcome: 'late' };
    const row = this.row(listOf(command.keys)[0]!, nowMs);
    const slot = slotAt(nowMs, slots);
    const { startMs, endMs } = row.slot ?? { startMs: nowMs, endMs: nowMs };
    // A mark from the future is ignored: when it was written, the clock ran ahead, in another slot.
    const isMarked = endMs > nowMs && startMs >= slot.start && startMs <= nowMs; // H85
    if (row.token !== command.token && isMarked) return { outcome: 'done' };
    const acquired = this.acquire(command, micros);
    if (acquired.outcome === 'granted' && slots.marks) row.slot = { startMs: slot.start, endMs: slot.end };
    return acquired;
  }

  /** Takes a lock away from the holder whose id starts with `id`, and serves the next in its queue. False: nothing was changed. */
  free(key: string, id: string, micros: number): boolean {
    const row = this.row(key, Math.floor(micros / 1000));
    if (row.token === undefined) return this.#sharedLock(key, micros).free(id);
    const hash = hashOf(row.token);
    if (!hash.startsWith(id)) return false;
    this.publish(freedChannel, `!${hash}`, key);
    row.token = undefined;
    row.handOffs = row.yieldUntilMs = 0;
    this.#grant(row, micros, { mine: undefined, yieldMs: 0, isHandOff: true });
    return true;
  }

  #sharedLock(key: string, micros: number): SharedLock {
    const notify = (channel: string, ids: string[]): void => this.publish(channel, ids.join(','), key);
    return new SharedLock(this.shared(key, Math.floor(micros / 1000)), micros, notify);
  }

  /** Grants a free lock to the first live entry of its queue. Returns whether there was one, and whether it is `mine`. */
  #grant(row: LockRow, micros: number, { mine, yieldMs, isHandOff }: Handing): 'mine' | 'given' | 'yielding' | 'none' {
    const nowMs = Math.floor(micros / 1000);
    const first = front(row, nowMs);
    if (first === undefined) return 'none';
    if (row.yieldUntilMs > nowMs) return 'yielding';
    const handOffs = isHandOff && row.yieldUntilMs === 0 ? row.handOffs : 0;
    row.yieldUntilMs = 0;
    if (isHandOff && yieldMs > 0 && mustYield(row, handOffs, yieldMs, nowMs)) {
      if (first.token !== mine) this.publish(first.channel, first.id, row.key);
      return 'yielding';
    }
    row.handOffs = isHandOff ? handOffs + 1 : 0;
    row.queue.shift();
    const lifetimeMs = first.token === mine ? first.lifetimeMs : Math.min(first.lifetimeMs, limits.provisionalMs);
    this.#take([row], { token: first.token, lifetimeMs, fences: first.fences }, 0, micros);
    if (first.token === mine) return 'mine';
    const fence = first.fences === 0 ? 0 : this.rows.fence - first.fences + 1;
    this.publish(first.channel, `${first.id}=${fence}`, row.key);
    return 'given';
  }

  #busy(row: LockRow, untilMs: number, request: LockRequest, micros: number): CommandOutcome {
    const leftMs = Math.max(untilMs - Math.floor(micros / 1000), 0);
    return {
      outcome: 'busy',
      leftMs,
      position: request.queueAs && enqueue(row, request, request.queueAs, micros),
    };
  }

  /**
   * Gives free locks to the token under one fence; the end of a lock that the token already holds only moves later. If the
   * token already holds all of them, no later holder has a fence: the last minted fences are as good as those of the first
   * request.
   */
  #take(
    rows: readonly LockRow[],
    { token, lifetimeMs, fences, queueAs }: LockRequest,
    least: number,
    micros: number,
  ): CommandOutcome {
    const endMs = Math.floor(micros / 1000) + (lifetimeMs ?? neverMs);
    const areOurs = rows.every((row) => row.token === token);
    if (fences > 0 && (this.rows.fence === 0 || !areOurs)) this.#mint(fences, micros, least);
    for (const row of rows) {
      row.endMs = row.token === token ? Math.max(row.endMs, endMs) : endMs;
      row.token = token;
    }
    // Only a caller that can be queued is told the number of others.
    return this.#granted(rows[0]!, fences, queueAs === undefined ? 0 : rows[0]!.queue.length);
  }

  /** Mints `count` fences after the last one, none below `least`, and returns the first. */
  #mint(count: number, micros: number, least = 0): number {
    checkFence(Math.max(this.rows.fence, least), Math.floor(micros / 1000));
    const first = Math.max(this.rows.fence + 1, micros, least);
    this.rows.fence = first + count - 1;
    return first;
  }

  #granted(row: LockRow, fences: number, others = row.queue.length): CommandOutcome {
    return { outcome: 'granted', fence: fences === 0 ? 0 : this.rows.fence - fences + 1, others };
  }
}

function checkFence(fence: number, nowMs: number): void {
  if (fence <= nowMs * 1000 + maxAheadMicros) return;
  throw new Error('FENCE the fence counter of this table is more than a day ahead of the clock');
}
