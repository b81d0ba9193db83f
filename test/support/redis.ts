/**
 * Real Redis servers for tests: one that the whole run shares, others of one's own to freeze, kill and restart, replicas, and
 * two ways to see what a server was asked to do.
 *
 * Invariant: a server listens on loopback only, keeps its files in a directory of its own, and is gone with its directory,
 * as is every client from `connect`, when the root hooks have run.
 */

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { connect as dial, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as redis from 'redis';
import { type createClient, ErrorReply, type RedisClientOptions } from 'redis';
import type { RedisMemoryServer } from 'redis-memory-server';
import { Missing } from './missing';
import { cont, exited, freePort, kill9, stop, track, waitFor } from './processes';

export type Client = ReturnType<typeof createClient>;
export type ClientOptions = Omit<RedisClientOptions<any, any, any, any>, 'url'>;

export interface ServerOptions {
  /** Further words of the command line, after ours, so that they win. */
  readonly args?: readonly string[];
  /** Default: a free one. */
  readonly port?: number;
  /** Default: a fresh one, removed afterwards; one that is given is left alone. */
  readonly dir?: string;
  /** When the append-only file is synced. Default: there is none, and a restart begins empty. */
  readonly appendonly?: 'always' | 'everysec';
}

// The shared server.

/** The server of this run, started at the first call. Others use it too: touch only keys from `uniqueKey`. */
export function sharedRedis(): Promise<{ readonly url: string; readonly port: number }> {
  shared ??= startShared();
  return shared.then(({ port }) => ({ port, url: urlOf(port) }));
}

/** A key name that nobody else uses. */
export function uniqueKey(title = 'key'): string {
  return `${title}-${randomUUID()}`;
}

let shared: Promise<{ port: number; memoryServer: RedisMemoryServer }> | undefined;

async function startShared() {
  await serverBinary();
  const memoryServer = new (redisMemoryServer().RedisMemoryServer)();
  const { port, childProcess } = await memoryServer.ensureInstance();
  if (childProcess) track(childProcess); // its own killer process polls; ours leaves no gap
  return { port, memoryServer };
}

/** Loaded by who starts a server: children start none, and need it not. */
function redisMemoryServer(): typeof import('redis-memory-server') {
  return require('redis-memory-server');
}

// Clients.

/** A connected node-redis client, closed by the root hooks. Its errors are swallowed: a test sees them at its commands. */
export async function connect(urlOrPort: string | number, options: ClientOptions = {}): Promise<Client> {
  const url = typeof urlOrPort === 'number' ? urlOf(urlOrPort) : urlOrPort;
  const client = newClient({ ...options, url });
  client.on('error', () => {}); // without a listener a dropped socket ends the process
  clients.add(client); // before connecting, which may never end: a client redials for ever
  await client.connect();
  return client;
}

/**
 * As `createClient` makes one, of this package or an older major. That makes a class with all commands for each address that differs
 * from the last, which takes fifty times as long as all the rest; a duplicate has the class of its original.
 */
export function newClient(options: ClientOptions & { url: string }, { createClient: make }: Package = redis): Client {
  const { RESP, modules, functions, scripts } = options;
  if (modules ?? functions ?? scripts) return make(options);
  const known = originals.get(make) ?? new Map<unknown, Client>();
  originals.set(make, known);
  const original = known.get(RESP) ?? make(RESP === undefined ? {} : { RESP });
  known.set(RESP, original);
  const client = original.duplicate(options as object) as unknown as Client;
  return '_self' in client ? Object.create(client) : client; // so does createClient, from 5 on
}

interface Package {
  createClient(options: object): any;
}

/** The original clients, by how they were made and their RESP; nobody connects them. */
const originals = new Map<unknown, Map<unknown, Client>>();

/** Closes every client that is still open; may be called at any time, and again. */
export function closeAll(): void {
  for (const client of clients) destroy(client);
  clients.clear();
}

const clients = new Set<Client>();

function destroy(client: Client): void {
  if (client.isOpen) client.destroy();
}

// Servers of one's own.

/** Starts a redis-server and resolves when it answers. */
export async function startRedis(options: ServerOptions = {}): Promise<RedisServer> {
  const server = new RedisServer(await serverBinary(), options.port ?? (await freePort()), options);
  await server.start();
  return server;
}

/** Starts a replica and resolves when it is in step with its master and the master counts it. */
export async function startReplica(master: RedisServer, options: ServerOptions = {}): Promise<RedisServer> {
  await master.command('CONFIG', 'SET', 'repl-diskless-sync-delay', 0); // else it waits 5 s for more replicas to come
  const replicaOf = ['--replicaof', '127.0.0.1', String(master.port)];
  const replica = await startRedis({ ...options, args: [...replicaOf, ...(options.args ?? [])] });
  const inStep = async () =>
    /master_link_status:up/.test(await replica.command('INFO', 'replication')) &&
    new RegExp(`port=${replica.port},state=online`).test(await master.command('INFO', 'replication'));
  await waitFor(inStep, { what: `replica ${replica.port} to be in step with ${master.port}` });
  return replica;
}

/** Ends what `startRedis` and `sharedRedis` started. For the root hooks. */
export async function stopServers(): Promise<void> {
  const ours = shared;
  shared = undefined;
  await Promise.all([...servers].map((server) => server.discard()));
  const started = await ours?.catch(() => undefined); // one that failed to start has told its caller so
  await started?.memoryServer.stop();
}

const servers = new Set<RedisServer>();
const STOP_MS = 3_000;

export class RedisServer {
  readonly port: number;
  readonly url: string;
  readonly dir: string;
  readonly #binary: string;
  readonly #args: readonly string[];
  readonly #ownsDir: boolean;
  #process: ChildProcess | undefined;
  #admin: Client | undefined;

  constructor(binary: string, port: number, { args = [], dir, appendonly }: ServerOptions) {
    this.port = port;
    this.url = urlOf(port);
    this.dir = dir ?? mkdtempSync(join(tmpdir(), 'redis-exp-lock-server-'));
    this.#ownsDir = dir === undefined;
    this.#binary = binary;
    const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', this.dir];
    const durability = appendonly ? ['--appendonly', 'yes', '--appendfsync', appendonly] : [];
    this.#args = [...place, '--save', '', ...allowDebug(binary), ...durability, ...args];
  }

  get process(): ChildProcess {
    if (!this.#process) throw new Error(`redis-server ${this.port} was never started`);
    return this.#process;
  }

  get pid(): number {
    return this.process.pid!;
  }

  async start(): Promise<void> {
    servers.add(this);
    removeDirsAtExit();
    const log = openSync(this.#logFile, 'a'); // a file, not a pipe: nothing to drain, nothing that keeps mocha alive
    this.#process = spawn(this.#binary, this.#args, { stdio: ['ignore', log, log] });
    closeSync(log);
    track(this.#process);
    await waitFor(() => this.#answers(), { what: `redis-server ${this.port} to answer` });
  }

  connect(options?: ClientOptions): Promise<Client> {
    return connect(this.url, options);
  }

  /** A command over a private connection (RESP2 replies), one that outlives `maxclients 1` and CLIENT KILL. */
  async command<T = any>(...args: (string | number)[]): Promise<T> {
    const words = args.map(String);
    const reused = this.#admin?.isReady ? this.#admin : undefined;
    try {
      return (await (reused ?? (await this.#openAdmin())).sendCommand(words)) as T;
    } catch (error) {
      // Cut by the test's own fault, unnoticed until now: only then is it sent again.
      if (!reused || reused.isReady || error instanceof ErrorReply) throw error;
      return (await (await this.#openAdmin()).sendCommand(words)) as T;
    }
  }

  /** SIGSTOP: the kernel goes on to accept connections and bytes, nobody reads them until `resume`. */
  pause(): Promise<void> {
    return stop(this.process);
  }

  /** SIGCONT. */
  resume(): Promise<void> {
    return cont(this.process);
  }

  /** kill -9. `restart` brings it back. */
  async kill(): Promise<void> {
    this.#closeAdmin();
    await kill9(this.process);
  }

  /** Starts it again, after an orderly end if it still runs: same port, directory and arguments. */
  async restart(): Promise<void> {
    await this.#end();
    await this.start();
  }

  /** An orderly end, also of a paused server; its directory goes too, if it was ours. */
  async stop(): Promise<void> {
    await this.#end();
    this.#forget();
  }

  /** Ends it without ceremony. */
  async discard(): Promise<void> {
    await this.kill();
    this.#forget();
  }

  get #logFile(): string {
    return join(this.dir, 'redis.log');
  }

  async #end(): Promise<void> {
    this.#closeAdmin();
    this.process.kill('SIGTERM');
    this.process.kill('SIGCONT');
    // A master waits up to 10 s for replicas that lag; a test has no use for that.
    const impatience = setTimeout(() => this.process.kill('SIGKILL'), STOP_MS);
    await exited(this.process).finally(() => clearTimeout(impatience));
  }

  #forget(): void {
    servers.delete(this);
    this.removeDir();
  }

  /** @internal */
  removeDir(): void {
    if (this.#ownsDir) rmSync(this.dir, { recursive: true, force: true });
  }

  async #answers(): Promise<boolean> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) {
      throw new Error(`redis-server ${this.port} did not start:\n${readFileSync(this.#logFile, 'utf8').slice(-2_000)}`);
    }
    const reply = await ping(this.port);
    return reply !== '' && !reply.startsWith('-LOADING'); // -NOAUTH and its like: it is up
  }

  async #openAdmin(): Promise<Client> {
    this.#closeAdmin();
    // No HELLO, no CLIENT SETINFO: the tests that count commands should find only what was asked for.
    this.#admin = await connect(this.url, {
      RESP: 2,
      disableClientInfo: true,
      maintNotifications: 'disabled',
      socket: { reconnectStrategy: false },
      commandOptions: { timeout: 60_000 },
    });
    return this.#admin;
  }

  #closeAdmin(): void {
    if (!this.#admin) return;
    destroy(this.#admin);
    clients.delete(this.#admin);
    this.#admin = undefined;
  }
}

// The commands that a server was asked to execute.

export interface RecordedCommand {
  /** Address and port of the client; the same for what its script calls. */
  readonly client: string;
  /** The command's name first. */
  readonly args: readonly string[];
  /** Called by a script, not sent by a client. */
  readonly lua: boolean;
}

export interface Recording {
  /** Ends it and resolves with every command the server ran since, in the order it ran them. */
  stop(): Promise<readonly RecordedCommand[]>;
}

/** Records by MONITOR, which leaves out administrative commands (CONFIG, DEBUG, ...) and slows the server down. */
export async function recordCommands({ port }: { readonly port: number }): Promise<Recording> {
  const socket = dial({ port, host: '127.0.0.1' }).unref();
  const lines: string[] = [];
  let rest = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\r\n');
    rest = parts.pop()!;
    lines.push(...parts);
  });
  let closed = false;
  socket
    .on('error', () => {})
    .on('close', () => {
      closed = true;
    });
  socket.write('MONITOR\r\n');
  await waitFor(() => lines.length > 0 || closed, { what: 'MONITOR to begin' });
  if (lines[0] !== '+OK') {
    socket.destroy();
    throw new Error(`MONITOR was refused: ${lines[0] ?? 'no answer'}`);
  }

  // Everything that ran before a word of our own is reported before it: nothing on its way is missed.
  const marker = `end of recording ${randomUUID()}`;
  return {
    async stop() {
      socket.write(`ECHO "${marker}"\r\n`);
      await waitFor(() => closed || lines.some((line) => line.includes(marker)), { what: 'MONITOR to catch up' });
      socket.destroy();
      const end = lines.findIndex((line) => line.includes(marker));
      return withClients(lines.slice(1, end < 0 ? undefined : end));
    },
  };
}

/** The number of calls of each command since the server started, by lower-case name; those from scripts and the asking count too. */
export async function commandStats(client: Client): Promise<Record<string, number>> {
  const info = String(await client.info('commandstats'));
  const lines = info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return Object.fromEntries([...lines].map(([, name, calls]) => [name!, Number(calls)]));
}

/** The calls between two `commandStats`, without those of the reading itself. */
export function diffCommandStats(
  before: Record<string, number>,
  after: Record<string, number>,
): Record<string, number> {
  const calls = Object.entries(after).map(([name, total]) => [name, total - (before[name] ?? 0)] as const);
  return Object.fromEntries(calls.filter(([name, count]) => count !== 0 && name !== 'info'));
}

/** `1700000000.1 [0 127.0.0.1:5000] "get" "k"`, or `[0 lua]` behind the client's own line, whose address it gets here. */
function withClients(lines: readonly string[]): RecordedCommand[] {
  let client = '';
  return lines.flatMap((line) => {
    const [, source, words] = /^\+[\d.]+ \[\d+ (.*?)\] (".*)$/.exec(line) ?? [];
    if (!source || !words) return [];
    const lua = source === 'lua';
    if (!lua) client = source;
    return [{ client, lua, args: [...words.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word]) => unescaped(word!)) }];
  });
}

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b' };

/** Bytes beyond ASCII come as \xHH each: they are put together before they are read as UTF-8. */
function unescaped(word: string): string {
  const bytes = word.replace(/\\(x([0-9a-f]{2})|.)/g, (_, one: string, hex?: string) =>
    hex ? String.fromCharCode(Number.parseInt(hex, 16)) : (ESCAPES[one] ?? one),
  );
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

// Details.

function urlOf(port: number): string {
  return `redis://127.0.0.1:${port}`;
}

/** The binary that the shared server runs on too: package.json's `redisMemoryServer`, or REDISMS_SYSTEM_BINARY. */
export async function serverBinary(): Promise<string> {
  // By scripts/redis-binary.cjs; where it found none, one would be compiled now.
  const { default: configOf } = require('redis-memory-server/lib/util/resolve-config');
  if (configOf('SYSTEM_BINARY') === undefined) throw new Missing('no redis-server: node scripts/redis-binary.cjs');
  binary ??= redisMemoryServer().RedisBinary.getPath();
  return binary;
}

let binary: Promise<string> | undefined;

/** For tests whose servers speak TLS among themselves. @throws {Missing} the server was built without TLS. */
export async function needsTls(): Promise<void> {
  // It stops at the first word that it does not take: the port, unless it does not know TLS.
  const { stdout, stderr } = spawnSync(await serverBinary(), ['--tls-port', '0', '--port', '-1'], { encoding: 'utf8' });
  if (/'tls-port/.test(stdout + stderr)) throw new Missing('this server was built without TLS');
}

/** Redis 6 has no such directive and allows DEBUG always. */
function allowDebug(path: string): string[] {
  debugFlags ??= /v=[1-6]\./.test(execFileSync(path, ['--version'], { encoding: 'utf8' }))
    ? []
    : ['--enable-debug-command', 'yes'];
  return debugFlags;
}

let debugFlags: string[] | undefined;

/** The first bytes of the reply; '' when there is none. Not by a client: a client redials and says more than PING. */
async function ping(port: number): Promise<string> {
  const socket: Socket = dial({ port, host: '127.0.0.1' });
  socket.setTimeout(1_000, () => socket.destroy(new Error('silent')));
  socket.write('PING\r\n');
  try {
    const [reply] = await once(socket, 'data');
    return String(reply);
  } catch {
    return '';
  } finally {
    socket.destroy();
  }
}

let removing = false;

/** For a run that ends before its hooks. */
function removeDirsAtExit(): void {
  if (removing) return;
  removing = true;
  process.once('exit', () => {
    for (const server of servers) server.removeDir();
  });
}
