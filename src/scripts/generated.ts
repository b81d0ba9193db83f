// Made by `npm run generate` from the .lua files beside it; do not edit.

// biome-ignore-all lint/style/useTemplate: what stands between two parts may be a line end only

import { type Call, inBatch, type Script, type ScriptCall } from './script';

const callsPart =
  "local shapes = {}\nlocal reply, size, keysDone, argsDone = {}, 0, 0, 0\nwhile argsDone < #ARGV do\nlocal text = ARGV[argsDone + 1]\nlocal shape = shapes[text]\nif not shape then\nlocal name, keys, args = string.match(text, '^(%a+) (%d+) (%d+)$')\nshape = { scripts[name], tonumber(keys), tonumber(args) }\nshapes[text] = shape\nend\nlocal ran, answer = pcall(shape[1], keysDone, argsDone + 1, shape[2], shape[3])\nkeysDone, argsDone = keysDone + shape[2], argsDone + 1 + shape[3]\nif ran and not answer.err then\nlocal count = #answer\nreply[size + 1] = count\nfor i = 1, count do\nreply[size + 1 + i] = answer[i]\nend\nsize = size + 1 + count\nelse\nreply[size + 1] = -1\nreply[size + 2] = type(answer) == 'table' and answer.err or answer\nsize = size + 2\nend\nend";
const linePart =
  "local otherVersion = 'VERSION the line of this lock was written by another version of redis-exp-lock'\nlocal function entry(member)\nlocal version, deadline, id, lifetime, fences, channel, token =\nstring.match(member, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')\nif version ~= '1' then\nerror(otherVersion, 0)\nend\nreturn tonumber(deadline), id, lifetime, tonumber(fences), channel, token\nend\nlocal function stand(queue, token, lifetime, fences, channel, id, ticket)\nlocal score = tonumber(ticket)\nlocal from, to = ticket, ticket\nif score <= 0 then\nfrom, to = 0, '+inf'\nend\nlocal found = call('ZRANGEBYSCORE', queue, from, to, 'WITHSCORES')\nfor i = 1, #found, 2 do\nlocal _, _, _, _, _, whose = entry(found[i])\nif whose == token then\nscore = tonumber(found[i + 1])\ncall('ZREM', queue, found[i])\nend\nend\nif score <= 0 then\nlocal last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')\nscore = math.max(micros, (tonumber(last[2]) or 0) + 1)\nend\nlocal at = string.format('%.0f', score)\nlocal before = call('ZCOUNT', queue, 0, '(' .. at)\nlocal deadline = string.format('%.0f', now + 2 * math.max(1000, 125 * (before + 1)))\ncall('ZADD', queue, at, table.concat({ '1', deadline, id, lifetime, fences, channel, token }, ' '))\ncall('PEXPIRE', queue, 600000)\nreturn score, before\nend\nlocal function grant(lock, fence, queue, mine, rest, passed)\nlocal found = call('ZRANGE', queue, 0, 32, 'WITHSCORES')\nlocal mark, from, first = 0, 1, nil\nif #found > 0 and tonumber(found[2]) < 0 then\nmark, from = -tonumber(found[2]), 3\nend\nfor i = from, math.min(#found, from + 63), 2 do\nif entry(found[i]) >= now then\nfirst = found[i]\nbreak\nend\ncall('ZREM', queue, found[i])\nend\nif not first then\nif call('ZCOUNT', queue, 0, '+inf') == 0 then\ncall('DEL', queue)\nend\nreturn 'none'\nend\nif mark > now then\nreturn 'resting', mark\nend\nlocal _, id, lifetime, fences, channel, token = entry(first)\nlocal passes = passed and mark <= 1000000 and mark or 0\nif passes >= 64 and rest > 0 then\ncall('ZADD', queue, string.format('%.0f', -(now + rest)), 'passes')\nif token ~= mine then\nattempt('PUBLISH', channel, id .. ' ' .. lock)\nend\nreturn 'resting', now + rest\nend\nlocal ttl = token == mine and lifetime or string.format('%.0f', math.min(tonumber(lifetime), 2000))\nmayExpire(lock, ttl)\ncall('ZREM', queue, first)\nlocal minted = mint(fence, fences)\ntake(lock, token, ttl)\nif passed then\ncall('ZADD', queue, -(passes + 1), 'passes')\nelseif mark > 0 then\ncall('ZREM', queue, 'passes')\nend\nif token == mine then\nreturn 'mine', minted\nend\nattempt('PUBLISH', channel, id .. ' ' .. lock)\nreturn 'given'\nend\nlocal function isOurs(token)\nreturn #token >= 36 and string.sub(token, -4) == string.sub(token, -36, -33)\nend\nlocal function answer(lock, queue, token, lifetime, fences, channel, id, ticket, left)\nlocal holder = call('GET', lock)\nlocal score, before = stand(queue, token, lifetime, fences, channel, id, ticket)\nreturn { 0, left or call('PTTL', lock), score, now, before, holder and not isOurs(holder) and 1 or 0 }\nend";
