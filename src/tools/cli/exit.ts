// The failures of a command, each with an exit code and one line that gives the reason.
import { LockBackendError, LockBusyError, LockLostError } from '../../core/errors';

export const exitCodes = {
  failed: 1,
  usage: 64,
  unreachable: 69,
  software: 70,
  busy: 75,
  lost: 76,
  notExecutable: 126,
  notFound: 127,
} as const;

/** Ends the program with an exit code. The message is written to stderr unless it is empty. */
export class Exit extends Error {
  readonly code: number;

  constructor(code: number, message = '') {
    super(message);
    this.code = code;
  }
}

export function usage(message: string): Exit {
  return new Exit(exitCodes.usage, `${message} (try --help)`);
}

/** The exit for an error. @param busyCode The value of `-E`. */
export function exitOf(error: unknown, busyCode: number = exitCodes.busy): Exit {
  if (error instanceof Exit) return error;
  const { message, code } = error as Error & { code?: unknown };
  if (error instanceof LockBusyError) return new Exit(busyCode, message);
  if (error instanceof LockLostError) return new Exit(exitCodes.lost, message);
  if (error instanceof LockBackendError) return new Exit(exitCodes.unreachable, message);
  if (code === 'ERR_LOCK_OPTION') return usage(message);
  return new Exit(exitCodes.software, message ?? String(error));
}
