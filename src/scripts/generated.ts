// Made by `npm run generate` from the .lua files beside it; do not edit.

import type { Script, ScriptCall } from './script';

const acquireScript: Script = {
  name: 'acquire',
  sha: 'aabc982a6dd8c2dc6b4ffa57e1ac7f8da23b0992',
  lua: "local token, lifetime, notAfter, locks = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])\nif token == '' or not lifetime or lifetime % 1 ~= 0 or lifetime < 1 or lifetime > 9007199254740991 then\nreturn redis.error_reply('ERR expected a token and a lifetime in whole milliseconds, at least 1')\nend\nlocal time = redis.call('TIME')\nlocal micros = time[1] * 1000000 + time[2]\nlocal now = math.floor(micros / 1000)\nif now > notAfter then\nreturn { -1, 0, 0, now }\nend\nlocal free, ours, left, busy = {}, {}, 0, false\nfor i = 1, locks do\nlocal holder = redis.call('GET', KEYS[i])\nif not holder then\nfree[#free + 1] = KEYS[i]\nelse\nlocal ms = redis.call('PTTL', KEYS[i])\nif holder ~= token then\nbusy = true\nleft = (ms < 0 or left < 0) and -1 or math.max(left, ms)\nelseif ms >= 0 then\nours[#ours + 1] = { KEYS[i], math.max(ms, lifetime) }\nend\nend\nend\nif busy then\nreturn { 0, 0, left, now }\nend\nlocal fence = 0\nfor i = locks + 1, #KEYS do\nlocal last = tonumber(redis.call('GET', KEYS[i]) or 0)\nif not last then\nreturn redis.error_reply('WRONGTYPE the fence of this lock is not a number')\nend\nfence = math.max(fence, last)\nend\nlocal ttl = string.format('%.0f', lifetime)\nfor _, key in ipairs(free) do\nif redis.acl_check_cmd and not redis.acl_check_cmd('PEXPIRE', key, ttl) then\nreturn redis.error_reply('NOPERM this user has no permissions to run PEXPIRE on a lock')\nend\nend\nif #KEYS > locks and (#free > 0 or fence == 0) then\nlocal keep = '3600000'\nif fence < micros then\nfence = micros\nelse\nfence = fence + 1\nkeep = string.format('%.0f', math.max(math.floor(fence / 1000) - now, 0) + 3600000)\nend\nlocal text = string.format('%.0f', fence)\nfor i = locks + 1, #KEYS do\nredis.call('SET', KEYS[i], text, 'PX', keep)\nend\nend\nfor _, key in ipairs(free) do\nredis.call('SETNX', key, token)\nlocal set = redis.pcall('PEXPIRE', key, ttl)\nif type(set) == 'table' then\nredis.call('DEL', key)\nreturn set\nend\nend\nfor _, own in ipairs(ours) do\nredis.call('PEXPIRE', own[1], string.format('%.0f', own[2]))\nend\nreturn { 1, fence, 0, now }",
};

/**
 * take every lock or none, for one lifetime, under one fence.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for the lock in the same place; none where fencing is off
 * @param token who asks; a lock that holds it already is ours, and this is a resend
 * @param lifetime ms until the server frees the locks by itself
 * @param notAfter server time in ms after which nobody waits for this request any more
 * @param locks how many of the KEYS are locks
 * @returns the call; its reply: [1 granted | 0 busy | -1 too late, fence, ms that others have left (-1: they never end), server time in ms]
 */
export function acquire(
  lock: readonly string[],
  fence: readonly string[],
  token: string | number,
  lifetime: string | number,
  notAfter: string | number,
  locks: string | number,
): ScriptCall {
  return {
    script: acquireScript,
    keys: [...lock, ...fence],
    args: [String(token), String(lifetime), String(notAfter), String(locks)],
  };
}