const membersPart =
  "local locks, lines, wakes = {}, {}, {}\nlocal function member(text)\nlocal kind, permits, step, fence, length, rest = string.match(text, '^1 ([rwp]) (%d+) (%d+) (%d+) (%d+) (.*)$')\nif not kind then\nerror('WRONGTYPE this sorted set is no lock of redis-exp-lock, or one of another version', 0)\nend\nlength = tonumber(length)\nreturn {\nkind = kind,\npermits = tonumber(permits),\nstep = tonumber(step),\nfence = tonumber(fence),\ntoken = string.sub(rest, 1, length),\ngroup = string.sub(rest, length + 1),\ntext = text,\n}\nend\nlocal function text(kind, permits, step, fence, token, group)\nreturn string.format('1 %s %.0f %.0f %.0f %d ', kind, permits, step, fence, #token) .. token .. group\nend\nlocal function goesIn(held, each)\nheld.kind, held.group = each.kind, each.group\nheld.count, held.used = held.count + 1, held.used + each.permits\nend\nlocal function enter(held, each, ends)\neach.ends = ends\nheld.of[each.token] = each\nheld.fence = math.max(held.fence, each.fence)\ngoesIn(held, each)\nend\nlocal function nobody()\nreturn { of = {}, count = 0, used = 0, fence = 0 }\nend\nlocal function holders(lock)\nlocal held = locks[lock]\nif not held then\nheld = nobody()\nlocal found = call('ZRANGEBYSCORE', lock, string.format('(%.0f', now), '+inf', 'WITHSCORES')\nfor i = 1, #found, 2 do\nenter(held, member(found[i]), tonumber(found[i + 1]))\nend\nlocks[lock] = held\nend\nreturn held\nend\nlocal function lastReader(lock, token, group, fenced)\nif locks[lock] then\nreturn nil\nend\nlocal found = call('ZRANGE', lock, -1, -1, 'WITHSCORES')\nlocal last = found[1] and tonumber(found[2]) > now and member(found[1])\nif not last or last.kind ~= 'r' or last.group ~= group or last.token == token or (fenced and last.fence == 0) then\nreturn nil\nend\nlocal held = nobody()\nenter(held, last, tonumber(found[2]))\nreturn held\nend\nlocal function without(held, token)\nif not held.of[token] then\nreturn held\nend\nlocal others = nobody()\nfor whose, each in pairs(held.of) do\nif whose ~= token then\nenter(others, each, each.ends)\nend\nend\nreturn others\nend\nlocal function keep(lock)\nlocal last = call('ZRANGE', lock, -1, -1, 'WITHSCORES')\nif last[2] == 'inf' then\ncall('PERSIST', lock)\nelseif last[2] then\ncall('PEXPIRE', lock, string.format('%.0f', math.max(tonumber(last[2]) - now, 1)))\nend\nend\nlocal function isSpecial(each)\nreturn each.kind == 'u' or (each.kind ~= 'p' and each.kind == each.prefer)\nend\nlocal function stands(all, each)\nlocal live = all.live\nlocal at = #live + 1\nwhile at > 1 and live[at - 1].ticket > each.ticket do\nat = at - 1\nend\ntable.insert(live, at, each)\nall.of[each.token] = each\nall.special = all.special + (isSpecial(each) and 1 or 0)\nend\nlocal function entry(found, ticket)\nlocal deadline, id, kind, permits, prefer, channel, length, rest =\nstring.match(found, '^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.*)$')\nif not deadline then\nerror('VERSION the line of this lock was written by another version of redis-exp-lock', 0)\nend\nlength = tonumber(length)\nreturn {\ndeadline = tonumber(deadline),\nkind = kind,\npermits = tonumber(permits),\nprefer = prefer,\nchannel = channel,\nid = id,\ntoken = string.sub(rest, 1, length),\ngroup = string.sub(rest, length + 1),\nticket = tonumber(ticket),\ntext = found,\n}\nend\nlocal function line(queue, whole)\nlocal all = lines[queue]\nif all and not (whole and all.more) then\nreturn all\nend\nall = { live = {}, of = {}, dead = {}, phase = 0, special = 0 }\nlocal found = call('ZRANGE', queue, 0, whole and -1 or 16, 'WITHSCORES')\nall.more = not whole and #found == 34\nfor i = 1, #found, 2 do\nif found[i] == 'phase' then\nall.phase = -tonumber(found[i + 1])\nelse\nlocal each = entry(found[i], found[i + 1])\nif each.deadline < now then\nall.dead[#all.dead + 1] = each.text\nelse\nstands(all, each)\nend\nif all.more and each.kind ~= 'p' then\nreturn line(queue, true)\nend\nend\nend\nif all.more and #all.live == 0 then\nreturn line(queue, true)\nend\nlines[queue] = all\nreturn all\nend\nlocal function leaves(queue, all, each)\nfor i = 1, #all.dead do\ncall('ZREM', queue, all.dead[i])\nend\nall.dead = {}\nif each then\nif each.text then\ncall('ZREM', queue, each.text)\nend\nfor i = 1, #all.live do\nif all.live[i] == each then\ntable.remove(all.live, i)\nbreak\nend\nend\nall.of[each.token] = nil\nall.special = all.special - (isSpecial(each) and 1 or 0)\nend\nif all.more and #all.live == 0 then\nlines[queue] = nil\nend\nend\nlocal function turns(all, asking)\nlocal list = {}\nlocal put = not asking\nfor i = 1, #all.live do\nlocal each = all.live[i]\nif not put and each.ticket > asking.ticket then\nlist[#list + 1] = asking\nput = true\nend\nif not asking or each.token ~= asking.token then\nlist[#list + 1] = each\nend\nend\nif not put then\nlist[#list + 1] = asking\nend\nif all.special == 0 and not (asking and isSpecial(asking)) then\nreturn list\nend\nlocal writer = 0\nfor i = 1, #list do\nif list[i].kind == 'w' and list[i].prefer == 'w' then\nwriter = list[i].ticket\nend\nend\nlocal ranks = { {}, {}, {}, {}, {} }\nfor i = 1, #list do\nlocal each = list[i]\nlocal rank = 3\nif each.kind == 'u' then\nrank = 1\nelseif each.kind == 'r' and each.prefer == 'r' then\nrank = 2\nelseif each.ticket > writer then\nrank = 5\nelseif each.kind == 'r' and each.ticket > all.phase and each.ticket < writer then\nrank = 4\nend\ntable.insert(ranks[rank], each)\nend\nlist = ranks[1]\nfor rank = 2, 5 do\nfor i = 1, #ranks[rank] do\nlist[#list + 1] = ranks[rank][i]\nend\nend\nreturn list\nend\nlocal function roomBeside(held)\nlocal only = held.count == 1 and next(held.of) or nil\nreturn { count = held.count, kind = held.kind, group = held.group, used = held.used, only = only }\nend\nlocal function admits(held, each, limit)\nif each.kind == 'p' then\nreturn held.used + each.permits <= limit\nelseif each.kind == 'r' then\nreturn held.count == 0 or (held.kind == 'r' and held.group == each.group)\nelseif each.kind == 'u' and held.count == 1 and held.only == each.token then\nreturn true\nend\nreturn held.count == 0\nend\nlocal function isWaitedFor(queue)\nlocal all = line(queue)\nleaves(queue, all)\nif #all.live == 0 then\ncall('DEL', queue)\nall.phase = 0\nend\nreturn #all.live > 0\nend\nlocal function wakeLater(lock, queue, limit)\nif isWaitedFor(queue) and not wakes[lock] then\nwakes[lock] = true\nwakes[#wakes + 1] = { lock, queue, limit }\nend\nend\nlocal function wake(lock, queue, limit)\nlocal all = line(queue)\nlocal room = roomBeside(holders(lock))\nlocal most = tonumber(call('GET', limit) or 0)\nlocal list = turns(all)\nlocal ids, channels = {}, {}\nlocal i = 0\nwhile i < #list do\ni = i + 1\nlocal each = list[i]\nif not admits(room, each, most) then\nbreak\nend\ngoesIn(room, each)\nif each.channel ~= '-' then\nif not ids[each.channel] then\nchannels[#channels + 1] = each.channel\nids[each.channel] = {}\nend\ntable.insert(ids[each.channel], each.id)\nend\nif i == #list and all.more then\nall = line(queue, true)\nlist = turns(all)\nend\nend\nfor i = 1, #channels do\nredis.pcall('PUBLISH', channels[i], table.concat(ids[channels[i]], ',') .. ' ' .. lock)\nend\nend";
