// The scripts as plain TypeScript over a table of rows: the executable specification. The simulation runs the waiting protocol
// against it, random commands must give the same replies here and in Redis, and the memory store is this machine with a clock.
// The steps are those of the .lua files, in the same order. Nothing here waits; time comes with each command, like Redis's own
// clock.
//
// This file has the verbs of a mutex, the marks of its slots, and the entry to the verbs of locks with a mode (shared-machine.ts).

import { type Key, listOf } from '../../../core/keys';
import { hashOf } from '../../../core/token';
import type { ExtendReply, Mode, ReleaseReply, Slot } from '../../contract';
import { freedChannel, type OwnedState } from '../../operator';
import { limits, maxAheadMicros } from '../../protocol';
import { type Slots, slotAt } from '../../slots';
import type { AcquireCommand, CommandOutcome, ExtendCommand, LockRequest, Publish, ReleaseCommand } from './command';
import { inspectRow } from './inspection';
import { enqueue, forgetQueue, front, hasQueue, markPoll, mustYield } from './mutex-queue';
import { type LockRow, MemoryRows, msOf, neverMs, type Rows, type SharedHolder } from './row';
import { type SharedCommand, SharedLock } from './shared-machine';

const notMutex = 'WRONGTYPE this key is held by a readers-writer lock or a semaphore';

type GrantOutcome = Extract<CommandOutcome, { outcome: 'granted' }>;

export class Machine {
  readonly publish: Publish;
  readonly rows: Rows;

  constructor(publish: Publish, rows: Rows = new MemoryRows()) {
    this.publish = publish;
    this.rows = rows;
  }

