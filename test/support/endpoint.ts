/**
 * A sharded service behind one endpoint, as managed services have it: a real cluster of three masters, and one address for plain
 * clients. It sends each command to the node of its keys, refuses keys of several slots (CROSSSLOT) and CLUSTER, and shows SCAN over
 * all nodes as one. Commands without keys go to the first node; what belongs to a session (HELLO, AUTH, CLIENT) and SCRIPT go to all.
 *
 * Invariant: on each connection the client hears the replies in the order of its commands. No client learns of a node's address.
 *
 * Not supported: MULTI, slots that move, nodes that go away.
 */

import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import { slotOf } from '../../src/core/keys';
import { startCluster, type TestCluster } from './cluster';
import { argumentsOf, Frames, isError, pushKind, repliesTo } from './fault-proxy';
import { freePort } from './processes';
import type { RedisServer } from './redis';

const masters = 3;
const crossSlot = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
/** Commands that change a session or the scripts of a node, and so go to all nodes. */
const ofAll = new Set(['HELLO', 'AUTH', 'CLIENT', 'SCRIPT', 'SELECT', 'RESET', 'FLUSHALL', 'FLUSHDB', 'QUIT']);
const keyless = new Set([
  ...['PING', 'ECHO', 'INFO', 'TIME', 'CONFIG', 'COMMAND', 'ACL', 'WAIT', 'DEBUG', 'MONITOR', 'DBSIZE'],
  ...['PUBLISH', 'PUBSUB', 'SUBSCRIBE', 'UNSUBSCRIBE', 'PSUBSCRIBE', 'PUNSUBSCRIBE'],
]);
const ofSeveralKeys = new Set(['DEL', 'UNLINK', 'EXISTS', 'MGET', 'TOUCH']);

const endpoints = new Set<ShardEndpoint>();

/** Starts a cluster with an endpoint in front of it, on a free port of loopback or on the one given. */
export async function startEndpoint(port?: number): Promise<ShardEndpoint> {
  const [cluster, free] = await Promise.all([startCluster(masters), port ?? freePort()]);
  const endpoint = new ShardEndpoint(cluster, free);
  await endpoint.start();
  return endpoint;
}

/** Stops every endpoint that is left. For the root hooks. */
export async function stopEndpoints(): Promise<void> {
  await Promise.all([...endpoints].map((endpoint) => endpoint.discard()));
}

export class ShardEndpoint {
  readonly port: number;
  readonly url: string;
  readonly cluster: TestCluster;
  /** Calls refused for their slots. */
  refused = 0;
  /** Redirections of a node, which no endpoint shows. */
  redirected = 0;
  readonly #server: Server;
  readonly #sessions = new Set<Session>();

  constructor(cluster: TestCluster, port: number) {
    this.cluster = cluster;
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
    this.#server = createServer({ noDelay: true }, (client) => {
      const session = new Session(client, this);
      this.#sessions.add(session);
      client.on('close', () => this.#sessions.delete(session));
    });
  }

  get nodes(): readonly RedisServer[] {
    return this.cluster.nodes;
  }

  start(): Promise<void> {
    endpoints.add(this);
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.port, '127.0.0.1', resolve);
    });
  }

  /** The node that has a slot: the cluster starts with equal shares, and nothing moves. */
  nodeOf(slot: number): number {
    return Math.floor(slot / Math.ceil(16_384 / masters));
  }

  /** Past the endpoint: at the node of the key, or, for KEYS, at all. */
  async command<T = any>(name: string, ...args: (string | number)[]): Promise<T> {
    if (name !== 'KEYS') return this.nodes[this.nodeOf(slotOf(String(args[0])))]!.command(name, ...args);
    const all = await Promise.all(this.nodes.map((node) => node.command(name, ...args)));
    return all.flat() as T;
  }

  /** Ends the endpoint and its cluster. */
  async discard(): Promise<void> {
    if (!endpoints.delete(this)) return;
    for (const session of this.#sessions) session.end();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.cluster.stop();
  }
}

/** A command between its arrival and its reply. */
interface Expected {
  readonly name: string;
  /** Nodes whose whole reply is still to come. */
  missing: number;
  /** The reply of the first node that was asked, or an error of any other node. */
  reply: Buffer;
}

/** A node's part in one. */
interface Part {
  readonly expected: Expected;
  readonly isFirst: boolean;
  readonly name: string;
  /** Frames still to come. */
  missing: number;
  readonly frames: Buffer[];
  /** True for a SCAN, whose cursor spans all nodes. */
  readonly scans: boolean;
}

/** A client's connection, and those to the nodes on its behalf. */
class Session {
  readonly #client: Socket;
  readonly #endpoint: ShardEndpoint;
  readonly #nodes: readonly Socket[];
  readonly #parts: readonly Part[][];
  readonly #replies: Expected[] = [];
  #subscribes = false;