const momentPart =
  'local KEYS, ARGV, tonumber = KEYS, ARGV, tonumber\nlocal call, attempt, mayCheck = redis.call, redis.pcall, redis.acl_check_cmd\nlocal micros, now, checked, fenceText';
const takePart =
  "local function clock()\nif not now then\nlocal time = call('TIME')\nmicros = time[1] * 1000000 + time[2]\nnow = math.floor(micros / 1000)\nend\nend\nlocal function checkLifetime(text)\nlocal ms = tonumber(text)\nif not ms or ms < 1 or ms > 9007199254740991 or not string.find(text, '^%d+$') then\nerror('ERR expected a lifetime in whole milliseconds, at least 1', 0)\nend\nend\nlocal function mayExpire(lock, ttl)\nif mayCheck and not mayCheck('PEXPIRE', lock, ttl) then\nerror('NOPERM this user has no permissions to run PEXPIRE on a lock', 0)\nend\nend\nlocal function lastFence(key)\nlocal last = call('GET', key)\nif not last then\nreturn 0\nend\nreturn tonumber(last) or error('WRONGTYPE the fence of this lock is not a number', 0)\nend\nlocal function setFence(key, top)\nlocal ahead = math.max(math.floor(top / 1000) - now, 0)\ncall('PSETEX', key, string.format('%.0f', ahead + 3600000), string.format('%.0f', top))\nend\nlocal function mint(key, count)\nif count == 0 then\nreturn 0\nend\nlocal last = lastFence(key)\nlocal fence = micros > last and micros or last + 1\nsetFence(key, fence + count - 1)\nreturn fence\nend\nlocal function take(lock, token, ttl)\ncall('SETNX', lock, token)\nlocal set = attempt('PEXPIRE', lock, ttl)\nif type(set) == 'table' then\ncall('DEL', lock)\nerror(set.err, 0)\nend\nend";
const acquire1Part =
  "local token, ttl, count, notAfter = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[3])\nif ttl ~= checked then\nlocal ms = tonumber(ttl)\nif not ms or ms < 1 or ms > 9007199254740991 or not string.find(ttl, '^%d+$') then\nreturn redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')\nend\nchecked = ttl\nend\nif token == '' or not notAfter or not count or count % 1 ~= 0 or count < 0 then\nreturn redis.error_reply('ERR expected a token, a moment, and how many fences')\nend\nif not now then\nlocal time = call('TIME')\nmicros = time[1] * 1000000 + time[2]\nnow = math.floor(micros / 1000)\nend\nif now > notAfter then\nreturn { -1, 0, 0, now }\nend\nlocal holder = call('GET', KEYS[1])\nif not holder and #KEYS == 3 and call('ZCARD', KEYS[3]) == 0 and count <= 1 and mayCheck then\nlocal last, fence = 0, micros\nif #ARGV == 5 and count == 1 then\nfence = math.max(micros, tonumber(ARGV[5]))\nend\nif count == 1 then\nlast = tonumber(call('GET', KEYS[2]) or 0)\nend\nif last and last < fence and mayCheck('PEXPIRE', KEYS[1], ttl) then\nif fence > micros then\ncall('PSETEX', KEYS[2], '3600000', string.format('%.0f', fence))\nelseif count == 1 then\nfenceText = fenceText or string.format('%.0f', micros)\ncall('PSETEX', KEYS[2], '3600000', fenceText)\nend\ncall('SETNX', KEYS[1], token)\ncall('PEXPIRE', KEYS[1], ttl)\nreturn { 1, fence * count, 0, now }\nend\nend";