  acquire(command: AcquireCommand, micros: number): CommandOutcome {
    const { token, queueAs, mode, slots, notAfterMs = Number.POSITIVE_INFINITY } = command;
    const nowMs = msOf(micros);
    if (nowMs > notAfterMs) return { outcome: 'late' }; // H3g
    if (mode !== undefined) return this.#acquireShared({ ...command, mode }, micros);
    if (slots !== undefined) return this.#acquireOnce({ ...command, slots }, micros);
    const rows = this.#all(command.keys, micros);
    for (const { shared } of rows) if (shared !== undefined && shared.holders.length > 0) throw new Error(notMutex); // H79e
    let untilMs = -1;
    for (const row of rows) if (row.token !== undefined && row.token !== token) untilMs = Math.max(untilMs, row.endMs);
    const refused = (row: LockRow, busyUntilMs?: number): CommandOutcome => {
      if (queueAs === undefined) markPoll(rows, command.pauseMs, nowMs);
      return this.#busy(row, command, micros, busyUntilMs);
    };
    if (untilMs >= 0) return refused(rows[0]!, untilMs);
    for (const row of rows) {
      if (row.token !== undefined || !hasQueue(row)) continue;
      if (queueAs) enqueue(row, command, queueAs, micros);
      if (this.#grant(row, micros, { mine: queueAs && token })) return this.#granted(row, command.fences);
      if (row.token !== undefined || queueAs) return refused(row);
    }
    return this.#take(rows, command, micros);
  }

  /** Raises the last fence to at least `least`, if all these locks are still `token`'s. */
  raise(keys: readonly string[], token: string, least: number, micros: number, mode?: Mode): boolean {
    checkFence(least, micros);
    const mine = mode && this.holders(keys[0]!, micros).find((each) => each.token === token);
    const areOurs = mode ? mine !== undefined : this.#all(keys, micros).every((row) => row.token === token);
    if (!areOurs) return false;
    // A writer's own fence, which readers share after its downgrade.
    if (mine?.kind === 'exclusive') mine.fence = Math.max(mine.fence, least);
    this.rows.fence = Math.max(this.rows.fence, least);
    return true;
  }

  extend(command: ExtendCommand, micros: number): ExtendReply['outcome'] {
    const { token, lifetimeMs, exact, notAfterMs = Number.POSITIVE_INFINITY } = command;
    const rows = this.#all(command.keys, micros);
    if (command.held !== undefined) return new SharedLock(rows[0]!, micros, this.publish).extend(command);
    const nowMs = msOf(micros);
    const endMs = nowMs + (lifetimeMs ?? neverMs);
    if (rows.some((row) => row.token !== undefined && row.token !== token)) return 'taken'; // H48b
    if (rows.some((row) => row.token === undefined)) return 'missing';
    if (nowMs > notAfterMs) return 'late'; // H13i
    for (const row of rows) if (exact || row.endMs < endMs) row.endMs = endMs;
    return 'extended';
  }

  release(command: ReleaseCommand, micros: number): { results: ReleaseReply[]; next: CommandOutcome | undefined } {
    const { token, ticket = 0, yieldMs = 0, next, held } = command;
    const rows = this.#all(command.keys, micros);
    if (held !== undefined) {
      const lock = new SharedLock(rows[0]!, micros, this.publish);
      return { results: [lock.release(token, ticket, held.mode.kind === 'exclusive')], next: undefined };
    }
    let answer: CommandOutcome | undefined;
    const results = rows.map((row) => {
      const result: ReleaseReply = row.token === token ? 'released' : row.token === undefined ? 'missing' : 'taken'; // H48 H49c
      if (ticket !== 0) row.queue = row.queue.filter((entry) => entry.token !== token);
      if (next) enqueue(row, next, next.queueAs!, micros);
      if (result !== 'taken') row.token = undefined;
      const isHandOff = result === 'released';
      const isMine = row.token === undefined && this.#grant(row, micros, { mine: next?.token, yieldMs, isHandOff });
      if (next) answer = isMine ? this.#granted(row, next.fences) : this.#busy(row, next, micros);
      return result;
    });
    return { results, next: answer };
  }

  /** Takes a lock away from the holder whose id starts with `id`, and serves the next in its queue. False: nothing was changed. */
  free(key: string, id: string, micros: number): boolean {
    const row = this.row(key, micros);
    if (row.token === undefined) return new SharedLock(row, micros, this.publish).free(id);
    const hash = hashOf(row.token);
    if (!hash.startsWith(id)) return false;
    this.publish(freedChannel, `!${hash}`, key);
    row.token = undefined;
    row.handOffs = row.yieldUntilMs = 0;
    this.#grant(row, micros, { isHandOff: true });
    return true;
  }

  /** Sets the holder of a key as a client does that knows neither fences nor queues nor modes. */
  put(key: string, token: string | undefined, endMs: number): void {
    Object.assign(this.row(key, 0), { token, endMs, shared: undefined });
  }

  /** The row of a key, without its expired parts. It may be changed in place until the command is done. */
  row(key: string, micros: number): LockRow {
    const nowMs = msOf(micros);
    const row = this.rows.row(key);
    if (row.endMs <= nowMs) row.token = undefined;
    if (row.queueEndMs <= nowMs && hasQueue(row)) forgetQueue(row);
    if (row.value !== undefined && row.value.endMs <= nowMs) row.value = undefined;
    if (row.shared !== undefined) row.shared.holders = row.shared.holders.filter((each) => each.endMs > nowMs);
    return row;
  }

  /** The holders of a key with a mode. */
  holders(key: string, micros: number): readonly SharedHolder[] {
    return this.row(key, micros).shared?.holders ?? [];
  }

  inspect(key: string, micros: number, token?: string): OwnedState {
    return inspectRow(this.row(key, micros), this.rows.fence, micros, token);
  }

  /** Marks the job of a slot as done. False: the lock is no longer `token`'s, or the slot is over. */
  markSlot(key: string, token: string, { start, end }: Slot, micros: number): boolean {
    const row = this.row(key, micros);
    if (row.token !== token || end <= msOf(micros)) return false;
    row.slot = { startMs: start, endMs: end };
    return true;
  }

  #acquireShared(command: SharedCommand, micros: number): CommandOutcome {
    const row = this.#all(command.keys, micros)[0]!;
    if (row.token !== undefined) throw new Error('WRONGTYPE this key is held as a mutex');
    return new SharedLock(row, micros, this.publish).acquire(command, (count, least) =>
      this.#mint(count, micros, least),
    );
  }

