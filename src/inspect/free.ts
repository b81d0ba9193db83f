// `withLock.free`, with which an operator takes a lock away from its holder.
import { optionError } from '../core/errors';
import { flag, optionsOf, type Rule, type Settings } from '../core/options';
import type { Scope } from '../hold/scope';

/** The holders that `withLock.free` takes a lock from: set `id` or `force`. */
export interface FreeOptions {
  /** The id of the holder, as `inspect` shows it. Nothing changes if that holder no longer has the lock. */
  id?: string | undefined;
  /** Takes the lock from all its holders, without an id. Default false. */
  force?: boolean | undefined;
}

const rules: Readonly<Record<keyof FreeOptions, Rule>> = {
  id: {
    expected: 'the id of a holder, as inspect shows it: 8 hex digits',
    kind: (value) => typeof value === 'string',
    possible: (value: string) => /^[0-9a-f]{8}$/.test(value),
  },
  force: flag,
};

/** @internal */
export async function freeLock(key: string, options: FreeOptions, base: Settings, scope: Scope): Promise<boolean> {
  const { id, force } = optionsOf<FreeOptions>(options, rules);
  if (id === undefined && force !== true) throw optionError('options', '`id`, or `force: true`', options);
  return scope.ask(key, base, (store, full, timeoutMs) => store.operator.free(full, force ? undefined : id, timeoutMs));
}