  constructor(client: Socket, endpoint: ShardEndpoint) {
    this.#client = client;
    this.#endpoint = endpoint;
    this.#nodes = endpoint.nodes.map(({ port }) => dial({ port, host: '127.0.0.1', noDelay: true }));
    this.#parts = this.#nodes.map(() => []);
    const requests = new Frames();
    client.on('data', (chunk) => {
      for (const frame of requests.push(chunk as Buffer)) this.#route(frame, argumentsOf(frame));
    });
    for (const [n, node] of this.#nodes.entries()) {
      const replies = new Frames();
      node.on('data', (chunk) => {
        for (const frame of replies.push(chunk as Buffer)) this.#onReply(n, frame);
      });
    }
    for (const socket of [client, ...this.#nodes]) socket.on('error', () => {}).on('close', () => this.end());
  }

  end(): void {
    this.#client.destroySoon();
    for (const node of this.#nodes) node.destroySoon();
  }

  #route(frame: Buffer, args: readonly string[]): void {
    const name = args[0]!.toUpperCase();
    this.#subscribes ||= name.endsWith('SUBSCRIBE');
    const expected = { name, missing: 0, reply: Buffer.alloc(0) };
    this.#replies.push(expected);
    if (name === 'CLUSTER' || (name === 'INFO' && args[1]?.toLowerCase() === 'cluster')) {
      expected.reply = Buffer.from(`-ERR unknown command '${args[0]}', with args beginning with: \r\n`);
      return this.#deliver();
    }
    if (name === 'SCAN') return this.#scan(expected, args);
    if (ofAll.has(name)) {
      for (const n of this.#nodes.keys()) this.#ask(n, frame, args, expected);
      return;
    }
    const slots = new Set(keysOf(name, args).map(slotOf));
    if (slots.size > 1) {
      this.#endpoint.refused += 1;
      expected.reply = Buffer.from(crossSlot);
      return this.#deliver();
    }
    const [slot] = slots;
    this.#ask(slot === undefined ? 0 : this.#endpoint.nodeOf(slot), frame, args, expected);
  }

  /** The cursor of a client names the node as well. */
  #scan(expected: Expected, [name, text, ...rest]: readonly string[]): void {
    const cursor = BigInt(text!);
    const count = BigInt(masters);
    const args = [name!, String(cursor / count), ...rest];
    const words = args.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    this.#ask(Number(cursor % count), Buffer.from(`*${args.length}\r\n${words.join('')}`), args, expected, true);
  }

  #ask(n: number, frame: Buffer, args: readonly string[], expected: Expected, scans = false): void {
    const { name } = expected;
    this.#parts[n]!.push({
      ...{ expected, name, frames: [], scans, isFirst: expected.missing === 0 },
      missing: repliesTo({ name, args }),
    });
    expected.missing += 1;
    this.#nodes[n]!.write(frame);
  }

  #onReply(n: number, frame: Buffer): void {
    const parts = this.#parts[n]!;
    const [part] = parts;
    const push = pushKind(frame, this.#subscribes);
    if (part === undefined || (push !== undefined && part.name !== push)) return void this.#client.write(frame);
    part.frames.push(frame);
    part.missing = isError(frame) ? 0 : part.missing - 1;
    if (part.missing > 0) return;
    parts.shift();
    const { expected } = part;
    const reply = Buffer.concat(part.frames);
    if (/^-(MOVED|ASK) /.test(reply.toString('latin1', 0, 8))) this.#endpoint.redirected += 1;
    if (part.isFirst || isError(reply)) expected.reply = part.scans ? scanned(n, reply) : asOneServer(expected, reply);
    expected.missing -= 1;
    this.#deliver();
  }

  #deliver(): void {
    while (this.#replies[0]?.missing === 0) this.#client.write(this.#replies.shift()!.reply);
  }
}

function keysOf(name: string, args: readonly string[]): readonly string[] {
  if (/^(EVAL|EVALSHA|FCALL)(_RO)?$/.test(name)) return args.slice(3, 3 + Number(args[2]));
  if (keyless.has(name)) return [];
  return ofSeveralKeys.has(name) ? args.slice(1) : args.slice(1, 2);
}

/** A node's reply about its cluster, changed into the reply of a single server. */
function asOneServer({ name }: Expected, reply: Buffer): Buffer {
  if (name !== 'INFO' && name !== 'HELLO') return reply;
  const text = reply.toString('latin1').replace('cluster_enabled:1', 'cluster_enabled:0');
  return Buffer.from(text.replace('$7\r\ncluster\r\n', '$10\r\nstandalone\r\n'), 'latin1');
}

/** The reply of a node with the cursor of its client. */
function scanned(n: number, reply: Buffer): Buffer {
  const text = reply.toString('latin1');
  const [whole, cursor] = /^\*2\r\n\$\d+\r\n(\d+)\r\n/.exec(text) ?? [];
  if (whole === undefined) return reply;
  const isLast = cursor === '0' && n === masters - 1;
  const next = cursor === '0' ? BigInt(n + 1) : BigInt(cursor!) * BigInt(masters) + BigInt(n);
  const shown = isLast ? '0' : String(next);
  return Buffer.from(`*2\r\n$${shown.length}\r\n${shown}\r\n${text.slice(whole.length)}`, 'latin1');
}
