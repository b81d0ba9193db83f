// Lists the locks of one server among all its keys, in small steps. No command takes long, and the steps together take a small share of the server's
// time, as the server itself reports it.
import { systemClock } from '../../core/clock';
import { mayBeLock } from '../../core/keys';
import { isOfRegistry } from '../operator';
import type { SendWords } from './client';
import { withDeadline } from './pipeline/deadlines';
import { strangeReply } from './scripts/script';

/** The number of keys that one SCAN passes. */
const keysInScan = 500;
/** The share of the server's time that a scan may take, together with the inspection of the keys it finds. */
const serverShare = 0.015;
/** The cost, at most, of passing a key and of inspecting one; used if the server does not report its times. */
const scanMicros = 1;
const inspectMicros = 5;

/** @param isPaced Pauses after each step until the server has had its rest from it, and from the inspection of the keys found. */
export async function* scanKeys(
  send: SendWords,
  prefix: string,
  timeoutMs: number,
  isPaced: boolean,
): AsyncGenerator<readonly string[], void> {
  const match = patternOf(prefix);
  let before = isPaced ? await commandMicros(send, timeoutMs) : undefined;
  for (let cursor = ''; cursor !== '0'; ) {
    const startMs = performance.now();
    const words = ['SCAN', cursor || '0', 'MATCH', match, 'COUNT', String(keysInScan)];
    const reply = await withDeadline(send(words), '', timeoutMs);
    if (!Array.isArray(reply) || !Array.isArray(reply[1])) throw strangeReply(reply, '');
    cursor = String(reply[0]);
    const keys = reply[1].map(String);
    yield keys.filter((key) => mayBeLock(key) && !isOfRegistry(key));
    if (!isPaced || cursor === '0') continue;
    const after = await commandMicros(send, timeoutMs);
    const takenMicros = before === undefined || after === undefined ? undefined : after - before;
    before = after;
    const busyMs = performance.now() - startMs;
    const spentMs = (takenMicros ?? keysInScan * scanMicros + keys.length * inspectMicros) / 1000;
    // The server's figure includes the scripts of others; but our commands took at most the time for which we waited for them.
    const restMs = Math.max(0, Math.min(spentMs, busyMs) / serverShare - busyMs);
    await new Promise<void>((resolve) => systemClock.setAlarm(resolve, restMs));
  }
}

/** The pattern of the keys with this prefix. */
export function patternOf(prefix: string): string {
  return `${prefix.replace(/[\\*?[\]]/g, '\\$&')}*`;
}

/** The total time of the server's commands of our kinds so far; undefined if the server may not be asked. */
async function commandMicros(send: SendWords, timeoutMs: number): Promise<number | undefined> {
  try {
    const text = String(await withDeadline(send(['INFO', 'commandstats']), '', timeoutMs));
    const all = [...text.matchAll(/^cmdstat_(?:scan|eval|evalsha|info):calls=\d+,usec=(\d+)/gm)];
    return all.length === 0 ? undefined : all.reduce((sum, [, micros]) => sum + Number(micros), 0);
  } catch {
    return undefined;
  }
}
