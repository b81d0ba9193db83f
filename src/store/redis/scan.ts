// All keys of one server, a little at a time: no command takes long, and what is asked takes a small share of the server's time, by
// what the server itself says of it.
import { setTimeout as sleep } from 'node:timers/promises';
import { withDeadline } from './deadlines';
import { strangeReply } from './replies';

/** Keys that one SCAN passes. */
const keysInScan = 500;
/** How much of the server's time a scan may take, with the inspection of what it finds. */
const serverShare = 0.015;
/** What it costs the server to pass a key, and to inspect one, at most: where it does not tell. */
const scanMicros = 1;
const inspectMicros = 5;

type SendScan = (words: readonly string[]) => Promise<unknown>;

/**
 * Keys that begin so.
 *
 * @param isPaced Goes on only once the server had its rest from this step, and from the inspection of what it found.
 */
export async function* scanKeys(
  send: SendScan,
  prefix: string,
  timeoutMs: number,
  isPaced: boolean,
): AsyncGenerator<readonly string[], void> {
  const match = `${prefix.replace(/[\\*?[\]]/g, '\\$&')}*`;
  let before = isPaced ? await microsOf(send, timeoutMs) : undefined;
  for (let cursor = ''; cursor !== '0'; ) {
    const startMs = performance.now();
    const words = ['SCAN', cursor || '0', 'MATCH', match, 'COUNT', String(keysInScan)];
    const reply = await withDeadline(send(words), '', timeoutMs);
    if (!Array.isArray(reply) || !Array.isArray(reply[1])) throw strangeReply(reply, '');
    cursor = String(reply[0]);
    const keys = reply[1].map(String);
    yield keys;
    if (!isPaced || cursor === '0') continue;
    const after = await microsOf(send, timeoutMs);
    const takenMicros = before === undefined || after === undefined ? undefined : after - before;
    before = after;
    const busyMs = performance.now() - startMs;
    const spentMs = (takenMicros ?? keysInScan * scanMicros + keys.length * inspectMicros) / 1000;
    // Scripts of others count too; but ours took no longer than we waited for them.
    await sleep(Math.max(0, Math.min(spentMs, busyMs) / serverShare - busyMs));
  }
}

/** What commands as ours have taken so far; undefined: that may not be asked. */
async function microsOf(send: SendScan, timeoutMs: number): Promise<number | undefined> {
  try {
    const text = String(await withDeadline(send(['INFO', 'commandstats']), '', timeoutMs));
    const all = [...text.matchAll(/^cmdstat_(?:scan|eval|evalsha|info):calls=\d+,usec=(\d+)/gm)];
    return all.length === 0 ? undefined : all.reduce((sum, [, micros]) => sum + Number(micros), 0);
  } catch {
    return undefined;
  }
}
