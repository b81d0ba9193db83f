// Wait groups: callers of one factory, or of one lock object, that wait together for a key with several holders. A group fetches members
// (holders in Redis) for its callers, each through one entry in the Redis queue. Readers share a member (readers.ts), and permits are
// handed off with theirs (permits.ts).

import type { LockBackendError } from '../core/errors';
import { LinkedList } from '../core/linked-list';
import type { Granted } from '../hold/kept-lock';
import type { Grant, GrantSource, Holder, Mode, Store } from '../store/contract';
import type { Position, Waiter, WaitTerms } from './queue';
import { sharedSourceOf } from './queues';

export interface ShareWaiter extends Waiter {
  granted(grant: Granted): Holder;
  /** Begins to fetch a member with this caller's options, until it is granted or given up. Never answers within the call. */
  fetch(group: WaitGroup): Fetch;
}

export interface Fetch {
  giveUp(): void;
}

export type GroupPosition = Position<ShareWaiter>;

export abstract class WaitGroup {
  readonly terms: WaitTerms;
  readonly mode: Mode;
  /** A fetch is given up when no caller needs it, and has no end of its own. */
  readonly leftMs = Number.POSITIVE_INFINITY;
  readonly store: Store;
  /** Number of fences that a fetch mints. */
  readonly fences: number = 1;
  readonly source: GrantSource;
  protected readonly positions = new LinkedList<GroupPosition>();
  /** Set once a fetch found the key busy. */
  protected hasWaited = false;
  readonly #fetches = new Set<Fetch>();

  constructor(terms: WaitTerms, store: Store) {
    this.terms = terms;
    this.mode = terms.mode!;
    this.store = store;
    this.source = sharedSourceOf(store);
  }

  abstract accepts(): boolean;

  /** Closes the group, because a caller outside it waits for the same key and must not be overtaken. */
  abstract close(): void;

  /** Notes that a writer of this process waits for the key. Among all processes, `bandOf` in scripts/waiters.lua says which is first. */
  writerWaits(): void {
    if (this.mode.prefer !== 'reader') this.close();
  }

  /** The number of members to fetch for the callers that wait. */
  protected abstract get wanted(): number;

  /** Gives a fetched member to callers that wait. `others` is the number of entries still queued for the key. */
  protected abstract fetched(grant: Grant, others: number): void;

  /** Adds a caller. May grant within the call. */
  join(position: GroupPosition): void {
    this.positions.add(position);
    this.fetch();
  }

  leave(position: GroupPosition): void {
    if (this.positions.delete(position)) this.fetch();
  }

  take(grant: Grant, others: number, fetch: Fetch): void {
    this.#fetches.delete(fetch);
    this.fetched(grant, others);
  }

  troubled(error: LockBackendError | undefined): void {
    this.hasWaited = true;
    for (const position of this.positions) {
      position.hasWaited ||= error === undefined;
      position.waiter.troubled(error);
    }
  }

  /** All that wait fail with a fetch that has failed for good. */
  failed(error: unknown, fetch: Fetch): void {
    this.#fetches.delete(fetch);
    while (this.positions.size > 0) this.takeFirst().waiter.failed(error as LockBackendError);
    this.fetch();
  }

  /** Begins the fetches that callers wait for, and gives up the newest ones when there are more fetches than callers. */
  protected fetch(): void {
    while (this.#fetches.size < this.wanted) this.#fetches.add(this.positions.first!.waiter.fetch(this));
    if (this.#fetches.size <= this.positions.size) return;
    for (const fetch of [...this.#fetches].slice(this.positions.size)) {
      this.#fetches.delete(fetch);
      fetch.giveUp();
    }
  }

  protected takeFirst(): GroupPosition {
    const first = this.positions.first!;
    this.positions.delete(first);
    return first;
  }

  protected nowMs(): number {
    return this.store.clock.nowMs();
  }
}
