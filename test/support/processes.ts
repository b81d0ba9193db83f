/**
 * Child processes for tests: Node children that talk back over IPC, the signals that freeze, thaw and kill any child, and the
 * two things every child needs: a port nobody uses, and something to wait with.
 *
 * Invariant: a tracked child never outlives the process that started it, however that ends, short of its own kill -9.
 */

import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { bundled } from './bundle';

/** A Node process running one script; `send` (of ChildProcess) and `receive` carry JSON values. */
export interface NodeChild extends ChildProcess {
  readonly pid: number;
  /** The next message from the child, in order, kept until asked for. Rejects when the child is gone and none is left. */
  receive<T = any>(): Promise<T>;
  /** Everything it wrote to stdout and stderr so far. */
  output(): string;
}

/** Runs a TypeScript file in a Node process of its own; of another Node, Bun or Deno, where `execPath` names its program. */
export function startChild(
  script: string,
  args: readonly string[] = [],
  options: { readonly execArgv?: readonly string[]; readonly env?: NodeJS.ProcessEnv; readonly execPath?: string } = {},
): NodeChild {
  const child = fork(bundled(script), args, {
    execArgv: [...(options.execArgv ?? [])], // not mocha's
    env: { ...process.env, ...options.env },
    execPath: options.execPath ?? process.execPath,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  track(child);

  let output = '';
  const collect = (text: unknown) => {
    output += String(text);
  };
  child.stdout?.on('data', collect);
  child.stderr?.on('data', collect);
  child.on('error', (error) => collect(`${error.message}\n`)); // a message to a child that has just died is no crash of ours
  return Object.assign(child, { pid: child.pid!, receive: inboxOf(child, () => output), output: () => output });
}

/** Resolves when the child is gone; at once if it already is. */
export async function exited(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  if (isAlive(child)) await once(child, 'exit');
  return { code: child.exitCode, signal: child.signalCode };
}

/** kill -9, and waits for the end. Works on a stopped child too. */
export async function kill9(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  await exited(child);
}

/** SIGSTOP: resolves when the kernel says that the child stands still, so that nothing runs there any longer. */
export async function stop(child: ChildProcess): Promise<void> {
  child.kill('SIGSTOP');
  await waitFor(() => isStopped(child), { what: `process ${child.pid} to stop` });
}

/** SIGCONT. */
export async function cont(child: ChildProcess): Promise<void> {
  child.kill('SIGCONT');
  await waitFor(() => !isStopped(child), { what: `process ${child.pid} to go on` });
}

/**
 * Asks until the answer is truthy and resolves with it; a throw of the predicate rejects it. By default, the limit is just below that of a
 * test, so that the failure says what was waited for: on a busy machine, a process may take half a minute to start.
 */
export async function waitFor<T>(
  predicate: () => T | Promise<T>,
  { timeoutMs = 50_000, what = String(predicate) }: { readonly timeoutMs?: number; readonly what?: string } = {},
): Promise<Exclude<T, false | 0 | '' | null | undefined>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const late = performance.now() >= deadline; // read before asking: a slow machine still gets one last look
    const answer = await predicate();
    if (answer) return answer as Exclude<T, false | 0 | '' | null | undefined>;
    if (late) throw new Error(`waited ${timeoutMs} ms in vain for ${what}`);
    await sleep(10);
  }
}

/**
 * A loopback port that is free now and stays clear of the range from which the kernel takes outgoing ports: in there, a
 * client that redials a dead server may be given the server's own port, and then talks to itself or blocks a restart.
 * The port 10,000 higher (a cluster node's bus) is outside that range as well. Each process has a hundred ports of its own: none takes
 * the port of a server that another is about to restart.
 */
export async function freePort(): Promise<number> {
  claimed ??= claimPorts();
  const first = await claimed;
  for (;;) {
    const port = first + 1 + (ports++ % 99);
    if (await canListen(port)) return port;
  }
}

let claimed: Promise<number> | undefined;
let ports = 0;

/** Listens on the first of a hundred ports for as long as this process lives, so that no other process takes the others. */
async function claimPorts(): Promise<number> {
  for (let n = process.pid; ; n += 1) {
    const first = 11_000 + (n % 100) * 100;
    const claim = createServer().unref();
    const isClaimed = await new Promise<boolean>((resolve) => {
      claim.once('error', () => resolve(false));
      claim.listen(first, '127.0.0.1', () => resolve(true));
    });
    if (isClaimed) return first;
  }
}

/** Remembers a child, so that it ends with us at the latest. */
export function track(child: ChildProcess): void {
  if (running.size === 0) guardExit();
  running.add(child);
  child.once('exit', () => running.delete(child));
}

/** Ends every tracked child, stopped ones too. For the root hooks. */
export async function killChildren(): Promise<void> {
  const ended = [...running].map(exited);
  running.forEach(killNow);
  await Promise.all(ended);
}

const running = new Set<ChildProcess>();

let guarded = false;

/** 'exit' covers a crash and process.exit; a plain SIGTERM (a CI's time limit) would skip it and leave orphans. */
function guardExit(): void {
  if (guarded) return;
  guarded = true;
  process.once('exit', () => running.forEach(killNow));
  process.once('SIGTERM', () => process.exit(143));
  process.once('SIGHUP', () => process.exit(129));
}

/** Kills by the child's own handle, never by a bare number: its pid may have passed to a stranger. */
function killNow(child: ChildProcess): void {
  child.kill('SIGCONT');
  child.kill('SIGKILL');
}

function isAlive(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

function isStopped(child: ChildProcess): boolean {
  if (!isAlive(child)) throw new Error(`process ${child.pid} is gone`);
  if (process.platform !== 'linux') {
    return execFileSync('ps', ['-o', 'state=', '-p', String(child.pid)], { encoding: 'latin1' }).startsWith('T');
  }
  const stat = readFileSync(`/proc/${child.pid}/stat`, 'latin1');
  return stat[stat.lastIndexOf(')') + 2] === 'T'; // the name before it may hold anything, a parenthesis too
}

function canListen(port: number): Promise<boolean> {
  const probe = createServer();
  return new Promise((resolve) => {
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}

function inboxOf(child: ChildProcess, output: () => string): <T>() => Promise<T> {
  const inbox: unknown[] = [];
  const waiting: { resolve: (message: any) => void; reject: (error: Error) => void }[] = [];
  let gone: Error | undefined;

  child.on('message', (message) => {
    const next = waiting.shift();
    if (next) next.resolve(message);
    else inbox.push(message);
  });
  // Not 'exit' alone: messages written just before the end are still in the channel then.
  child.once('disconnect', async () => {
    const { code, signal } = await exited(child);
    gone = new Error(`child ${child.pid} ended (${signal ?? code}) and said nothing more:\n${output()}`);
    for (const { reject } of waiting.splice(0)) reject(gone);
  });

  return () => {
    if (inbox.length > 0) return Promise.resolve(inbox.shift() as any);
    if (gone) return Promise.reject(gone);
    return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  };
}
