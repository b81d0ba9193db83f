// doctor: finds problems of locks on this server and their remedies. It changes nothing.
import { LockBackendError } from '../../core/errors';
import { isForeign } from '../../core/lock-state';
import type { Store } from '../../store/contract';
import type { SendWords } from '../../store/redis/client';
import { patternOf } from '../../store/redis/scan';
import { isBefore, supportOf } from '../tested-versions';
import type { CommandLine } from './command-line';
import { inTime } from './connect';
import { type Finding, fail, ok, warn } from './finding';
import { checkRights, featuresOf, type RequestedRights } from './rights';
import { type Session, withSession } from './session';
import { duration, json, paint, plain, print, table } from './text';

const silentMs = 2000;
const pings = 50;
const maxSkewMs = 1000;
const slowMs = 500;
/** Ms after which the search for locks without an end stops. */
const searchMs = 5000;
const styles = { ok: 'green', warn: 'yellow', fail: 'red' } as const;

/** Runs all checks. @returns 0: all is well; 1: something should be changed; 2: locks do not work as they should. */
export async function doctor(line: CommandLine): Promise<number> {
  const { values, place } = line;
  const user = ('url' in place && decodeURIComponent(place.url.username)) || 'default';
  const asked = { prefix: values.prefix ?? '', user, features: featuresOf(values.for) };
  const findings = await withSession(line, {}, (session) => examine(session, asked)).catch((error: Error) => [
    fail('reachable', error.message),
  ]);
  if (values.json) for (const finding of findings) await json(finding);
  else await show(findings);
  const statuses = findings.map(({ status }) => status);
  return statuses.includes('fail') ? 2 : statuses.includes('warn') ? 1 : 0;
}

async function show(findings: readonly Finding[]): Promise<void> {
  const rows = table(findings.map(({ status, check, remedy }) => [status, plain(check), plain(remedy)]));
  for (const [n, text] of rows.entries()) {
    const { status } = findings[n]!;
    await print(paint(styles[status], status) + text.slice(status.length));
  }
}

async function examine({ connection, store, prefix }: Session, asked: RequestedRights): Promise<Finding[]> {
  const start = [ok('reachable', connection.name), ok('runtime', runtime(connection.client))];
  if (connection.masters === undefined) return [...start, await withoutEnd(store, prefix)];
  const masters = connection.masters();
  const said: Said[] = [];
  for (const send of masters) {
    const bounded: SendWords = (words) => inTime(send(words), silentMs);
    const trips = await roundTrips(bounded);
    if (trips.status === 'fail') return [...start, ...together([...said, { findings: [trips], port: undefined }])];
    const info = await infoOf(bounded);
    const port = masters.length > 1 ? info?.('tcp_port') : undefined;
    said.push({ findings: [trips, ...(await ofMaster(bounded, info, asked))], port });
  }
  return [...start, ...together(said), await withoutEnd(store, prefix)];
}

