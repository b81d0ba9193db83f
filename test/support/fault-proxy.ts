/**
 * A TCP proxy in front of a Redis that fails on demand: per command (delay, drop, cut, reset, hold, replace) or altogether
 * (black hole, half open, dribble, refuse). It frames requests and replies (RESP2 and RESP3) and pairs them, so that a test
 * can say "lose the reply to the second EVALSHA" and can act in between the server's answer and the client's hearing of it.
 *
 * Invariant: on each connection the client hears a prefix of what the server said, in order, and the server of what the client
 * said; the only exceptions are asked for by name (`replaceReply`, `answer`, `duplicateRequest`). TCP loses nothing from the
 * middle of a stream. So a dropped request or reply takes everything behind it along: that connection stays silent in that
 * direction until it ends. A proxy that skipped one reply would hand the next command's reply to the wrong promise, a fault no
 * network can produce.
 *
 * Not supported: CLIENT REPLY OFF or SKIP (nothing to pair with), TLS.
 */

import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './processes';

export interface Command {
  /** The name in capitals. */
  readonly name: string;
  /** The arguments as sent, the name first. */
  readonly args: readonly string[];
  /** The connection of the command, counted from 1. */
  readonly connection: number;
  /** The number of commands of this name that the proxy has seen, this one included. */
  readonly n: number;
}

/** A command name in any case; `'script'` for EVAL, EVALSHA, FCALL and their _RO kin; or a test of the arguments, name first. */
export type Match = string | ((args: readonly string[]) => boolean);

export interface Selector {
  readonly match: Match;
  /** The matching command to choose, counted from 1 and from when it was asked for. */
  readonly nth?: number;
}

/** Without `nth` and `times`: every match. `nth`: that one only, or `times` of them from there. `times` alone: the first ones. */
export interface RuleSelector extends Selector {
  readonly times?: number;
}

/** The treatment of a command on its way in and of its reply on the way out; a stage that is missing passes. */
export interface Action {
  readonly request?: (link: Link, exchange: Exchange) => void | Promise<void>;
  readonly reply?: (link: Link, reply: Buffer) => void | Promise<void>;
}

/** A command or a reply that is kept back, and with it all that follows it on its connection, until `release`. */
export interface Held<T> extends Action {
  /** The first one it caught. */
  readonly arrived: Promise<T>;
  release(): void;
}

export interface Removable {
  remove(): void;
}

// Actions. Two rules may act on one command: the first that names a stage has it.

/** The server gets the command `ms` later, even if the client has given up and gone: the late request of H3. */
export const delayRequest = (ms: number): Action => ({
  request: async (link, exchange) => {
    await link.pause(ms);
    link.forward(exchange);
  },
});

/** The server executes at once, the client hears of it `ms` later. */
export const delayReply = (ms: number): Action => ({
  reply: async (link, reply) => {
    await link.pause(ms);
    await link.toClient(reply);
  },
});

/** Neither this command nor a later one on its connection reaches the server. */
export const dropRequest = (): Action => ({ request: (link) => link.deafen() });

/** The server executes; the client hears neither this reply nor anything later on its connection. */
export const dropReply = (): Action => ({ reply: (link) => link.mute() });

/** The server executes it twice; the client hears the first reply only (a client that resends, H4). */
export const duplicateRequest = (): Action => ({
  request: (link, exchange) => {
    link.forward(exchange);
    link.forwardAgain(exchange);
  },
});

/** The server executes; the client gets the first `bytes` of the reply (0: none) and then the end of the connection. */
export const cutReplyAfter = (bytes: number): Action => ({
  reply: (link, reply) => link.cut(reply.subarray(0, bytes)),
});

/** RST: instead of the reply to an executed command, or `before` the server gets it. */
export const reset = (when: 'after' | 'before' = 'after'): Action => at(when, (link) => link.reset());

/** FIN: instead of the reply to an executed command, or `before` the server gets it. */
export const close = (when: 'after' | 'before' = 'after'): Action => at(when, (link) => link.cut(Buffer.alloc(0)));

/** Silence in one direction, and `ms` later the end of the connection: instead of the reply, or `before` the server gets the command. */
export const fallSilent = (ms: number, when: 'after' | 'before' = 'after'): Action =>
  at(when, async (link) => {
    if (when === 'before') link.deafen();
    else link.mute();
    await link.pause(ms);
    link.destroy();
  });

