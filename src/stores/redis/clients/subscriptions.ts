// Subscriptions on one connection of our own, whatever the client. The connection never reconnects by itself: when it ends
// we make another, perhaps to another node, subscribe again, and only then report that messages may have been missed.
//
// Invariant: without a subscription there is no connection; neither it nor the pause before the next keeps a process alive.
import type { Subscribe, Subscription } from '../client';

/** A connected subscriber. Its errors are ignored once it has ended. */
export interface Subscriber {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  close(): void;
}

/** Resolves once it is connected. `onEnd`: it will never bring a message again; may be called more than once. */
export type OpenSubscriber = (
  onMessage: (channel: string, message: string) => void,
  onEnd: () => void,
) => Promise<Subscriber>;

interface Listener {
  readonly onMessage: (message: string) => void;
  readonly onGap: () => void;
}

const firstPauseMs = 20;
const longestPauseMs = 1000;

export function subscribeOver(open: OpenSubscriber): Subscribe {
  const subscriptions = new Subscriptions(open);
  return (channel, onMessage, onGap) => subscriptions.subscribe(channel, { onMessage, onGap });
}

class Subscriptions {
  readonly #open: OpenSubscriber;
  readonly #listeners = new Map<string, Set<Listener>>();
  #current: Connection | undefined;
  #recovering = false;
  #endPause: (() => void) | undefined;

  constructor(open: OpenSubscriber) {
    this.#open = open;
  }

  async subscribe(channel: string, listener: Listener): Promise<Subscription> {
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(listener));
    const close = (): void => this.#remove(channel, listener);
    try {
      await this.#connection().confirm(channel);
    } catch (error) {
      close();
      throw error;
    }
    return { close };
  }

  #connection(): Connection {
    this.#current ??= new Connection(this.#open, this.#deliver, this.#lost);
    return this.#current;
  }

  readonly #deliver = (channel: string, message: string): void => {
    for (const { onMessage } of this.#listeners.get(channel) ?? []) onMessage(message);
  };

  readonly #lost = (connection: Connection): void => {
    if (this.#current !== connection) return;
    this.#current = undefined;
    connection.close();
    void this.#recover();
  };

  async #recover(): Promise<void> {
    if (this.#recovering) return;
    this.#recovering = true;
    let recovered = false;
    for (let pauseMs = firstPauseMs; !recovered && this.#listeners.size > 0; ) {
      await this.#pause(pauseMs);
      pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      recovered = await this.#confirmAll();
    }
    this.#recovering = false;
    if (!recovered) return;
    for (const listeners of this.#listeners.values()) for (const { onGap } of listeners) onGap();
  }

  /** Ends early when the last listener goes. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Every channel again. A subscription that was closed meanwhile must not bring a connection back. */
  async #confirmAll(): Promise<boolean> {
    if (this.#listeners.size === 0) return false;
    const connection = this.#connection();
    const all = [...this.#listeners.keys()].map((channel) => connection.confirm(channel));
    return Promise.all(all).then(
      () => this.#current === connection,
      () => false,
    );
  }

  #remove(channel: string, listener: Listener): void {
    const listeners = this.#listeners.get(channel);
    if (!listeners?.delete(listener) || listeners.size > 0) return;
    this.#listeners.delete(channel);
    this.#current?.leave(channel);
    if (this.#listeners.size > 0) return;
    this.#endPause?.();
    this.#current?.close();
    this.#current = undefined;
  }
}

/** One connection from its opening to its end, and the channels that Redis has confirmed on it, or is asked to. */
class Connection {
  readonly #opened: Promise<Subscriber>;
  readonly #channels = new Map<string, Promise<unknown>>();
  /** Never resolves. A client may leave a command without a reply when its connection ends. */
  readonly #ended: Promise<never>;
  #end!: () => void;

  constructor(
    open: OpenSubscriber,
    onMessage: (channel: string, message: string) => void,
    onLost: (connection: Connection) => void,
  ) {
    this.#ended = new Promise((_, reject) => {
      this.#end = () => reject(new Error('the connection for messages was lost'));
    });
    this.#ended.catch(() => {});
    const ended = (): void => {
      this.#end();
      onLost(this);
    };
    this.#opened = open(onMessage, ended);
    this.#opened.catch(ended);
  }

  confirm(channel: string): Promise<unknown> {
    let confirmed = this.#channels.get(channel);
    if (confirmed === undefined) {
      const asked = this.#opened.then((subscriber) => subscriber.subscribe(channel));
      confirmed = Promise.race([asked, this.#ended]);
      confirmed.catch(() => this.#channels.delete(channel));
      this.#channels.set(channel, confirmed);
    }
    return confirmed;
  }

  leave(channel: string): void {
    if (this.#channels.delete(channel))
      this.#opened.then((subscriber) => subscriber.unsubscribe(channel)).catch(() => {});
  }

  close(): void {
    this.#end();
    this.#opened.then((subscriber) => subscriber.close()).catch(() => {});
  }
}
