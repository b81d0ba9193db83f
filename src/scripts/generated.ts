// Made by `npm run generate` from the .lua files beside it; do not edit.

import type { Script, ScriptCall } from './script';

const linePart =
  "local otherVersion = 'VERSION the line of this lock was written by another version of redis-exp-lock'\nlocal function entry(member)\nlocal version, deadline, id, lifetime, fences, channel, token =\nstring.match(member, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')\nif version ~= '1' then\nerror(otherVersion, 0)\nend\nreturn tonumber(deadline), id, lifetime, tonumber(fences), channel, token\nend\nlocal function stand(queue, token, lifetime, fences, channel, id, ticket)\nlocal score = tonumber(ticket)\nlocal from, to = ticket, ticket\nif score <= 0 then\nfrom, to = 0, '+inf'\nend\nlocal found = call('ZRANGEBYSCORE', queue, from, to, 'WITHSCORES')\nfor i = 1, #found, 2 do\nlocal _, _, _, _, _, whose = entry(found[i])\nif whose == token then\nscore = tonumber(found[i + 1])\ncall('ZREM', queue, found[i])\nend\nend\nif score <= 0 then\nlocal last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')\nscore = math.max(micros, (tonumber(last[2]) or 0) + 1)\nend\nlocal at = string.format('%.0f', score)\nlocal before = call('ZCOUNT', queue, 0, '(' .. at)\nlocal deadline = string.format('%.0f', now + 2 * math.max(1000, 125 * (before + 1)))\ncall('ZADD', queue, at, table.concat({ '1', deadline, id, lifetime, fences, channel, token }, ' '))\ncall('PEXPIRE', queue, 600000)\nreturn score, before\nend\nlocal function grant(lock, fence, queue, mine, rest, passed)\nlocal found = call('ZRANGE', queue, 0, 32, 'WITHSCORES')\nlocal mark, from, first = 0, 1, nil\nif #found > 0 and tonumber(found[2]) < 0 then\nmark, from = -tonumber(found[2]), 3\nend\nfor i = from, math.min(#found, from + 63), 2 do\nif entry(found[i]) >= now then\nfirst = found[i]\nbreak\nend\ncall('ZREM', queue, found[i])\nend\nif not first then\nif call('ZCOUNT', queue, 0, '+inf') == 0 then\ncall('DEL', queue)\nend\nreturn 'none'\nend\nif mark > now then\nreturn 'resting', mark\nend\nlocal _, id, lifetime, fences, channel, token = entry(first)\nlocal passes = passed and mark <= 1000000 and mark or 0\nif passes >= 64 and rest > 0 then\ncall('ZADD', queue, string.format('%.0f', -(now + rest)), 'passes')\nif token ~= mine then\nattempt('PUBLISH', channel, id .. ' ' .. lock)\nend\nreturn 'resting', now + rest\nend\nlocal ttl = token == mine and lifetime or string.format('%.0f', math.min(tonumber(lifetime), 2000))\nmayExpire(lock, ttl)\ncall('ZREM', queue, first)\nlocal minted = mint(fence, fences)\ntake(lock, token, ttl)\nif passed then\ncall('ZADD', queue, -(passes + 1), 'passes')\nelseif mark > 0 then\ncall('ZREM', queue, 'passes')\nend\nif token == mine then\nreturn 'mine', minted\nend\nattempt('PUBLISH', channel, id .. ' ' .. lock)\nreturn 'given'\nend\nlocal function isOurs(token)\nreturn #token >= 36 and string.sub(token, -4) == string.sub(token, -36, -33)\nend\nlocal function answer(lock, queue, token, lifetime, fences, channel, id, ticket, left)\nlocal holder = call('GET', lock)\nlocal score, before = stand(queue, token, lifetime, fences, channel, id, ticket)\nreturn { 0, left or call('PTTL', lock), score, now, before, holder and not isOurs(holder) and 1 or 0 }\nend";
