// redis-semaphore's permits as its own processes keep them: a sorted set, one member for each permit (the identifier of its
// holder; of several, followed by _0, _1 …), its score the moment in ms at which it was taken or last refreshed. Whatever is
// older than the lockTimeout of the one that asks is removed. Here the moment is the server's, and no call ever lets the
// set end sooner than another needs it.
import { createHash } from 'node:crypto';
import { LockBackendError } from '../../core/errors';
import { unusedName } from '../../core/keys';
import {
  commandTimeoutMs,
  type Messenger,
  messengerOf,
  notReady,
  type RedisLike,
  readyWithin,
  type Script,
} from '../stores';

// KEYS  permits    sorted set
// ARGV  timeout    ms after which a permit ends that was not refreshed
const begin = `
local call, timeout = redis.call, tonumber(ARGV[1])
if not timeout or timeout % 1 ~= 0 or timeout < 1 or timeout > 9007199254740991 then
  return redis.error_reply('ERR expected a lockTimeout in whole milliseconds, at least 1')
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - timeout))
`;

/** Where others are, too, their end stays where it is later. */
const end = `
if alone or call('PTTL', KEYS[1]) < timeout then
  call('PEXPIRE', KEYS[1], string.format('%.0f', timeout))
end
return 1`;

/** Members from the argument `from` on. */
const take = (from: number): string => `
local at = string.format('%.0f', now)
for i = ${from}, #ARGV do
  call('ZADD', KEYS[1], at, ARGV[i])
end
${end}`;

/** ARGV timeout, limit, member[]. REPLY 1 taken | 0 not so many are free. */
const acquireScript = script(
  'acquirePermits',
  `${begin}
local taken = call('ZCARD', KEYS[1])
if taken + #ARGV - 2 > tonumber(ARGV[2]) then
  return 0
end
local alone = taken == 0
${take(3)}`,
);

/** ARGV timeout, member[]. REPLY 1 refreshed | 0 not ours any more. */
const refreshScript = script(
  'refreshPermits',
  `${begin}
if not call('ZSCORE', KEYS[1], ARGV[2]) then
  return 0
end
local alone = false
${take(2)}`,
);

/** ARGV member[]. REPLY how many were released. */
const releaseScript = script('releasePermits', "return redis.call('ZREM', KEYS[1], unpack(ARGV))");

function script(name: string, lua: string): Script {
  return { name, lua, sha: createHash('sha1').update(lua).digest('hex') };
}

/** @throws {LockBackendError} Redis gave no usable answer. */
export async function acquirePermits(
  client: RedisLike,
  key: string,
  limit: number,
  members: readonly string[],
  lockTimeout: number,
): Promise<boolean> {
  return (await run(client, acquireScript, key, [String(lockTimeout), String(limit), ...members])) === 1;
}

/** @throws {LockBackendError} Redis gave no usable answer. */
export async function refreshPermits(
  client: RedisLike,
  key: string,
  members: readonly string[],
  lockTimeout: number,
): Promise<boolean> {
  return (await run(client, refreshScript, key, [String(lockTimeout), ...members])) === 1;
}

/** @throws {LockBackendError} Redis gave no usable answer. */
export async function releasePermits(client: RedisLike, key: string, members: readonly string[]): Promise<void> {
  await run(client, releaseScript, key, members);
}

async function run(client: RedisLike, script: Script, key: string, args: readonly string[]): Promise<number> {
  const messenger = messengerOf(client);
  const full = unusedName(messenger.client.keyPrefix + key);
  if (messenger.client.readiness() !== 'ready') await becomeReady(messenger, full);
  const reply = await messenger.ask({ script, keys: [full], args }, full, commandTimeoutMs);
  if (Number.isSafeInteger(reply)) return reply as number;
  throw new LockBackendError(`the answer about ${JSON.stringify(full)} is no number`, { key: full, unknown: true });
}

/** Nothing is left to the client's own queue, from which it might be sent when nobody wants it any more. */
async function becomeReady({ client }: Messenger, key: string): Promise<void> {
  const readiness = await readyWithin(client, commandTimeoutMs);
  if (readiness !== 'ready') throw notReady(key, readiness);
}
