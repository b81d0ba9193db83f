// `withLock.list`: the check of its options, and its result, an iterable that also reports its coverage.
import { optionError } from '../core/errors';
import type { ListedLock } from '../core/lock-state';
import { flag, optionsOf, prefixRule, type Rule, type Settings, signalRule } from '../core/options';
import type { Scope } from '../hold/scope';
import { readSnapshot } from './snapshot';

/** Options that select the locks of `withLock.list`. */
export interface ListOptions {
  /** The prefix of the keys, in place of the factory's `prefix`. */
  prefix?: string | undefined;
  /**
   * Checks every key of the server, which is slow. Needs a prefix, or `prefix: ''`. Default false: lists the locks that processes with
   * `register` have registered.
   */
  scan?: boolean | undefined;
  /** Ends the listing, which then rejects with the reason of this signal. */
  signal?: AbortSignal | undefined;
}

const rules: Readonly<Record<keyof ListOptions, Rule>> = { prefix: prefixRule, scan: flag, signal: signalRule };

/** The locks of a store. Each iteration reads them again. */
export interface LockList extends AsyncIterable<ListedLock> {
  /** The coverage of the last finished iteration: the number of registered processes, and if every key was scanned. */
  coverage(): { processes: number; scanned: boolean };
}

/** @internal */
export function lockList(options: ListOptions | undefined, base: Settings, scope: Scope): LockList {
  const { prefix, scan = false, signal } = optionsOf<ListOptions>(options, rules);
  if (scan && prefix === undefined && base.prefix === '') {
    throw optionError('prefix', "a prefix to scan for, or '' for every key", prefix);
  }
  const store = scope.store(base.redis);
  const { commandTimeoutMs } = base;
  const search = { prefix: store.keyPrefix + (prefix ?? base.prefix), scan, signal, commandTimeoutMs };
  let coverage = { processes: 0, scanned: false };
  return {
    coverage: () => ({ ...coverage }),
    async *[Symbol.asyncIterator]() {
      const snapshot = await readSnapshot(store.operator, search);
      for await (const some of snapshot.locks()) for (const { lock } of some) yield lock;
      coverage = snapshot.coverage;
    },
  };
}