const momentPart =
  'local KEYS, ARGV, tonumber = KEYS, ARGV, tonumber\nlocal call, attempt, mayCheck = redis.call, redis.pcall, redis.acl_check_cmd\nlocal micros, now, checked, fenceText';
const takePart =
  "local function clock()\nif not now then\nlocal time = call('TIME')\nmicros = time[1] * 1000000 + time[2]\nnow = math.floor(micros / 1000)\nend\nend\nlocal function checkLifetime(text)\nlocal ms = tonumber(text)\nif not ms or ms < 1 or ms > 9007199254740991 or not string.find(text, '^%d+$') then\nerror('ERR expected a lifetime in whole milliseconds, at least 1', 0)\nend\nend\nlocal function mayExpire(lock, ttl)\nif mayCheck and not mayCheck('PEXPIRE', lock, ttl) then\nerror('NOPERM this user has no permissions to run PEXPIRE on a lock', 0)\nend\nend\nlocal function lastFence(key)\nlocal last = call('GET', key)\nif not last then\nreturn 0\nend\nreturn tonumber(last) or error('WRONGTYPE the fence of this lock is not a number', 0)\nend\nlocal function setFence(key, top)\nlocal ahead = math.max(math.floor(top / 1000) - now, 0)\ncall('PSETEX', key, string.format('%.0f', ahead + 3600000), string.format('%.0f', top))\nend\nlocal function mint(key, count)\nif count == 0 then\nreturn 0\nend\nlocal last = lastFence(key)\nlocal fence = micros > last and micros or last + 1\nsetFence(key, fence + count - 1)\nreturn fence\nend\nlocal function take(lock, token, ttl)\ncall('SETNX', lock, token)\nlocal set = attempt('PEXPIRE', lock, ttl)\nif type(set) == 'table' then\ncall('DEL', lock)\nerror(set.err, 0)\nend\nend";

