// The common part of the adapters: clients are recognized by their methods, and run a command that is given as words.
import { optionError } from '../../../core/errors';
import type { ScriptClient, SendWords } from '../client';

/** A client of another package, which is not there at compile time. */
export type ForeignClient = Record<string, any>;

/** True if the value has all these methods. A value whose properties throw has none. */
export function hasMethods(value: unknown, ...names: string[]): boolean {
  if (typeof value !== 'object' || value === null) return false;
  try {
    return names.every((name) => typeof (value as any)[name] === 'function');
  } catch {
    return false;
  }
}

/** A client by its way to send the words of a command: standalone, always ready, without messages. Its adapter says what is different. */
export function clientOf(client: ForeignClient, send: SendWords): ScriptClient {
  return {
    keyPrefix: '',
    clustered: false,
    readiness: () => 'ready',
    evalsha: (sha, keys, args) => send(['EVALSHA', sha, String(keys.length), ...keys, ...args]),
    eval: (lua, keys, args) => send(['EVAL', lua, String(keys.length), ...keys, ...args]),
    command: async (...words) => JSON.stringify(await send(words)),
    masters: () => [send],
    nodeOf: () => '',
    dedicate() {
      throw noDedicated(client);
    },
  };
}

/** The error for `minReplicas`: WAIT covers a single connection, and this client has none of its own to give. */
export function noDedicated(client: unknown): TypeError | RangeError {
  const expected =
    '0 for this client: it needs connections that can be duplicated (node-redis createClient, createCluster, createSentinel; ioredis)';
  return optionError('minReplicas', expected, client);
}

/** Any node of a cluster: PUBLISH is broadcast, and after a lost connection another node may be better. */
export function anyOf<T>(nodes: readonly T[]): T {
  return nodes[Math.floor(Math.random() * nodes.length)]!;
}

/** A counter of the client's events of this name since the first call; undefined if the client emits no events. */
export function countOf(client: ForeignClient, event: string): (() => number) | undefined {
  if (!hasMethods(client, 'on')) return undefined;
  let count: number | undefined;
  return () => {
    if (count === undefined) {
      count = 0;
      client.on(event, () => {
        count! += 1;
      });
    }
    return count;
  };
}
