// One command at its work: the place, a lock function there, and an orderly end, for which a silent server is not waited for long.
import { hostname } from 'node:os';
import { type Options, settle } from '../../core/options';
import type { Store } from '../../store/contract';
import { storeOf } from '../../store/open';
import { redisExpLock, type WithLock } from '../../with-lock';
import type { CommandLine } from './command-line';
import { type CliConnection, connect } from './connect';

const closeMs = 1500;

export interface Session {
  readonly connection: CliConnection;
  readonly store: Store;
  readonly withLock: WithLock;
  readonly options: Options & { readonly redis: NonNullable<Options['redis']> };
  /** Put before every key. */
  readonly prefix: string;
  readonly commandTimeoutMs: number;
}

/** What the token of a command that holds a lock begins with. */
export function label(): string {
  return `${hostname()}:${process.pid}`;
}

/** @throws {Exit} the place cannot be reached; and what `work` throws. @param signal Ends the wait for a connection. */
export async function withSession<T>(
  line: CommandLine,
  options: Options,
  work: (session: Session) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const connection = await connect(line, signal);
  const prefix = line.values.prefix ?? '';
  try {
    const all = { ...options, prefix, redis: connection.redis };
    const withLock = redisExpLock(all);
    const store = storeOf(connection.redis);
    const { commandTimeoutMs } = settle(all);
    try {
      return await work({ connection, store, withLock, options: all, prefix, commandTimeoutMs });
    } finally {
      await within(withLock.close({ drain: false }));
    }
  } finally {
    connection.close();
  }
}

/** Its end, however it ends, or that of a while. */
export async function within(work: Promise<unknown>, ms = closeMs): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work.catch(() => {}), over]);
  clearTimeout(timer);
}