const acquireScript: Script = {
  name: 'acquire',
  sha: '3da7d5a30bf0d0040ef4e4777cf0b6a05a132955',
  lua:
    momentPart +
    "\nlocal token, ttl, count, notAfter = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[3])\nif ttl ~= checked then\nlocal ms = tonumber(ttl)\nif not ms or ms < 1 or ms > 9007199254740991 or not string.find(ttl, '^%d+$') then\nreturn redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')\nend\nchecked = ttl\nend\nif token == '' or not notAfter or not count or count % 1 ~= 0 or count < 0 then\nreturn redis.error_reply('ERR expected a token, a moment, and how many fences')\nend\nif not now then\nlocal time = call('TIME')\nmicros = time[1] * 1000000 + time[2]\nnow = math.floor(micros / 1000)\nend\nif now > notAfter then\nreturn { -1, 0, 0, now }\nend\nlocal holder = call('GET', KEYS[1])\nif not holder and #KEYS == 3 and call('ZCARD', KEYS[3]) == 0 and count <= 1 and mayCheck then\nlocal last, fence = 0, micros\nif #ARGV == 5 and count == 1 then\nfence = math.max(micros, tonumber(ARGV[5]))\nend\nif count == 1 then\nlast = tonumber(call('GET', KEYS[2]) or 0)\nend\nif last and last < fence and mayCheck('PEXPIRE', KEYS[1], ttl) then\nif fence > micros then\ncall('PSETEX', KEYS[2], '3600000', string.format('%.0f', fence))\nelseif count == 1 then\nfenceText = fenceText or string.format('%.0f', micros)\ncall('PSETEX', KEYS[2], '3600000', fenceText)\nend\ncall('SETNX', KEYS[1], token)\ncall('PEXPIRE', KEYS[1], ttl)\nreturn { 1, fence * count, 0, now }\nend\nend\n" +
    takePart +
    '\n' +
    linePart +
    "\nlocal locks, placed = #KEYS / 3, #ARGV > 5\nlocal free, ours, left, busy = {}, {}, 0, false\nfor i = 1, locks do\nholder = i == 1 and holder or call('GET', KEYS[i])\nif not holder then\nfree[i] = true\nelse\nlocal ms = call('PTTL', KEYS[i])\nif holder ~= token then\nbusy = true\nleft = (ms < 0 or left < 0) and -1 or math.max(left, ms)\nelseif ms >= 0 then\nours[i] = math.max(ms, tonumber(ttl))\nend\nend\nend\nfor i = 1, busy and 0 or locks do\nlocal lock, fence, queue = KEYS[i], KEYS[locks + i], KEYS[2 * locks + i]\nif free[i] and call('ZCARD', queue) > 0 then\nif placed then\nstand(queue, token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7])\nend\nlocal whose, value = grant(lock, fence, queue, placed and token, 0, false)\nif whose == 'mine' then\nreturn { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }\nend\nif whose == 'given' or placed then\nbusy = true\nleft = whose == 'given' and call('PTTL', lock) or whose == 'resting' and value - now or 0\nbreak\nend\nend\nend\nif busy then\nif placed then\nreturn answer(KEYS[1], KEYS[3], token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7], left)\nend\nreturn { 0, left, 0, now }\nend\nfor i = 1, locks do\nif free[i] then\nmayExpire(KEYS[i], ttl)\nend\nend\nlocal fence = 0\nfor i = locks + 1, count > 0 and 2 * locks or 0 do\nfence = math.max(fence, lastFence(KEYS[i]))\nend\nif next(free) == nil and fence > 0 then\nfence = fence - count + 1\nelseif count > 0 then\nfence = math.max(fence + 1, micros, #ARGV == 5 and tonumber(ARGV[5]) or 0)\nfor i = locks + 1, 2 * locks do\nsetFence(KEYS[i], fence + count - 1)\nend\nend\nfor i = 1, locks do\nif free[i] then\ntake(KEYS[i], token, ttl)\nelseif ours[i] then\ncall('PEXPIRE', KEYS[i], string.format('%.0f', ours[i]))\nend\nend\nreturn { 1, fence, placed and call('ZCOUNT', KEYS[3], 0, '+inf') or 0, now }",
};

/**
 * take every lock or none, for one lifetime, under one fence; or stand in line.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for the lock in the same place
 * @param queue sorted set: who stands in line for the lock in the same place
 * @param token who asks; a lock that holds it already is ours, and this is a resend
 * @param lifetime ms until the server frees the locks by itself
 * @param notAfter server time in ms after which nobody waits for this request any more
 * @param fences how many fences to mint: 0 none; more than 1 for a line that passes the lock on by itself
 * @param place for who stands in line when it is busy (one lock): channel, id, ticket (0: it has none yet); for one of a
 * @returns the call; its reply: [1 granted, first fence, others in line, server time in ms | 0 busy, ms that others have left (-1: they never end), ticket, server time; with a place also how many stand before it, 1 when the holder wakes nobody | -1 too late, 0, 0, server time]
 */
export function acquire(
  lock: readonly string[],
  fence: readonly string[],
  queue: readonly string[],
  token: string | number,
  lifetime: string | number,
  notAfter: string | number,
  fences: string | number,
  place: readonly string[],
): ScriptCall {
  return {
    script: acquireScript,
    keys: [...lock, ...fence, ...queue],
    args: [String(token), String(lifetime), String(notAfter), String(fences), ...place],
  };
}

