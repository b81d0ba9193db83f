// The operator's view of one Redis: many locks in one command, and a few keys at a time in a scan.
import type { LockBackendError } from '../../core/errors';
import { companionOf, mayBeLock } from '../../core/keys';
import type { LockState } from '../../core/lock-state';
import type { InspectedLock } from '../inspected';
import {
  changedChannel,
  freedChannel,
  isOfRegistry,
  maxShown,
  type Operator,
  type Processes,
  processesKey,
  processKey,
  type Registration,
} from '../operator';
import type { ScriptClient } from './client';
import { fenceKeyOf } from './commands';
import { inspectReply } from './inspection';
import type { Transport } from './pipeline/transport';
import { integers, strangeReply } from './replies';
import { scanKeys } from './scan';
import * as scripts from './scripts/generated';
import type { ScriptCall } from './scripts/script';
import type { ServerClock } from './server-clock';

/** Keys in one command: no command takes longer than a millisecond. */
const keysInCommand = 100;
/** The minimum number of records that are read at once; short records are read in larger numbers. */
const minTexts = 4;
const lengthAtOnce = 2 ** 19;

export class RedisOperator implements Operator {
  readonly isLocal = false;
  readonly keys: Operator['keys'];
  readonly #client: ScriptClient;
  readonly #transport: Transport;
  readonly #clock: ServerClock;

  constructor(client: ScriptClient, transport: Transport, clock: ServerClock) {
    this.#client = client;
    this.#transport = transport;
    this.#clock = clock;
    this.keys = client.masters && ((...args) => this.#keys(...args));
  }

  get offsetMs(): number {
    return this.#clock.offsetMs;
  }

  async inspect(keys: readonly string[], commandTimeoutMs: number): Promise<(LockState | LockBackendError)[]> {
    const all = await this.see(keys, commandTimeoutMs);
    return all.map((seen) => ('state' in seen ? seen.state : seen));
  }

  /** The states with tokens, which must not leave the store. In a cluster each key goes to the node that has it. */
  async see(keys: readonly string[], commandTimeoutMs: number): Promise<(InspectedLock | LockBackendError)[]> {
    const count = this.#client.clustered ? 1 : keysInCommand;
    const parts: Promise<(InspectedLock | LockBackendError)[]>[] = [];
    for (let n = 0; n < keys.length; n += count) parts.push(this.#see(keys.slice(n, n + count), commandTimeoutMs));
    return (await Promise.all(parts)).flat();
  }

  /** Inspects all keys. The script stops early if the locks have very many holders and waiters, so that other clients do not wait for it. */
  async #see(keys: readonly string[], commandTimeoutMs: number): Promise<(InspectedLock | LockBackendError)[]> {
    const all: (InspectedLock | LockBackendError)[] = [];
    while (all.length < keys.length) {
      const some = keys.slice(all.length);
      const queues = some.map((key) => companionOf(key, 'queue'));
      const call = scripts.inspect(some, queues, fenceKeyOf(some, this.#client), maxShown);
      const reply = await this.#transport.requestAlone(call, some, commandTimeoutMs).catch((error) => {
        if (some.length === 1 || error.redisCode !== 'CROSSSLOT') throw error;
      });
      if (reply === undefined) return [...all, ...(await this.see(some, commandTimeoutMs))]; // key by key from now on
      all.push(...inspectReply(reply, some));
    }
    return all;
  }

  permitsOut(key: string, commandTimeoutMs: number): Promise<number> {
    const call = scripts.countPermits(key);
    return this.#transport.request(call, key, commandTimeoutMs, (reply) => integers(reply, 1, key)[0]!);
  }

  async free(key: string, id = '', commandTimeoutMs: number): Promise<boolean> {
    const queue = companionOf(key, 'queue');
    const call = scripts.free(key, queue, fenceKeyOf(key, this.#client), id, freedChannel);
    const [freed] = integers(await this.#transport.requestAlone(call, key, commandTimeoutMs), 1, key);
    if (freed !== -1) return freed === 1;
    const shared = scripts.freeShared(key, queue, companionOf(key, 'limit'), id, freedChannel);
    return this.#transport.send(shared, key, commandTimeoutMs, (reply) => integers(reply, 1, key)[0]! > 0);
  }

  /** Writes the record and the id in two commands that leave together: in a cluster the two keys lie on different nodes. */
  async register({ id, text, ttlMs }: Registration, commandTimeoutMs: number): Promise<boolean> {
    const channel = text === undefined ? '' : changedChannel;
    const [written] = await Promise.all([
      this.#quietly(scripts.writeProcess(processKey(id), text ?? '=', ttlMs), commandTimeoutMs),
      this.#quietly(scripts.registerProcess(processesKey, id, text === '' ? 0 : ttlMs, channel), commandTimeoutMs),
    ]);
    return written === 1;
  }

  async processes(commandTimeoutMs: number): Promise<Processes> {
    const reply = await this.#transport.requestAlone(scripts.processes(processesKey), processesKey, commandTimeoutMs);
    if (!Array.isArray(reply)) throw strangeReply(reply, processesKey);
    const [atMs, ...ids] = reply as [number, ...string[]];
    return { atMs, texts: await this.#texts(ids, commandTimeoutMs) };
  }

  /** The records, several at once: few enough that their length does not block the server. */
  async #texts(ids: readonly string[], commandTimeoutMs: number): Promise<string[]> {
    const texts: string[] = [];
    for (let n = 0, count = minTexts; n < ids.length; ) {
      const some = ids.slice(n, n + count).map((id) => this.#read(processKey(String(id)), commandTimeoutMs));
      n += some.length;
      const read = (await Promise.all(some)).filter((text) => typeof text === 'string');
      for (const text of read) texts.push(text);
      const length = read.reduce((sum, text) => sum + text.length, 0);
      count = Math.max(minTexts, Math.floor((count * lengthAtOnce) / Math.max(length, 1)));
    }
    return texts;
  }

  #read(key: string, commandTimeoutMs: number): Promise<unknown> {
    return this.#transport.requestAlone(scripts.readValue(key), key, commandTimeoutMs);
  }

  async *#keys(prefix: string, commandTimeoutMs: number, isPaced = true): AsyncGenerator<readonly string[], void> {
    for (const send of this.#client.masters!()) {
      for await (const keys of scanKeys(send, prefix, commandTimeoutMs, isPaced)) {
        yield keys.filter((key) => mayBeLock(key) && !isOfRegistry(key));
      }
    }
  }

  /** Sends a script without keeping the process alive for its reply. */
  async #quietly(call: ScriptCall, commandTimeoutMs: number): Promise<number> {
    const key = call.keys[0]!;
    return integers(await this.#transport.requestAlone(call, key, commandTimeoutMs, false), 1, key)[0]!;
  }
}
