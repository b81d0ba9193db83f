// Wait groups: callers of one factory, or of one lock object, that wait together for a key with several holders. Readers wait for one
// member that they all share (readers.ts). Callers of permits wait for members that are handed off (permits.ts). A member is one
// holder in Redis. A group fetches it with an acquisition that belongs to no caller, through one entry in the Redis queue.
//
// Callers that differ in lifetime, owner, fencing, group of readers or number of permits never share a group.

import { clockOf } from '../core/clock';
import type { Scope } from '../hold/scope';
import type { Store } from '../store/contract';
import type { MemberPort, MemberTerms, SharePosition, ShareWaiter, WaitGroup } from './group';
import { Permits } from './permits';
import { Readers } from './readers';

const groupsOfScopes = new WeakMap<Scope, WeakMap<Store, WaitGroups>>();

/** The groups that callers of a scope form on a store. */
export function groupsOf(scope: Scope, store: Store): WaitGroups {
  return groupsOfScopes.get(scope)?.get(store) ?? newGroups(scope, store);
}

function newGroups(scope: Scope, store: Store): WaitGroups {
  const groups = new WaitGroups(store);
  const byStore = groupsOfScopes.get(scope) ?? new WeakMap<Store, WaitGroups>();
  groupsOfScopes.set(scope, byStore.set(store, groups));
  return groups;
}

export class WaitGroups {
  readonly #port: MemberPort;
  readonly #places = new Map<string, WaitGroup>();

  constructor(store: Store) {
    const clock = clockOf(store);
    this.#port = {
      nowMs: () => clock.nowMs(),
      acquire: (request) => store.acquire(request),
      extend: (request) => store.extend(request),
      abandon: (request, late) => void store.abandon(request, late),
    };
  }

  /** A position in the matching group. The caller has not joined yet. */
  position(terms: MemberTerms, waiter: ShareWaiter): SharePosition {
    return { queue: this.#place(terms), waiter, hasWaited: false, before: undefined, after: undefined };
  }

  /** Closes the group of a key for which a writer waits, unless its readers are preferred. */
  close(key: string): void {
    const place = this.#places.get(key);
    if (place?.terms.mode.prefer !== 'reader') place?.close();
  }

  #place(terms: MemberTerms): WaitGroup {
    const last = this.#places.get(terms.key);
    if (last !== undefined && isSame(last.terms, terms) && last.accepts()) return last;
    last?.close();
    const place = terms.mode.kind === 'shared' ? new Readers(terms, this.#port) : new Permits(terms, this.#port);
    this.#places.set(terms.key, place);
    return place;
  }
}

function isSame(one: MemberTerms, other: MemberTerms): boolean {
  const { lifetimeMs, fencing, owner, mode } = other;
  const { kind, prefer, group, permits } = one.mode;
  const isSameMode = kind === mode.kind && prefer === mode.prefer && group === mode.group && permits === mode.permits;
  return isSameMode && one.lifetimeMs === lifetimeMs && one.fencing === fencing && one.owner === owner; // H84c
}
