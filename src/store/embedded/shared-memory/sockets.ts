// Wake-ups between the processes of one host. A process that listens to a channel has a socket in the common folder, and a
// message is one line written to that socket. A message may be lost (its listener is gone, or its sender dies too soon), so a
// waiter has a timer as well. Nothing here keeps a process alive, except a line that is being written.
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, unlinkSync } from 'node:fs';
import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { nextTick } from '../../../core/real-timers';
import type { Listening } from '../../contract';

const suffix = '.sock';
/** The idle time after which a connection is closed. */
const idleMs = 10_000;
/** The limit of unsent bytes: a listener that does not read misses further messages, and has to poll. */
const maxUnsentBytes = 2 ** 16;
const youngMs = 10_000;

export class SocketWakeUps {
  readonly #folder: string;
  readonly #listeners = new Map<string, (text: string) => void>();
  readonly #servers = new Map<string, Server>();
  readonly #incoming = new Set<Socket>();
  readonly #outgoing = new Map<string, Socket>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Resolves once every message will be received. Rejects if no socket can be made (its path may be too long). */
  async listen(channel: string, onMessage: (text: string) => void): Promise<Listening> {
    this.#removeDead();
    await this.#serve(channel);
    this.#listeners.set(channel, onMessage);
    return {
      close: () => {
        this.#listeners.delete(channel);
        this.#servers.get(channel)?.close();
        this.#servers.delete(channel);
      },
    };
  }

  /** Makes sockets again that are gone, because the folder may have been emptied. */
  renew(): void {
    for (const [channel, server] of this.#servers) {
      if (existsSync(this.#pathOf(channel))) continue;
      server.close(); // this removes the file at its path
      void this.#serve(channel).catch(() => {}); // its waiters have a timer as well
    }
  }

  /** Sends a message, never within the call. Never fails. */
  tell(channel: string, text: string): void {
    if (!this.#listeners.has(channel)) return this.#tellAt(this.#pathOf(channel), text);
    nextTick(() => this.#listeners.get(channel)?.(text));
  }

  /** Sends a message to every listener in the folder, on every channel. */
  tellAll(text: string): void {
    for (const channel of this.#listeners.keys()) this.tell(channel, text);
    const own = new Set([...this.#listeners.keys()].map((channel) => this.#pathOf(channel)));
    for (const file of readdirSync(this.#folder)) {
      const path = join(this.#folder, file);
      if (file.endsWith(suffix) && !own.has(path)) this.#tellAt(path, text);
    }
  }

  #tellAt(path: string, text: string): void {
    const socket = this.#outgoing.get(path) ?? this.#dial(path);
    if (socket.writableLength > maxUnsentBytes) return;
    socket.ref();
    socket.write(`${JSON.stringify(text)}\n`, () => socket.unref());
  }

  /** Closes all servers and connections at once. */
  close(): void {
    for (const server of this.#servers.values()) server.close();
    for (const socket of [...this.#incoming, ...this.#outgoing.values()]) socket.destroy();
    this.#listeners.clear();
    this.#servers.clear();
  }

  #serve(channel: string): Promise<void> {
    const server = createServer((socket) => this.#receive(socket, channel)).unref();
    this.#servers.set(channel, server);
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        this.#servers.delete(channel);
        reject(error);
      };
      server.once('error', fail).listen(this.#pathOf(channel), resolve);
    });
  }

  #receive(socket: Socket, channel: string): void {
    this.#incoming.add(socket);
    socket.unref().on('error', () => {});
    socket.once('close', () => this.#incoming.delete(socket));
    createInterface({ input: socket }).on('line', (line) => {
      const text = textIn(line);
      if (text !== undefined) this.#listeners.get(channel)?.(text);
    });
  }

  #dial(path: string): Socket {
    const socket = dial(path);
    this.#outgoing.set(path, socket);
    socket.once('close', () => this.#outgoing.delete(path));
    socket.on('error', (error) => removeIfDead(path, error));
    socket.setTimeout(idleMs, () => socket.destroy());
    return socket;
  }

  /** Removes the sockets of processes that were killed while they listened. */
  #removeDead(): void {
    for (const file of readdirSync(this.#folder)) {
      if (!file.endsWith(suffix)) continue;
      const path = join(this.#folder, file);
      const socket = dial(path, () => socket.destroy()).unref();
      socket.on('error', (error) => removeIfDead(path, error));
    }
  }

  #pathOf(channel: string): string {
    return join(this.#folder, createHash('sha256').update(channel).digest('hex').slice(0, 16) + suffix);
  }
}

/** Removes a dead socket unless it is young: a young socket may not accept connections yet. */
function removeIfDead(path: string, error: NodeJS.ErrnoException): void {
  if (error.code !== 'ECONNREFUSED') return;
  try {
    if (Date.now() - lstatSync(path).ctimeMs > youngMs) unlinkSync(path);
  } catch {} // another process was faster
}

function textIn(line: string): string | undefined {
  try {
    const text: unknown = JSON.parse(line);
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}
