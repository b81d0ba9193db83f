// `withLock.list`: its options, checked, and what it gives: an iterable that says what it has covered.
import { optionError } from '../core/errors';
import type { ListedLock } from '../core/lock-state';
import { flag, optionsOf, prefixRule, type Rule, type Settings, signalRule } from '../core/options';
import type { Scope } from '../hold/scope';
import { type Coverage, listLocks } from './snapshot';

/** Which locks `withLock.list` finds. */
export interface ListOptions {
  /** What each key begins with, in place of the factory's `prefix`. */
  prefix?: string | undefined;
  /**
   * Check every key of the server, slowly. Default false: only what processes with `register` have written down. Needs a
   * prefix, or `prefix: ''`.
   */
  scan?: boolean | undefined;
  /** Ends the listing: it rejects with its reason. */
  signal?: AbortSignal | undefined;
}

const rules: Readonly<Record<keyof ListOptions, Rule>> = { prefix: prefixRule, scan: flag, signal: signalRule };

/** The locks of a store. Each iteration reads anew. */
export interface LockList extends AsyncIterable<ListedLock> {
  /** What the last finished iteration covered: the registrations of how many processes, and whether every key was scanned. */
  coverage(): { processes: number; scanned: boolean };
}

/** @internal */
export function lockList(options: ListOptions | undefined, base: Settings, scope: Scope): LockList {
  const { prefix, scan = false, signal } = optionsOf<ListOptions>(options, rules);
  if (scan && (prefix ?? base.prefix) === '' && prefix === undefined) {
    throw optionError('prefix', "a prefix to scan for, or '' for every key", prefix);
  }
  const store = scope.store(base.redis);
  const search = {
    prefix: store.keyPrefix + (prefix ?? base.prefix),
    scan,
    signal,
    commandTimeoutMs: base.commandTimeoutMs,
  };
  let looked: Coverage = { processes: 0, scanned: false };
  return {
    coverage: () => ({ ...looked }),
    async *[Symbol.asyncIterator]() {
      const coverage = { processes: 0, scanned: false };
      for await (const some of listLocks(store.operator, search, coverage)) for (const { lock } of some) yield lock;
      looked = coverage;
    },
  };
}
