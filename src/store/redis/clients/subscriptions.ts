// Subscriptions on one connection of our own, for any client. The connection never reconnects by itself. When it ends, our side
// opens another, perhaps to another node, subscribes again, and only then reports that messages may have been missed. An idle
// connection never learns that its server stands still or that the network is gone, so it is pinged now and then.
//
// Invariant: there is no connection without a subscription, nor after the owner has closed the client. Neither the connection
// nor a timer here keeps a process alive.
import { type Alarm, clearAlarm, idle, systemClock } from '../../../core/clock';
import type { Channels } from '../../contract';

/** A connected subscriber, whose errors are ignored after its end. */
export interface Subscriber {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Settles, in either way, when the server replies; absent if the client pings by itself. */
  ping?(): Promise<unknown>;
  close(): void;
}

/** Opens a subscriber; resolves once it is connected. `onEnd`: the subscriber will never bring a message again; may be called more than once. */
export type OpenSubscriber = (
  onMessage: (channel: string, message: string) => void,
  onEnd: () => void,
) => Promise<Subscriber>;

interface Listener {
  readonly onMessage: (message: string) => void;
  readonly onGap: () => void;
  readonly onClosed: (() => void) | undefined;
}

const firstPauseMs = 20;
const maxPauseMs = 1000;
/** The interval of pings; a connection whose ping has no reply by the next one is lost. */
export const heartbeatMs = 5000;

/** @param isClosed True once the owner has closed the client. */
export function subscribeOver(open: OpenSubscriber, isClosed: () => boolean): Channels['listen'] {
  const listeners = new Map<string, Set<Listener>>();
  let current: SubscriberConnection | undefined;
  let recovery: Alarm | undefined;
  /** The pause before the next recovery. */
  let pauseMs = firstPauseMs;

  function connection(): SubscriberConnection {
    current ??= new SubscriberConnection(open, deliver, onLost, onBeat); // H30b
    return current;
  }

  function deliver(channel: string, message: string): void {
    for (const { onMessage } of listeners.get(channel) ?? []) onMessage(message);
  }

  function onLost(lost: SubscriberConnection): void {
    if (current !== lost) return;
    current = undefined;
    lost.close();
    recoverSoon(); // H28b
  }

  function onBeat(beating: SubscriberConnection): void {
    if (isClosed()) endAll();
    else beating.beat();
  }

  function recoverSoon(): void {
    clearAlarm(recovery);
    recovery = systemClock.setIdleAlarm(recover, pauseMs);
    pauseMs = Math.min(2 * pauseMs, maxPauseMs);
  }

  /** Subscribes to every channel again. If the connection is lost meanwhile, another recovery is due already. */
  function recover(): void {
    if (isClosed()) return endAll();
    const recovering = connection();
    const all = [...listeners.keys()].map((channel) => recovering.confirm(channel));
    const onRecovered = (): void => {
      if (current !== recovering) return;
      pauseMs = firstPauseMs;
      for (const some of listeners.values()) for (const { onGap } of some) onGap();
    };
    Promise.all(all).then(onRecovered, () => current === recovering && recoverSoon());
  }

  function remove(channel: string, listener: Listener): void {
    const some = listeners.get(channel);
    if (!some?.delete(listener) || some.size > 0) return;
    listeners.delete(channel);
    current?.leave(channel);
    if (listeners.size === 0) end();
  }

  /** Ends as if every listener had unsubscribed, although none did. */
  function endAll(): void {
    const all = [...listeners.values()].flatMap((some) => [...some]);
    listeners.clear();
    end();
    for (const { onClosed } of all) onClosed?.();
  }

  function end(): void {
    clearAlarm(recovery);
    pauseMs = firstPauseMs;
    const ended = current;
    current = undefined;
    ended?.close();
  }

  return async (channel, onMessage, onGap, onClosed) => {
    const listener = { onMessage, onGap, onClosed };
    listeners.set(channel, (listeners.get(channel) ?? new Set()).add(listener));
    const close = (): void => remove(channel, listener);
    try {
      await connection().confirm(channel);
    } catch (error) {
      close();
      throw error;
    }
    return { close };
  };
}

/** One connection from its opening to its end, with the channels that are confirmed on it or requested. */
class SubscriberConnection {
  readonly #opened: Promise<Subscriber>;
  readonly #channels = new Map<string, Promise<unknown>>();
  /** Rejects at the end of the connection, and never resolves: a client may leave a command without a reply then. */
  readonly #ended: Promise<never>;
  #end!: () => void;
  /** True if the last ping has a reply, or at first if the connection is open. */
  #isAnswered = false;

  constructor(
    open: OpenSubscriber,
    onMessage: (channel: string, message: string) => void,
    onLost: (connection: SubscriberConnection) => void,
    onBeat: (connection: SubscriberConnection) => void,
  ) {
    const heart = idle(setInterval(() => onBeat(this), heartbeatMs)); // H35b
    this.#ended = new Promise((_, reject) => {
      this.#end = () => {
        clearInterval(heart);
        reject(new Error('the connection for messages was lost'));
        onLost(this);
      };
    });
    this.#ended.catch(() => {});
    this.#opened = open(onMessage, this.#end);
    this.#opened.then(this.#answered, this.#end);
  }

  /** Pings the server; ends the connection if the last ping has no reply. */
  beat(): void {
    // A process that stood still first reads the replies that arrived meanwhile.
    if (!this.#isAnswered) return void setImmediate(() => this.#isAnswered || this.#end());
    this.#isAnswered = false;
    this.#opened.then((subscriber) => subscriber.ping?.()).then(this.#answered, this.#answered);
  }

  readonly #answered = (): void => {
    this.#isAnswered = true;
  };

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
