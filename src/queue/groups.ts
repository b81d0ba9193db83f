// Where callers of one factory, or one lock object, wait together for a key that several may hold: readers for one member that all
// of them share (readers.ts), others for permits that are handed off (permits.ts). What they wait for is fetched by an acquisition
// of no caller in particular, with one entry in Redis's queue: a member.
//
// Not shared is what differs in lifetime, owner, fencing, group of readers or number of permits.
import type { Scope } from '../hold/scope';
import { clockOf, type Store } from '../store/contract';
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
      abandon: (request, untilMs) => void store.abandon(request, untilMs),
    };
  }

  /** Where a caller is to wait; it is not there yet. */
  position(terms: MemberTerms, waiter: ShareWaiter): SharePosition {
    return { queue: this.#place(terms), waiter, hasWaited: false, before: undefined, after: undefined };
  }

  /** A writer waits for this key. */
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