/** The server executes; the client is told something else, in raw RESP: `replaceReply('+QUEUED\r\n')`. */
export const replaceReply = (raw: Buffer | string): Action => ({ reply: (link) => link.toClient(Buffer.from(raw)) });

/** The server never gets the command; the proxy answers in its place: `answer('-LOADING in progress\r\n')`. */
export const answer = (raw: Buffer | string): Action => ({
  request: (link, exchange) => link.answer(exchange, Buffer.from(raw)),
});

/** The server gets the command when the test says so: a late request (H3) without a clock. */
export function holdRequest(): Held<Command> {
  return hold<Command>((caught, released) => ({
    request: async (link, exchange) => {
      caught(exchange.command);
      await released;
      link.forward(exchange);
    },
  }));
}

/** The server executes at once, the client hears of it when the test says so. */
export function holdReply(): Held<Buffer> {
  return hold<Buffer>((caught, released) => ({
    reply: async (link, reply) => {
      caught(reply);
      await released;
      await link.toClient(reply);
    },
  }));
}

/** Starts a proxy on a free loopback port. */
export async function startProxy(targetPort: number): Promise<FaultProxy> {
  const proxy = new FaultProxy(await freePort(), targetPort);
  await proxy.start();
  return proxy;
}

/** Stops every proxy that is left. For the root hooks. */
export async function stopProxies(): Promise<void> {
  await Promise.all([...proxies].map((proxy) => proxy.stop()));
}

const proxies = new Set<FaultProxy>();

type Mode =
  | { readonly kind: 'open' | 'blackHole' | 'halfOpen' | 'refuse' }
  | { readonly kind: 'dribble'; readonly bytes: number; readonly ms: number };

export class FaultProxy {
  readonly port: number;
  readonly url: string;
  /** Every command a client sent, whatever became of it, in order of arrival. */
  readonly commands: Command[] = [];
  /** Connections accepted so far. */
  connections = 0;

  readonly #targetPort: number;
  readonly #server: Server;
  readonly #links = new Set<Link>();
  readonly #choosers = new Set<(command: Command) => Action | undefined>();
  readonly #answerHooks = new Set<(command: Command, reply: Buffer) => void | Promise<void>>();
  readonly #counts = new Map<string, number>();
  readonly #ended = new AbortController();
  #mode: Mode = { kind: 'open' };

