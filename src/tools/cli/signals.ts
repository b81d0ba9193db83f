// Signals from the start of the process on. A signal ends the wait for a lock. While a command runs, each signal is passed on to it.
import { constants } from 'node:os';
import { Exit } from './exit';

export type ForwardedSignal = 'SIGHUP' | 'SIGINT' | 'SIGTERM' | 'SIGQUIT' | 'SIGUSR1' | 'SIGUSR2';
const forwarded: readonly ForwardedSignal[] = ['SIGHUP', 'SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'];

/** The exit code with which a shell reports a command that a signal has ended. */
export function codeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/** Aborts when the process is asked to end. */
export function endOfProcess(): AbortController {
  const end = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => end.abort());
  return end;
}

export class Signals {
  readonly #wait = new AbortController();
  /** Aborts with an Exit at a signal that comes while no command runs, or after a command that was told to end. */
  readonly wait: AbortSignal = this.#wait.signal;
  /** Takes the signals while a command runs. */
  forward: ((signal: ForwardedSignal) => void) | undefined;

  constructor() {
    for (const signal of forwarded) {
      process.on(signal, () => (this.forward === undefined ? this.stop(signal) : this.forward(signal)));
    }
  }

  /** Ends the present wait, or the next wait after the command. */
  stop(signal: ForwardedSignal): void {
    this.#wait.abort(new Exit(codeOf(signal)));
  }
}
