// What an operator does with the locks of a factory: `withLock.list` shows them, and `withLock.free` takes one from its holder.
import { optionError } from '../core/errors';
import type { ListedLock } from '../core/lock-state';
import { flag, optionsOf, prefixRule, type Rule, type Settings, signalRule, textRule } from '../core/options';
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

const listRules: Readonly<Record<keyof ListOptions, Rule>> = { prefix: prefixRule, scan: flag, signal: signalRule };

/** The locks of a store. Each iteration reads them again. */
export interface LockList extends AsyncIterable<ListedLock> {
  /** The coverage of the last finished iteration: the number of registered processes, and if every key was scanned. */
  coverage(): { processes: number; scanned: boolean };
}

/** @internal */
export function lockList(options: ListOptions | undefined, base: Settings, scope: Scope): LockList {
  const { prefix, scan = false, signal } = optionsOf<ListOptions>(options, listRules);
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

/** The holders that `withLock.free` takes a lock from: set `id` or `force`. */
export interface FreeOptions {
  /** The id of the holder, as `inspect` shows it. Nothing changes if that holder no longer has the lock. */
  id?: string | undefined;
  /** Takes the lock from all its holders, without an id. Default false. */
  force?: boolean | undefined;
}

const freeRules: Readonly<Record<keyof FreeOptions, Rule>> = {
  id: {
    ...textRule,
    expected: 'the id of a holder, as inspect shows it: 8 hex digits',
    possible: (value: string) => /^[0-9a-f]{8}$/.test(value),
  },
  force: flag,
};

/** @internal */
export async function freeLock(key: string, options: FreeOptions, base: Settings, scope: Scope): Promise<boolean> {
  const { id, force } = optionsOf<FreeOptions>(options, freeRules);
  if (id === undefined && force !== true) throw optionError('options', '`id`, or `force: true`', options);
  return scope.ask(key, base, (store, full, timeoutMs) => store.operator.free(full, force ? undefined : id, timeoutMs));
}
