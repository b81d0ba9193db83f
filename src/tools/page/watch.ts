// One poller for all viewers, which stops while there are no viewers. Each viewer is sent a snapshot, then changes. Changes are not
// kept for a viewer whose stream is full: when the stream has room, the viewer is sent a new snapshot.
//
// Invariant: at most one read is in progress, and none begins while there is no viewer. At most one message waits for each viewer.
import { type Alarm, clearAlarm, systemClock } from '../../core/clock';
import { Ledger } from './ledger';
import type { PageSnapshot, Source } from './source';

interface Viewer {
  readonly stream: ReadableStreamDefaultController<Uint8Array>;
  readonly sinceMs: number;
  /** The time since which the stream has no room; undefined if it takes a message. */
  fullSinceMs: number | undefined;
  /** Set when the viewer missed changes and needs a snapshot. */
  isBehind: boolean;
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
  /** Set when a read for the present viewers has ended. */
  #isKnown = false;
  /** The failure of the last read; undefined if it succeeded. */
  #down: string | undefined;
  #beatAtMs = 0;

  constructor(source: Source, head: { readonly actions: boolean; readonly prefix: string }) {
    this.#source = source;
    this.#head = head;
  }

  get isFull(): boolean {
    return this.#viewers.size >= maxViewers;
  }

  /** The events for a new viewer, who leaves by cancelling the stream or by `gone`. A page whose stream has ended connects again. */
  events(gone: AbortSignal | undefined): ReadableStream<Uint8Array> {
    let viewer: Viewer;
    const source = {
      start: (stream: Viewer['stream']) => {
        stream.enqueue(bytes('retry: 1000\n\n'));
        viewer = { stream, sinceMs: performance.now(), fullSinceMs: performance.now(), isBehind: true };
        this.#viewers.add(viewer);
        if (this.#viewers.size === 1) this.#start();
        gone?.addEventListener('abort', () => this.#end(viewer));
      },
      pull: () => {
        viewer.fullSinceMs = undefined;
        this.#catchUp(viewer);
      },
      cancel: () => this.#leave(viewer),
    };
    return new ReadableStream(source, { highWaterMark: 0 });
  }

  /** Takes a lock from the holder with this id. False: this holder no longer has the lock. */
  async free(key: string, id: string): Promise<boolean> {
    const full = await this.#source.free(key, id);
    if (full === undefined) return false;
    this.#ledger.lost(full, id, Date.now());
    this.#onNews();
    return true;
  }

  #start(): void {
    // The first viewer waits for a new read. A read for earlier viewers may have ended since they left.
    this.#isKnown = false;
    this.#down = undefined;
    this.#beatAtMs = performance.now() + beatMs;
    this.#unwatch = this.#source.look(() => this.#onNews());
    if (!this.#isReading) void this.#poll();
  }

  #end(viewer: Viewer, error?: Error): void {
    if (!this.#viewers.has(viewer)) return;
    if (error === undefined) viewer.stream.close();
    else viewer.stream.error(error);
    this.#leave(viewer);
  }

  #leave(viewer: Viewer): void {
    if (!this.#viewers.delete(viewer) || this.#viewers.size > 0) return;
    clearAlarm(this.#alarm);
    this.#unwatch();
  }

  /** The first change after a read sets the time of the next read. Later changes do not put it off. */
  #onNews(): void {
    if (this.#isNews) return;
    this.#isNews = true;
    this.#schedule();
  }

  /** Schedules the next read. A read in progress schedules the next one at its end. */
  #schedule(): void {
    if (this.#isReading || this.#viewers.size === 0) return;
    clearAlarm(this.#alarm);
    this.#alarm = systemClock.setIdleAlarm(() => void this.#poll(), this.#source.pauseMs(this.#isNews));
  }

  async #poll(): Promise<void> {
    clearAlarm(this.#alarm);
    this.#isReading = true;
    this.#isNews = false;
    const before = this.#down;
    let change: Uint8Array | undefined;
    try {
      change = this.#changeSince(await this.#source.read());
      this.#down = undefined;
    } catch (error) {
      this.#down = whatFailed(error);
    }
    this.#isReading = false;
    this.#isKnown = true;
    for (const viewer of this.#viewers) {
      const missesChange = change !== undefined && viewer.fullSinceMs !== undefined;
      viewer.isBehind ||= this.#down !== before || missesChange;
      if (viewer.isBehind) this.#catchUp(viewer);
      else if (change !== undefined) this.#write(viewer, change);
    }
    this.#tend();
    this.#schedule();
  }

  /** The event for viewers that have all rows of the last read; undefined if nothing has changed. */
  #changeSince(seen: PageSnapshot): Uint8Array | undefined {
    const { rows, gone, isNews } = this.#ledger.update(seen, Date.now());
    return isNews ? message('change', { ...this.#status(), rows, gone }) : undefined;
  }

  #status(): object {
    return { now: Date.now(), summary: this.#ledger.summary(Date.now()) };
  }

  /** Sends a viewer that is behind what the last read has shown, if there is room. */
  #catchUp(viewer: Viewer): void {
    if (!this.#isKnown || !viewer.isBehind || viewer.fullSinceMs !== undefined) return;
    viewer.isBehind = false;
    if (this.#down !== undefined) this.#write(viewer, message('down', { message: this.#down }));
    else this.#write(viewer, message('snapshot', { ...this.#status(), ...this.#head, rows: this.#ledger.rows() }));
  }

  #write(viewer: Viewer, text: Uint8Array): void {
    viewer.fullSinceMs = performance.now();
    viewer.stream.enqueue(text);
  }

  /** Sends every viewer a sign of life. Disconnects viewers that read nothing, and viewers that were authorized too long ago. */
  #tend(): void {
    const nowMs = performance.now();
    if (nowMs < this.#beatAtMs) return;
    this.#beatAtMs = nowMs + beatMs;
    for (const viewer of [...this.#viewers]) {
      const { fullSinceMs = nowMs, sinceMs } = viewer;
      if (nowMs - fullSinceMs > maxFullMs) this.#end(viewer, new Error('the viewer reads nothing'));
      else if (nowMs - sinceMs > sessionMs) this.#end(viewer);
      else if (viewer.fullSinceMs === undefined) this.#write(viewer, bytes(':\n\n'));
    }
  }
}

/** Formats an event. JSON has no line ends. */
function message(event: string, data: object): Uint8Array {
  return bytes(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Describes an error without its own message, because errors of clients may name hosts and users. */
function whatFailed(error: unknown): string {
  const code = (error as { redisCode?: unknown } | undefined)?.redisCode;
  return typeof code === 'string' && /^[A-Z]{2,20}$/.test(code) ? `Redis refuses (${code})` : 'Redis does not answer';
}
