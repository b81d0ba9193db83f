// The way of a call to Redis and of its reply back. Every call has a deadline of our own and goes out only when the client is
// ready: nothing depends on a client's offline queue, time-out or abort. Calls of one tick leave together.

import type { LockBackendError } from '../../../core/errors';
import { type Key, listOf } from '../../../core/keys';
import { nextTick, setImmediate } from '../../../core/real-timers';
import { hasIncomingRequests } from '../../../core/runtime';
import { notReady } from '../../backend-errors';
import type { Moment } from '../../contract';
import type { ScriptClient } from '../client';
import type { ScriptCall } from '../scripts/script';
import { Batch, hasOwnScript } from './batch';
import { PendingRequest, type SendCall } from './deadlines';
import type { StoreCall } from './plain';
import { SendWindow } from './send-window';
import { readyWithin, senderTo } from './sender';

/** Calls in one batch. With many in flight two halves are under way: Redis works on one, our side on the other. */
export const maxInBatch = 128; // S10
/** Calls in one batch of calls with a mode, each of which costs several times as much: other commands should not wait long. */
export const maxSharedInBatch = 64; // S11

export class Transport {
  readonly #client: ScriptClient;
  readonly #send: SendCall;
  readonly #batch: Batch;
  /** The batch of calls with a mode, which have scripts of their own so that the scripts of a mutex stay small. */
  readonly #sharedBatch: Batch;
  readonly #window = new SendWindow();
  #turnEnds: Promise<void> | undefined;

  constructor(client: ScriptClient) {
    this.#client = client;
    this.#send = senderTo(client);
    this.#batch = new Batch(maxInBatch, client, this.#send, nextTick);
    // In the next turn another incoming request may run, whose calls must not leave with ours.
    const defer = hasIncomingRequests ? nextTick : setImmediate; // H90f
    this.#sharedBatch = new Batch(maxSharedInBatch, client, this.#send, defer);
  }

  get isReady(): boolean {
    return this.#client.readiness() === 'ready' && this.#window.hasRoom; // H3c
  }

  /** A moment before any call that is requested in this tick is sent; the same for all calls that leave together. */
  sentAt(isMutex: boolean): Moment {
    return (isMutex ? this.#batch : this.#sharedBatch).sentAt;
  }

  /** Waits until a call for a held lock may be sent, then sends it as `send` does. */
  request<T>(call: StoreCall, keys: Key, timeoutMs: number, read: (reply: unknown) => T | Promise<T>): Promise<T> {
    const ready = this.ready(keys, timeoutMs, true);
    if (ready === undefined) return this.send(call, keys, timeoutMs, read);
    return ready.then(() => this.send(call, keys, timeoutMs, read));
  }

  /**
   * Sends a call, alone or with others of the same tick, and resolves with the result of `read` on its reply. The client
   * must be ready. A single promise, because every lock pays for each.
   *
   * @param keepsAlive The process stays alive for the reply.
   */
  send<T>(
    call: StoreCall,
    keys: Key,
    timeoutMs: number,
    read: (reply: unknown) => T | Promise<T>,
    keepsAlive = true,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const onReply = (reply: unknown): void => {
        try {
          resolve(read(reply));
        } catch (error) {
          reject(error);
        }
      };
      // Cluster clients do not notice a node that hangs: after a silent request the client finds the node again.
      const onError = (error: LockBackendError): void => {
        if (error.unknown) this.#client.relocate?.(listOf(keys)[0]!);
        reject(error);
      };
      const batch = hasOwnScript(call) ? this.#batch : this.#sharedBatch;
      const pending = new PendingRequest(call, keys, timeoutMs, keepsAlive, onReply, onError, this.#window);
      this.#window.sent();
      batch.add(pending); // H99j
    });
  }

  /**
   * Sends a call by itself, because its reply is no list of integers, or because no other call leaves in the same tick. Earlier
   * requests leave before it: an inspection does not find a caller in the queue that has given up by then.
   */
  async requestAlone(call: ScriptCall, keys: Key, timeoutMs: number, keepsAlive = true): Promise<unknown> {
    await this.ready(keys, timeoutMs, true);
    this.#batch.flushAll();
    this.#sharedBatch.flushAll();
    return new Promise((resolve, reject) => {
      const pending = new PendingRequest(call, keys, timeoutMs, keepsAlive, resolve, reject);
      pending.onSent();
      this.#send(call, pending);
    });
  }

  /** Sends the calls of this tick now, if few others are on their way. */
  flushIfQuiet(): void {
    if (this.#window.isQuiet) this.#batch.flush();
  }

  /**
   * Waits for the client to connect, and for room in its window; undefined if a call may be sent now, without a turn of the event loop.
   *
   * @param isOfHolder The call is for a held lock, and goes before those of callers that want one.
   */
  ready(keys: Key, timeoutMs: number, isOfHolder: boolean): Promise<void> | undefined {
    return this.isReady ? undefined : this.#waitUntilReady(keys, timeoutMs, isOfHolder);
  }

  async #waitUntilReady(keys: Key, timeoutMs: number, isOfHolder: boolean): Promise<void> {
    do {
      const readiness = await readyWithin(this.#client, timeoutMs);
      if (readiness !== 'ready') throw notReady(keys, readiness, this.#client.advice);
      await this.#endOfTurn();
      if (!this.#window.hasRoom) await this.#window.room(keys, timeoutMs, isOfHolder);
    } while (this.#client.readiness() !== 'ready');
  }

  /** Resolves in the next turn: all other waiting calls are ready by then, and leave in the same tick. */
  #endOfTurn(): Promise<void> {
    this.#turnEnds ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#turnEnds = undefined;
        resolve();
      });
    });
    return this.#turnEnds;
  }
}
