// Messages on one connection of our own, whatever the client. The connection never redials by itself: when it ends we make
// another, perhaps to another node, subscribe again, and only then tell everybody that messages may have been missed. A connection
// over which nothing is sent never learns that its server stands still or that the network is gone: so it is asked now and then.
//
// Invariant: without a subscription there is no connection, nor once the owner has closed the client; neither it nor a timer here
// keeps a process alive.

/**
 * Resolves once Redis has confirmed; rejects when the connection for it cannot be made. Redis is asked again later only for
 * who has subscribed.
 *
 * @param onGap   Messages may have been missed: the connection was lost, and is subscribed again.
 * @param onClosed No message will come any more: the owner has closed the client. Who wants some subscribes again.
 */
export type Subscribe = (
  channel: string,
  onMessage: (message: string) => void,
  onGap: () => void,
  onClosed?: () => void,
) => Promise<Subscription>;

export interface Subscription {
  /** At once and for good; a second call does nothing. Others on the same channel stay. */
  close(): void;
}

/** A connection for messages. What it rejects with, or throws, matters to nobody once it has ended. */
export interface Line {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Settles, in whatever way, when the server answers; absent where others see to it that it does. */
  ping?(): Promise<unknown>;
  close(): void;
}

/** Resolves with a line that is connected. `onEnd`: it will never bring a message again; may be called more than once. */
export type OpenLine = (onMessage: (channel: string, message: string) => void, onEnd: () => void) => Promise<Line>;

interface Listener {
  readonly onMessage: (message: string) => void;
  readonly onGap: () => void;
  readonly onClosed: (() => void) | undefined;
}

const firstPauseMs = 20;
const longestPauseMs = 1000;
/** Between two questions whether the server still answers; what has no answer by the next is lost. */
export const heartbeatMs = 5000;

/** @param isClosed Whether the owner has closed the client. */
export function subscriber(open: OpenLine, isClosed: () => boolean): Subscribe {
  const messages = new Messages(open, isClosed);
  return (channel, onMessage, onGap, onClosed) => messages.subscribe(channel, { onMessage, onGap, onClosed });
}

class Messages {
  readonly #open: OpenLine;
  readonly #isClosed: () => boolean;
  readonly #listeners = new Map<string, Set<Listener>>();
  #current: Current | undefined;
  #recovering = false;
  #endPause: (() => void) | undefined;

  constructor(open: OpenLine, isClosed: () => boolean) {
    this.#open = open;
    this.#isClosed = isClosed;
  }

  async subscribe(channel: string, listener: Listener): Promise<Subscription> {
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(listener));
    const close = (): void => this.#remove(channel, listener);
    try {
      await this.#line().confirm(channel);
    } catch (error) {
      close();
      throw error;
    }
    return { close };
  }

  #line(): Current {
    this.#current ??= new Current(this.#open, this.#deliver, this.#lost, this.#beat);
    return this.#current;
  }

  readonly #deliver = (channel: string, message: string): void => {
    for (const { onMessage } of this.#listeners.get(channel) ?? []) onMessage(message);
  };

  readonly #lost = (line: Current): void => {
    if (this.#current !== line) return;
    this.#current = undefined;
    line.close();
    void this.#recover();
  };

  readonly #beat = (line: Current): void => {
    if (this.#isClosed()) this.#endAll();
    else line.beat();
  };

  /** As if everybody had unsubscribed, and nobody did. */
  #endAll(): void {
    const all = [...this.#listeners.values()].flatMap((listeners) => [...listeners]);
    this.#listeners.clear();
    this.#end();
    for (const { onClosed } of all) onClosed?.();
  }

  #end(): void {
    this.#endPause?.();
    this.#current?.close();
    this.#current = undefined;
  }

  async #recover(): Promise<void> {
    if (this.#recovering) return;
    this.#recovering = true;
    let recovered = false;
    for (let pauseMs = firstPauseMs; !recovered && this.#listeners.size > 0; ) {
      await this.#pause(pauseMs);
      if (this.#isClosed()) this.#endAll();
      pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      recovered = await this.#confirmAll();
    }
    this.#recovering = false;
    if (!recovered) return;
    for (const listeners of this.#listeners.values()) for (const { onGap } of listeners) onGap();
  }

  /** Ends early when nobody listens any more. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Every channel again. Who closed his meanwhile must not bring a connection back. */
  async #confirmAll(): Promise<boolean> {
    if (this.#listeners.size === 0) return false;
    const line = this.#line();
    const all = [...this.#listeners.keys()].map((channel) => line.confirm(channel));
    return Promise.all(all).then(
      () => this.#current === line,
      () => false,
    );
  }

  #remove(channel: string, listener: Listener): void {
    const listeners = this.#listeners.get(channel);
    if (!listeners?.delete(listener) || listeners.size > 0) return;
    this.#listeners.delete(channel);
    this.#current?.leave(channel);
    if (this.#listeners.size === 0) this.#end();
  }
}

/** One line from its opening to its end, and the channels that Redis has confirmed on it, or is asked to. */
class Current {
  readonly #opened: Promise<Line>;
  readonly #channels = new Map<string, Promise<unknown>>();
  /** Never resolves. A client may leave a question without an answer when its connection ends. */
  readonly #ended: Promise<never>;
  readonly #heart: NodeJS.Timeout;
  readonly #onEnd: () => void;
  #end!: () => void;
  /** Whether the server has answered what it was asked last: at first, to let us in. */
  #isAnswered = false;

  constructor(
    open: OpenLine,
    onMessage: (channel: string, message: string) => void,
    onLost: (line: Current) => void,
    onBeat: (line: Current) => void,
  ) {
    this.#ended = new Promise((_, reject) => {
      this.#end = () => reject(new Error('the connection for messages was lost'));
    });
    this.#ended.catch(() => {});
    this.#heart = setInterval(() => onBeat(this), heartbeatMs).unref();
    this.#onEnd = () => {
      this.#stop();
      onLost(this);
    };
    this.#opened = open(onMessage, this.#onEnd);
    this.#opened.then(this.#answered, this.#onEnd);
  }

  /** Asks whether the server is there; or ends, where it has not answered since the last time. */
  beat(): void {
    // A process that stood still reads first what has arrived meanwhile.
    if (!this.#isAnswered) return void setImmediate(() => this.#isAnswered || this.#onEnd());
    this.#isAnswered = false;
    this.#opened.then((line) => line.ping?.()).then(this.#answered, this.#answered);
  }

  readonly #answered = (): void => {
    this.#isAnswered = true;
  };

  #stop(): void {
    clearInterval(this.#heart);
    this.#end();
  }

  confirm(channel: string): Promise<unknown> {
    let confirmed = this.#channels.get(channel);
    if (confirmed === undefined) {
      const asked = this.#opened.then((line) => line.subscribe(channel));
      confirmed = Promise.race([asked, this.#ended]);
      confirmed.catch(() => this.#channels.delete(channel));
      this.#channels.set(channel, confirmed);
    }
    return confirmed;
  }

  leave(channel: string): void {
    if (this.#channels.delete(channel)) this.#opened.then((line) => line.unsubscribe(channel)).catch(() => {});
  }

  close(): void {
    this.#stop();
    this.#opened.then((line) => line.close()).catch(() => {});
  }
}