const batchScript: Script = {
  name: 'batch',
  sha: 'a13f84e817248a4b2278ee6f0376779ec536f579',
  lua:
    momentPart +
    '\n' +
    takePart +
    '\n' +
    linePart +
    "\nlocal scripts = {\nacquire = function(k, a, keyCount, argCount)\nlocal token, ttl, count, notAfter = ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 4]), tonumber(ARGV[a + 3])\nif ttl ~= checked then\nlocal ms = tonumber(ttl)\nif not ms or ms < 1 or ms > 9007199254740991 or not string.find(ttl, '^%d+$') then\nreturn redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')\nend\nchecked = ttl\nend\nif token == '' or not notAfter or not count or count % 1 ~= 0 or count < 0 then\nreturn redis.error_reply('ERR expected a token, a moment, and how many fences')\nend\nif not now then\nlocal time = call('TIME')\nmicros = time[1] * 1000000 + time[2]\nnow = math.floor(micros / 1000)\nend\nif now > notAfter then\nreturn { -1, 0, 0, now }\nend\nlocal holder = call('GET', KEYS[k + 1])\nif not holder and keyCount == 3 and call('ZCARD', KEYS[k + 3]) == 0 and count <= 1 and mayCheck then\nlocal last, fence = 0, micros\nif argCount == 5 and count == 1 then\nfence = math.max(micros, tonumber(ARGV[a + 5]))\nend\nif count == 1 then\nlast = tonumber(call('GET', KEYS[k + 2]) or 0)\nend\nif last and last < fence and mayCheck('PEXPIRE', KEYS[k + 1], ttl) then\nif fence > micros then\ncall('PSETEX', KEYS[k + 2], '3600000', string.format('%.0f', fence))\nelseif count == 1 then\nfenceText = fenceText or string.format('%.0f', micros)\ncall('PSETEX', KEYS[k + 2], '3600000', fenceText)\nend\ncall('SETNX', KEYS[k + 1], token)\ncall('PEXPIRE', KEYS[k + 1], ttl)\nreturn { 1, fence * count, 0, now }\nend\nend\nlocal locks, placed = keyCount / 3, argCount > 5\nlocal free, ours, left, busy = {}, {}, 0, false\nfor i = 1, locks do\nholder = i == 1 and holder or call('GET', KEYS[k + i])\nif not holder then\nfree[i] = true\nelse\nlocal ms = call('PTTL', KEYS[k + i])\nif holder ~= token then\nbusy = true\nleft = (ms < 0 or left < 0) and -1 or math.max(left, ms)\nelseif ms >= 0 then\nours[i] = math.max(ms, tonumber(ttl))\nend\nend\nend\nfor i = 1, busy and 0 or locks do\nlocal lock, fence, queue = KEYS[k + i], KEYS[k + locks + i], KEYS[k + 2 * locks + i]\nif free[i] and call('ZCARD', queue) > 0 then\nif placed then\nstand(queue, token, ttl, ARGV[a + 4], ARGV[a + 5], ARGV[a + 6], ARGV[a + 7])\nend\nlocal whose, value = grant(lock, fence, queue, placed and token, 0, false)\nif whose == 'mine' then\nreturn { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }\nend\nif whose == 'given' or placed then\nbusy = true\nleft = whose == 'given' and call('PTTL', lock) or whose == 'resting' and value - now or 0\nbreak\nend\nend\nend\nif busy then\nif placed then\nreturn answer(KEYS[k + 1], KEYS[k + 3], token, ttl, ARGV[a + 4], ARGV[a + 5], ARGV[a + 6], ARGV[a + 7], left)\nend\nreturn { 0, left, 0, now }\nend\nfor i = 1, locks do\nif free[i] then\nmayExpire(KEYS[k + i], ttl)\nend\nend\nlocal fence = 0\nfor i = locks + 1, count > 0 and 2 * locks or 0 do\nfence = math.max(fence, lastFence(KEYS[k + i]))\nend\nif next(free) == nil and fence > 0 then\nfence = fence - count + 1\nelseif count > 0 then\nfence = math.max(fence + 1, micros, argCount == 5 and tonumber(ARGV[a + 5]) or 0)\nfor i = locks + 1, 2 * locks do\nsetFence(KEYS[k + i], fence + count - 1)\nend\nend\nfor i = 1, locks do\nif free[i] then\ntake(KEYS[k + i], token, ttl)\nelseif ours[i] then\ncall('PEXPIRE', KEYS[k + i], string.format('%.0f', ours[i]))\nend\nend\nreturn { 1, fence, placed and call('ZCOUNT', KEYS[k + 3], 0, '+inf') or 0, now }\nend,\nextend = function(k, a, keyCount, argCount)\nlocal lifetime, exact = tonumber(ARGV[a + 2]), ARGV[a + 3] == '1'\nif not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then\nreturn redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')\nend\nlocal time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000)\nlocal result, later = 1, {}\nfor i = 1, keyCount do\nlocal holder = redis.pcall('GET', KEYS[k + i])\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nelseif not holder then\nresult = math.min(result, 0)\nelseif holder ~= ARGV[a + 1] then\nresult = -1\nelse\nlocal left = redis.call('PTTL', KEYS[k + i])\nlater[i] = exact or (left >= 0 and (lifetime == 0 or left < lifetime))\nend\nend\nif result == 1 and now > tonumber(ARGV[a + 4]) then\nresult = -2\nend\nif result == 1 then\nfor i = 1, keyCount do\nif later[i] and lifetime == 0 then\nredis.call('PERSIST', KEYS[k + i])\nelseif later[i] then\nredis.call('PEXPIRE', KEYS[k + i], string.format('%.0f', lifetime))\nend\nend\nend\nreturn { result, now }\nend,\nrelease = function(k, a, keyCount, argCount)\nlocal token, ticket, locks = ARGV[a + 1], ARGV[a + 2], keyCount / 3\nlocal first = attempt('GET', KEYS[k + 1])\nlocal length = attempt('ZCARD', KEYS[k + 2 * locks + 1])\nif first == token and length == 0 and locks == 1 and argCount == 3 then\ncall('DEL', KEYS[k + 1])\nreturn { 1 }\nend\nlocal reply, lined = {}, false\nfor i = 1, locks do\nlocal holder = i == 1 and first\nif i > 1 then\nholder = attempt('GET', KEYS[k + i])\nlength = attempt('ZCARD', KEYS[k + 2 * locks + i])\nend\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nend\nreply[i] = not holder and 0 or holder == token and 1 or -1\nlined = lined or length ~= 0\nend\nfor i = 1, locks do\nif reply[i] == 1 then\ncall('DEL', KEYS[k + i])\nend\nend\nif not lined and argCount == 3 then\nreturn reply\nend\nlocal function passOn(lock, fence, queue, status)\nclock()\nif ticket ~= '0' then\nlocal found = tonumber(ticket) > 0 and call('ZRANGEBYSCORE', queue, ticket, ticket)\nor call('ZRANGEBYSCORE', queue, 0, '+inf')\nfor i = 1, #found do\nlocal _, _, _, _, _, whose = entry(found[i])\nif whose == token then\ncall('ZREM', queue, found[i])\nend\nend\nend\nlocal next = argCount > 3 and ARGV[a + 4]\nif next then\ncheckLifetime(ARGV[a + 5])\nstand(queue, next, ARGV[a + 5], ARGV[a + 6], ARGV[a + 7], ARGV[a + 8], ARGV[a + 9])\nend\nlocal whose, value\nif status >= 0 then\nwhose, value = grant(lock, fence, queue, next, tonumber(ARGV[a + 3]), status == 1)\nend\nif whose == 'mine' then\nreturn { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }\nelseif next then\nlocal left = whose == 'resting' and value - now or whose == 'none' and 0 or nil\nreturn answer(lock, queue, next, ARGV[a + 5], ARGV[a + 6], ARGV[a + 7], ARGV[a + 8], ARGV[a + 9], left)\nend\nend\nfor i = 1, locks do\nlocal ran, answered = pcall(passOn, KEYS[k + i], KEYS[k + locks + i], KEYS[k + 2 * locks + i], reply[i])\nif argCount > 3 then\nanswered = ran and answered or { 0, 0, 0, 0, 0, 0 }\nfor n = 1, #answered do\nreply[#reply + 1] = answered[n]\nend\nend\nend\nreturn reply\nend,\nraise = function(k, a, keyCount, argCount)\nlocal locks, least, low = keyCount / 2, tonumber(ARGV[a + 2]), {}\nif not least or least % 1 ~= 0 or least < 0 or least > 9007199254740991 then\nreturn redis.error_reply('ERR expected a fence')\nend\nclock()\nfor i = 1, locks do\nif call('GET', KEYS[k + i]) ~= ARGV[a + 1] then\nreturn { 0 }\nend\nlow[i] = lastFence(KEYS[k + locks + i]) < least\nend\nfor i = 1, locks do\nif low[i] then\nsetFence(KEYS[k + locks + i], least)\nend\nend\nreturn { 1 }\nend,\n}\nlocal shapes = {}\nlocal reply, size, keysDone, argsDone = {}, 0, 0, 0\nwhile argsDone < #ARGV do\nlocal text = ARGV[argsDone + 1]\nlocal shape = shapes[text]\nif not shape then\nlocal name, keys, args = string.match(text, '^(%a+) (%d+) (%d+)$')\nshape = { scripts[name], tonumber(keys), tonumber(args) }\nshapes[text] = shape\nend\nlocal ran, answer = pcall(shape[1], keysDone, argsDone + 1, shape[2], shape[3])\nkeysDone, argsDone = keysDone + shape[2], argsDone + 1 + shape[3]\nif ran and not answer.err then\nlocal count = #answer\nreply[size + 1] = count\nfor i = 1, count do\nreply[size + 1 + i] = answer[i]\nend\nsize = size + 1 + count\nelse\nreply[size + 1] = -1\nreply[size + 2] = type(answer) == 'table' and answer.err or answer\nsize = size + 2\nend\nend\nreturn reply",
};

