// One poller for all viewers, and none while there are no viewers. Each viewer is sent a snapshot, then changes. Changes that a
// viewer has no room for are not kept: once it has room, it is sent a new snapshot.
//
// Invariant: at most one read is under way, and none begins while there is no viewer; for each viewer at most one message waits.
import { startIdleTimer } from '../../core/timers';
import { Ledger } from './ledger';
import type { Source } from './source';

/** Where one viewer reads. */
export interface Sink {
  /** False: it has no room for more until `onRoom`. What was written is taken all the same. */
  write(text: string): boolean;
  /** Ends it. An open page connects again. */
  end(): void;
}

interface Viewer {
  readonly sink: Sink;
  readonly sinceMs: number;
  /** Since when it has no room. */
  fullSinceMs: number | undefined;
  /** It missed changes, and needs a snapshot. */
  isBehind: boolean;
}

/** What a connected viewer calls. */
export interface Seat {
  /** There is room again. */
  onRoom(): void;
  /** It is gone. May be called again. */
  leave(): void;
}

export const maxViewers = 256;
const beatMs = 15_000;
/** A viewer that has had no room for so long is disconnected. */
const maxFullMs = 30_000;
/** Then a viewer has to connect, and be authorized, again. */
const sessionMs = 600_000;

export class Watch {
  readonly #source: Source;
  readonly #head: { readonly actions: boolean; readonly prefix: string };
  readonly #viewers = new Set<Viewer>();
  readonly #ledger = new Ledger();
  #timer: NodeJS.Timeout | undefined;
  #isReading = false;
  /** Something changed since the last read began. */
  #isNews = false;
  #unwatch: () => void = () => {};
  /** The ledger has what this watch read. */
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

  /** Somebody looks. */
  join(sink: Sink): Seat {
    const viewer: Viewer = { sink, sinceMs: performance.now(), fullSinceMs: undefined, isBehind: true };
    this.#viewers.add(viewer);
    this.#write(viewer, 'retry: 1000\n\n');
    this.#catchUp(viewer);
    if (this.#viewers.size === 1) this.#start();
    return {
      onRoom: () => {
        viewer.fullSinceMs = undefined;
        this.#catchUp(viewer);
      },
      leave: () => this.#leave(viewer),
    };
  }

  /** A lock was taken from its holder. */
  freed(key: string, id: string): void {
    this.#ledger.lost(key, id, Date.now());
    this.#schedule(true);
  }

  #start(): void {
    this.#beatAtMs = performance.now() + beatMs;
    this.#unwatch = this.#source.look(() => this.#schedule(true));
    if (!this.#isReading) void this.#poll();
  }

  #leave(viewer: Viewer): void {
    if (!this.#viewers.delete(viewer) || this.#viewers.size > 0) return;
    clearTimeout(this.#timer);
    this.#unwatch();
    // The next viewer is sent what is there then.
    this.#hasRead = false;
    this.#down = undefined;
  }

  /** Plans the next read; one that is under way plans it at its end. */
  #schedule(isNews: boolean): void {
    this.#isNews ||= isNews;
    if (this.#isReading || this.#viewers.size === 0) return;
    clearTimeout(this.#timer);
    this.#timer = startIdleTimer(() => void this.#poll(), this.#source.pauseMs(this.#isNews));
  }

  async #poll(): Promise<void> {
    clearTimeout(this.#timer);
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

  #publish(seen: Awaited<ReturnType<Source['read']>>): void {
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

  /** Sends a viewer a snapshot. */
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

  /** Says to every viewer that we are there; ends those that take nothing, and those that were authorized long ago. */
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

/** JSON has no line ends. */
function message(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Only what is known to be harmless: errors of clients may name hosts and users. */
function whatFailed(error: unknown): string {
  const code = (error as { redisCode?: unknown } | undefined)?.redisCode;
  return typeof code === 'string' && /^[A-Z]{2,20}$/.test(code) ? `Redis refuses (${code})` : 'Redis does not answer';
}
