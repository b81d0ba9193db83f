// Wake-ups between the processes of one host. A process that listens to a channel has a socket in the common folder, and a
// message is one line written to that socket. A message may be lost (its listener is gone, or its sender dies too soon), so a
// waiter has a timer as well. Nothing here keeps a process alive, except a line that is being written.
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, unlinkSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
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
  /** The listeners of this process, and the connections to others, by the paths of their sockets. */
  readonly #listeners = new Map<string, { readonly server: Server; readonly onMessage: (text: string) => void }>();
  readonly #outgoing = new Map<string, Socket>();
  readonly #incoming = new Set<Socket>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Resolves once every message will be received. Rejects if no socket can be made (its path may be too long). */
  async listen(channel: string, onMessage: (text: string) => void): Promise<Listening> {
    this.#removeDead();
    const path = this.#pathOf(channel);
    const close = (): void => {
      this.#listeners.get(path)?.server.close();
      this.#listeners.delete(path);
    };
    await this.#serve(path, onMessage).catch((error) => {
      close();
      throw error;
    });
    return { close };
  }

  /** Makes sockets again that are gone, because the folder may have been emptied. */
  renew(): void {
    for (const [path, { server, onMessage }] of this.#listeners) {
      if (existsSync(path)) continue;
      server.close(); // this removes the file at its path
      void this.#serve(path, onMessage).catch(() => {}); // its waiters have a timer as well
    }
  }

  /** Sends a message, never within the call. Never fails. */
  tell(channel: string, text: string): void {
    this.#send(this.#pathOf(channel), text);
  }

  /** Sends a message to every listener in the folder, on every channel. */
  tellAll(text: string): void {
    for (const path of new Set([...this.#listeners.keys(), ...this.#sockets()])) this.#send(path, text);
  }

  /** Closes all servers and connections at once. */
  close(): void {
    for (const { server } of this.#listeners.values()) server.close();
    for (const socket of [...this.#incoming, ...this.#outgoing.values()]) socket.destroy();
    this.#listeners.clear();
  }

  #send(path: string, text: string): void {
    if (this.#listeners.has(path)) return nextTick(() => this.#listeners.get(path)?.onMessage(text));
    const socket = this.#outgoing.get(path) ?? this.#dial(path);
    if (socket.writableLength > maxUnsentBytes) return;
    socket.ref();
    socket.write(`${JSON.stringify(text)}\n`, () => socket.unref());
  }

  #serve(path: string, onMessage: (text: string) => void): Promise<void> {
    const server = createServer((socket) => this.#receive(socket, path)).unref();
    this.#listeners.set(path, { server, onMessage });
    return new Promise((resolve, reject) => {
      server.once('error', reject).listen(path, resolve);
    });
  }

  #receive(socket: Socket, path: string): void {
    this.#incoming.add(socket);
    socket.unref().on('error', () => {});
    socket.once('close', () => this.#incoming.delete(socket));
    createInterface({ input: socket }).on('line', (line) => {
      const text = textIn(line);
      if (text !== undefined) this.#listeners.get(path)?.onMessage(text);
    });
  }

  #dial(path: string): Socket {
    const socket = connect(path);
    this.#outgoing.set(path, socket);
    socket.once('close', () => this.#outgoing.delete(path));
    socket.on('error', (error) => removeIfDead(path, error));
    socket.setTimeout(idleMs, () => socket.destroy());
    return socket;
  }

  /** Removes the sockets of processes that were killed while they listened. */
  #removeDead(): void {
    for (const path of this.#sockets()) {
      const socket = connect(path, () => socket.destroy()).unref();
      socket.on('error', (error) => removeIfDead(path, error));
    }
  }

  /** The paths of all sockets in the folder. */
  #sockets(): string[] {
    const files = readdirSync(this.#folder).filter((file) => file.endsWith(suffix));
    return files.map((file) => join(this.#folder, file));
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