const acquire2Part =
  "local locks, placed = #KEYS / 3, #ARGV > 5\nlocal free, ours, left, busy = {}, {}, 0, false\nfor i = 1, locks do\nholder = i == 1 and holder or call('GET', KEYS[i])\nif not holder then\nfree[i] = true\nelse\nlocal ms = call('PTTL', KEYS[i])\nif holder ~= token then\nbusy = true\nleft = (ms < 0 or left < 0) and -1 or math.max(left, ms)\nelseif ms >= 0 then\nours[i] = math.max(ms, tonumber(ttl))\nend\nend\nend\nfor i = 1, busy and 0 or locks do\nlocal lock, fence, queue = KEYS[i], KEYS[locks + i], KEYS[2 * locks + i]\nif free[i] and call('ZCARD', queue) > 0 then\nif placed then\nstand(queue, token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7])\nend\nlocal whose, value = grant(lock, fence, queue, placed and token, 0, false)\nif whose == 'mine' then\nreturn { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }\nend\nif whose == 'given' or placed then\nbusy = true\nleft = whose == 'given' and call('PTTL', lock) or whose == 'resting' and value - now or 0\nbreak\nend\nend\nend\nif busy then\nif placed then\nreturn answer(KEYS[1], KEYS[3], token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7], left)\nend\nreturn { 0, left, 0, now }\nend\nfor i = 1, locks do\nif free[i] then\nmayExpire(KEYS[i], ttl)\nend\nend\nlocal fence = 0\nfor i = locks + 1, count > 0 and 2 * locks or 0 do\nfence = math.max(fence, lastFence(KEYS[i]))\nend\nif next(free) == nil and fence > 0 then\nfence = fence - count + 1\nelseif count > 0 then\nfence = math.max(fence + 1, micros, #ARGV == 5 and tonumber(ARGV[5]) or 0)\nfor i = locks + 1, 2 * locks do\nsetFence(KEYS[i], fence + count - 1)\nend\nend\nfor i = 1, locks do\nif free[i] then\ntake(KEYS[i], token, ttl)\nelseif ours[i] then\ncall('PEXPIRE', KEYS[i], string.format('%.0f', ours[i]))\nend\nend\nreturn { 1, fence, placed and call('ZCOUNT', KEYS[3], 0, '+inf') or 0, now }";
const extend1Part =
  "local lifetime, exact = tonumber(ARGV[2]), ARGV[3] == '1'\nif not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then\nreturn redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')\nend\nlocal time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000)\nlocal result, later = 1, {}\nfor i = 1, #KEYS do\nlocal holder = redis.pcall('GET', KEYS[i])\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nelseif not holder then\nresult = math.min(result, 0)\nelseif holder ~= ARGV[1] then\nresult = -1\nelse\nlocal left = redis.call('PTTL', KEYS[i])\nlater[i] = exact or (left >= 0 and (lifetime == 0 or left < lifetime))\nend\nend\nif result == 1 and now > tonumber(ARGV[4]) then\nresult = -2\nend\nif result == 1 then\nfor i = 1, #KEYS do\nif later[i] and lifetime == 0 then\nredis.call('PERSIST', KEYS[i])\nelseif later[i] then\nredis.call('PEXPIRE', KEYS[i], string.format('%.0f', lifetime))\nend\nend\nend\nreturn { result, now }";
const raise2Part =
  "local locks, least, low = #KEYS / 2, tonumber(ARGV[2]), {}\nif not least or least % 1 ~= 0 or least < 0 or least > 9007199254740991 then\nreturn redis.error_reply('ERR expected a fence')\nend\nclock()\nfor i = 1, locks do\nif call('GET', KEYS[i]) ~= ARGV[1] then\nreturn { 0 }\nend\nlow[i] = lastFence(KEYS[locks + i]) < least\nend\nfor i = 1, locks do\nif low[i] then\nsetFence(KEYS[locks + i], least)\nend\nend\nreturn { 1 }";
const release1Part =
  "local token, ticket, locks = ARGV[1], ARGV[2], #KEYS / 3\nlocal first = attempt('GET', KEYS[1])\nlocal length = attempt('ZCARD', KEYS[2 * locks + 1])\nif first == token and length == 0 and locks == 1 and #ARGV == 3 then\ncall('DEL', KEYS[1])\nreturn { 1 }\nend\nlocal reply, lined = {}, false\nfor i = 1, locks do\nlocal holder = i == 1 and first\nif i > 1 then\nholder = attempt('GET', KEYS[i])\nlength = attempt('ZCARD', KEYS[2 * locks + i])\nend\nif type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then\nreturn holder\nend\nreply[i] = not holder and 0 or holder == token and 1 or -1\nlined = lined or length ~= 0\nend\nfor i = 1, locks do\nif reply[i] == 1 then\ncall('DEL', KEYS[i])\nend\nend\nif not lined and #ARGV == 3 then\nreturn reply\nend";
