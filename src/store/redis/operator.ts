// The operator's view of one Redis: many locks in one command, and a few keys at a time in a scan.
import { companionOf, fenceKey } from '../../core/keys';
import {
  changedChannel,
  freedChannel,
  type Inspection,
  maxShown,
  type Operator,
  processesKey,
  processKey,
} from '../operator';
import type { ScriptClient } from './client';
import { inspectReply } from './inspection';
import { withDeadline } from './pipeline/deadlines';
import type { Transport } from './pipeline/transport';
import { scanKeys } from './scan';
import * as scripts from './scripts/generated';
import { integers, type ScriptCall, strangeReply } from './scripts/script';
import type { ServerClock } from './server-clock';

/** Keys in one command: no command takes longer than a millisecond. */
const keysInCommand = 100;
const longText = 2 ** 15;
/** The minimum number of records that are read at once; short records are read in larger numbers. */
const minTexts = 4;
const lengthAtOnce = 2 ** 19;

export function redisOperator(client: ScriptClient, transport: Transport, clock: ServerClock): Operator {
  /** The states of the keys; in a cluster each key goes to the node that has it. */
  async function inspect(keys: readonly string[], timeoutMs: number, token?: string): Promise<Inspection[]> {
    const count = client.clustered ? 1 : keysInCommand;
    const parts: Promise<Inspection[]>[] = [];
    for (let n = 0; n < keys.length; n += count) parts.push(inspectAtOnce(keys.slice(n, n + count), timeoutMs, token));
    return (await Promise.all(parts)).flat();
  }

  /** Inspects all keys. The script stops early if the locks have very many holders and waiters, so that other clients do not wait for it. */
  async function inspectAtOnce(keys: readonly string[], timeoutMs: number, token?: string): Promise<Inspection[]> {
    const all: Inspection[] = [];
    while (all.length < keys.length) {
      const some = keys.slice(all.length);
      const queues = some.map((key) => companionOf(key, 'queue'));
      const call = scripts.inspect(some, queues, fenceKey, maxShown);
      const reply = await transport.requestAlone(call, some, timeoutMs).catch((error) => {
        if (some.length === 1 || error.redisCode !== 'CROSSSLOT') throw error;
      });
      if (reply === undefined) return [...all, ...(await inspect(some, timeoutMs, token))]; // key by key from now on
      all.push(...inspectReply(reply, some, token));
    }
    return all;
  }

  /** The records, several at once: few enough that their length does not block the server. */
  async function recordsOf(ids: readonly string[], timeoutMs: number): Promise<string[]> {
    const read = (key: string): Promise<unknown> =>
      isSingle() ? sendPlain(['GET', key], timeoutMs) : transport.requestAlone(scripts.readValue(key), key, timeoutMs);
    const texts: string[] = [];
    for (let n = 0, count = minTexts; n < ids.length; ) {
      const some = ids.slice(n, n + count).map((id) => read(processKey(String(id))));
      n += some.length;
      const found = (await Promise.all(some)).filter((text) => typeof text === 'string');
      for (const text of found) texts.push(text);
      const length = found.reduce((sum, text) => sum + text.length, 0);
      count = Math.max(minTexts, Math.floor((count * lengthAtOnce) / Math.max(length, 1)));
    }
    return texts;
  }

  /** Writes the record. A script copies its text three times: 256 kB take the server 390 µs to write and 460 to read, plainly 9 and 80. */
  async function write(key: string, text: string | undefined, ttlMs: number, timeoutMs: number): Promise<boolean> {
    if (!text || text.length < longText || !isSingle()) {
      return (await sendQuietly(scripts.writeProcess(key, text ?? '=', ttlMs), timeoutMs)) === 1;
    }
    await sendPlain(['SET', key, text, 'PX', String(ttlMs)], timeoutMs);
    return true;
  }

  /** True if commands need not be sent to the node of their key. */
  function isSingle(): boolean {
    return !client.clustered && client.masters !== undefined;
  }

  async function sendPlain(words: readonly string[], timeoutMs: number): Promise<unknown> {
    await transport.ready(words[1]!, timeoutMs, true);
    const [send] = client.masters!();
    return withDeadline(send!(words), words[1]!, timeoutMs, false);
  }

  /** Sends a script without keeping the process alive for its reply. */
  async function sendQuietly(call: ScriptCall, timeoutMs: number): Promise<number> {
    const key = call.keys[0]!;
    return integers(await transport.requestAlone(call, key, timeoutMs, false), 1, key)[0]!;
  }

  const { masters } = client;
  return {
    isLocal: false,
    get offsetMs() {
      return clock.offsetMs;
    },
    keys:
      masters &&
      async function* (prefix, commandTimeoutMs, isPaced = true) {
        for (const send of masters()) yield* scanKeys(send, prefix, commandTimeoutMs, isPaced);
      },
    inspect,
    permitsOut(key, commandTimeoutMs) {
      const call = scripts.countPermits(key);
      return transport.request(call, key, commandTimeoutMs, (reply) => integers(reply, 1, key)[0]!);
    },
    async free(key, id = '', commandTimeoutMs) {
      const queue = companionOf(key, 'queue');
      const call = scripts.free([key, queue, fenceKey], id, freedChannel);
      const [freed] = integers(await transport.requestAlone(call, key, commandTimeoutMs), 1, key);
      if (freed !== -1) return freed === 1;
      const shared = scripts.freeShared(key, queue, companionOf(key, 'limit'), id, freedChannel);
      return transport.send(shared, key, commandTimeoutMs, (reply) => integers(reply, 1, key)[0]! > 0);
    },
    /** Writes the record and the id in two commands that leave together: in a cluster the two keys lie on different nodes. */
    async register({ id, text, ttlMs }, commandTimeoutMs) {
      const channel = text === undefined ? '' : changedChannel;
      const [isThere] = await Promise.all([
        write(processKey(id), text, ttlMs, commandTimeoutMs),
        sendQuietly(scripts.registerProcess(processesKey, id, text === '' ? 0 : ttlMs, channel), commandTimeoutMs),
      ]);
      return isThere;
    },
    async processes(commandTimeoutMs) {
      const reply = await transport.requestAlone(scripts.processes(processesKey), processesKey, commandTimeoutMs);
      if (!Array.isArray(reply)) throw strangeReply(reply, processesKey);
      const [atMs, ...ids] = reply as [number, ...string[]];
      return { atMs, texts: await recordsOf(ids, commandTimeoutMs) };
    },
  };
}
