// redis-semaphore's permits in its own format: a sorted set with one member for each permit. A member is the identifier of the holder,
// followed by _0, _1 … if it holds several permits. The score is the time in ms at which the permit was taken or last refreshed. Members
// older than the caller's lockTimeout are removed. Here the time is the server's, and no call lets the set expire sooner than
// another caller needs.
import { createHash } from 'node:crypto';
import { LockBackendError } from '../../core/errors';
import { unusedName } from '../../core/keys';
import type { RedisLike } from '../../core/redis-like';
import type { Script } from '../../store/redis/scripts/script';
import { redisStore } from '../../store/redis/store';
import { commandTimeoutMs } from '../stores';

/**
 * Takes permits, or refreshes them if the limit is ''. The expiry of the set never moves to an earlier time while others are in it.
 *
 * KEYS the set. ARGV ms without a refresh after which a permit ends, limit, member[]. REPLY 1 done | 0 too few are free, or none is ours.
 */
export const takeScript = script(
  'takePermits',
  `
local call, timeout, limit = redis.call, tonumber(ARGV[1]), tonumber(ARGV[2])
if not timeout or timeout % 1 ~= 0 or timeout < 1 or timeout > 9007199254740991 then
  return redis.error_reply('ERR expected a lockTimeout in whole milliseconds, at least 1')
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - timeout))
local taken = call('ZCARD', KEYS[1])
if limit and taken + #ARGV - 2 > limit or not limit and not call('ZSCORE', KEYS[1], ARGV[3]) then
  return 0
end
for i = 3, #ARGV do
  call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[i])
end
if taken == 0 or call('PTTL', KEYS[1]) < timeout then
  call('PEXPIRE', KEYS[1], string.format('%.0f', timeout))
end
return 1`,
);

/** ARGV member[]. REPLY the number of released permits. */
export const releaseScript = script('releasePermits', "return redis.call('ZREM', KEYS[1], unpack(ARGV))");

function script(name: string, lua: string): Script {
  return { name, lua, sha: createHash('sha1').update(lua).digest('hex') };
}

/** Runs a script. Resolves with false if it found too few free permits, or none of ours. @throws {LockBackendError} no usable reply. */
export async function askPermits(
  client: RedisLike,
  script: Script,
  key: string,
  args: readonly (string | number)[],
): Promise<boolean> {
  const { keyPrefix, transport } = redisStore(client);
  const full = unusedName(keyPrefix + key);
  const call = { script, keys: [full], args: args.map(String) };
  const reply = await transport.requestAlone(call, full, commandTimeoutMs, false);
  if (Number.isSafeInteger(reply)) return reply !== 0;
  throw new LockBackendError(`the answer about ${JSON.stringify(full)} is no number`, { key: full, unknown: true });
}
