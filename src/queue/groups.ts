// The wait groups of one factory, or of one lock object. Each key has one group that callers may join. Callers that differ in lifetime,
// owner, fencing, group of readers or number of permits never share a group.
import { perScopeAndStore } from '../hold/scope';
import type { Store } from '../store/contract';
import { GroupPosition, type MemberTerms, type ShareWaiter, type WaitGroup } from './group';
import { Permits } from './permits';
import { Readers } from './readers';

export const groupsOf = perScopeAndStore((store) => new WaitGroups(store));

export class WaitGroups {
  readonly #store: Store;
  readonly #groups = new Map<string, WaitGroup>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** A position in the matching group. The caller has not joined yet. */
  position(terms: MemberTerms, waiter: ShareWaiter): GroupPosition {
    return new GroupPosition(this.#group(terms), waiter);
  }

  writerWaits(key: string): void {
    this.#groups.get(key)?.writerWaits();
  }

  #group(terms: MemberTerms): WaitGroup {
    const last = this.#groups.get(terms.key);
    if (last !== undefined && isSame(last.terms, terms) && last.accepts()) return last;
    last?.close();
    const group = terms.mode.kind === 'shared' ? new Readers(terms, this.#store) : new Permits(terms, this.#store);
    this.#groups.set(terms.key, group);
    return group;
  }
}

function isSame(one: MemberTerms, other: MemberTerms): boolean {
  const { lifetimeMs, fencing, owner, mode } = other;
  const { kind, prefer, group, permits } = one.mode;
  const isSameMode = kind === mode.kind && prefer === mode.prefer && group === mode.group && permits === mode.permits;
  return isSameMode && one.lifetimeMs === lifetimeMs && one.fencing === fencing && one.owner === owner; // H84c
}
