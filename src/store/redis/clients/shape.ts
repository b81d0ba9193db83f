// The common part of the adapters: clients are recognized by their methods, and run a command that is given as words.
import { optionError } from '../../../core/errors';
import type { ScriptClient } from '../client';

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
export function clientOf(client: ForeignClient, run: (...words: string[]) => Promise<unknown>): ScriptClient {
  return {
    keyPrefix: '',
    clustered: false,
    readiness: () => 'ready',
    evalsha: (sha, keys, args) => run('EVALSHA', sha, String(keys.length), ...keys, ...args),
    eval: (lua, keys, args) => run('EVAL', lua, String(keys.length), ...keys, ...args),
    evictionPolicy: async () => policyIn(await run('CONFIG', 'GET', 'maxmemory-policy')),
    serverInfo: async () => String(await run('INFO', 'server')),
    masters: () => [(words) => run(...words)],
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

/** The reply to CONFIG GET: a list, a map or an object, depending on client and protocol. */
export function policyIn(answer: any): string {
  const name = 'maxmemory-policy';
  if (Array.isArray(answer)) return String(answer[1]);
  return String(answer instanceof Map ? answer.get(name) : answer[name]);
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
