// The channel on which this process receives the wake-ups of one store: that a lock was granted, or that an attempt may succeed.
// The channel is open before the first entry is sent, so that no wake-up is missed in between. After a gap in the subscription,
// every waiter is woken.

import { v4 as uuid } from 'uuid';
import { type Alarm, clearAlarm, systemClock } from '../core/clock';
import { setImmediate } from '../core/real-timers';
import { refusal } from '../store/backend-errors';
import type { Channels, Listening, Store } from '../store/contract';
import { freedChannel } from '../store/operator';
import type { WakeUp } from './queue';

/** Prefix of the channel's name, with the version of the message format. Each entry carries the version of the entry format. */
const channelPrefix = 'redis-exp-lock:1:';

/** The id of an entry with its nonce, and the fence if it was granted, as messages write them. */
const entryText = /^(\d+)\.([\w-]{22})(?:=(\d{1,16}))?$/;

/**
 * Requests now and returns true; returns false if a request is in flight. Unless that request will be answered after the event of this
 * wake-up (`isBehind`), another request follows it.
 */
export type Wake = (isBehind: boolean) => boolean;

interface WakeUpListener {
  readonly key: string;
  /** The part of a release that this waiter would take. */
  readonly takes: number;
  readonly wake: Wake;
}

/** The receiver of the messages about an entry of a queue. */
interface EntryListener {
  readonly key: string;
  wake(wakeUp: WakeUp): unknown;
}

/** The wake-up after messages may have been missed. */
const afterGap: WakeUp = { nonce: undefined, fence: undefined };

export class WakeUps {
  readonly channel = channelPrefix + uuid();
  isOpen = false;
  /** The entries of queues that are in flight or in the Redis queue, by their ids. */
  readonly entries = new Map<string, EntryListener>();
  readonly #channels: Channels;
  readonly #onFreed: (key: string, hash: string) => void;
  readonly #subscribers = new Map<string, WakeUpListener>();
  /** Keys of the callers that wait for the channel to open. */
  readonly #awaited = new Set<string>();
  /** The wait of the callers that wait for the channel to open. */
  #whenOpen: Promise<void> | undefined;
  #opening: Promise<Listening> | undefined;
  /** The channel of operators, which closes with our own. */
  #freed: Promise<Listening> | undefined;
  #ids = 0;
  #scopes = 0;

  /** @param onFreed Receives the locks that operators have taken away. */
  constructor(channels: Channels, onFreed: (key: string, hash: string) => void) {
    this.#channels = channels;
    this.#onFreed = onFreed;
  }

  get subscribers(): number {
    return this.#subscribers.size;
  }

  /** True if a caller waits for the channel to open, to be queued for this key. */
  isAwaited(key: string): boolean {
    return this.#awaited.has(key);
  }

  /** Resolves when a wake-up for `key` would be received. Rejects if the channel cannot be opened. The next call tries again. */
  async open(key: string): Promise<void> {
    this.#opening ??= this.#listen();
    const opening = this.#opening;
    this.#awaited.add(key);
    try {
      await opening; // H27
      // The last scope may have left meanwhile. The channel is then closed again.
      if (this.#opening !== opening) return;
      this.isOpen = true;
      this.#awaited.clear();
    } catch (error) {
      if (this.#opening === opening) this.#onClosed();
      throw refusal(error, key);
    }
  }

  /** Opens both channels. Without that of operators, holders find out at their next renewal that their lock was taken away. */
  #listen(): Promise<Listening> {
    const own = this.#channels.listen(this.channel, this.#onMessage, this.#onGap, this.#onClosed);
    if (!this.#channels.listensAlone) this.#freed = this.#channels.listen(freedChannel, this.#onMessage, () => {});
    this.#freed?.catch(() => {});
    return own;
  }

  /** As `open`, but rejects too if that takes longer than the `withinMs` of the first of the callers that wait. */
  whenOpen(key: string, withinMs: number): Promise<void> {
    this.#awaited.add(key);
    this.#whenOpen ??= new Promise((resolve, reject) => {
      let alarm: Alarm | undefined;
      let isOver = false;
      const end = (settle: () => void): void => {
        if (isOver) return;
        isOver = true;
        clearAlarm(alarm);
        this.#whenOpen = undefined;
        settle();
      };
      // A hundred thousand calls in this turn can take longer than the limit. And after a blocked event loop, timers run before the
      // replies that have arrived are read.
      setImmediate(() => {
        if (!isOver) alarm = systemClock.setAlarm(() => setImmediate(() => end(reject)), withinMs); // H27b
      });
      this.open(key).then(
        () => end(resolve),
        (error) => end(() => reject(error)),
      );
    });
    return this.#whenOpen;
  }

