/**
 * The history of one round, as the processes wrote it down themselves: their operations, and which locks they held when.
 *
 * A process writes each event before it goes on, so that kill -9 loses none. Times are ms of the monotonic clock, which all
 * processes of a host share. A grant counts only for as long as it was certainly valid: from the moment after it was granted
 * until the end that `remaining()` gave when it was last read, its release, its loss, or a step of its clock.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** Ms of the monotonic clock. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export type HoldKind = 'mutex' | 'read' | 'write' | 'permits' | 'term';

/** `id` is that of the operation; `t` when it was written. */
export type Event =
  /** A call is about to be made, which must settle within `boundMs`; `queued`: it waits in a queue until then. */
  | { e: 'ask'; t: number; id: string; job: string; keys: readonly string[]; boundMs: number; queued: boolean }
  /**
   * It has what it asked for, until `until` at least, and until `over` at most, where that is another time; what it had before, in
   * another mode, ends with that.
   */
  | {
      e: 'hold';
      t: number;
      id: string;
      until: number;
      over?: number | undefined;
      kind: HoldKind;
      fence: number;
      group: string;
      permits: number;
    }
  /** The lock is still valid, until `until`; 0: no longer. */
  | { e: 'check'; t: number; id: string; until: number }
  /** The process is about to release the lock. */
  | { e: 'end'; t: number; id: string }
  | { e: 'lost'; t: number; id: string; reason: string }
  /** The call, and all that was done under it, has settled. */
  | { e: 'done'; t: number; id: string; outcome: string }
  /** The clock of this process is about to be set: none of its locks counts as valid until it is checked again. */
  | { e: 'clock'; t: number; ms: number }
  /** The event loop was blocked for that time until `t`. */
  | { e: 'stall'; t: number; ms: number }
  /** A job of a slot began, or was said to be done. */
  | { e: 'slot'; t: number; id: string; mode: string; slot: number; done: boolean }
  /** A value was loaded, or was handed to a caller. */
  | { e: 'value'; t: number; id: string; value: string; loaded: boolean }
  /** A fault that hit the process. */
  | { e: 'fault'; t: number; what: string };

/** An event, and the process that wrote it. */
export type Written = Event & { readonly p: string };

type WithoutTime<E> = E extends Event ? Omit<E, 't'> & { readonly t?: number } : never;

/** The diary of one process. */
export class Diary {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, 'a');
  }

  write(event: WithoutTime<Event>): void {
    writeSync(this.#file, `${JSON.stringify({ t: nowMs(), ...event })}\n`);
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** Writes down each stall of this process: delays of a busy machine are no fault of the library. */
export function watchStalls(diary: Diary): NodeJS.Timeout {
  const everyMs = 20;
  let lastMs = nowMs();
  return setInterval(() => {
    const ms = nowMs() - lastMs - everyMs;
    lastMs = nowMs();
    if (ms > 30) diary.write({ e: 'stall', ms });
  }, everyMs);
}

/** @param diaries By the names of their processes. What kill -9 cut in the middle is left out. */
export function readHistory(diaries: ReadonlyMap<string, string>): Written[] {
  const all: Written[] = [];
  for (const [p, path] of diaries) {
    const lines = readFileSync(path, 'utf8').split('\n');
    for (const line of lines.slice(0, -1)) all.push({ ...JSON.parse(line), p });
  }
  return all.sort((a, b) => a.t - b.t);
}

/** A grant, for as long as it was certainly valid. */
export interface Hold {
  readonly id: string;
  readonly p: string;
  readonly key: string;
  readonly kind: HoldKind;
  readonly group: string;
  readonly permits: number;
  readonly fence: number;
  /** True if the holder was a writer before. */
  readonly downgraded: boolean;
  readonly fromMs: number;
  untilMs: number;
  /** The time by which the lock was certainly over; between the two times it is unknown. */
  overMs: number;
}

/** One call, from its beginning to its end. */
export interface Operation {
  readonly id: string;
  readonly p: string;
  readonly job: string;
  readonly keys: readonly string[];
  readonly boundMs: number;
  readonly queued: boolean;
  readonly askedMs: number;
  /** When it first knew that it was granted. */
  heldMs: number | undefined;
  doneMs: number | undefined;
  outcome: string | undefined;
}

export interface Account {
  readonly holds: readonly Hold[];
  readonly operations: readonly Operation[];
}

interface Open {
  readonly holds: readonly Hold[];
  seenMs: number;
}

/** The locks that were held, according to the events. */
export function accountOf(events: readonly Written[]): Account {
  const holds: Hold[] = [];
  const operations = new Map<string, Operation>();
  const open = new Map<string, Open>();
  const end = (id: string, t: number): void => {
    for (const hold of open.get(id)?.holds ?? []) {
      hold.untilMs = Math.min(hold.untilMs, t);
      hold.overMs = Math.min(hold.overMs, t);
    }
    open.delete(id);
  };

  for (const event of events) {
    if (event.e === 'clock') {
      for (const { holds: some } of open.values())
        for (const hold of some) if (hold.p === event.p) hold.untilMs = Math.min(hold.untilMs, event.t);
    }
    if (event.e === 'ask') {
      const { id, p, job, keys, boundMs, queued, t } = event;
      const nothing = { heldMs: undefined, doneMs: undefined, outcome: undefined };
      operations.set(id, { id, p, job, keys, boundMs, queued, askedMs: t, ...nothing });
    }
    if (!('id' in event)) continue;
    const operation = operations.get(event.id);
    if (operation === undefined) continue;
    if (event.e === 'hold') {
      const wrote = open.get(event.id)?.holds[0]?.kind === 'write' || wasWriter(holds, event.id);
      end(event.id, event.t);
      operation.heldMs ??= event.t;
      const { id, p, kind, group, permits, fence, t, until, over = until } = event;
      const downgraded = kind === 'read' && wrote;
      const some = operation.keys.map((key) => {
        return { id, p, key, kind, group, permits, fence, downgraded, fromMs: t, untilMs: until, overMs: over };
      });
      holds.push(...some);
      open.set(id, { holds: some, seenMs: t });
    }
    const held = open.get(event.id);
    if (event.e === 'check' && held !== undefined) {
      // When it is no longer valid, it may have ended at any time since it was last checked.
      for (const hold of held.holds) {
        hold.untilMs = event.until === 0 ? Math.min(hold.untilMs, held.seenMs) : event.until;
        hold.overMs = event.until === 0 ? event.t : event.until;
      }
      held.seenMs = event.t;
      if (event.until === 0) open.delete(event.id);
    }
    if (event.e === 'end' || event.e === 'lost') end(event.id, event.t);
    if (event.e === 'done') {
      operation.doneMs = event.t;
      operation.outcome = event.outcome;
    }
  }
  return { holds, operations: [...operations.values()] };
}

function wasWriter(holds: readonly Hold[], id: string): boolean {
  return holds.findLast((hold) => hold.id === id)?.kind === 'write';
}