/**
 * run several calls in the order given, each on its own keys, arguments and fate.
 *
 * @param key the keys of all calls, one after the other
 * @param part for each call: its script, how many keys and how many arguments it has, in one text, and these arguments
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
  sha: '14bfc20a01b0890d6bdd15166ccf9d0ddf511162',
  lua: "local holder = redis.call('GET', KEYS[1])\nreturn { holder, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), redis.call('ZCOUNT', KEYS[3], 0, '+inf') }",
};

/**
 * what Redis knows of a lock. Changes nothing.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for it
 * @param queue sorted set: who stands in line for it
 * @returns the call; its reply: [token or nil, ms left (-1 never ends, -2 free), last fence or nil, how many stand in line]
 */
export function inspect(lock: string, fence: string, queue: string): ScriptCall {
  return { script: inspectScript, keys: [lock, fence, queue], args: [] };
}

const raiseScript: Script = {
  name: 'raise',
  sha: '58327edffad3646b505a05feeae2db0a4a8d1297',
  lua:
    momentPart +
    '\n' +
    takePart +
    "\nlocal locks, least, low = #KEYS / 2, tonumber(ARGV[2]), {}\nif not least or least % 1 ~= 0 or least < 0 or least > 9007199254740991 then\nreturn redis.error_reply('ERR expected a fence')\nend\nclock()\nfor i = 1, locks do\nif call('GET', KEYS[i]) ~= ARGV[1] then\nreturn { 0 }\nend\nlow[i] = lastFence(KEYS[locks + i]) < least\nend\nfor i = 1, locks do\nif low[i] then\nsetFence(KEYS[locks + i], least)\nend\nend\nreturn { 1 }",
};

