// The connections over which grants wait for replicas: one for each node, each number of replicas, and each order of magnitude of
// the command timeout. Callers that wait in vain for too many replicas, or that have much time, hold up no others. Shards behind
// one endpoint are refused: the WAIT would speak of any of them.
import { LockBackendError } from '../../core/errors';
import { describe, type Key, listOf } from '../../core/keys';
import type { AcquireRequest } from '../contract';
import type { ScriptClient } from './client';
import { type CallAt, type SentReply, WaitConnection } from './wait-connection';

export class Replicas {
  readonly #client: ScriptClient;
  /** False for a client that nobody redirects to the node of a key. */
  readonly #isOfCluster: boolean;
  readonly #connections = new Map<string, WaitConnection>();

  constructor(client: ScriptClient) {
    this.#client = client;
    this.#isOfCluster = client.clustered;
  }

  /** The reply to the script, once `minReplicas` replicas have its writes. @throws {LockBackendError} too few have them, or that is not known. */
  async acquire(request: AcquireRequest, callAt: CallAt): Promise<SentReply> {
    const { keys } = request;
    const key = listOf(keys)[0]!;
    if (this.#client.clustered && !this.#isOfCluster) throw noReplicas(keys); // H96b
    try {
      return await this.#connectionFor(key, request).acquire(request, callAt);
    } catch (error) {
      if ((error as LockBackendError).redisCode === 'CROSSSLOT') throw noReplicas(keys);
      this.#client.relocate?.(key); // in a cluster the key may have moved
      throw error;
    }
  }

  close(): void {
    for (const connection of this.#connections.values()) connection.close();
    this.#connections.clear();
  }

  #connectionFor(key: string, { minReplicas, commandTimeoutMs }: AcquireRequest): WaitConnection {
    const node = this.#client.nodeOf(key);
    const magnitudeMs = 10 ** Math.floor(Math.log10(commandTimeoutMs));
    const name = `${node} ${minReplicas} ${magnitudeMs}`; // H99d
    const open = this.#connections.get(name);
    if (open?.isUsable) return open;
    open?.close();
    // After a failover there is another master.
    if (!this.#isOfCluster && [...this.#connections.keys()].some((each) => !each.startsWith(`${node} `))) this.close();
    // A quarter: a caller may have to wait for a WAIT under way, and its own request takes two.
    const made = new WaitConnection(this.#client.dedicate(key), minReplicas, magnitudeMs / 4, this.#client);
    this.#connections.set(name, made);
    return made;
  }
}

function noReplicas(keys: Key): LockBackendError {
  const message = `${describe(keys)} cannot be locked with minReplicas: behind one endpoint, WAIT does not speak of the shard of a key`;
  return new LockBackendError(message, { key: keys, redisCode: 'CROSSSLOT', retryable: false });
}
