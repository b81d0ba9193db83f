// The keys of redlock's resources. A key that the library itself would refuse has no queue, and neither have several keys. Callers of
// such keys poll, as redlock does, so a single key of that kind stays a list.
import { optionError } from '../../core/errors';
import { type Key, mayBeLock, peerKey } from '../../core/keys';

/** @throws {TypeError | RangeError} `ERR_LOCK_OPTION`, before any I/O. */
export function keysOf(resources: unknown, prefix: string): Key {
  if (!Array.isArray(resources)) throw optionError('resources', 'an array of strings', resources);
  if (resources.length === 0) throw optionError('resources', 'at least one key in the array', resources, 'range');
  const keys = [...new Set(resources.map((each) => peerKey(each, prefix)))].sort();
  const [first] = keys;
  return keys.length === 1 && mayBeLock(first!) ? first! : keys;
}