const batchScript: Script = {
  name: 'batch',
  sha: 'b5ded0ab6c34664be4b6f6a260de11ed7dce6d06',
  lua: "local scripts = {\nacquire = function(KEYS, ARGV)\nlocal token, lifetime, notAfter, locks = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])\nif token == '' or not lifetime or lifetime % 1 ~= 0 or lifetime < 1 or lifetime > 9007199254740991 then\nreturn redis.error_reply('ERR expected a token and a lifetime in whole milliseconds, at least 1')\nend\nlocal time = redis.call('TIME')\nlocal micros = time[1] * 1000000 + time[2]\nlocal now = math.floor(micros / 1000)\nif now > notAfter then\nreturn { -1, 0, 0, now }\nend\nlocal free, ours, left, busy = {}, {}, 0, false\nfor i = 1, locks do\nlocal holder = redis.call('GET', KEYS[i])\nif not holder then\nfree[#free + 1] = KEYS[i]\nelse\nlocal ms = redis.call('PTTL', KEYS[i])\nif holder ~= token then\nbusy = true\nleft = (ms < 0 or left < 0) and -1 or math.max(left, ms)\nelseif ms >= 0 then\nours[#ours + 1] = { KEYS[i], math.max(ms, lifetime) }\nend\nend\nend\nif busy then\nreturn { 0, 0, left, now }\nend\nlocal fence = 0\nfor i = locks + 1, #KEYS do\nlocal last = tonumber(redis.call('GET', KEYS[i]) or 0)\nif not last then\nreturn redis.error_reply('WRONGTYPE the fence of this lock is not a number')\nend\nfence = math.max(fence, last)\nend\nlocal ttl = string.format('%.0f', lifetime)\nfor _, key in ipairs(free) do\nif redis.acl_check_cmd and not redis.acl_check_cmd('PEXPIRE', key, ttl) then\nreturn redis.error_reply('NOPERM this user has no permissions to run PEXPIRE on a lock')\nend\nend\nif #KEYS > locks and (#free > 0 or fence == 0) then\nlocal keep = '3600000'\nif fence < micros then\nfence = micros\nelse\nfence = fence + 1\nkeep = string.format('%.0f', math.max(math.floor(fence / 1000) - now, 0) + 3600000)\nend\nlocal text = string.format('%.0f', fence)\nfor i = locks + 1, #KEYS do\nredis.call('SET', KEYS[i], text, 'PX', keep)\nend\nend\nfor _, key in ipairs(free) do\nredis.call('SETNX', key, token)\nlocal set = redis.pcall('PEXPIRE', key, ttl)\nif type(set) == 'table' then\nredis.call('DEL', key)\nreturn set\nend\nend\nfor _, own in ipairs(ours) do\nredis.call('PEXPIRE', own[1], string.format('%.0f', own[2]))\nend\nreturn { 1, fence, 0, now }\nend,\nextend = function(KEYS, ARGV)\nlocal lifetime, exact = tonumber(ARGV[2]), ARGV[3] == '1'\nif not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then\nreturn redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')\nend\nlocal time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000)\nlocal result, later = 1, {}\nfor i = 1, #KEYS do\nlocal holder = redis.pcall('GET', KEYS[i])\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nelseif not holder then\nresult = math.min(result, 0)\nelseif holder ~= ARGV[1] then\nresult = -1\nelse\nlocal left = redis.call('PTTL', KEYS[i])\nlater[i] = exact or (left >= 0 and (lifetime == 0 or left < lifetime))\nend\nend\nif result == 1 and now > tonumber(ARGV[4]) then\nresult = -2\nend\nif result == 1 then\nfor i = 1, #KEYS do\nif later[i] and lifetime == 0 then\nredis.call('PERSIST', KEYS[i])\nelseif later[i] then\nredis.call('PEXPIRE', KEYS[i], string.format('%.0f', lifetime))\nend\nend\nend\nreturn { result, now }\nend,\nrelease = function(KEYS, ARGV)\nlocal reply = {}\nfor i = 1, #KEYS do\nlocal holder = redis.pcall('GET', KEYS[i])\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nend\nreply[i] = not holder and 0 or holder == ARGV[1] and 1 or -1\nend\nfor i = 1, #KEYS do\nif reply[i] == 1 then\nredis.call('DEL', KEYS[i])\nend\nend\nreturn reply\nend,\n}\nlocal reply, keysDone, argsDone = {}, 0, 0\nwhile argsDone < #ARGV do\nlocal run, keys, args = scripts[ARGV[argsDone + 1]], {}, {}\nlocal keyCount, argCount = tonumber(ARGV[argsDone + 2]), tonumber(ARGV[argsDone + 3])\nargsDone = argsDone + 3\nfor i = 1, keyCount do\nkeys[i] = KEYS[keysDone + i]\nend\nfor i = 1, argCount do\nargs[i] = ARGV[argsDone + i]\nend\nkeysDone, argsDone = keysDone + keyCount, argsDone + argCount\nlocal ran, answer = pcall(run, keys, args)\nlocal n = #reply\nif ran and not answer.err then\nreply[n + 1] = #answer\nfor i = 1, #answer do\nreply[n + 1 + i] = answer[i]\nend\nelse\nreply[n + 1] = -1\nreply[n + 2] = type(answer) == 'table' and answer.err or answer\nend\nend\nreturn reply",
};

