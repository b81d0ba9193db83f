// The wait groups of one factory, or of one lock object. Each key has one group that callers may join. Callers that differ in lifetime,
// owner, fencing, group of readers or number of permits never share a group.
import { perScopeAndStore } from '../hold/scope';
import type { Store } from '../store/contract';
import type { WaitGroup } from './group';
import { Permits } from './permits';
import { mayShare, type WaitTerms } from './queue';
import { Readers } from './readers';

export const groupsOf = perScopeAndStore(() => new Map<string, WaitGroup>());

/** The group that waits on these terms. */
export function groupFor(groups: Map<string, WaitGroup>, terms: WaitTerms, store: Store): WaitGroup {
  const last = groups.get(terms.key);
  if (last !== undefined && mayShare(last.terms, terms) && last.accepts()) return last;
  last?.close();
  const group = terms.mode?.kind === 'shared' ? new Readers(terms, store) : new Permits(terms, store);
  groups.set(terms.key, group);
  return group;
}
