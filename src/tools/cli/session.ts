// The session of one command: the connection, a lock function on it, and an orderly end that does not wait long for a silent server.
import { hostname } from 'node:os';
import type { CloseOptions, Options } from '../../core/option-types';
import type { Store } from '../../store/contract';
import { storeOf } from '../../store/open';
import { redisExpLock, type WithLock } from '../../with-lock';
import type { CommandLine } from './command-line';
import { type CliConnection, connect, inTime } from './connect';

const closeMs = 1500;

interface Closing {
  close(options: CloseOptions): Promise<void>;
}

export interface Session {
  readonly connection: CliConnection;
  readonly store: Store;
  readonly withLock: WithLock;
  readonly options: Options & { readonly redis: NonNullable<Options['redis']> };
  /** The prefix of every key. */
  readonly prefix: string;
  /** Has the session close a lock at its end. Returns the lock. */
  closing<T extends Closing>(lock: T): T;
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
  const { redis } = connection;
  const prefix = line.values.prefix ?? '';
  const all = { ...options, prefix, redis };
  const locks: Closing[] = [];
  const closing = <L extends Closing>(lock: L): L => {
    locks.push(lock);
    return lock;
  };
  try {
    const withLock = closing(redisExpLock(all));
    signal?.throwIfAborted();
    return await work({ connection, store: storeOf(redis), withLock, options: all, prefix, closing });
  } finally {
    const closed = Promise.allSettled(locks.map((lock) => lock.close({ drain: false })));
    await inTime(closed, closeMs).catch(() => {});
    connection.close();
  }
}
