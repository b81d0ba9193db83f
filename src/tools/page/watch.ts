// One poller for all viewers, which stops while there are no viewers. Each viewer is sent a snapshot, then changes. Changes are not
// kept for a viewer whose stream is full: when the stream has room, the viewer is sent a new snapshot.
//
// Invariant: at most one read is in progress, and none begins while there is no viewer. At most one message waits for each viewer.
import { timers } from '../../core/clock';
import { type Alarm, clearAlarm } from '../../core/timers';
import { Ledger } from './ledger';
import type { PageSnapshot, Source } from './source';

/** The stream to one viewer. */
export interface Sink {
  /** Writes a message. Returns false if the stream has no room for another message until `onRoom`. This message is sent all the same. */
  write(text: string): boolean;
  /** Ends the stream. An open page connects again. */
  end(): void;
}

interface Viewer {
  readonly sink: Sink;
  readonly sinceMs: number;
  /** The time since which the stream has no room. */
  fullSinceMs: number | undefined;
  /** Set when the viewer missed changes and needs a snapshot. */
  isBehind: boolean;
}

/** The callbacks of a connected viewer. */
export interface Seat {
  /** Reports that the stream has room again. */
  onRoom(): void;
  /** Reports that the viewer is gone. May be called repeatedly. */
  leave(): void;
}

export const maxViewers = 256;
const beatMs = 15_000;
/** Ms without room after which a viewer is disconnected. */
const maxFullMs = 30_000;
/** Ms after which a viewer has to connect again, and be authorized again. */
const sessionMs = 600_000;

export class Watch {
  readonly #source: Source;
  readonly #head: { readonly actions: boolean; readonly prefix: string };
  readonly #viewers = new Set<Viewer>();
  readonly #ledger = new Ledger();
  #alarm: Alarm | undefined;
  #isReading = false;
  /** Set when something changed after the last read began. */
  #isNews = false;
  #unwatch: () => void = () => {};
  /** Set when the ledger has a read for the present viewers. */
  #hasRead = false;
  #down: string | undefined;
  #beatAtMs = 0;

  constructor(source: Source, head: { readonly actions: boolean; readonly prefix: string }) {
    this.#source = source;
    this.#head = head;
  }

  get isFull(): boolean {
    return this.#viewers.size >= maxViewers;
  }

  join(sink: Sink): Seat {
    const viewer: Viewer = { sink, sinceMs: performance.now(), fullSinceMs: undefined, isBehind: true };
    this.#viewers.add(viewer);
    if (this.#viewers.size === 1) this.#start();
    this.#write(viewer, 'retry: 1000\n\n');
    this.#catchUp(viewer);
    return {
      onRoom: () => {
        viewer.fullSinceMs = undefined;
        this.#catchUp(viewer);
      },
      leave: () => this.#leave(viewer),
    };
  }

  freed(key: string, id: string): void {
    this.#ledger.lost(key, id, Date.now());
    this.#schedule(true);
  }

  #start(): void {
    // The first viewer waits for a new read. A read for earlier viewers may have ended since they left.
    this.#hasRead = false;
    this.#down = undefined;
    this.#beatAtMs = performance.now() + beatMs;
    this.#unwatch = this.#source.look(() => this.#schedule(true));
    if (!this.#isReading) void this.#poll();
  }

  #leave(viewer: Viewer): void {
    if (!this.#viewers.delete(viewer) || this.#viewers.size > 0) return;
    clearAlarm(this.#alarm);
    this.#unwatch();
  }

  /** Schedules the next read. A read in progress schedules the next one at its end. */
  #schedule(isNews: boolean): void {
    this.#isNews ||= isNews;
    if (this.#isReading || this.#viewers.size === 0) return;
    clearAlarm(this.#alarm);
    this.#alarm = timers.setIdle(() => void this.#poll(), this.#source.pauseMs(this.#isNews));
  }

  async #poll(): Promise<void> {
    clearAlarm(this.#alarm);
    this.#isReading = true;
    this.#isNews = false;
    try {
      this.#publish(await this.#source.read());
    } catch (error) {
      this.#publishDown(error);
    }
    this.#isReading = false;
    this.#tend();
    this.#schedule(false);
  }

  #publish(seen: PageSnapshot): void {
    const { rows, gone, isNews } = this.#ledger.update(seen, Date.now(), !this.#hasRead);
    const wasDown = this.#down !== undefined;
    this.#down = undefined;
    this.#hasRead = true;
    if (wasDown) for (const viewer of this.#viewers) viewer.isBehind = true;
    const text = isNews ? message('change', { ...this.#status(), rows, gone }) : undefined;
    for (const viewer of this.#viewers) {
      if (viewer.isBehind) this.#catchUp(viewer);
      else if (text !== undefined) this.#write(viewer, text);
    }
  }

  #publishDown(error: unknown): void {
    const text = whatFailed(error);
    if (text === this.#down) return;
    this.#down = text;
    for (const viewer of this.#viewers) this.#write(viewer, message('down', { message: text }));
  }

  #status(): object {
    return { now: Date.now(), summary: this.#ledger.summary(Date.now()) };
  }

  #catchUp(viewer: Viewer): void {
    if (!viewer.isBehind || viewer.fullSinceMs !== undefined) return;
    if (this.#down !== undefined) this.#write(viewer, message('down', { message: this.#down }));
    if (!this.#hasRead || this.#down !== undefined) return;
    viewer.isBehind = false;
    this.#write(viewer, message('snapshot', { ...this.#status(), ...this.#head, rows: this.#ledger.rows() }));
  }

  #write(viewer: Viewer, text: string): void {
    if (viewer.fullSinceMs !== undefined) viewer.isBehind = true;
    else if (!viewer.sink.write(text)) viewer.fullSinceMs = performance.now();
  }

  /** Sends every viewer a sign of life. Disconnects viewers that read nothing, and viewers that were authorized too long ago. */
  #tend(): void {
    const nowMs = performance.now();
    if (nowMs < this.#beatAtMs) return;
    this.#beatAtMs = nowMs + beatMs;
    for (const viewer of [...this.#viewers]) {
      const isStuck = viewer.fullSinceMs !== undefined && nowMs - viewer.fullSinceMs > maxFullMs;
      if (isStuck || nowMs - viewer.sinceMs > sessionMs) viewer.sink.end();
      else if (viewer.fullSinceMs === undefined) this.#write(viewer, ':\n\n');
    }
  }
}

/** Formats an event. JSON has no line ends. */
function message(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Describes an error without its own message, because errors of clients may name hosts and users. */
function whatFailed(error: unknown): string {
  const code = (error as { redisCode?: unknown } | undefined)?.redisCode;
  return typeof code === 'string' && /^[A-Z]{2,20}$/.test(code) ? `Redis refuses (${code})` : 'Redis does not answer';
}