/**
 * let the last fence of locks that are still ours be at least so large. For one of a quorum.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for the lock in the same place
 * @param token the token that acquired them
 * @param least the fence that every later one must exceed
 * @returns the call; its reply: [1 it is that large | 0 not all of them are ours: nothing was changed]
 */
export function raise(
  lock: readonly string[],
  fence: readonly string[],
  token: string | number,
  least: string | number,
): ScriptCall {
  return { script: raiseScript, keys: [...lock, ...fence], args: [String(token), String(least)] };
}

const releaseScript: Script = {
  name: 'release',
  sha: 'c3e2ecfe96391287ceeef3154d64c7ab184cc8da',
  lua:
    momentPart +
    "\nlocal token, ticket, locks = ARGV[1], ARGV[2], #KEYS / 3\nlocal first = attempt('GET', KEYS[1])\nlocal length = attempt('ZCARD', KEYS[2 * locks + 1])\nif first == token and length == 0 and locks == 1 and #ARGV == 3 then\ncall('DEL', KEYS[1])\nreturn { 1 }\nend\nlocal reply, lined = {}, false\nfor i = 1, locks do\nlocal holder = i == 1 and first\nif i > 1 then\nholder = attempt('GET', KEYS[i])\nlength = attempt('ZCARD', KEYS[2 * locks + i])\nend\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nend\nreply[i] = not holder and 0 or holder == token and 1 or -1\nlined = lined or length ~= 0\nend\nfor i = 1, locks do\nif reply[i] == 1 then\ncall('DEL', KEYS[i])\nend\nend\nif not lined and #ARGV == 3 then\nreturn reply\nend\n" +
    takePart +
    '\n' +
    linePart +
    "\nlocal function passOn(lock, fence, queue, status)\nclock()\nif ticket ~= '0' then\nlocal found = tonumber(ticket) > 0 and call('ZRANGEBYSCORE', queue, ticket, ticket)\nor call('ZRANGEBYSCORE', queue, 0, '+inf')\nfor i = 1, #found do\nlocal _, _, _, _, _, whose = entry(found[i])\nif whose == token then\ncall('ZREM', queue, found[i])\nend\nend\nend\nlocal next = #ARGV > 3 and ARGV[4]\nif next then\ncheckLifetime(ARGV[5])\nstand(queue, next, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9])\nend\nlocal whose, value\nif status >= 0 then\nwhose, value = grant(lock, fence, queue, next, tonumber(ARGV[3]), status == 1)\nend\nif whose == 'mine' then\nreturn { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }\nelseif next then\nlocal left = whose == 'resting' and value - now or whose == 'none' and 0 or nil\nreturn answer(lock, queue, next, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], left)\nend\nend\nfor i = 1, locks do\nlocal ran, answered = pcall(passOn, KEYS[i], KEYS[locks + i], KEYS[2 * locks + i], reply[i])\nif #ARGV > 3 then\nanswered = ran and answered or { 0, 0, 0, 0, 0, 0 }\nfor n = 1, #answered do\nreply[#reply + 1] = answered[n]\nend\nend\nend\nreturn reply",
};

/**
 * give locks back, each if it is still ours, and let the next in line have it. Also how an entry leaves its line.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for the lock in the same place
 * @param queue sorted set: who stands in line for the lock in the same place
 * @param token the token that acquired them
 * @param ticket what the token stands in line with: 0 it does not; -1 perhaps, with a ticket that is not known
 * @param rest ms for which the lock is left free, when it is the turn of callers outside the line
 * @param next who stands in line for the same process from now on (one lock): token, lifetime, fences, channel, id, ticket
 * @returns the call; its reply: [for each lock 1 released | 0 gone | -1 somebody else's: left alone; then, where somebody stands next, the reply of its acquire]
 */
export function release(
  lock: readonly string[],
  fence: readonly string[],
  queue: readonly string[],
  token: string | number,
  ticket: string | number,
  rest: string | number,
  next: readonly string[],
): ScriptCall {
  return {
    script: releaseScript,
    keys: [...lock, ...fence, ...queue],
    args: [String(token), String(ticket), String(rest), ...next],
  };
}

export const scripts: readonly Script[] = [
  acquireScript,
  batchScript,
  extendScript,
  inspectScript,
  raiseScript,
  releaseScript,
];
