// The checks of one server and of this program, each with its finding.

import type { SendWords } from '../../store/redis/client';
import { patternOf } from '../../store/redis/scan';
import { isBefore, supportOf } from '../tested-versions';

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  /** The finding, and the remedy. */
  readonly remedy: string;
}

export const ok = (check: string, remedy = ''): Finding => ({ check, status: 'ok', remedy });
export const warn = (check: string, remedy: string): Finding => ({ check, status: 'warn', remedy });
export const fail = (check: string, remedy: string): Finding => ({ check, status: 'fail', remedy });

const pings = 50;
const maxSkewMs = 1000;
const slowMs = 500;
/** Ms after which the search for keys of other types stops. */
const searchMs = 5000;

/** A field of INFO. */
export type Info = (name: string) => string | undefined;

/** Asks the server. Resolves to undefined if it refuses, because not every user may ask everything. */
type Ask = (words: readonly string[]) => Promise<unknown>;

/** The versions of the runtime and the client, and whether they are tested. */
export function runtime(client: string | undefined): string {
  const { bun, deno, node } = process.versions;
  const own = bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${node}`;
  return [own, client].flatMap((each) => (each === undefined ? [] : known(each))).join('; ');
}

/** @param text A name and a version. */
function known(text: string): string {
  const [name, version] = text.split(' ') as [string, string];
  return `${text}: ${supportOf(name, version)}`;
}

export async function roundTrips(send: SendWords): Promise<Finding> {
  const times: number[] = [];
  try {
    for (let n = 0; n < pings; n += 1) {
      const startMs = performance.now();
      await send(['PING']);
      times.push(performance.now() - startMs);
    }
  } catch (error) {
    return fail('round trip', `${(error as Error).message}: the server is silent`);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.ceil(times.length * share) - 1]!;
  const text = `p50 ${at(0.5).toFixed(2)} ms, p99 ${at(0.99).toFixed(2)} ms`;
  return at(0.5) > slowMs ? warn('round trip', `${text}: choose lifetimes well above it`) : ok('round trip', text);
}

/** Reads INFO. Resolves to undefined if the user may not. */
export async function infoOf(send: SendWords): Promise<Info | undefined> {
  const text = await send(['INFO']).catch(() => undefined);
  return text === undefined ? undefined : (name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(String(text))?.[1];
}

/** Checks the server and its configuration. */
export async function checkServer(send: SendWords, info: Info | undefined): Promise<Finding[]> {
  const ask: Ask = (words) => send(words).catch(() => undefined);
  const findings = info
    ? [version(info), await eviction(ask, info), persistence(info), replicas(info), await cluster(ask, info)]
    : [ok('version', 'INFO is not permitted: version, persistence and replicas are not known')];
  return [...findings, ...(await sentinels(ask)), await skew(ask)];
}

function version(info: Info): Finding {
  const name = ['Valkey', 'Redict', 'Dragonfly'].find((each) => info(`${each.toLowerCase()}_version`)) ?? 'Redis';
  const text = info(`${name.toLowerCase()}_version`) ?? '';
  const isOld = name === 'Redis' && isBefore(text, '6.2');
  if (isOld) return fail('version', `${text} is too old: Redis 6.2 or later, or Valkey`);
  return ok('version', known(`${name} ${text}`));
}

async function eviction(ask: Ask, info: Info): Promise<Finding> {
  const reply = info('maxmemory_policy') ?? (await ask(['CONFIG', 'GET', 'maxmemory-policy']));
  const policy = Array.isArray(reply) ? reply[1] : reply;
  if (policy === 'noeviction') return ok('eviction policy', policy);
  if (!policy) return ok('eviction policy', 'not known: it may not be read');
  return warn('eviction policy', `${policy} may evict held locks: CONFIG SET maxmemory-policy noeviction`);
}

function persistence(info: Info): Finding {
  const aof = info('aof_enabled');
  if (aof === undefined) return ok('persistence', 'not known');
  if (aof === '1') return ok('persistence', 'append-only file');
  const text =
    'no append-only file: a restart forgets held locks, and grants them again; appendonly yes, best with appendfsync always';
  return warn('persistence', text);
}

function replicas(info: Info): Finding {
  const count = Number(info('connected_slaves') ?? 0);
  if (info('role') === 'slave') return fail('replicas', 'this server is a replica: locks need the master');
  if (count === 0) return ok('replicas', 'none');
  return ok('replicas', `${count}: a failover may lose the last grants; minReplicas narrows that`);
}

/** Sentinels subscribe to this channel at each server that they watch. How its clients are made cannot be seen from here. */
async function sentinels(ask: Ask): Promise<Finding[]> {
  const [, count] = ((await ask(['PUBSUB', 'NUMSUB', '__sentinel__:hello'])) ?? []) as unknown[];
  if (!(Number(count) > 0)) return [];
  const remedy =
    `${count} watch this server: an old master that comes back may grant held locks for some seconds; ` +
    'with ioredis, set failoverDetector: true, or use minReplicas';
  return [ok('sentinels', remedy)];
}

async function cluster(ask: Ask, info: Info): Promise<Finding> {
  if (info('cluster_enabled') !== '1') return ok('cluster slots', 'not a cluster');
  const text = (await ask(['CLUSTER', 'INFO'])) as string | undefined;
  if (text === undefined) return ok('cluster slots', 'CLUSTER INFO is not permitted');
  const count = Number(/cluster_slots_ok:(\d+)/.exec(text)?.[1] ?? 0);
  if (/cluster_state:ok/.test(text) && count === 16_384) return ok('cluster slots', 'all 16384 are served');
  return fail('cluster slots', `${count} of 16384 are served: redis-cli --cluster check`);
}

async function skew(ask: Ask): Promise<Finding> {
  const before = Date.now();
  const time = (await ask(['TIME'])) as [unknown, unknown] | undefined;
  if (time === undefined) return ok('clock skew', 'TIME is not permitted');
  const [seconds, micros] = time.map(Number) as [number, number];
  const skewMs = Math.round(seconds * 1000 + micros / 1000 - (before + Date.now()) / 2);
  const text = `${skewMs} ms against this host`;
  if (Math.abs(skewMs) <= maxSkewMs) return ok('clock skew', text);
  return warn('clock skew', `${text}: locks do not mind, but its jumps end them early or late; keep it with NTP`);
}

/** Finds keys under the prefix that are no locks. A lock with such a key fails. Without a prefix, such keys just belong to others. */
export async function foreignTypes(send: SendWords, prefix: string): Promise<Finding> {
  const check = 'foreign types';
  if (prefix === '') return ok(check, 'not checked without --prefix');
  const endMs = performance.now() + searchMs;
  const match = ['MATCH', patternOf(prefix), 'COUNT', '500'];
  for (const type of ['hash', 'list', 'set', 'stream']) {
    let cursor = '0';
    do {
      const reply = await send(['SCAN', cursor, ...match, 'TYPE', type]).catch(() => undefined);
      if (!Array.isArray(reply)) return ok(check, 'SCAN is not permitted');
      const [found] = reply[1] as string[];
      if (found !== undefined) {
        return warn(check, `${found} is a ${type}: no lock can have this key; give locks a prefix of their own`);
      }
      cursor = String(reply[0]);
    } while (cursor !== '0' && performance.now() < endMs);
  }
  return ok(check, 'none');
}