  constructor(port: number, targetPort: number) {
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
    this.#targetPort = targetPort;
    // Half-open sockets, so that the end of one direction travels on by itself and behind what was sent before it.
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client));
  }

  start(): Promise<void> {
    proxies.add(this);
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.port, '127.0.0.1', resolve);
    });
  }

  /** Ends every connection and every delay; what was held back is lost. */
  async stop(): Promise<void> {
    if (!proxies.delete(this)) return;
    this.#ended.abort();
    for (const link of this.#links) link.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Connections open now. */
  get open(): number {
    return this.#links.size;
  }

  /** The number of commands that came and match. */
  count(match: Match): number {
    return this.commands.filter(({ args }) => matches(match, args)).length;
  }

  /** Applies the action to the commands selected, until removed. */
  rule({ match, nth, times }: RuleSelector, action: Action): Removable {
    const first = nth ?? 1;
    const last = first + (times ?? (nth === undefined ? Number.POSITIVE_INFINITY : 1)) - 1;
    let seen = 0;
    return this.onCommand(({ args }) => {
      if (!matches(match, args)) return undefined;
      seen += 1;
      return seen >= first && seen <= last ? action : undefined;
    });
  }

  /** Asked at each command for an action; `n` counts the commands of that name. */
  onCommand(choose: (command: Command, n: number) => Action | undefined): Removable {
    return addTo(this.#choosers, (command) => choose(command, command.n));
  }

  /** Runs the hook when the server has answered; the answer waits until the hook's promise resolves. With `nth`: once. */
  afterAnswer({ match, nth }: Selector, hook: (command: Command, reply: Buffer) => void | Promise<void>): Removable {
    let seen = 0;
    return addTo(this.#answerHooks, (command, reply) => {
      if (!matches(match, command.args)) return;
      seen += 1;
      if (nth === undefined || seen === nth) return hook(command, reply);
    });
  }

  /** Resolves when the server has answered the nth (default first) matching command from now on, before the client hears it. */
  seen({ match, nth = 1 }: Selector): Promise<{ command: Command; reply: Buffer }> {
    return new Promise((resolve) => {
      const hook = this.afterAnswer({ match, nth }, (command, reply) => {
        hook.remove();
        resolve({ command, reply });
      });
    });
  }

  // Whole-connection modes: for connections that are open and for those to come, until the next mode.

  /** Connections are accepted and nothing travels, either way. */
  blackHole(): void {
    this.#mode = { kind: 'blackHole' };
  }

  /** The server hears the clients and executes; the clients hear nothing, not even the end. */
  halfOpen(): void {
    this.#mode = { kind: 'halfOpen' };
  }

  /** Sends replies to the clients in pieces of `bytes`, with a pause of `ms` after each. */
  dribble(bytes: number, ms: number): void {
    this.#mode = { kind: 'dribble', bytes, ms };
  }

  /** New connections are closed at once; open ones live on (see `resetAll`). */
  refuse(): void {
    this.#mode = { kind: 'refuse' };
  }

  /** Ends the mode, not the rules. A connection that lost bytes has a hole in it that nothing can mend: it is reset. */
  heal(): void {
    this.#mode = { kind: 'open' };
    for (const link of this.#links) if (link.lossy) link.reset();
  }

  /** RST to every open connection. */
  resetAll(): void {
    for (const link of this.#links) link.reset();
  }

  #accept(client: Socket): void {
    this.connections += 1;
    if (this.#mode.kind === 'refuse') {
      client.on('error', ignore).destroy();
      return;
    }
    const upstream = dial({ port: this.#targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    const connection = this.connections;
    const link = new Link(client, upstream, {
      mode: () => this.#mode,
      received: (args) => this.#received(args, connection),
      answered: (command, reply) => this.#answered(command, reply),
      closed: () => this.#links.delete(link),
      ended: this.#ended.signal,
    });
    this.#links.add(link);
  }

  #received(args: readonly string[], connection: number): { command: Command; action: Action } {
    const name = args[0]!.toUpperCase();
    const n = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, n);
    const command = { name, args, connection, n };
    this.commands.push(command);
    // Every rule is asked, also behind one that matched: each counts for itself.
    const actions = [...this.#choosers].map((choose) => choose(command)).filter((action) => action !== undefined);
    return { command, action: Object.assign({}, ...actions.reverse()) };
  }

  async #answered(command: Command, reply: Buffer): Promise<void> {
    await Promise.all([...this.#answerHooks].map((hook) => hook(command, reply)));
  }
}

/** A command between its arrival and its reply. */
export interface Exchange {
  readonly command: Command;
  readonly action: Action;
  readonly raw: Buffer;
}

/** The command that the next replies belong to. */
interface Expected extends Exchange {
  /** Frames still to come: a SUBSCRIBE to three channels has three confirmations. */
  missing: number;
  readonly frames: Buffer[];
  readonly from: 'server' | 'proxy' | 'nobody wants it';
}

interface Surroundings {
  readonly ended: AbortSignal;
  mode(): Mode;
  received(args: readonly string[]): { command: Command; action: Action };
  answered(command: Command, reply: Buffer): Promise<void>;
  closed(): void;
}

/**
 * One client's connection and ours to the server on its behalf. Each direction is a line of jobs, worked off one after the
 * other: what is delayed or held delays all that stands behind it, the end of the stream too.
 */
export class Link {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #proxy: Surroundings;
  readonly #requests = new Frames();
  readonly #replies = new Frames();
  readonly #expected: Expected[] = [];
  #toServer: Promise<void> = Promise.resolve();
  #toClient: Promise<void> = Promise.resolve();
  #deaf = false;
  #mute = false;
  #subscribes = false;

  constructor(client: Socket, server: Socket, proxy: Surroundings) {
    this.#client = client;
    this.#server = server;
    this.#proxy = proxy;
    for (const socket of [client, server]) socket.on('error', ignore).on('close', () => this.#closed());
    client.on('data', (chunk: Buffer) => {
      for (const frame of this.#requests.push(chunk)) this.#onRequest(frame);
    });
    client.on('end', () => this.#onClientEnd()).on('close', () => this.#onClientEnd());
    server.on('data', (chunk: Buffer) => {
      for (const frame of this.#replies.push(chunk)) this.#onReply(frame);
    });
    server.on('end', () => this.#onServerEnd(false)).on('close', (broken) => this.#onServerEnd(broken));
  }

  /** Bytes were lost here: what follows them can only mislead. */
  get lossy(): boolean {
    return this.#deaf || this.#mute;
  }

  // The parts of actions.

  pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#proxy.ended });
  }

  forward(exchange: Exchange): void {
    this.#send(exchange, 'server');
  }

  forwardAgain(exchange: Exchange): void {
    this.#send(exchange, 'nobody wants it');
  }

  answer(exchange: Exchange, reply: Buffer): void {
    this.#expected.push({ ...exchange, missing: 0, frames: [reply], from: 'proxy' });
    this.#deliverReady();
  }

  async toClient(data: Buffer): Promise<void> {
    let rest = data;
    while (rest.length > 0) {
      const mode = this.#proxy.mode();
      if (mode.kind === 'halfOpen' || mode.kind === 'blackHole') this.mute();
      if (this.#mute || !this.#client.writable) return;
      const piece = mode.kind === 'dribble' ? rest.subarray(0, mode.bytes) : rest;
      rest = rest.subarray(piece.length);
      this.#client.write(piece);
      if (mode.kind === 'dribble') await this.pause(mode.ms);
    }
  }

  deafen(): void {
    this.#deaf = true;
  }

  mute(): void {
    this.#mute = true;
  }

  cut(lastBytes: Buffer): void {
    if (this.#client.writable) this.#client.write(lastBytes);
    this.#client.destroySoon();
    this.#server.end();
  }

  reset(): void {
    resetNow(this.#client);
    this.#server.end(); // not destroyed: what was forwarded before has to arrive
  }

  destroy(): void {
    this.#client.destroy();
    this.#server.destroy();
  }

  // From the client.

  #onRequest(raw: Buffer): void {
    const args = argumentsOf(raw);
    if (args.length === 0) return; // an empty line: Redis does not answer it either
    const exchange = { ...this.#proxy.received(args), raw };
    const { request } = exchange.action;
    this.#toServer = this.#inTurn(this.#toServer, () => (request ? request(this, exchange) : this.forward(exchange)));
  }

  #onClientEnd(): void {
    this.#toServer = this.#inTurn(this.#toServer, () => {
      if (!this.#hearsNothing()) this.#server.end();
    });
  }

  #send(exchange: Exchange, from: Expected['from']): void {
    if (this.#hearsNothing()) return;
    this.#subscribes ||= isSubscription(exchange.command);
    this.#expected.push({ ...exchange, missing: repliesTo(exchange.command), frames: [], from });
    if (this.#server.writable) this.#server.write(exchange.raw);
  }

  #hearsNothing(): boolean {
    if (this.#proxy.mode().kind === 'blackHole') this.deafen();
    return this.#deaf;
  }

  // From the server.

  #onReply(frame: Buffer): void {
    const expected = this.#expectedBy(frame);
    if (!expected) {
      this.#toClient = this.#inTurn(this.#toClient, () => this.toClient(frame));
      return;
    }
    expected.frames.push(frame);
    expected.missing = isError(frame) ? 0 : expected.missing - 1;
    this.#deliverReady();
  }

  /** Undefined: the frame answers nothing. A push does so only as the confirmation of the subscription that is next. */
  #expectedBy(frame: Buffer): Expected | undefined {
    const next = this.#expected[0];
    const push = pushKind(frame, this.#subscribes);
    return push === undefined || next?.command.name === push ? next : undefined;
  }

  #deliverReady(): void {
    while (this.#expected[0]?.missing === 0) this.#deliver(this.#expected.shift()!);
  }

  #deliver({ command, action, frames, from }: Expected): void {
    if (from === 'nobody wants it') return;
    const reply = Buffer.concat(frames);
    // Hooks run when the server has answered, not when the reply's turn comes: an earlier one may be held for long.
    const hooks = from === 'server' ? this.#proxy.answered(command, reply) : undefined;
    const stage = from === 'server' ? action.reply : undefined;
    this.#toClient = this.#inTurn(this.#toClient, async () => {
      await hooks;
      await (stage ? stage(this, reply) : this.toClient(reply));
    });
  }

  #onServerEnd(broken: boolean): void {
    this.#toClient = this.#inTurn(this.#toClient, () => {
      const mode = this.#proxy.mode().kind;
      if (mode === 'halfOpen' || mode === 'blackHole') this.mute();
      if (this.#mute) return;
      if (broken) resetNow(this.#client);
      else this.#client.end();
    });
  }

  #closed(): void {
    if (this.#client.destroyed && this.#server.destroyed) this.#proxy.closed();
  }

  /** A job that fails because the proxy was stopped is over; any other failure is a mistake in the test and must be seen. */
  #inTurn(line: Promise<void>, job: () => void | Promise<void>): Promise<void> {
    return line.then(job).catch((error) => {
      if (this.#proxy.ended.aborted) return;
      this.destroy();
      queueMicrotask(() => {
        throw error;
      });
    });
  }
}

/** Cuts a byte stream into whole RESP values. */
export class Frames {
  #chunks: Buffer[] = [];
  #size = 0;
  #needed = 1;

  push(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size < this.#needed) return []; // joins and scans a long bulk string once, not once per chunk

    const buffer = Buffer.concat(this.#chunks);
    const frames: Buffer[] = [];
    let start = 0;
    let end = frameEnd(buffer, start);
    while (end <= buffer.length) {
      frames.push(buffer.subarray(start, end));
      start = end;
      end = frameEnd(buffer, start);
    }
    this.#chunks = [buffer.subarray(start)];
    this.#size = buffer.length - start;
    this.#needed = end - start;
    return frames;
  }
}

const CRLF = Buffer.from('\r\n');

/** The end of the value that begins at `start`; past the buffer: at least that much is needed before it is worth another look. */
function frameEnd(buffer: Buffer, start: number): number {
  let position = start;
  for (let values = 1; values > 0; values--) {
    const lineEnd = buffer.indexOf(CRLF, position);
    if (lineEnd < 0) return buffer.length + 1;
    const type = String.fromCharCode(buffer[position]!);
    const count = Math.max(0, Number(buffer.toString('latin1', position + 1, lineEnd))); // -1 is a null: nothing follows
    const isNull = buffer[position + 1] === 0x2d;
    position = lineEnd + 2;
    if ('$=!'.includes(type) && !isNull) position += count + 2;
    else if ('*~>'.includes(type)) values += count;
    else if (type === '%') values += 2 * count;
    else if (type === '|') values += 2 * count + 1; // attributes stand before the value they speak of
    if (position > buffer.length) return position;
  }
  return position;
}

export function argumentsOf(request: Buffer): string[] {
  if (request[0] !== 0x2a) return request.toString().trim().split(/\s+/).filter(Boolean);
  const args: string[] = [];
  let position = request.indexOf(CRLF) + 2;
  while (position < request.length) {
    const start = request.indexOf(CRLF, position) + 2;
    const length = Number(request.toString('latin1', position + 1, start - 2));
    args.push(request.toString('utf8', start, start + length));
    position = start + length + 2;
  }
  return args;
}

function isSubscription({ name }: Pick<Command, 'name'>): boolean {
  return name.endsWith('SUBSCRIBE');
}

/** One per channel; UNSUBSCRIBE from everything answers an unknown number of times, and the first is taken for the answer. */
export function repliesTo(command: Pick<Command, 'name' | 'args'>): number {
  return isSubscription(command) ? Math.max(1, command.args.length - 1) : 1;
}

/** The kind of a push, in capitals. In RESP2 pushes look like arrays: only what a subscribed connection can hear is one. */
export function pushKind(frame: Buffer, subscribes: boolean): string | undefined {
  if (frame[0] !== 0x3e && !(subscribes && frame[0] === 0x2a)) return undefined;
  const kind = /^.\d+\r\n\$\d+\r\n(\w+)\r\n/.exec(frame.toString('latin1', 0, 64))?.[1]?.toUpperCase();
  return frame[0] === 0x3e ? (kind ?? '') : /^([PS]?MESSAGE|[PS]?(UN)?SUBSCRIBE)$/.exec(kind ?? '')?.[0];
}

export function isError(frame: Buffer): boolean {
  return frame[0] === 0x2d || frame[0] === 0x21;
}

const SCRIPT_CALLS = /^(EVAL|EVALSHA|FCALL)(_RO)?$/i;

function matches(match: Match, args: readonly string[]): boolean {
  if (typeof match === 'function') return match(args);
  if (match === 'script') return SCRIPT_CALLS.test(args[0]!);
  return match.toUpperCase() === args[0]!.toUpperCase();
}

function at(when: 'after' | 'before', end: (link: Link) => void): Action {
  return when === 'after' ? { reply: end } : { request: end };
}

function hold<T>(actionOf: (caught: (value: T) => void, released: Promise<void>) => Action): Held<T> {
  const caught = deferred<T>();
  const released = deferred<void>();
  return { ...actionOf(caught.resolve, released.promise), arrived: caught.promise, release: released.resolve };
}

function addTo<T>(set: Set<T>, item: T): Removable {
  set.add(item);
  return { remove: () => set.delete(item) };
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** A socket whose end is under way is closed without RST: after a reset, Node 20 would wait for it in its own end, for ever. */
function resetNow(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

function ignore(): void {}
