// The session of one command: the connection, a lock function on it, and an orderly end that does not wait long for a silent server.
import { hostname } from 'node:os';
import type { Options } from '../../core/options';
import type { Store } from '../../store/contract';
import { storeOf } from '../../store/open';
import { redisExpLock, type WithLock } from '../../with-lock';
import type { CommandLine } from './command-line';
import { type CliConnection, connect, inTime } from './connect';

const closeMs = 1500;

export interface Session {
  readonly connection: CliConnection;
  readonly store: Store;
  readonly withLock: WithLock;
  readonly options: Options & { readonly redis: NonNullable<Options['redis']> };
  /** The prefix of every key. */
  readonly prefix: string;
}

/** The owner in the tokens of this command. */
export function label(): string {
  return `${hostname()}:${process.pid}`;
}

/** Runs `work` in a session. @throws {Exit} the server cannot be reached; or the error of `work`. @param signal Ends the connecting. */
export async function withSession<T>(
  line: CommandLine,
  options: Options,
  work: (session: Session) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const connection = await connect(line.place, signal);
  const prefix = line.values.prefix ?? '';
  const all = { ...options, prefix, redis: connection.redis };
  const withLock = redisExpLock(all);
  try {
    signal?.throwIfAborted();
    return await work({ connection, store: storeOf(connection.redis), withLock, options: all, prefix });
  } finally {
    await withinLimit(withLock.close({ drain: false }));
    connection.close();
  }
}

/** Waits until `work` has settled, but not long for a silent server. */
export async function withinLimit(work: Promise<unknown>): Promise<void> {
  await inTime(work, closeMs).catch(() => {});
}
