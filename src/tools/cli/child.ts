// The command that runs under a lock. It runs without a shell in its own process group, which gets every signal and is ended as a whole.
//
// Invariant: after a loss of the lock, `runCommand` resolves only when no process of the group is left.
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { exitCodes } from './exit';
import { codeOf, type ForwardedSignal, type Signals } from './signals';
import { note } from './text';

export interface Run {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Keeps the command in the terminal's group. Only the command itself then gets signals. */
  readonly foreground?: boolean | undefined;
  readonly killAfterMs: number;
  /** Aborts when the lock is lost. */
  readonly lost: AbortSignal;
  readonly signals: Signals;
}

const pollMs = 20;
/** Ms after which killed processes are gone, unless the kernel keeps them. */
const goneMs = 5000;
/** Signals that a terminal sends to its whole group itself. */
const fromTerminal: readonly string[] = ['SIGINT', 'SIGQUIT'];
const ending: readonly string[] = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'];

/** Runs the command. Resolves with the command's exit code, 128 + its signal, 126 or 127, or with 76 if the lock was lost. */
export function runCommand({ command, env, foreground, killAfterMs, lost, signals }: Run): Promise<number> {
  const [file, ...args] = command as [string, ...string[]];
  return new Promise((resolve) => {
    const child = spawn(file, args, { stdio: 'inherit', detached: !foreground, env: { ...process.env, ...env } }); // H87d
    const group = groupOf(child, !foreground);
    let isEnding = false;
    let stop: ForwardedSignal | undefined;
    const onLost = (): void => {
      note(`the lock was lost (${lost.reason?.reason ?? 'lost'}): ending ${file}`);
      group.end(killAfterMs);
    };
    signals.forward = (signal) => {
      isEnding ||= ending.includes(signal);
      // A command that holds the lock may treat SIGHUP as a request to read its configuration again.
      if (ending.includes(signal) && (lost.aborted || signal !== 'SIGHUP')) stop = signal;
      group.forward(signal);
    };
    const finish = (code: number): void => {
      signals.forward = undefined;
      lost.removeEventListener('abort', onLost);
      if (stop !== undefined) signals.stop(stop); // H94
      resolve(code);
    };
    child.once('error', (error: NodeJS.ErrnoException) => {
      note(`${file} cannot be run: ${error.code ?? error.message}`);
      finish(error.code === 'ENOENT' ? exitCodes.notFound : exitCodes.notExecutable);
    });
    child.once('exit', async (code, signal) => {
      // A signal that ends the command ends the whole group.
      if (isEnding || lost.aborted) await group.end(killAfterMs); // H87b
      finish(lost.aborted ? exitCodes.lost : (code ?? codeOf(signal!)));
    });
    if (child.pid === undefined) return;
    if (lost.aborted) onLost();
    else lost.addEventListener('abort', onLost, { once: true }); // H87e
  });
}

/** The processes of a command: those of its group if it has one of its own (`isOurs`), otherwise the command alone. */
function groupOf(child: ChildProcess, isOurs: boolean) {
  const { pid } = child;
  let ending: Promise<void> | undefined;
  const isLeaderGone = (): boolean => child.exitCode !== null || child.signalCode !== null;

  function send(signal: NodeJS.Signals | 0): boolean {
    // The process id of a command that has ended may be reused, but the id of its group is not.
    if (pid === undefined || (!isOurs && isLeaderGone())) return false;
    try {
      return process.kill(isOurs ? -pid : pid, signal); // H87
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'EPERM';
    }
  }

  async function goneWithin(ms: number): Promise<boolean> {
    const endMs = performance.now() + ms;
    while (send(0) && !(isOurs && isLeaderGone() && hasOnlyZombies(pid!))) {
      if (performance.now() >= endMs) return false;
      await sleep(pollMs);
    }
    return true;
  }

  async function endWithin(killAfterMs: number): Promise<void> {
    send('SIGTERM');
    send('SIGCONT');
    if (await goneWithin(killAfterMs)) return;
    send('SIGKILL'); // H87c
    await goneWithin(goneMs);
  }

  return {
    forward(signal: ForwardedSignal): void {
      const isSentAlready = !isOurs && process.stdin.isTTY && fromTerminal.includes(signal);
      if (!isSentAlready) send(signal);
    },
    /** Sends SIGTERM now and SIGKILL after `killAfterMs`. Resolves when the whole group is gone. */
    end(killAfterMs: number): Promise<void> {
      ending ??= endWithin(killAfterMs);
      return ending;
    },
  };
}

/** Tells if only zombies of a group are left. They count as gone: a container without an init process never collects its orphans. */
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
