// The place of the locks, as the options or the environment name it: the address of a Redis, or a table of shared memory.
import { usage } from './exit';

export type LockPlace = { readonly url: URL } | { readonly table: string };

const defaultUrl = 'redis://127.0.0.1:6379';

/** Reads the place from the options. Nothing connects yet. @throws {Exit} an impossible address. */
export function placeOf(values: Readonly<Record<string, unknown>>): LockPlace {
  if (values.store !== undefined) {
    throw usage('--store: memory is of one process alone, and a command is one; use --url, or --shared-memory NAME');
  }
  const table = values['shared-memory'];
  if (table !== undefined) {
    if (values.url !== undefined) throw usage('--url and --shared-memory name two places');
    return { table: String(table) };
  }
  const text = String(values.url ?? (process.env.REDIS_URL || defaultUrl));
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^(rediss?|valkeys?):$/.test(url.protocol) || url.hostname === '') {
    throw usage('--url (or REDIS_URL): an address such as redis://127.0.0.1:6379');
  }
  try {
    credentialsOf(url);
  } catch {
    throw usage('--url (or REDIS_URL): a % in the name or the password is written %25');
  }
  url.protocol = url.protocol.replace('valkey', 'redis');
  return { url };
}

export function credentialsOf({ username, password }: URL): { username?: string; password?: string } {
  return {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
  };
}
