// The one channel on which this process hears, for one store, that it was granted a lock or may try for one. It is open before
// the first entry is sent, so that no wake-up falls between the two; when it was closed for a while, every waiter is woken.

import { v4 as uuid } from 'uuid';
import { setImmediate } from '../core/real-timers';
import { refusal } from '../store/backend-errors';
import type { Listening, Store } from '../store/contract';
import { freedChannel } from '../store/operator';
import type { WakeUp } from './queue';

/** The version is that of the messages, as each entry has that of the entries. */
const channelPrefix = 'redis-exp-lock:1:';

/** What a message calls an entry; with the fence that it was granted under. */
const entryText = /^(\d+)\.([\w-]{22})(?:=(\d{1,16}))?$/;

/**
 * Requests now, and says so; false: its request is on its way. Where that may have been answered before what it is woken for
 * (`isBehind` false), it requests once more.
 */
export type Wake = (isBehind: boolean) => boolean;

/** A waiter for a key that several may hold, which is woken by its own name. */
export interface WakeUpSubscription {
  readonly channel: string;
  readonly id: string;
  leave(): void;
}

interface WakeUpListener {
  readonly key: string;
  /** How much of the key it wants. */
  readonly takes: number;
  readonly wake: Wake;
}

/** What else is woken on the channel. */
interface Others {
  wake(id: string, key: string, wakeUp: WakeUp): void;
  /** An operator has taken a lock away. */
  freed(key: string, hash: string): void;
  /** Wake-ups may have been missed. */
  gap(): void;
}

export class WakeUps {
  readonly channel = channelPrefix + uuid();
  readonly #listen: NonNullable<Store['listen']>;
  readonly #listensAlone: boolean;
  readonly #others: Others;
  readonly #subscribers = new Map<string, WakeUpListener>();
  /** How many wait for the channel to open, for each key. */
  readonly #awaited = new Map<string, number>();
  #opening: Promise<Listening> | undefined;
  #isOpen = false;
  #ids = 0;
  #scopes = 0;

  /** @param listensAlone Messages for all channels are received on the own one. */
  constructor(listen: NonNullable<Store['listen']>, listensAlone: boolean, others: Others) {
    this.#listen = listen;
    this.#listensAlone = listensAlone;
    this.#others = others;
  }

  /** Whether a wake-up would be heard. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether a caller waits for that, to be queued for this key. */
  isAwaited(key: string): boolean {
    return this.#awaited.has(key);
  }

  /** Resolves once a wake-up for `key` would be heard. Rejects where the channel cannot be heard; the next call tries again. */
  async open(key: string): Promise<void> {
    this.#awaited.set(key, (this.#awaited.get(key) ?? 0) + 1);
    this.#opening ??= this.#listenToAll();
    const opening = this.#opening;
    try {
      await opening; // H27
      // The last scope may have left while it was being opened; then it is closed again.
      if (this.#opening === opening) this.#isOpen = true;
    } catch (error) {
      if (this.#opening === opening) this.#opening = undefined;
      throw refusal(error, key);
    } finally {
      const others = this.#awaited.get(key)! - 1;
      if (others > 0) this.#awaited.set(key, others);
      else this.#awaited.delete(key);
    }
  }

  /** Also where operators tell what they have taken away: without that, a holder learns of it at its next renewal. */
  async #listenToAll(): Promise<Listening> {
    const own = this.#listen(this.channel, this.#onMessage, this.#onGap, this.#onClosed);
    const freed = this.#listensAlone ? undefined : this.#listen(freedChannel, this.#onMessage, () => {});
    freed?.catch(() => {});
    const { close } = await own;
    return {
      close: () => {
        close();
        freed?.then(
          (listening) => listening.close(),
          () => {},
        );
      },
    };
  }

  /**
   * Calls `opened` once a wake-up for `key` would be heard, or `failed` where none can be, or not within so many ms. One of
   * them, once; neither after what is returned was called.
   */
  whenOpen(key: string, withinMs: number, opened: () => void, failed: (error: unknown) => void): () => void {
    let isOver = false;
    const end = (call?: () => void): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      call?.();
    };
    // After a blocked event loop, timers run before the replies that have arrived are read.
    const timer = setTimeout(() => setImmediate(() => end(() => failed(undefined))), withinMs); // H27b
    this.open(key).then(
      () => end(opened),
      (error) => end(() => failed(error)),
    );
    return () => end();
  }

  /** One more scope waits here. */
  join(): void {
    this.#scopes += 1;
  }

  /** One scope less; with the last one the channel closes. */
  part(): void {
    this.#scopes -= 1;
    if (this.#scopes > 0) return; // H31
    this.#opening?.then(
      (listening) => listening.close(),
      () => {},
    );
    this.#opening = undefined;
    this.#isOpen = false;
  }

  /** A name that no other entry or subscription of the channel has. */
  newId(): string {
    this.#ids += 1;
    return String(this.#ids);
  }

  /** From now on `wake` is called when `key`, of which it takes so much, may be had. */
  subscribe(key: string, takes: number, wake: Wake): WakeUpSubscription {
    const id = this.newId();
    this.#subscribers.set(id, { key, takes, wake });
    return { channel: this.channel, id, leave: () => this.#subscribers.delete(id) };
  }

  /**
   * `key` is being released: the subscribers of this process that may be next request in the same tick, and so in the same
   * command, behind that release. Which is next is Redis's to say; the others are woken as always.
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
   * `<id>[,<id>…] <key>`, or `<id>.<nonce>[=<fence>] <key>`; of a lock that was taken away `!<SHA-1 of its token> <key>`. The key comes last, so that whatever it contains cannot be taken for
   * anything else.
   */
  readonly #onMessage = (text: string): void => {
    const ids = text.slice(0, text.indexOf(' '));
    const key = text.slice(ids.length + 1); // H34
    if (ids.startsWith('!')) return this.#others.freed(key, ids.slice(1)); // H88c
    for (const word of ids.split(',')) {
      const [, id = word, nonce, fence] = entryText.exec(word) ?? [];
      const subscriber = this.#subscribers.get(id);
      if (subscriber?.key === key) subscriber.wake(false);
      else this.#others.wake(id, key, { nonce, fence: fence === undefined ? undefined : Number(fence) });
    }
  };

  /** The next wait opens it again. */
  readonly #onClosed = (): void => {
    this.#opening = undefined;
    this.#isOpen = false;
  };

  readonly #onGap = (): void => {
    this.#others.gap();
    for (const { wake } of [...this.#subscribers.values()]) wake(false);
  };
}
