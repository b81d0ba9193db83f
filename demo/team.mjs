// The workers, seen from the process that started them: started together, given orders, always ended.

import { fork } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Sorry } from './server.mjs';

const WORKER = fileURLToPath(new URL('./worker.mjs', import.meta.url));
const LEAVE_MS = 1000;

export class Team {
  #workers;
  #done;
  #news = new EventEmitter();
  #failure;

  constructor(size) {
    this.#workers = Array.from({ length: size }, () =>
      fork(WORKER, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }),
    );
    this.#done = this.#workers.map(() => 0);
    this.#workers.forEach((worker, index) => {
      worker.on('message', (message) => this.#hear(index, message));
      worker.on('exit', (code, signal) =>
        this.#fail(index, `ended before its work did (${signal ?? `exit code ${code}`})`),
      );
      worker.on('error', (error) => this.#fail(index, error.message));
    });
  }

  /** Resolves when every worker is connected and waits for orders. */
  async ready(setup) {
    await this.#order(setup, 'ready');
  }

  /** Lets all workers work at the same time. Resolves with their transfers, each with the worker's number, and how long each acquire waited. */
  async work(how, ms) {
    this.#done.fill(0);
    const until = performance.timeOrigin + performance.now() + ms;
    const reports = await this.#order({ how, until }, 'transfers');
    return {
      transfers: reports.flatMap(({ transfers }, worker) => transfers.map((transfer) => ({ worker, ...transfer }))),
      waits: reports.flatMap(({ waits }) => waits),
    };
  }

  /** The number of transfers so far, by the last reports. */
  get done() {
    return this.#done.reduce((sum, one) => sum + one, 0);
  }

  /** Workers end when their IPC channel closes; one that does not is ended by its id. */
  async dismiss() {
    this.#failure ??= new Sorry('The workers were sent home.'); // and take no further orders
    await Promise.all(
      this.#workers.map(async (worker) => {
        if (worker.exitCode !== null || worker.signalCode !== null || worker.pid === undefined) return;
        const gone = new Promise((resolve) => worker.once('exit', resolve)); // not events.once: an 'error' is no end
        const impatience = setTimeout(() => worker.kill('SIGKILL'), LEAVE_MS);
        if (worker.connected) worker.disconnect();
        await gone;
        clearTimeout(impatience);
      }),
    );
  }

  /** Sends one message to all and resolves each one's first answer that has `field`. */
  async #order(message, field) {
    if (this.#failure) throw this.#failure;
    const answers = new Map();
    const { promise, resolve, reject } = withResolvers();
    const listen = (index, answer) => {
      if (!(field in answer)) return;
      answers.set(index, answer);
      if (answers.size === this.#workers.length) resolve();
    };
    this.#news.on('news', listen).once('failure', reject);
    try {
      for (const worker of this.#workers) worker.send(message);
      await promise;
      return this.#workers.map((_, index) => answers.get(index));
    } finally {
      this.#news.off('news', listen).off('failure', reject);
    }
  }

  #hear(index, message) {
    if (message.failed) return this.#fail(index, message.failed);
    this.#done[index] = message.done ?? this.#done[index];
    this.#news.emit('news', index, message);
  }

  #fail(index, text) {
    this.#failure ??= new Sorry(`Worker ${index + 1}: ${text}.`);
    this.#news.emit('failure', this.#failure);
  }
}

/** Promise.withResolvers, which Node 20 has not. */
function withResolvers() {
  const resolvers = {};
  resolvers.promise = new Promise((resolve, reject) => Object.assign(resolvers, { resolve, reject }));
  return resolvers;
}