/**
 * run several calls in the order given, each on its own keys, arguments and fate.
 *
 * @param key the keys of all calls, one after the other
 * @param part for each call: its script, how many keys, how many arguments, and these arguments
 * @returns the call; its reply: [for each call how many integers it answers, and they; or -1 and the text of its error]
 */
export function batch(key: readonly string[], part: readonly string[]): ScriptCall {
  return { script: batchScript, keys: key, args: part };
}

const extendScript: Script = {
  name: 'extend',
  sha: 'ce78964c436c87bd6bb81e99f98b867a1d10124d',
  lua: "local lifetime, exact = tonumber(ARGV[2]), ARGV[3] == '1'\nif not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then\nreturn redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')\nend\nlocal time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000)\nlocal result, later = 1, {}\nfor i = 1, #KEYS do\nlocal holder = redis.pcall('GET', KEYS[i])\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nelseif not holder then\nresult = math.min(result, 0)\nelseif holder ~= ARGV[1] then\nresult = -1\nelse\nlocal left = redis.call('PTTL', KEYS[i])\nlater[i] = exact or (left >= 0 and (lifetime == 0 or left < lifetime))\nend\nend\nif result == 1 and now > tonumber(ARGV[4]) then\nresult = -2\nend\nif result == 1 then\nfor i = 1, #KEYS do\nif later[i] and lifetime == 0 then\nredis.call('PERSIST', KEYS[i])\nelseif later[i] then\nredis.call('PEXPIRE', KEYS[i], string.format('%.0f', lifetime))\nend\nend\nend\nreturn { result, now }",
};

/**
 * move the end of locks that are still ours. Never makes a key, never touches a stranger's.
 *
 * @param lock string: the holder's token
 * @param token the token that acquired them
 * @param lifetime ms from now until the server frees them; 0: never
 * @param exact 1: set this end; 0: only ever a later one (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the holder stops believing in its locks
 * @returns the call; its reply: [1 extended | 0 gone | -1 somebody else's | -2 too late: nothing was changed, server time in ms]
 */
export function extend(
  lock: readonly string[],
  token: string | number,
  lifetime: string | number,
  exact: string | number,
  notAfter: string | number,
): ScriptCall {
  return { script: extendScript, keys: lock, args: [String(token), String(lifetime), String(exact), String(notAfter)] };
}

const inspectScript: Script = {
  name: 'inspect',
  sha: '19fd4a22ff7437fe202c380bd0466a73bdd96a76',
  lua: "local holder = redis.call('GET', KEYS[1])\nreturn { holder, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) }",
};

/**
 * what Redis knows of a lock. Changes nothing.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for it
 * @returns the call; its reply: [token or nil, ms left (-1 never ends, -2 free), last fence or nil]
 */
export function inspect(lock: string, fence: string): ScriptCall {
  return { script: inspectScript, keys: [lock, fence], args: [] };
}

const releaseScript: Script = {
  name: 'release',
  sha: '0dba3781cdb1efaa1cbda9e11c0ba78aa3c2cb96',
  lua: "local reply = {}\nfor i = 1, #KEYS do\nlocal holder = redis.pcall('GET', KEYS[i])\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nend\nreply[i] = not holder and 0 or holder == ARGV[1] and 1 or -1\nend\nfor i = 1, #KEYS do\nif reply[i] == 1 then\nredis.call('DEL', KEYS[i])\nend\nend\nreturn reply",
};

/**
 * give locks back, each if it is still ours.
 *
 * @param lock string: the holder's token
 * @param token the token that acquired them
 * @returns the call; its reply: [for each lock 1 released | 0 gone | -1 somebody else's: left alone]
 */
export function release(lock: readonly string[], token: string | number): ScriptCall {
  return { script: releaseScript, keys: lock, args: [String(token)] };
}

export const scripts: readonly Script[] = [acquireScript, batchScript, extendScript, inspectScript, releaseScript];
