// The command that runs under a lock: no shell, in a process group of its own, which gets every signal and is ended as a whole.
//
// Invariant: once the lock is lost, this resolves only when no process of the group is left.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { exitCodes } from './exit';
import { codeOf, type ForwardedSignal, type Signals } from './signals';
import { note } from './text';

export interface Run {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** In the terminal's own group: only the command itself gets signals. */
  readonly foreground: boolean;
  readonly killAfterMs: number;
  /** Aborts when the lock is lost. */
  readonly lost: AbortSignal;
  readonly signals: Signals;
}

const pollMs = 20;
/** What was killed is gone by then, unless the kernel keeps it. */
const goneMs = 5000;
/** A terminal sends these to its whole group by itself. */
const fromTerminal: readonly string[] = ['SIGINT', 'SIGQUIT'];
const ending: readonly string[] = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'];

/** Resolves to the exit code: the command's own, 128 + its signal, 126 or 127; 76 once the lock was lost. */
export function runCommand({ command, env, foreground, killAfterMs, lost, signals }: Run): Promise<number> {
  const [file, ...args] = command as [string, ...string[]];
  return new Promise((resolve) => {
    const child = spawn(file, args, { stdio: 'inherit', detached: !foreground, env: { ...process.env, ...env } }); // H87d
    const group = new Group(child.pid ?? 0, foreground);
    let isEnding = false;
    let stop: ForwardedSignal | undefined;
    const onLost = (): void => {
      note(`the lock was lost (${lost.reason?.reason ?? 'lost'}): ending ${file}`);
      group.end(killAfterMs);
    };
    signals.forwardTo((signal) => {
      isEnding ||= ending.includes(signal);
      // A command that holds the lock may take HUP as a request to read its configuration again.
      if (ending.includes(signal) && (lost.aborted || signal !== 'SIGHUP')) stop = signal;
      group.forward(signal);
    });
    const finish = (code: number): void => {
      signals.forwardTo(undefined);
      lost.removeEventListener('abort', onLost);
      if (stop !== undefined) signals.stop(stop); // H94
      resolve(code);
    };
    child.once('error', (error: NodeJS.ErrnoException) => {
      note(`${file} cannot be run: ${error.code ?? error.message}`);
      finish(error.code === 'ENOENT' ? exitCodes.notFound : exitCodes.notExecutable);
    });
    child.once('exit', async (code, signal) => {
      group.isLeaderGone = true;
      // A signal that was to end it was for all of it.
      if (isEnding || lost.aborted) await group.end(killAfterMs); // H87b
      finish(lost.aborted ? exitCodes.lost : (code ?? codeOf(signal!)));
    });
    if (child.pid === undefined) return;
    if (lost.aborted) onLost();
    else lost.addEventListener('abort', onLost, { once: true }); // H87e
  });
}

class Group {
  /** The command itself has ended, and its number may be another's by now; that of the group is not. */
  isLeaderGone = false;
  readonly #pid: number;
  readonly #isOurs: boolean;
  #ending: Promise<void> | undefined;

  constructor(pid: number, foreground: boolean) {
    this.#pid = pid;
    this.#isOurs = !foreground;
  }

  forward(signal: ForwardedSignal): void {
    const isSentAlready = !this.#isOurs && process.stdin.isTTY && fromTerminal.includes(signal);
    if (!isSentAlready) this.#send(signal);
  }

  /** TERM now, KILL after a while. Resolves when all of it is gone. */
  end(killAfterMs: number): Promise<void> {
    this.#ending ??= this.#end(killAfterMs);
    return this.#ending;
  }

  async #end(killAfterMs: number): Promise<void> {
    this.#send('SIGTERM');
    this.#send('SIGCONT');
    if (await this.#goneWithin(killAfterMs)) return;
    this.#send('SIGKILL'); // H87c
    await this.#goneWithin(goneMs);
  }

  async #goneWithin(ms: number): Promise<boolean> {
    const endMs = performance.now() + ms;
    while (this.#isAlive()) {
      if (performance.now() >= endMs) return false;
      await sleep(pollMs);
    }
    return true;
  }

  #isAlive(): boolean {
    if (this.#pid === 0 || (!this.#isOurs && this.isLeaderGone)) return false;
    return this.#send(0) && !(this.#isOurs && this.isLeaderGone && hasOnlyZombies(this.#pid));
  }

  #send(signal: NodeJS.Signals | 0): boolean {
    if (this.#pid === 0 || (!this.#isOurs && this.isLeaderGone)) return false;
    try {
      return process.kill(this.#isOurs ? -this.#pid : this.#pid, signal); // H87
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'EPERM';
    }
  }
}

/** In a container without an init nobody collects orphans: they are gone all the same. */
function hasOnlyZombies(group: number): boolean {
  try {
    return !readdirSync('/proc').some((pid) => /^\d+$/.test(pid) && isMember(pid, group));
  } catch {
    return false;
  }
}

function isMember(pid: string, group: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, , itsGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(itsGroup) === group && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}