  join(): void {
    this.#scopes += 1;
  }

  /** The channel closes with the last scope. */
  part(): void {
    this.#scopes -= 1;
    if (this.#scopes > 0) return; // H31
    closeOnceOpen(this.#opening);
    this.#onClosed();
  }

  /** An id that is unique among the entries and subscriptions of the channel. */
  newId(): string {
    this.#ids += 1;
    return String(this.#ids);
  }

  /**
   * Calls `wake` from now on when an attempt to acquire `key` may succeed. `takes` is the part of a release that it would take. Returns
   * the id by which messages name the waiter.
   */
  subscribe(key: string, takes: number, wake: Wake): string {
    const id = this.newId();
    this.#subscribers.set(id, { key, takes, wake });
    return id;
  }

  unsubscribe(id: string): void {
    this.#subscribers.delete(id);
  }

  /**
   * Wakes the subscribers of this process that may be next for `key`, which is being released: their requests follow the release in the
   * same command. Redis decides which waiter is next. Other waiters get their message as usual.
   */
  released(key: string, permits: number): void {
    let left = permits;
    for (const subscriber of this.#subscribers.values()) {
      if (left <= 0) return;
      if (subscriber.key !== key) continue;
      if (subscriber.wake(true)) left -= subscriber.takes;
    }
  }

  /**
   * Handles a message: `<id>[,<id>…] <key>`, or `<id>.<nonce>[=<fence>] <key>`, or `!<SHA-1 of the token> <key>` for a lock that an
   * operator took away. The key comes last, so that no part of a key can be mistaken for another field.
   */
  readonly #onMessage = (text: string): void => {
    const ids = text.slice(0, text.indexOf(' '));
    const key = text.slice(ids.length + 1); // H34
    if (ids.startsWith('!')) return this.#onFreed(key, ids.slice(1)); // H88c
    for (const word of ids.split(',')) {
      const [, id = word, nonce, fence] = entryText.exec(word) ?? [];
      const subscriber = this.#subscribers.get(id);
      if (subscriber?.key === key) subscriber.wake(false);
      const entry = this.entries.get(id);
      if (entry?.key === key) entry.wake({ nonce, fence: fence === undefined ? undefined : Number(fence) });
    }
  };

  /** The next wait opens the channel again. */
  readonly #onClosed = (): void => {
    closeOnceOpen(this.#freed);
    this.#opening = undefined;
    this.isOpen = false;
    this.#awaited.clear();
  };

  readonly #onGap = (): void => {
    for (const entry of [...this.entries.values()]) entry.wake(afterGap);
    for (const { wake } of [...this.#subscribers.values()]) wake(false);
  };
}

/**
 * Calls `onNews` at each message of a channel, and whenever messages may have been missed: once the channel is open, and after a gap.
 * Does nothing if the store has no such channel, or cannot open it. The returned function ends that.
 */
export function hear({ channels }: Store, channel: string, onNews: () => void): () => void {
  if (channels === undefined || channels.listensAlone) return () => {};
  const opening = channels.listen(channel, onNews, onNews);
  opening.then(onNews, () => {});
  return () => closeOnceOpen(opening);
}

/** Closes a subscription once it is open, or never if it fails to open. */
function closeOnceOpen(opening: Promise<Listening> | undefined): void {
  opening?.then((listening) => listening.close()).catch(() => {});
}
