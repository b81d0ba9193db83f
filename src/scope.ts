// Everything that one factory, or one lock object, has under way: who waits, what is held, which stores it uses. Closing it
// ends all of that and leaves nothing behind. A hold that nobody released is forgotten once its lifetime has passed.
import type { Wait } from './acquire';
import { LockClosedError, optionError } from './errors';
import type { Ground, Hold } from './lease';
import { longestTimerMs, type Settings } from './options';
import type { Store } from './store';
import { type RedisLike, storeOf } from './stores/places';
import { type Lines, linesOf } from './wait/lines';
import type { Line } from './wait/queue';
import { WeakList } from './weak-list';

const smallestSweep = 64;

export class Scope {
  readonly waiting = new Set<Wait>();
  readonly #held = new Set<Hold>();
  /** Not kept by us: with its client, a store can go. */
  readonly #stores = new WeakList<Store>();
  readonly #lines = new WeakList<Lines>();
  readonly #storesOfClients = new WeakMap<object, Store>();
  #ground: Ground | undefined;
  #sweepAt = smallestSweep;
  #closing: Promise<void> | undefined;
  #onChange: (() => void) | undefined;

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** The store of a client. @throws {TypeError} `ERR_LOCK_OPTION` where there is no client, or none that we know. */
  store(client: RedisLike | readonly RedisLike[] | undefined): Store {
    if (client === undefined) throw optionError('redis', 'a connected client, in the factory or the call', client);
    return this.#storesOfClients.get(client) ?? this.#join(client);
  }

  #join(client: RedisLike | readonly RedisLike[]): Store {
    const store = storeOf(client);
    if (!this.#stores.has(store)) {
      this.#stores.add(store);
      store.join();
    }
    this.#storesOfClients.set(client, store);
    return store;
  }

  /** The lines of a store of this scope; undefined where waiting there means counting. */
  lines(store: Store): Lines | undefined {
    const lines = linesOf(store);
    if (lines !== undefined && !this.#lines.has(lines)) {
      this.#lines.add(lines);
      lines.join();
    }
    return lines;
  }

  /** What holds on the same settings and store have in common. */
  ground(settings: Settings, store: Store, line: Line | undefined): Ground {
    if (this.#ground?.settings !== settings || this.#ground.store !== store || this.#ground.line !== line) {
      this.#ground = { settings, store, scope: this, line };
    }
    return this.#ground;
  }

  add(hold: Hold): void {
    this.#held.add(hold);
    if (this.#held.size >= this.#sweepAt) this.#sweep();
  }

  remove(hold: Hold): void {
    this.#held.delete(hold);
    if (this.#held.size === 0) this.#ground = undefined;
    this.#onChange?.();
  }

  /** One of the holds here that is as asked for. Looks at them one by one: for a message, not for a decision. */
  holdThat(isAsked: (hold: Hold) => boolean): Hold | undefined {
    for (const hold of this.#held) if (!hold.ended && isAsked(hold)) return hold;
    return undefined;
  }

  /**
   * Refuses newcomers, rejects who waits, awaits holders for `drainMs`, takes away what is then left.
   * Resolves when all is done; a second call awaits the first.
   */
  close(drainMs: number): Promise<void> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    // What follows has timers that keep no process alive; somebody waits for it now.
    const awake = setInterval(() => {}, longestTimerMs);
    try {
      // Let `closed` be seen before anybody reacts to the rejections.
      await undefined;
      for (const wait of this.waiting) wait.giveUp(new LockClosedError('the lock was closed while waiting for it'));
      await this.#drain(drainMs);
      await Promise.all([...this.#held].map((hold) => hold.takeAway()));
      await Promise.all(this.#stores.all().map((store) => store.leave()));
      for (const lines of this.#lines.all()) lines.part();
    } finally {
      clearInterval(awake);
    }
  }

  async #drain(drainMs: number): Promise<void> {
    const endMs = performance.now() + drainMs;
    for (;;) {
      this.#sweep();
      const leftMs = endMs - performance.now();
      if (this.#held.size === 0 || leftMs <= 0) return;
      let waitMs = Math.min(leftMs, longestTimerMs);
      // What is being released has no time left; its answer ends the wait below.
      for (const hold of this.#held) if (!hold.ended) waitMs = Math.min(waitMs, Math.max(hold.leftMs(), 0));
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.ceil(waitMs));
        this.#onChange = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#onChange = undefined;
    }
  }

  /** Forgets holds whose time is over. Done when their number has doubled, so that each costs a constant. */
  #sweep(): void {
    for (const hold of this.#held) hold.check();
    this.#sweepAt = Math.max(smallestSweep, 2 * this.#held.size);
  }
}
