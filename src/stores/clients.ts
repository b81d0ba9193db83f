// Every kind of Redis client behind one small face: is it ready, and run this script. A client is known by its shape,
// never by its constructor's name, so that several majors and copies of a package work side by side.
import { optionError } from '../errors';

/** node-redis 4 to 6: client, cluster, sentinel, pool. Connected, and closed, by its owner. */
export interface NodeRedisLike {
  eval(...args: any[]): Promise<any>;
  evalSha(...args: any[]): Promise<any>;
}

/** Where locks live. */
export type ClientLike = NodeRedisLike;

export type Readiness =
  | 'ready'
  /** Connecting or reconnecting: worth a short wait. */
  | 'soon'
  /** Nobody called connect(), or it was closed. */
  | 'closed';

export interface ScriptClient {
  readiness(): Readiness;
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  eval(lua: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** Many keys of different slots cannot go in one script. */
  readonly clustered: boolean;
  /** What `maxmemory-policy` is; rejects where it may not be read. */
  evictionPolicy(): Promise<string>;
  /**
   * Hears a channel, on a connection of our own; absent where the client cannot. `onGap`: the connection was lost, and is back.
   */
  readonly subscribe?: (channel: string, onMessage: (text: string) => void, onGap: () => void) => Promise<Subscription>;
  /** A connection of our own to the same node, for WAIT. */
  dedicate(): DedicatedClient;
}

/** An open ear. */
export interface Subscription {
  close(): void;
}

/** One connection whose commands nobody else's come between. */
export interface DedicatedClient {
  /** Resolves when it can be used; rejects when it never could. */
  readonly opened: Promise<unknown>;
  readonly script: ScriptClient;
  /** How many replicas have everything that this connection wrote, after at most `timeoutMs`. */
  wait(replicas: number, timeoutMs: number): Promise<number>;
  /** Goes up with each new connection. */
  readonly generation: () => number;
  /** At once, even while it is still being opened. */
  close(): void;
}

/**
 * The client behind its face.
 *
 * @throws {TypeError} `ERR_LOCK_OPTION` for anything that is no client that we know.
 */
export function scriptClient(client: unknown): ScriptClient {
  if (hasMethods(client, 'evalSha', 'eval')) return nodeRedis(client);
  throw optionError('redis', 'a connected node-redis client (4 to 6)', client);
}

function hasMethods(value: unknown, ...names: string[]): value is Record<string, any> {
  return (
    typeof value === 'object' && value !== null && names.every((name) => typeof (value as any)[name] === 'function')
  );
}

function nodeRedis(client: Record<string, any>): ScriptClient {
  // Deadlines are ours, and a mapping of types that the owner wants for his own commands must not change our replies.
  const caller = client.withCommandOptions?.({ timeout: undefined, typeMapping: undefined }) ?? client;
  return {
    clustered: typeof client.slots === 'object' && client.slots !== null,
    readiness() {
      if (client.isReady ?? client.isOpen) return 'ready';
      return client.isOpen === false ? 'closed' : 'soon';
    },
    evalsha: (sha, keys, args) => caller.evalSha(sha, { keys, arguments: args }),
    eval: (lua, keys, args) => caller.eval(lua, { keys, arguments: args }),
    async evictionPolicy() {
      const answer = await client.configGet('maxmemory-policy');
      return String(answer['maxmemory-policy']);
    },
    ...(typeof client.duplicate === 'function' && { subscribe: subscriber(client) }),
    dedicate() {
      if (typeof client.duplicate !== 'function' || typeof client.wait !== 'function') {
        throw optionError('minReplicas', 'a client of a single node, which can be duplicated', client);
      }
      return dedicatedNodeRedis(client.duplicate());
    },
  };
}

function subscriber(client: Record<string, any>): NonNullable<ScriptClient['subscribe']> {
  return async (channel, onMessage, onGap) => {
    const connection = client.duplicate();
    const close = (): void => destroy(connection);
    let isHeard = false;
    // Without a listener of ours a dropped socket of this connection would crash the process.
    connection.on('error', () => {});
    connection.on('ready', () => {
      // Nobody's process is kept alive by what it might hear.
      connection.unref();
      // node-redis subscribes again before it is ready again.
      if (isHeard) onGap();
    });
    try {
      await connection.connect();
      await connection.subscribe(channel, onMessage);
      isHeard = true;
    } catch (error) {
      close();
      throw error;
    }
    return { close };
  };
}

/** At once, whatever is under way. */
function destroy(connection: Record<string, any>): void {
  // `destroy` is new in node-redis 5; 4 calls it `disconnect`, whose promise may reject.
  if (typeof connection.destroy === 'function') connection.destroy();
  else connection.disconnect().catch(() => {});
}

function dedicatedNodeRedis(connection: Record<string, any>): DedicatedClient {
  let generation = 0;
  // Without a listener of ours a dropped socket of this connection would crash the process.
  connection.on('error', () => {});
  connection.on('ready', () => {
    generation += 1;
    // Our own connection must not keep a process alive whose own work is done.
    connection.unref();
  });
  return {
    opened: connection.connect(),
    script: nodeRedis(connection),
    wait: (replicas, timeoutMs) => connection.wait(replicas, timeoutMs),
    generation: () => generation,
    close: () => destroy(connection),
  };
}