  /** Acquires as `acquire` does, unless the job of the current slot has run. */
  #acquireOnce({ slots, ...command }: AcquireCommand & { readonly slots: Slots }, micros: number): CommandOutcome {
    const nowMs = msOf(micros);
    const row = this.#all(command.keys, micros)[0]!;
    const slot = slotAt(nowMs, slots);
    const { startMs = nowMs, endMs = nowMs } = row.slot ?? {};
    // A mark from the future is ignored: when it was written, the clock ran ahead, in another slot.
    const isMarked = endMs > nowMs && startMs >= slot.start && startMs <= nowMs; // H85
    if (row.token !== command.token && isMarked) return { outcome: 'done' };
    const acquired = this.acquire(command, micros);
    if (acquired.outcome === 'granted' && slots.marks) row.slot = { startMs: slot.start, endMs: slot.end };
    return acquired;
  }

  /**
   * Grants a free lock to the first live entry of its queue. True: that is the entry of `mine`, the caller's token, whose grant
   * needs no message and no confirmation. In a hand-off the lock passes from one holder to the next without being free.
   */
  #grant(
    row: LockRow,
    micros: number,
    { mine, yieldMs = 0, isHandOff = false }: { mine?: string | undefined; yieldMs?: number; isHandOff?: boolean },
  ): boolean {
    const nowMs = msOf(micros);
    const first = front(row, nowMs);
    if (first === undefined || row.yieldUntilMs > nowMs) return false;
    const handOffs = isHandOff && row.yieldUntilMs === 0 ? row.handOffs : 0;
    row.yieldUntilMs = 0;
    if (isHandOff && yieldMs > 0 && mustYield(row, handOffs, yieldMs, nowMs)) {
      if (first.token !== mine) this.publish(first.channel, first.id, row.key);
      return false;
    }
    row.handOffs = isHandOff ? handOffs + 1 : 0;
    row.queue.shift();
    const lifetimeMs = first.token === mine ? first.lifetimeMs : Math.min(first.lifetimeMs, limits.provisionalMs);
    const { fence } = this.#take([row], { ...first, lifetimeMs }, micros);
    if (first.token === mine) return true;
    this.publish(first.channel, `${first.id}=${fence}`, row.key);
    return false;
  }

  /** @param untilMs Default: the end of the holder, or of the yield. */
  #busy(
    row: LockRow,
    request: LockRequest,
    micros: number,
    untilMs = row.token === undefined ? row.yieldUntilMs : row.endMs,
  ): CommandOutcome {
    const position = request.queueAs && enqueue(row, request, request.queueAs, micros);
    return { outcome: 'busy', leftMs: Math.max(untilMs - msOf(micros), 0), position };
  }

  /**
   * Gives free locks to the token under one fence; the end of a lock that the token already holds only moves later. If the
   * token already holds all of them, no later holder has a fence: the last minted fences are as good as those of the first
   * request.
   */
  #take(rows: readonly LockRow[], request: LockRequest, micros: number): GrantOutcome {
    const { token, lifetimeMs, fences, queueAs, minFence = 0 } = request;
    const endMs = msOf(micros) + (lifetimeMs ?? neverMs);
    const areOurs = rows.every((row) => row.token === token);
    if (fences > 0 && (this.rows.fence === 0 || !areOurs)) this.#mint(fences, micros, minFence);
    for (const row of rows) {
      row.endMs = row.token === token ? Math.max(row.endMs, endMs) : endMs;
      row.token = token;
    }
    // Only a caller that can be queued is told the number of others.
    return this.#granted(rows[0]!, fences, queueAs === undefined ? 0 : rows[0]!.queue.length);
  }

  #granted(row: LockRow, fences: number, others = row.queue.length): GrantOutcome {
    return { outcome: 'granted', fence: fences === 0 ? 0 : this.rows.fence - fences + 1, others };
  }

  /** Mints `count` fences after the last one, none below `least`, and returns the first. */
  #mint(count: number, micros: number, least: number): number {
    checkFence(Math.max(this.rows.fence, least), micros);
    const first = Math.max(this.rows.fence + 1, micros, least);
    this.rows.fence = first + count - 1;
    return first;
  }

  #all(keys: Key, micros: number): LockRow[] {
    return listOf(keys).map((key) => this.row(key, micros));
  }
}

function checkFence(fence: number, micros: number): void {
  if (fence <= msOf(micros) * 1000 + maxAheadMicros) return;
  throw new Error('FENCE the fence counter of this table is more than a day ahead of the clock');
}