const release2Part =
  "local function passOn(lock, fence, queue, status)\nclock()\nif ticket ~= '0' then\nlocal found = tonumber(ticket) > 0 and call('ZRANGEBYSCORE', queue, ticket, ticket)\nor call('ZRANGEBYSCORE', queue, 0, '+inf')\nfor i = 1, #found do\nlocal _, _, _, _, _, whose = entry(found[i])\nif whose == token then\ncall('ZREM', queue, found[i])\nend\nend\nend\nlocal next = #ARGV > 3 and ARGV[4]\nif next then\ncheckLifetime(ARGV[5])\nstand(queue, next, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9])\nend\nlocal whose, value\nif status >= 0 then\nwhose, value = grant(lock, fence, queue, next, tonumber(ARGV[3]), status == 1)\nend\nif whose == 'mine' then\nreturn { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }\nelseif next then\nlocal left = whose == 'resting' and value - now or whose == 'none' and 0 or nil\nreturn answer(lock, queue, next, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], left)\nend\nend\nfor i = 1, locks do\nlocal ran, answered = pcall(passOn, KEYS[i], KEYS[locks + i], KEYS[2 * locks + i], reply[i])\nif #ARGV > 3 then\nanswered = ran and answered or { 0, 0, 0, 0, 0, 0 }\nfor n = 1, #answered do\nreply[#reply + 1] = answered[n]\nend\nend\nend\nreturn reply";