/** The runtime and the client, and whether they are tested. */
function runtime(client: string | undefined): string {
  const { bun, deno, node } = process.versions;
  const own = bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${node}`;
  return [own, client].flatMap((each) => (each === undefined ? [] : known(each))).join('; ');
}

/** @param text A name and a version. */
function known(text: string): string {
  const [name, version] = text.split(' ') as [string, string];
  return `${text}: ${supportOf(name, version)}`;
}

/** The findings of one server of a cluster. `port` is undefined if it is unknown or there is a single server. */
interface Said {
  readonly findings: readonly Finding[];
  readonly port: string | undefined;
}

/** Merges the findings of a cluster. Findings of all servers appear once, other findings with the port of their server. */
function together(said: readonly Said[]): Finding[] {
  const texts = said.map(({ findings }) => new Set(findings.map((each) => JSON.stringify(each))));
  const all = said.flatMap(({ findings, port }) =>
    findings.map((each) => {
      const isCommon = port === undefined || texts.every((some) => some.has(JSON.stringify(each)));
      return isCommon ? each : { ...each, remedy: `at port ${port}: ${each.remedy}` };
    }),
  );
  return [...new Map(all.map((each) => [JSON.stringify(each), each])).values()];
}

async function ofMaster(send: SendWords, info: Info | undefined, asked: RequestedRights): Promise<Finding[]> {
  const findings = info
    ? [version(info), await eviction(send, info), persistence(info), replicas(info), await cluster(send, info)]
    : [ok('version', 'INFO is not permitted: version, persistence and replicas are not known')];
  findings.push(...(await sentinels(send)), await skew(send));
  return [...findings, ...(await checkRights(send, asked)), await foreignTypes(send, asked.prefix)];
}

async function roundTrips(send: SendWords): Promise<Finding> {
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

type Info = (name: string) => string | undefined;

async function infoOf(send: SendWords): Promise<Info | undefined> {
  try {
    const text = String(await send(['INFO']));
    return (name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(text)?.[1];
  } catch {
    return undefined;
  }
}

function version(info: Info): Finding {
  const name = ['Valkey', 'Redict', 'Dragonfly'].find((each) => info(`${each.toLowerCase()}_version`)) ?? 'Redis';
  const text = info(`${name.toLowerCase()}_version`) ?? '';
  const isOld = name === 'Redis' && isBefore(text, '6.2');
  if (isOld) return fail('version', `${text} is too old: Redis 6.2 or later, or Valkey`);
  return ok('version', known(`${name} ${text}`));
}

async function eviction(send: SendWords, info: Info): Promise<Finding> {
  const policy =
    info('maxmemory_policy') ??
    String(((await send(['CONFIG', 'GET', 'maxmemory-policy']).catch(() => [])) as string[])[1] ?? '');
  if (policy === 'noeviction') return ok('eviction policy', policy);
  if (policy === '') return ok('eviction policy', 'not known: it may not be read');
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
async function sentinels(send: SendWords): Promise<Finding[]> {
  const [, count] = (await send(['PUBSUB', 'NUMSUB', '__sentinel__:hello']).catch(() => [])) as unknown[];
  if (!(Number(count) > 0)) return [];
  const remedy =
    `${count} watch this server: an old master that comes back may grant held locks for some seconds; ` +
    'with ioredis, set failoverDetector: true, or use minReplicas';
  return [ok('sentinels', remedy)];
}

async function cluster(send: SendWords, info: Info): Promise<Finding> {
  if (info('cluster_enabled') !== '1') return ok('cluster slots', 'not a cluster');
  const text = String(await send(['CLUSTER', 'INFO']).catch(() => ''));
  if (text === '') return ok('cluster slots', 'CLUSTER INFO is not permitted');
  const count = Number(/cluster_slots_ok:(\d+)/.exec(text)?.[1] ?? 0);
  if (/cluster_state:ok/.test(text) && count === 16_384) return ok('cluster slots', 'all 16384 are served');
  return fail('cluster slots', `${count} of 16384 are served: redis-cli --cluster check`);
}

async function skew(send: SendWords): Promise<Finding> {
  try {
    const before = Date.now();
    const [seconds, micros] = (await send(['TIME'])) as [unknown, unknown];
    const serverMs = Number(seconds) * 1000 + Number(micros) / 1000;
    const skewMs = Math.round(serverMs - (before + Date.now()) / 2);
    const text = `${skewMs} ms against this host`;
    if (Math.abs(skewMs) <= maxSkewMs) return ok('clock skew', text);
    return warn('clock skew', `${text}: locks do not mind, but its jumps end them early or late; keep it with NTP`);
  } catch {
    return ok('clock skew', 'TIME is not permitted');
  }
}

/** Finds keys under the prefix that are no locks. A lock with such a key fails. Without a prefix, such keys just belong to others. */
async function foreignTypes(send: SendWords, prefix: string): Promise<Finding> {
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

/** Finds locks that only a release ends. Without a prefix, a string counts as a lock only if its value is a token of this library. */
async function withoutEnd({ operator }: Store, prefix: string): Promise<Finding> {
  const check = 'locks without end';
  if (operator.keys === undefined) return ok(check, 'this client cannot look for them');
  const startMs = performance.now();
  const found: string[] = [];
  try {
    for await (const keys of operator.keys(prefix, silentMs)) {
      for (const [n, state] of (await operator.inspect(keys, silentMs)).entries()) {
        if (state instanceof LockBackendError || state.remaining !== Number.POSITIVE_INFINITY) continue;
        if (prefix !== '' || !state.holders.some(isForeign)) found.push(keys[n]!);
      }
      if (performance.now() - startMs > searchMs) break;
    }
  } catch (error) {
    return ok(check, `not checked: ${(error as Error).message}`);
  }
  if (found.length === 0) return ok(check, `none, after ${duration(Math.round(performance.now() - startMs))}`);
  return warn(check, `${found.length}, such as ${found[0]}: see show, then release, or redis-cli PEXPIRE`);
}
