// doctor: finds problems of locks on this server and their remedies. It changes nothing.
import { LockBackendError } from '../../core/errors';
import { foreignHolders } from '../../core/lock-state';
import type { Store } from '../../store/contract';
import type { SendWords } from '../../store/redis/client';
import { checkServer, type Finding, fail, foreignTypes, infoOf, ok, roundTrips, runtime, warn } from './checks';
import type { CommandLine } from './command-line';
import { inTime } from './connect';
import { checkRights, featuresOf, type RequestedRights } from './rights';
import { type Session, withSession } from './session';
import { duration, json, paint, plain, print, table } from './text';

const silentMs = 2000;
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
  for (const master of masters) {
    const send: SendWords = (words) => inTime(master(words), silentMs);
    const trips = await roundTrips(send);
    if (trips.status === 'fail') return [...start, ...together([...said, { findings: [trips], port: undefined }])];
    const info = await infoOf(send);
    const findings = [trips, ...(await checkServer(send, info)), ...(await checkRights(send, asked))];
    findings.push(await foreignTypes(send, prefix));
    said.push({ findings, port: masters.length > 1 ? info?.('tcp_port') : undefined });
  }
  return [...start, ...together(said), await withoutEnd(store, prefix)];
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
        if (prefix !== '' || !state.holders.some((each) => foreignHolders.has(each))) found.push(keys[n]!);
      }
      if (performance.now() - startMs > searchMs) break;
    }
  } catch (error) {
    return ok(check, `not checked: ${(error as Error).message}`);
  }
  if (found.length === 0) return ok(check, `none, after ${duration(Math.round(performance.now() - startMs))}`);
  return warn(check, `${found.length}, such as ${found[0]}: see show, then release, or redis-cli PEXPIRE`);
}
