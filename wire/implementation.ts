// An implementation of the wire, given as a command. It gets REDIS_URL, reads one call a line (JSON), and answers each with one line.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

/** The limit for an implementation that hangs. Beside a whole suite of tests, a healthy one has taken more than ten seconds. */
const replyWithinMs = 60_000;

export class Implementation {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: Interface;

  constructor(command: readonly string[], redisUrl: string) {
    const [program, ...args] = command as [string, ...string[]];
    const env = { ...process.env, REDIS_URL: redisUrl };
    this.#child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.stdin.on('error', () => {}); // `call` says that it has ended
    this.#lines = createInterface({ input: this.#child.stdout });
  }

  /** @throws {Error} it has ended, or did not answer in time, or its line is no JSON. */
  async call(call: object): Promise<unknown> {
    const signal = AbortSignal.timeout(replyWithinMs);
    const ended = new AbortController();
    const end = (): void => ended.abort();
    this.#child.once('exit', end).once('error', end);
    try {
      const line = once(this.#lines, 'line', { signal: AbortSignal.any([signal, ended.signal]) });
      this.#child.stdin.write(`${JSON.stringify(call)}\n`);
      const [text] = await line;
      return JSON.parse(text);
    } catch (error) {
      if (signal.aborted) throw new Error(`no reply within ${replyWithinMs} ms`, { cause: error });
      if (ended.signal.aborted) throw new Error('the implementation has ended', { cause: error });
      throw error;
    } finally {
      this.#child.off('exit', end).off('error', end);
    }
  }

  /** Ends the process, if it runs. */
  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }
}