const acquireScript: Script = {
  name: 'acquire',
  sha: '3da7d5a30bf0d0040ef4e4777cf0b6a05a132955',
  lua: momentPart + '\n' + acquire1Part + '\n' + takePart + '\n' + linePart + '\n' + acquire2Part,
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

const acquireMemberScript = {
  name: 'acquireMember',
};

/**
 * become one of a lock's holders when those who hold it and those who wait leave room; or stand in line; or change in place.
 *
 * @param lock sorted set: one member for each holder
 * @param fence string: the last fence minted for the lock
 * @param queue sorted set: who stands in line for the lock
 * @param limit string: how many permits the lock has
 * @param token who asks; a member with it is ours, and this is a resend
 * @param lifetime ms until our member ends by itself
 * @param notAfter server time in ms after which nobody waits for this request any more
 * @param fences 1: mint a fence; 0: none
 * @param kind r to read, w to write, p for permits
 * @param prefer w writers go first, r readers do, f whoever came first
 * @param permits how many we want
 * @param most how many there are
 * @param step 0: a new holder; else the number of this change of a holder: r gives writing up, w asks for it
 * @param group readers of one group share
 * @param place for who stands in line when there is no room: channel, id, ticket (0: it has none yet), ms after which it is passed over without a sign (0: by its place)
 * @returns the call; its reply: [1 granted, fence, others in line, server time in ms | 0 no room, ms until there may be some (-1: nobody knows), ticket, server time, how many stand before it, 0 | -1 too late, 0, 0, server time | -2 another reader asks to write, 0, 0, server time | -3 the holder that should change is gone, 0, 0, server time]
 */
export function acquireMember(
  lock: string,
  fence: string,
  queue: string,
  limit: string,
  token: string | number,
  lifetime: string | number,
  notAfter: string | number,
  fences: string | number,
  kind: string | number,
  prefer: string | number,
  permits: string | number,
  most: string | number,
  step: string | number,
  group: string | number,
  place: readonly string[],
): Call {
  return {
    script: acquireMemberScript,
    keys: [lock, fence, queue, limit],
    args: [
      String(token),
      String(lifetime),
      String(notAfter),
      String(fences),
      String(kind),
      String(prefer),
      String(permits),
      String(most),
      String(step),
      String(group),
      ...place,
    ],
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
    '\nlocal scripts = {\nacquire = function(k, a, keyCount, argCount)\n' +
    inBatch(acquire1Part) +
    '\n' +
    inBatch(acquire2Part) +
    '\nend,\nextend = function(k, a, keyCount, argCount)\n' +
    inBatch(extend1Part) +
    '\nend,\nrelease = function(k, a, keyCount, argCount)\n' +
    inBatch(release1Part) +
    '\n' +
    inBatch(release2Part) +
    '\nend,\nraise = function(k, a, keyCount, argCount)\n' +
    inBatch(raise2Part) +
    '\nend,\n}\n' +
    callsPart +
    '\nreturn reply',
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

const batchMembersScript: Script = {
  name: 'batchMembers',
  sha: 'fc8b4e334d9455809c99b92849f1055b3271aa2d',
  lua:
    momentPart +
    '\n' +
    takePart +
    '\n' +
    membersPart +
    "\nlocal scripts = {\nacquireMember = function(k, a, keyCount, argCount)\nlocal token, fences, kind, prefer, group = ARGV[a + 1], ARGV[a + 4] == '1', ARGV[a + 5], ARGV[a + 6], ARGV[a + 10]\nlocal notAfter, permits, most, step = tonumber(ARGV[a + 3]), tonumber(ARGV[a + 7]), tonumber(ARGV[a + 8]), tonumber(ARGV[a + 9])\nlocal placed = argCount > 10\ncheckLifetime(ARGV[a + 2])\nlocal ttl = tonumber(ARGV[a + 2])\nlocal fixed = permits and most and step and permits >= 1 and permits % 1 == 0 and string.find('rwp', kind, 1, true)\nif token == '' or not notAfter or not fixed then\nreturn redis.error_reply('ERR expected a token, a moment, a kind, permits and a step')\nend\nclock()\nif now > notAfter then\nreturn { -1, 0, 0, now }\nend\nlocal lock, fence, queue, limit = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]\nlocal all = line(queue, kind ~= 'p')\nlocal standing = all.of[token]\nlocal asked = placed and tonumber(ARGV[a + 13]) or 0\nif all.more and not standing and asked > 0 then\nlocal found = call('ZRANGEBYSCORE', queue, ARGV[a + 13], ARGV[a + 13])\nfor i = 1, #found do\nlocal each = entry(found[i], asked)\nstanding = each.token == token and each or standing\nend\nend\nlocal others = (all.more and call('ZCOUNT', queue, 0, '+inf') or #all.live) - (standing and 1 or 0)\nlocal upgrade = step > 0 and kind == 'w'\nlocal asking = { kind = upgrade and 'u' or kind, permits = permits, prefer = prefer, token = token, group = group }\nasking.ticket = standing and standing.ticket or asked\nif asking.ticket == 0 then\nlocal last = all.live[#all.live]\nlast = all.more and tonumber(call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]) or last and last.ticket or 0\nasking.ticket = math.max(micros, last + 1)\nend\nlocal isBehind = all.more and asking.ticket > all.live[#all.live].ticket\nlocal function isOurTurn(held, mine)\nlocal room, before, granted = roomBeside(held), 0, true\nif mine then\ngoesIn(room, mine)\nend\nlocal list = turns(all, asking)\nfor i = 1, #list do\nlocal each = list[i]\ngranted = granted and admits(room, each, most)\nif each == asking then\nreturn granted, before\nend\nbefore = before + 1\nif granted then\ngoesIn(room, each)\nend\nend\nend\nlocal granted, before, mine, held, known = false, 0, nil, nil, 0\nif kind == 'r' and step == 0 and #all.dead == 0 and (not standing or standing.kind == 'r') then\nheld = lastReader(lock, token, group, fences)\ngranted = held and isOurTurn(held)\nend\nmayExpire(lock, ARGV[a + 2])\nlocal ends = now + ttl\nlocal score = string.format('%.0f', ends)\nif not granted then\nlocal everybody = holders(lock)\nmine, held = everybody.of[token], without(everybody, token)\nif step > 0 and not mine then\nreturn { -3, 0, 0, now }\nelseif step > 0 and mine.step > step then\nreturn { -1, 0, 0, now }\nend\nif everybody.kind and (everybody.kind == 'p') ~= (kind == 'p') then\nreturn redis.error_reply('WRONGTYPE this key is ' .. (kind == 'p' and 'a readers-writer lock' or 'a semaphore'))\nend\nknown = kind == 'p' and tonumber(call('GET', limit) or 0) or 0\nlocal isKnown = everybody.count > 0\nfor i = 1, #all.live do\nisKnown = isKnown or all.live[i].kind == 'p'\nend\nif isKnown and known ~= 0 and known ~= most then\nreturn redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f', known, most))\nend\nfor i = 1, upgrade and mine.step < step and #all.live or 0 do\nif all.live[i].kind == 'u' and all.live[i] ~= standing then\nreturn { -2, 0, 0, now }\nend\nend\nends = math.max(ends, mine and mine.ends or 0)\nscore = ends == math.huge and '+inf' or string.format('%.0f', ends)\nif mine and (step == 0 or mine.step == step) then\ncall('ZADD', lock, score, mine.text)\nmine.ends = ends\nleaves(queue, all, standing)\nkeep(lock)\nreturn { 1, mine.fence, others, now }\nend\nif step > 0 and kind == 'r' then\nlocks[lock] = nil\ncall('ZREM', lock, mine.text)\ncall('ZADD', lock, score, text('r', 1, step, mine.fence, token, mine.group))\nleaves(queue, all, standing)\nkeep(lock)\nwakeLater(lock, queue, limit)\nreturn { 1, mine.fence, others, now }\nend\ngranted = held.count == 0\nif not upgrade then\ngranted, before = isOurTurn(held, mine)\nif isBehind and granted then\nall, isBehind = line(queue, true), false\nstanding = all.of[token] or standing\ngranted, before = isOurTurn(held, mine)\nelseif isBehind then\nbefore = call('ZCOUNT', queue, 0, string.format('(%.0f', asking.ticket))\nend\nend\nend\nif granted then\nlocal minted = fences and kind == 'r' and held.fence or 0\nif fences and minted == 0 then\nminted = mint(fence, 1)\nend\nlocal new = member(text(kind, permits, step, minted, token, group))\ncall('ZADD', lock, 'GT', score, new.text)\nif mine then\ncall('ZREM', lock, mine.text)\nlocks[lock] = nil\nelseif locks[lock] then\nenter(locks[lock], new, ends)\nend\nkeep(lock)\ncall('ZREMRANGEBYSCORE', lock, '-inf', string.format('%.0f', now))\nif kind == 'p' then\nlocal last = call('PTTL', lock)\ncall('PSETEX', limit, string.format('%.0f', math.max(last, 0) + 3600000), ARGV[a + 8])\nif last < 0 then\ncall('PERSIST', limit)\nend\nend\nlocal passedOver = #all.dead > 0\nleaves(queue, all, standing)\nif kind == 'w' and others > 0 then\ncall('ZREMRANGEBYSCORE', queue, '-inf', '(0')\ncall('ZADD', queue, string.format('-%.0f', micros), 'phase')\nall.phase = micros\nelseif others == 0 and (standing or passedOver) then\ncall('DEL', queue)\nall.phase = 0\nend\nif passedOver then\nwakeLater(lock, queue, limit)\nend\nreturn { 1, minted, others, now }\nend\nlocal left = 0\nfor _, each in pairs(held.of) do\nif left == 0 or (kind == 'p') == (each.ends - now < left) then\nleft = each.ends - now\nend\nend\nif left == math.huge then\nleft = -1\nend\nif not placed then\nreturn { 0, left, asking.ticket, now, before, 0 }\nend\nlocal patience = tonumber(ARGV[a + 14])\nif patience == 0 then\npatience = 2 * math.max(1000, 125 * (before + 1))\nend\nasking.channel, asking.id = ARGV[a + 11], ARGV[a + 12]\nasking.text = string.format('2 %.0f %s %s %.0f %s %s %d ', now + patience, asking.id, asking.kind, permits, prefer, asking.channel, #token)\n.. token\n.. group\nif standing and standing.text == asking.text then\nstanding.text = nil\nend\ncall('ZADD', queue, string.format('%.0f', asking.ticket), asking.text)\ncall('PEXPIRE', queue, 600000)\nif kind == 'p' and known == 0 then\ncall('PSETEX', limit, 3600000, ARGV[a + 8])\nend\nleaves(queue, all, standing)\nif not isBehind then\nstands(all, asking)\nend\nreturn { 0, left, asking.ticket, now, before, 0 }\nend,\nextendMember = function(k, a, keyCount, argCount)\nlocal lifetime, exact, notAfter = tonumber(ARGV[a + 3]), ARGV[a + 4] == '1', tonumber(ARGV[a + 5])\nif not notAfter or not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then\nreturn redis.error_reply('ERR expected a moment, and a lifetime in whole milliseconds, at least 0')\nend\nclock()\nlocal lock, mine, ends = KEYS[k + 1], ARGV[a + 2], nil\nends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil\nif not ends or ends <= now then\nlocal held = holders(lock)\nlocal found = held.of[ARGV[a + 1]]\nif not found then\nreturn { held.count > 0 and (held.kind == 'w' or string.find(mine, '^1 w')) and -1 or 0, now }\nend\nmine, ends = found.text, found.ends\nend\nif now > notAfter then\nreturn { -2, now }\nend\nlocal wanted = lifetime == 0 and math.huge or now + lifetime\nif exact or wanted > ends then\nlocks[lock] = nil\ncall('ZREMRANGEBYSCORE', lock, '-inf', string.format('%.0f', now))\ncall('ZADD', lock, wanted == math.huge and '+inf' or string.format('%.0f', wanted), mine)\nkeep(lock)\nif string.find(mine, '^1 p') then\nlocal kept = call('PTTL', lock)\nif kept < 0 then\ncall('PERSIST', KEYS[k + 2])\nelse\ncall('PEXPIRE', KEYS[k + 2], string.format('%.0f', kept + 3600000))\nend\nend\nend\nreturn { 1, now }\nend,\nreleaseMember = function(k, a, keyCount, argCount)\nclock()\nlocal lock, queue, mine = KEYS[k + 1], KEYS[k + 2], ARGV[a + 2]\nlocal ends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil\nlocal reply = 1\nif not ends then\nlocal held = holders(lock)\nlocal found = held.of[ARGV[a + 1]]\nif found then\nmine, ends = found.text, found.ends\nelse\nreply = held.count > 0 and (held.kind == 'w' or string.find(mine, '^1 w')) and -1 or 0\nend\nelseif ends <= now then\nreply = 0\nend\nif ends then\ncall('ZREM', lock, mine)\nif locks[lock] then\nlocks[lock] = without(locks[lock], ARGV[a + 1])\nend\nif ends == math.huge then\nkeep(lock)\nend\nend\nlocal function others()\nif ARGV[a + 3] ~= '0' then\nlocal all = line(queue)\nif all.more and not all.of[ARGV[a + 1]] then\nall = line(queue, true)\nend\nleaves(queue, all, all.of[ARGV[a + 1]])\nelseif reply == 1 and string.find(mine, '^1 r') and call('ZCOUNT', lock, string.format('(%.0f', now), '+inf') > 1 then\nreturn -- whoever could go in beside two readers would have done so before\nend\nif call('ZCARD', queue) > 0 then\nwakeLater(lock, queue, KEYS[k + 3])\nend\nend\npcall(others)\nreturn { reply }\nend,\ncountMembers = function(k, a, keyCount, argCount)\nclock()\nreturn { holders(KEYS[k + 1]).used }\nend,\n}\n" +
    callsPart +
    '\nfor i = 1, #wakes do\npcall(wake, wakes[i][1], wakes[i][2], wakes[i][3])\nend\nreturn reply',
};

/**
 * run calls on locks that several may hold, as batch does. One call is a batch of one.
 *
 * @param key the keys of all calls, one after the other
 * @param part for each call: its script, how many keys and how many arguments it has, in one text, and these arguments
 * @returns the call; its reply: [for each call how many integers it answers, and they; or -1 and the text of its error]
 */
export function batchMembers(key: readonly string[], part: readonly string[]): ScriptCall {
  return { script: batchMembersScript, keys: key, args: part };
}

const countMembersScript = {
  name: 'countMembers',
};

/**
 * how many permits of a semaphore are out. Changes nothing.
 *
 * @param lock sorted set: one member for each holder
 * @returns the call; its reply: [how many]
 */
export function countMembers(lock: string): Call {
  return { script: countMembersScript, keys: [lock], args: [] };
}

const extendScript: Script = {
  name: 'extend',
  sha: 'ce78964c436c87bd6bb81e99f98b867a1d10124d',
  lua: extend1Part,
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

const extendMemberScript = {
  name: 'extendMember',
};

/**
 * move the end of a holder that is still there. Never makes one, never touches another.
 *
 * @param lock sorted set: one member for each holder
 * @param limit string: how many permits the lock has
 * @param token the holder's
 * @param known its member, as far as the holder knows; it is looked for where that is not there
 * @param lifetime ms from now until its end; 0: never
 * @param exact 1: set this end; 0: only ever a later one (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the holder stops believing
 * @returns the call; its reply: [1 extended | 0 gone | -1 others hold it, beside whom it cannot be | -2 too late: nothing was changed, server time in ms]
 */
export function extendMember(
  lock: string,
  limit: string,
  token: string | number,
  known: string | number,
  lifetime: string | number,
  exact: string | number,
  notAfter: string | number,
): Call {
  return {
    script: extendMemberScript,
    keys: [lock, limit],
    args: [String(token), String(known), String(lifetime), String(exact), String(notAfter)],
  };
}

const inspectScript: Script = {
  name: 'inspect',
  sha: '0a48f9bbb5bf271ed3be8d57fbf668a29dc22404',
  lua: "local holder, kind = redis.pcall('GET', KEYS[1]), 'm'\nlocal left = redis.call('PTTL', KEYS[1])\nif type(holder) == 'table' then\nlocal time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000)\nlocal last = redis.pcall('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')\nif last.err then\nreturn holder\nend\nlocal length, rest\nkind, length, rest = string.match(last[1] or '', '^1 ([rwp]) %d+ %d+ %d+ (%d+) (.*)$')\nif not kind then\nreturn holder\nend\nholder, left = false, -2\nif tonumber(last[2]) > now then\nholder = string.sub(rest, 1, tonumber(length))\nleft = last[2] == 'inf' and -1 or tonumber(last[2]) - now\nend\nend\nreturn { holder, left, redis.call('GET', KEYS[2]), redis.call('ZCOUNT', KEYS[3], 0, '+inf'), kind }",
};

/**
 * what Redis knows of a lock. Changes nothing.
 *
 * @param lock string: the holder's token; or a sorted set of those who hold it together
 * @param fence string: the last fence minted for it
 * @param queue sorted set: who stands in line for it
 * @returns the call; its reply: [token or nil, ms left (-1 never ends, -2 free), last fence or nil, how many stand in line, m a mutex, or the kind of who holds it: r, w, p]
 */
export function inspect(lock: string, fence: string, queue: string): ScriptCall {
  return { script: inspectScript, keys: [lock, fence, queue], args: [] };
}

const raiseScript: Script = {
  name: 'raise',
  sha: '58327edffad3646b505a05feeae2db0a4a8d1297',
  lua: momentPart + '\n' + takePart + '\n' + raise2Part,
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

const readValueScript: Script = {
  name: 'readValue',
  sha: 'd3c21d0c2b9ca22f82737626a27bcaf5d288f99f',
  lua: "return redis.call('GET', KEYS[1])",
};

/**
 * what is cached beside a lock. Changes nothing.
 *
 * @param value string: what was stored last
 * @returns the call; its reply: the text, or nil
 */
export function readValue(value: string): ScriptCall {
  return { script: readValueScript, keys: [value], args: [] };
}

const releaseScript: Script = {
  name: 'release',
  sha: 'c3e2ecfe96391287ceeef3154d64c7ab184cc8da',
  lua: momentPart + '\n' + release1Part + '\n' + takePart + '\n' + linePart + '\n' + release2Part,
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

const releaseMemberScript = {
  name: 'releaseMember',
};

/**
 * stop being one of a lock's holders, or leave its line, and wake those for whom there is room then.
 *
 * @param lock sorted set: one member for each holder
 * @param queue sorted set: who stands in line for the lock
 * @param limit string: how many permits the lock has
 * @param token whose member goes
 * @param known the member, as far as the holder knows; it is looked for where that is not there
 * @param ticket what the token stands in line with: 0 it does not; else it leaves the line too
 * @returns the call; its reply: [1 released | 0 gone | -1 others hold it, beside whom it cannot be]
 */
export function releaseMember(
  lock: string,
  queue: string,
  limit: string,
  token: string | number,
  known: string | number,
  ticket: string | number,
): Call {
  return {
    script: releaseMemberScript,
    keys: [lock, queue, limit],
    args: [String(token), String(known), String(ticket)],
  };
}

const writeValueScript: Script = {
  name: 'writeValue',
  sha: '4bf9f1a76e5e356fb8d53d821598bd8cf1534191',
  lua: "if redis.call('GET', KEYS[1]) ~= ARGV[1] then\nreturn { 0 }\nend\nredis.call('PSETEX', KEYS[2], ARGV[3], ARGV[2])\nreturn { 1 }",
};

/**
 * keep a value beside a lock, if that is still ours.
 *
 * @param lock string: the holder's token
 * @param value string: what is cached
 * @param token the token that acquired the lock
 * @param text what to keep
 * @param ttl ms for which it is kept
 * @returns the call; its reply: [1 stored | 0 the lock is no longer ours: nothing changed]
 */
export function writeValue(
  lock: string,
  value: string,
  token: string | number,
  text: string | number,
  ttl: string | number,
): ScriptCall {
  return { script: writeValueScript, keys: [lock, value], args: [String(token), String(text), String(ttl)] };
}

export const scripts: readonly Script[] = [
  acquireScript,
  batchScript,
  batchMembersScript,
  extendScript,
  inspectScript,
  raiseScript,
  readValueScript,
  releaseScript,
  writeValueScript,
];
