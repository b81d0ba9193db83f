// A grant that replicas must acknowledge: the script and WAIT leave together on a connection of our own. WAIT covers only what
// its own connection wrote. A reconnect between the two makes its answer worthless, so both are sent again (the token makes
// that harmless). Shards behind one endpoint are refused: the WAIT would speak of any of them.
import { LockBackendError } from '../../core/errors';
import { companionOf, describe, type Key, listOf } from '../../core/keys';
import { asUnknown, notReady } from '../backend-errors';
import type { AcquireRequest } from '../contract';
import type { DedicatedClient, ScriptClient } from './client';
import { isGrant } from './commands';
import { sendTogether } from './pipeline/batch';
import { withDeadline } from './pipeline/deadlines';
import type { Transport } from './pipeline/transport';
import * as scripts from './scripts/generated';
import type { BatchableCall } from './scripts/script';

export class Replicas {
  readonly #client: ScriptClient;
  readonly #transport: Transport;
  /** False for a client that nobody redirects to the node of a key. */
  readonly #isOfCluster: boolean;
  /** The connections by node. */
  readonly #connections = new Map<string, DedicatedClient>();

  constructor(client: ScriptClient, transport: Transport) {
    this.#client = client;
    this.#transport = transport;
    this.#isOfCluster = client.clustered;
  }

  /** Opens the connection to the node that has the key. @throws {LockBackendError} it cannot be used in time. */
  async open(keys: Key, timeoutMs: number): Promise<DedicatedClient> {
    const [key] = listOf(keys) as [string];
    if (this.#client.clustered && !this.#isOfCluster) throw noReplicas(keys); // H96b
    const connection = this.#connectionFor(key);
    await withDeadline(connection.opened, keys, timeoutMs).catch((error) => {
      throw new LockBackendError(error.message, { key: keys, cause: error });
    });
    const readiness = connection.script.readiness();
    if (readiness === 'ready') return connection;
    // The connection has given up, as one of ioredis does during a failover when no sentinel can name a master.
    if (readiness === 'closed') this.#drop(connection);
    this.#relocate(connection, key, timeoutMs);
    throw notReady(keys, 'soon');
  }

  /** The reply to the script, once `minReplicas` replicas have its writes. @throws {LockBackendError} too few have them, or that is not known. */
  async acquire(connection: DedicatedClient, call: BatchableCall, request: AcquireRequest): Promise<unknown> {
    const { keys, minReplicas, commandTimeoutMs } = request;
    const waitMs = Math.max(1, Math.floor(commandTimeoutMs / 2));
    for (;;) {
      const generation = connection.generation();
      const both = Promise.all([written(connection, call), connection.wait(minReplicas, waitMs)]);
      const [reply, replicas] = await withDeadline(both, keys, commandTimeoutMs).catch((error) => {
        if (error.redisCode === 'CROSSSLOT') throw noReplicas(keys);
        this.#relocate(connection, listOf(keys)[0]!, commandTimeoutMs);
        throw asUnknown(error);
      });
      if (connection.generation() !== generation) continue; // H59f
      // H59d H92b
      if (isGrant(reply) && replicas < minReplicas) {
        const message = `${replicas} of ${minReplicas} replicas have the lock ${describe(keys)} after ${waitMs} ms`;
        throw new LockBackendError(message, { key: keys, redisCode: 'NOREPLICAS', unknown: true });
      }
      return reply;
    }
  }

  /** Closes all connections at once. */
  close(): void {
    for (const connection of this.#connections.values()) connection.close();
    this.#connections.clear();
  }

  #connectionFor(key: string): DedicatedClient {
    const node = this.#client.nodeOf(key);
    const open = this.#connections.get(node);
    if (open !== undefined) return open;
    if (!this.#client.clustered) this.close(); // after a failover there is another master
    const opening = this.#client.dedicate(key);
    opening.opened.catch(() => this.#drop(opening));
    this.#connections.set(node, opening);
    return opening;
  }

  #drop(connection: DedicatedClient): void {
    for (const [node, each] of this.#connections) if (each === connection) this.#connections.delete(node);
  }

  /** Makes the client find the key's node again, by any request: in a cluster the key may have moved. */
  #relocate(connection: DedicatedClient, key: string, timeoutMs: number): void {
    if (!this.#client.clustered) return;
    this.#drop(connection);
    connection.close();
    this.#transport.requestAlone(scripts.readValue(companionOf(key, 'value')), key, timeoutMs).catch(() => {});
  }
}

function noReplicas(keys: Key): LockBackendError {
  const message = `${describe(keys)} cannot be locked with minReplicas: behind one endpoint, WAIT does not speak of the shard of a key`;
  return new LockBackendError(message, { key: keys, redisCode: 'CROSSSLOT', retryable: false });
}

/** Sends the script as text, never by its SHA: after a NOSCRIPT the WAIT would have gone ahead of the write. */
function written({ script: client }: DedicatedClient, call: BatchableCall): Promise<unknown> {
  return new Promise((resolve, reject) => {
    sendTogether([{ call, resolve, reject }], ({ script, keys, args }, handler) => {
      client.eval(script.lua, keys, args).then(handler.resolve, handler.reject); // H59e
    });
  });
}
