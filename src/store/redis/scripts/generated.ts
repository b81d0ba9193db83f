// Made by `npm run generate` from the .lua files beside it; do not edit.

// biome-ignore-all lint/style/useTemplate: the text between two parts may be a line end only

import { type BatchableCall, inBatch, type Script, type ScriptCall } from './script';

const clockPart = `local KEYS, ARGV, tonumber = KEYS, ARGV, tonumber
local call, attempt, mayCheck = redis.call, redis.pcall, redis.acl_check_cmd
local micros, now, checked, top`;
const dispatchPart = `local shapes = {}
local keysDone, argsDone = 0, 0
while argsDone < #ARGV do
local text = ARGV[argsDone + 1]
local shape = shapes[text]
if not shape then
local name, keys, args = string.match(text, '^(%a+) (%d+) (%d+)$')
shape = { scripts[name], tonumber(keys), tonumber(args) }
shapes[text] = shape
end
append(pcall(shape[1], keysDone, argsDone + 1, shape[2], shape[3]))
keysDone, argsDone = keysDone + shape[2], argsDone + 1 + shape[3]
end`;
const holdersPart = `local locks, checked = {}, {}
local chunk = 16
local function isOurs(text)
return string.find(text, '^1 [rwp] %d+ %d+ %d+ %d+ .') ~= nil
end
local function refuseForeign()
error('FOREIGN this sorted set has a member that is not of redis-exp-lock, or of another version of it', 0)
end
local function member(text)
local kind, permits, step, fence, length, rest = string.match(text, '^1 ([rwp]) (%d+) (%d+) (%d+) (%d+) (.+)$')
if not kind then
return nil
end
length = tonumber(length)
return {
kind = kind,
permits = tonumber(permits),
step = tonumber(step),
fence = tonumber(fence),
token = string.sub(rest, 1, length),
group = string.sub(rest, length + 1),
text = text,
}
end
local function permitsOf(text)
return tonumber(string.match(text, '^1 p (%d+) %d+ %d+ %d+ .'))
end
local function text(kind, permits, step, fence, token, group)
return string.format('1 %s %.0f %.0f %.0f %d ', kind, permits, step, fence, #token) .. token .. group
end
local function admit(held, each)
held.kind, held.group = each.kind, each.group
held.count, held.used = held.count + 1, held.used + each.permits
end
local function enter(held, each, ends)
held.of[each.text] = ends
held.fence = math.max(held.fence, each.fence)
admit(held, each)
end
local function nobody()
return { of = {}, count = 0, used = 0, fence = 0, whole = true }
end
local function check(lock)
local seen = checked[lock]
if not seen then
local found = call('ZRANGE', lock, 0, chunk - 1, 'WITHSCORES')
seen = { found = found, permits = {}, expired = {}, isFull = #found == 2 * chunk, isForeign = false }
for i = 1, #found, 2 do
seen.permits[i] = permitsOf(found[i])
if not seen.permits[i] and not isOurs(found[i]) then
seen.isForeign = true
elseif tonumber(found[i + 1]) <= now then
seen.expired[#seen.expired + 1] = found[i]
end
end
if seen.isFull then
local at = micros % call('ZCARD', lock)
local some = call('ZRANGE', lock, at, at + chunk - 1)
for i = 1, #some do
seen.isForeign = seen.isForeign or not isOurs(some[i])
end
end
checked[lock] = seen
end
return seen
end
local function purge(lock, kept)
local seen = check(lock)
if seen.isPurged then
return
elseif seen.isForeign or #seen.expired == chunk then
local gone = { '1 r 1 0 0 0 ' }
for i = 1, #seen.expired do
gone[i + 1] = seen.expired[i] ~= kept and seen.expired[i] or gone[1]
end
call('ZREM', lock, unpack(gone))
else
call('ZREMRANGEBYSCORE', lock, '-inf', string.format('%.0f', now))
end
seen.isPurged = true
end
local function holders(lock, all, seen)
local held = locks[lock]
if held and (held.whole or not all) then
return held
end
held = nobody()
local from = string.format('(%.0f', now)
seen = seen or (not checked[lock] and check(lock))
local found = seen and not seen.isFull and seen.found
or call('ZRANGEBYSCORE', lock, from, '+inf', 'WITHSCORES', 'LIMIT', 0, chunk)
if #found == 2 * chunk and (all or string.sub(found[1], 1, 3) == '1 p') then
found = call('ZRANGEBYSCORE', lock, from, '+inf', 'WITHSCORES')
elseif #found == 2 * chunk then
held.whole = false
found = call('ZRANGE', lock, '+inf', from, 'BYSCORE', 'REV', 'LIMIT', 0, chunk, 'WITHSCORES')
end
local known = seen and found == seen.found and seen.permits or {}
for i = 1, #found, 2 do
local ends, permits = tonumber(found[i + 1]), known[i] or permitsOf(found[i])
local each = not permits and member(found[i])
if not permits and not each then
held.isForeign = true
elseif ends > now then
if permits then
held.of[found[i]], held.kind = ends, 'p'
held.count, held.used = held.count + 1, held.used + permits
else
enter(held, each, ends)
end
end
end
locks[lock] = held
return held
end
local function ourHolders(lock, all, seen)
local held = holders(lock, all, seen)
if held.isForeign or check(lock).isForeign then
refuseForeign()
end
return held
end
local function lastHolder(lock, token, group, fenced)
if locks[lock] then
return nil
end
local seen = not checked[lock] and check(lock) or nil
local found = seen and not seen.isFull and seen.found or call('ZRANGE', lock, -1, -1, 'WITHSCORES')
local ends = tonumber(found[#found])
local last = ends and ends > now and member(found[#found - 1])
if not last or last.kind == 'p' or last.group ~= group or last.token == token or (fenced and last.fence == 0) then
return nil, seen
end
if check(lock).isForeign then
refuseForeign()
end
local held = nobody()
enter(held, last, ends)
return held
end
local function holderOf(held, token)
for found, ends in pairs(held.of) do
local each = string.find(found, token, 1, true) and member(found)
if each and each.token == token then
each.ends = ends
return each
end
end
end
local function without(held, mine)
if not mine then
return held
end
local others = nobody()
others.whole, others.isForeign = held.whole, held.isForeign
for found, ends in pairs(held.of) do
if found ~= mine.text then
enter(others, member(found), ends)
end
end
return others
end
local function sharesPlace(held, places)
for place in string.gmatch(places, '%d+') do
for found in pairs(held.of) do
if string.find(member(found).group, ',' .. place .. ',', 1, true) then
return true
end
end
end
return false
end
local function forget(lock, token)
local held = locks[lock]
locks[lock] = held and held.whole and without(held, holderOf(held, token)) or nil
end
local function setEnd(lock)
local last = call('ZRANGE', lock, -1, -1, 'WITHSCORES')
if not last[1] or not isOurs(last[1]) then
return
end
if last[2] == 'inf' then
call('PERSIST', lock)
else
local ms = math.max(tonumber(last[2]) - now, 1)
if not check(lock).isForeign or call('PTTL', lock) < ms then
call('PEXPIRE', lock, string.format('%.0f', ms))
return ms
end
end
end`;
const mintPart = `local function clock()
if not now then
local time = call('TIME')
micros = time[1] * 1000000 + time[2]
now = math.floor(micros / 1000)
end
end
local function isLifetime(text)
local ms = tonumber(text)
return ms and ms >= 1 and ms <= 9007199254740991 and string.find(text, '^%d+$')
end
local function checkLifetime(text)
if not isLifetime(text) then
error('ERR expected a lifetime in whole milliseconds, at least 1', 0)
end
end
local function mayExpire(lock, ttl)
if mayCheck and not mayCheck('PEXPIRE', lock, ttl) then
error('NOPERM this user has no permissions to run PEXPIRE on a lock', 0)
end
end
local function checkFence(fence)
if not fence or fence > 9007199254740991 or fence > micros + 86400000000 then
error('FENCE the fence counter of this server is no number, or more than a day ahead of the clock', 0)
end
return fence
end
local function lastFence(fence)
if not top then
local last = call('GET', fence)
top = last and checkFence(string.find(last, '^%d+$') and tonumber(last)) or 0
end
return top
end
local function setFence(fence, last)
call('SET', fence, string.format('%.0f', last))
top = last
end
local function mint(fence, count, minFence)
if count == 0 then
return 0
end
local first = math.max(lastFence(fence) + 1, micros, minFence or 0)
setFence(fence, first + count - 1)
return first
end
local function setLock(lock, token, ttl)
call('SETNX', lock, token)
local set = attempt('PEXPIRE', lock, ttl)
if type(set) == 'table' then
call('DEL', lock)
error(set.err, 0)
end
end
local function checkVersion(queue, member, known)
local version = string.match(member, '^(%d+) ')
if version and version ~= known then
if call('PTTL', queue) < 0 then
call('PEXPIRE', queue, 10000)
end
error('VERSION the queue of this lock was written by another version of redis-exp-lock', 0)
end
return version
end`;
const queuePart = `local maxSilence, maxYield = 10000, 1000
local function entry(queue, member)
local deadline, id, lifetime, fences, channel, token = string.match(member, '^1 (%d+) (%S+) (%d+) (%d+) (%S+) (.+)$')
if not deadline then
checkVersion(queue, member, '1')
end
deadline, fences = tonumber(deadline), tonumber(fences)
if not deadline or deadline < now or deadline > now + maxSilence or fences > 1024 then
return nil
end
local ms = tonumber(lifetime)
if ms >= 1 and ms <= 9007199254740991 then
return { member = member, id = id, lifetime = lifetime, fences = fences, channel = channel, token = token }
end
end
local function entriesOf(queue, token, ticket)
local found
if ticket > 0 then
found = call('ZRANGEBYSCORE', queue, ticket, ticket, 'WITHSCORES')
else
local since = math.min(-ticket, micros)
found = call('ZRANGE', queue, '+inf', since, 'BYSCORE', 'REV', 'LIMIT', 0, 256, 'WITHSCORES')
end
local mine = {}
for i = 1, #found, 2 do
if checkVersion(queue, found[i], '1') and string.match(found[i], '^1 %d+ %S+ %d+ %d+ %S+ (.+)$') == token then
mine[#mine + 1] = found[i]
ticket = tonumber(found[i + 1])
end
end
return mine, ticket
end
local function positionOf(queue, ticket)
return call('ZCOUNT', queue, 0, string.format('(%.0f', ticket))
end
local function enqueue(queue, token, lifetime, fences, channel, id, ticket, silence)
local sane = micros + 86400000000
local score, mine, second = tonumber(ticket), {}, nil
score = score <= sane and score or 0
local last = score <= 0 and call('ZRANGE', queue, -1, -1, 'WITHSCORES')
if last and last[1] then
checkVersion(queue, last[1], '1')
end
if not last or (last[1] and tonumber(last[2]) >= math.min(-score, micros)) then
mine, score = entriesOf(queue, token, score)
end
for i = 1, #mine - 1 do
call('ZREM', queue, mine[i])
end
if score <= 0 or score > sane then
last = last or call('ZRANGE', queue, -1, -1, 'WITHSCORES')
if last[1] and tonumber(last[2]) > sane then
call('ZREM', queue, unpack(call('ZRANGE', queue, '+inf', sane, 'BYSCORE', 'REV', 'LIMIT', 0, 2048)))
last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
end
local latest = tonumber(last[2]) or 0
score = latest <= sane and math.max(micros, latest + 1) or micros
second = math.floor(latest / 1000000)
end
local before = positionOf(queue, score)
local ms = math.max(2 * math.min(math.max(1000, 125 * (before + 1)), 2000), math.min(silence, maxSilence))
local deadline = string.format('%.0f', now + ms)
local member = '1 ' .. deadline .. ' ' .. id .. ' ' .. lifetime .. ' ' .. fences .. ' ' .. channel .. ' ' .. token
local old = mine[#mine]
if old then
call('PEXPIRE', queue, maxSilence)
end
call('ZADD', queue, string.format('%.0f', score), member)
if old and old ~= member then
call('ZREM', queue, old)
end
if not old and second ~= math.floor(micros / 1000000) then
call('PEXPIRE', queue, maxSilence)
end
return score, before
end
local function pollOf(member, score)
local since, till = string.match(member, '^poll (%d+) (%d+)$')
since, till = tonumber(since), tonumber(till)
if since and since <= now and till >= now and till <= now + maxSilence and -score <= maxYield then
return -score, since, till
end
end
local function markPoll(queue, pause)
pause = math.ceil(pause)
if pause > maxYield or call('ZCARD', queue) == 0 then
return
end
local since, till = now, now + 2 * pause + 100
local found = call('ZRANGEBYSCORE', queue, '-inf', '(0', 'WITHSCORES')
for i = 1, #found, 2 do
local longest, first, last = pollOf(found[i], tonumber(found[i + 1]))
if longest then
since = math.min(since, first)
if longest > pause then
pause, till = longest, last
end
end
end
local mark = string.format('poll %.0f %.0f', since, till)
attempt('ZADD', queue, string.format('-%.0f', math.max(pause, 1)), mark)
for i = 1, #found, 2 do
if string.sub(found[i], 1, 5) == 'poll ' and found[i] ~= mark then
attempt('ZREM', queue, found[i])
end
end
end
local function front(queue)
local first, handOffs, till, pause, since, mark = nil, 0, 0, 0, now, nil
local gone, from, upto = {}, 0, 1
repeat
local found = call('ZRANGE', queue, from, upto, 'WITHSCORES')
for i = 1, #found, 2 do
local member, score = found[i], tonumber(found[i + 1])
if score >= 0 then
first = entry(queue, member)
if first then
break
end
gone[#gone + 1] = member
elseif member == 'passes' then
handOffs = score >= -1000000 and -score or 0
till = handOffs == 0 and -score <= now + 2 * maxYield and -score or 0
else
local longest, begun = pollOf(member, score)
if longest then
pause, since, mark = longest, begun, member
else
gone[#gone + 1] = member
end
end
end
local isEnd = #found < 2 * (upto - from + 1)
from, upto = upto + 1, upto + 33
until first or isEnd or #gone >= 2048
if #gone > 0 then
call('ZREM', queue, unpack(gone))
end
return first, handOffs, till, pause, since, mark
end
local function grant(lock, fence, queue, mine, window, handedOff)
local first, handOffs, till, pause, since, mark = front(queue)
if not first then
if call('ZCOUNT', queue, 0, '+inf') == 0 then
call('DEL', queue)
end
return 'none', 0
end
if till > now then
return 'yielding', till - now
end
local isMine = first.token == mine
local yield = math.max(math.min(window, maxYield), pause > 0 and pause + 20 or 0)
if handedOff and window > 0 and (handOffs >= 64 or (pause > 0 and now - since >= 8 * yield)) then
call('ZADD', queue, string.format('-%.0f', now + yield), 'passes')
if mark then
call('ZREM', queue, mark)
end
if not isMine then
attempt('PUBLISH', first.channel, first.id .. ' ' .. lock)
end
return 'yielding', yield
end
local ttl = isMine and first.lifetime or string.format('%.0f', math.min(tonumber(first.lifetime), 2000))
if first.fences > 0 then
lastFence(fence)
end
if handedOff then
call('ZADD', queue, -(handOffs + 1), 'passes')
elseif handOffs + till > 0 then
call('ZREM', queue, 'passes')
end
call('ZREM', queue, first.member)
local minted = mint(fence, first.fences)
call('SET', lock, first.token, 'PX', ttl)
if isMine then
return 'mine', minted
end
attempt('PUBLISH', first.channel, first.id .. '=' .. string.format('%.0f', minted) .. ' ' .. lock)
return 'given', tonumber(ttl)
end
local function isOurs(token)
return #token >= 36 and string.sub(token, -4) == string.sub(token, -36, -33)
end
local function answer(left, holder, ticket, before)
return { 0, left, ticket, now, before, holder and not isOurs(holder) and 1 or 0 }
end`;
const replyPart = `local reply, size = {}, 0
local function append(ran, answer)
if type(answer) == 'number' then
answer = { answer }
end
if ran and not answer.err then
local count = #answer
reply[size + 1] = count
for i = 1, count do
reply[size + 1 + i] = answer[i]
end
size = size + 1 + count
else
reply[size + 1] = -1
reply[size + 2] = type(answer) == 'table' and answer.err or answer
size = size + 2
end
end`;
const waitersPart = `local queues, wakes = {}, {}
local maxSilence, maxNotified = 10000, 32
local few = 5
local shifts = { 1000000000000000, 500000000000000, 0 }
local function bandOf(kind, prefer)
if kind == 'u' or (kind == 'r' and prefer == 'r') then
return 1
end
return kind == 'w' and prefer == 'w' and 2 or 3
end
local upgradeTicket = 1
local function scoreOf(each, ticket)
return each.kind == 'u' and upgradeTicket or ticket - shifts[each.band]
end
local function entry(queue, found, score)
local deadline, id, kind, permits, prefer, channel, length, rest =
string.match(found, '^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.+)$')
if not deadline then
checkVersion(queue, found, '2')
return nil
end
deadline, length = tonumber(deadline), tonumber(length)
if deadline < now or deadline > now + maxSilence or length < 1 or length > #rest then
return nil
end
local each = {
kind = kind,
band = bandOf(kind, prefer),
permits = tonumber(permits),
prefer = prefer,
channel = channel,
id = id,
token = string.sub(rest, 1, length),
group = string.sub(rest, length + 1),
text = found,
}
each.ticket = kind == 'u' and upgradeTicket or score + shifts[each.band]
return each.ticket <= micros + 86400000000 and each or nil
end
local function edgeOf(band)
return micros - (shifts[band] + shifts[band + 1]) / 2
end
local function lowest(band)
return band > 1 and string.format('%.0f', edgeOf(band - 1)) or '0'
end
local function highest(band)
return band < 3 and string.format('(%.0f', edgeOf(band)) or '+inf'
end
local function read(queue, all, text, score)
local each = entry(queue, text, score)
if each then
local list = all[each.band].list
list[#list + 1] = each
all.of[each.token] = all.of[each.token] or each
else
all.expired[#all.expired + 1] = text
end
end
local function readFront(queue, all, upto)
for i = all.done + 1, upto or #all.front do
all.done = i
read(queue, all, all.front[i], all.scores[i])
end
end
local function queueOf(queue)
local all = queues[queue]
if all then
return all
end
all = { phase = 0, notified = 0, last = 0, of = {}, expired = {}, front = {}, scores = {}, done = 0 }
all.size = call('ZCARD', queue)
all.whole = all.size <= few
local found, band = all.size == 0 and {} or call('ZRANGE', queue, 0, few - 1, 'WITHSCORES'), 1
for n = 1, 3 do
all[n] = { list = {}, more = not all.whole }
end
for i = 1, #found, 2 do
local score = tonumber(found[i + 1])
if score < 0 then
all.size = all.size - 1
if found[i] == 'phase' and -score <= micros then
all.phase = -score
elseif found[i] == 'told' then
all.notified = -score
end
else
while band < 3 and score >= edgeOf(band) do
all[band].more = false
band = band + 1
end
all[band].upto = score
all.front[#all.front + 1] = found[i]
all.scores[#all.front] = score
end
end
if #all.front > 0 then
all[band].low = '(' .. found[#found]
end
queues[queue] = all
if all.whole then
readFront(queue, all)
end
return all
end
local function at(queue, all, band, n)
local part = all[band]
while n > #part.list and all.done < #all.front and (band == 3 or all.scores[all.done + 1] < edgeOf(band)) do
readFront(queue, all, all.done + 1)
end
while n > #part.list and part.more and #all.expired < 2048 do
local count = math.min(chunk, math.max(n, 3))
local low = part.low or lowest(band)
local found = call('ZRANGEBYSCORE', queue, low, highest(band), 'WITHSCORES', 'LIMIT', 0, count)
part.more = #found == 2 * count
for i = 1, #found, 2 do
part.upto = tonumber(found[i + 1])
part.low = '(' .. found[i + 1]
read(queue, all, found[i], part.upto)
end
end
return part.list[n]
end
local function find(queue, all, token, ticket, only)
for i = all.done + 1, #all.front do
if string.find(all.front[i], token, 1, true) then
readFront(queue, all, i)
end
end
local each = all.of[token]
for band = only or 1, (each or all.whole or ticket == 0) and 0 or only or 3 do
local found
if ticket > 0 then
local score = ticket == upgradeTicket and ticket or ticket - shifts[band]
found = call('ZRANGEBYSCORE', queue, score, score, 'WITHSCORES')
else
found = call('ZRANGE', queue, highest(band), '0', 'BYSCORE', 'REV', 'LIMIT', 0, 4 * chunk, 'WITHSCORES')
end
for i = 1, #found, 2 do
local one = string.find(found[i], token, 1, true) and entry(queue, found[i], tonumber(found[i + 1]))
each = one and one.token == token and one or each
end
end
return each
end
local function waiting(all)
return all.size - #all.expired
end
local function newTicket(queue, all, asking)
local last = all.whole and 0 or all.last
for band = 1, 3 do
local list = all[band].list
last = math.max(last, list[#list] and list[#list].ticket or 0)
end
if not all.whole then
local found = call('ZRANGE', queue, highest(asking.band), '0', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
local ticket = (tonumber(found[2]) or 0) + shifts[asking.band]
last = math.max(last, ticket <= micros + 86400000000 and ticket or 0)
end
return math.max(micros, last + 1)
end
local function positionOf(queue, all, asking)
local score = scoreOf(asking, asking.ticket)
if not all.whole then
return call('ZCOUNT', queue, 0, string.format('(%.0f', score))
end
local before = 0
for band = 1, asking.band do
for _, each in ipairs(all[band].list) do
if each.token ~= asking.token and scoreOf(each, each.ticket) < score then
before = before + 1
end
end
end
return before
end
local function insert(queue, all, each)
local part, score = all[each.band], scoreOf(each, each.ticket)
all.last = math.max(all.last, each.ticket)
if part.more and not (part.upto and score <= part.upto) then
return
end
readFront(queue, all)
local n = #part.list + 1
while n > 1 and part.list[n - 1].ticket > each.ticket do
n = n - 1
end
table.insert(part.list, n, each)
all.of[each.token] = each
end
local function leave(queue, all, each)
if each or #all.expired > 0 then
all.size = all.size - call('ZREM', queue, each and each.text or all.expired[1], unpack(all.expired))
all.expired = {}
end
if each then
local list = all[each.band].list
for n = 1, #list do
if list[n] == each then
table.remove(list, n)
break
end
end
all.of[each.token] = nil
end
end
local function isEmpty(queue, all)
if waiting(all) == 0 then
call('DEL', queue)
all.phase, all.notified = 0, 0
return true
end
end`;
const wakePart = `local function nextOf(queue, all, cursor, asking)
local heads = {}
for band = 1, 3 do
local each = at(queue, all, band, cursor[band])
while each and asking and each.token == asking.token do
cursor[band] = cursor[band] + 1
each = at(queue, all, band, cursor[band])
end
if asking and asking.band == band and not cursor.asked and (not each or asking.ticket < each.ticket) then
each = asking
end
heads[band] = each
end
local reader, first, other = heads[1], heads[2], heads[3]
if other and (not first or (other.ticket <= all.phase and other.ticket < first.ticket)) then
first = other
end
local isPassed = reader and first and (first.ticket > reader.ticket or micros - first.ticket <= 500000)
if reader and (not first or isPassed or reader.kind == 'u') then
first = reader
end
if first and first == asking then
cursor.asked = true
elseif first then
cursor[first.band] = cursor[first.band] + 1
end
return first
end
local function roomBeside(held)
local only = held.count == 1 and held.kind ~= 'p' and member(next(held.of)).token or nil
return { count = held.count, kind = held.kind, group = held.group, used = held.used, only = only }
end
local function admits(held, each, limit)
if each.kind == 'p' then
return held.used + each.permits <= limit
elseif each.kind == 'r' then
return held.count == 0 or (held.kind == 'r' and held.group == each.group)
elseif each.kind == 'u' and held.count == 1 and held.only == each.token then
return true
end
return held.count == 0
end
local function isTurnOfReader(queue, all, asking)
local writer = at(queue, all, 2, 1)
if at(queue, all, 1, 1) or (writer and writer.token == asking.token) then
return nil
elseif writer and (asking.ticket > all.phase or asking.ticket > writer.ticket) then
return false
end
local found = call('ZRANGEBYSCORE', queue, lowest(3), string.format('(%.0f', asking.ticket), 'LIMIT', 0, maxNotified)
for i = 1, #found do
local length, start = string.match(found[i], '^2 %d+ %d+ r 1 [wf] %S+ (%d+) ()')
if not length or string.sub(found[i], start + length) ~= asking.group then
return nil
end
end
return #found < maxNotified or nil
end
local function isTurnOf(queue, all, held, asking, total)
local room, cursor = roomBeside(held), { 1, 1, 1 }
if not admits(room, asking, total) then
return false
end
if asking.kind == 'r' and asking.band == 3 then
local isTurn = isTurnOfReader(queue, all, asking)
if isTurn ~= nil then
return isTurn
end
end
for _ = 1, maxNotified do
local each = nextOf(queue, all, cursor, asking)
if not each or not admits(room, each, total) then
return false
elseif each == asking then
return true
end
admit(room, each)
end
return false
end
local function countedHolders(lock, released, total)
local left = total
for i = 1, #released do
left = left - (released[i].kind == 'p' and released[i].permits or total)
end
local count = left > 0 and not locks[lock] and call('ZCOUNT', lock, string.format('(%.0f', now), '+inf')
if count == left then
return { of = {}, kind = 'p', count = count, used = count }
end
end
local function wakeLater(lock, queue, limit, released)
local all, later = queueOf(queue), wakes[lock]
local isFresh = not released or #all.expired > 0 or all.notified > 0
leave(queue, all)
if isEmpty(queue, all) then
return
end
if not later then
later = { lock, queue, limit, {} }
wakes[lock] = later
wakes[#wakes + 1] = later
end
later.isFresh = later.isFresh or isFresh
table.insert(later[4], released)
end
local function wake(lock, queue, limit, released, isFresh)
local all, cursor = queueOf(queue), { 1, 1, 1 }
local total = tonumber(call('GET', limit) or 0) or 0
local held = not isFresh and countedHolders(lock, released, total) or ourHolders(lock)
local room = roomBeside(held)
local before = not isFresh and held.count > 0 and roomBeside(held)
for i = 1, before and #released or 0 do
admit(before, released[i])
end
local ids, channels, last = {}, {}, 0
for n = 1, maxNotified do
local isFull = room.kind == 'p' and room.used >= total
local each = not isFull and nextOf(queue, all, cursor)
if not each or not admits(room, each, total) then
break
end
admit(room, each)
last = n == maxNotified and each.ticket or 0
before = before and #all.expired == 0 and admits(before, each, total) and before
if before then
admit(before, each)
elseif each.channel ~= '-' then
if not ids[each.channel] then
channels[#channels + 1] = each.channel
ids[each.channel] = {}
end
table.insert(ids[each.channel], each.id)
end
end
for i = 1, #channels do
redis.pcall('PUBLISH', channels[i], table.concat(ids[channels[i]], ',') .. ' ' .. lock)
end
leave(queue, all)
if isEmpty(queue, all) then
return
elseif last > 0 then
call('ZADD', queue, string.format('-%.0f', last), 'told')
elseif all.notified > 0 then
call('ZREM', queue, 'told')
end
all.notified = last
end`;
const acquire1Part = `local token, ttl, count, notAfter = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[3])
if ttl ~= checked then
local ms = tonumber(ttl)
if not ms or ms < 1 or ms > 9007199254740991 or not string.find(ttl, '^%d+$') then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
end
checked = ttl
end
if token == '' or not notAfter or not count or count % 1 ~= 0 or count < 0 or count > 1024 then
return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not now then
local time = call('TIME')
micros = time[1] * 1000000 + time[2]
now = math.floor(micros / 1000)
end
if now > notAfter then
return { -1, 0, 0, now }
end
if #KEYS == 3 and count <= 1 and mayCheck and attempt('EXISTS', KEYS[1], KEYS[2]) == 0 then
local fence = 0
if count == 1 then
local last = top or call('GET', KEYS[3]) or '0'
local minFence = (#ARGV == 5 or #ARGV == 6) and tonumber(ARGV[5]) or 0
fence = (top or string.find(last, '^%d+$')) and math.max(last + 1, micros, minFence)
end
if fence and fence <= micros + 86400000000 and mayCheck('PEXPIRE', KEYS[1], ttl) then
if count == 1 then
call('SET', KEYS[3], string.format('%.0f', fence))
top = fence
end
call('SETNX', KEYS[1], token)
call('PEXPIRE', KEYS[1], ttl)
return (fence == micros or count == 0) and micros or { 1, fence, 0, now }
end
end`;
const acquire2Part = `local locks, fence, mayQueue = (#KEYS - 1) / 2, KEYS[#KEYS], #ARGV > 6
local silence = #ARGV > 7 and ARGV[8] or 0
local mark
if mayQueue and #KEYS == 4 then
locks, mayQueue = 1, false
local every, offset = tonumber(ARGV[5]), tonumber(ARGV[6])
if not every or every < 1 or not offset then
return redis.error_reply('ERR expected a slot')
end
local start = math.floor((now - offset) / every) * every + offset
local done = tonumber(call('GET', KEYS[3]) or '')
if done and done >= start and done <= now and call('GET', KEYS[1]) ~= token then
return { -4, 0, 0, now }
end
mark = ARGV[7] == '1' and { string.format('%.0f', start), 'PX', string.format('%.0f', start + every - now) }
end
local free, ours, left, busy, other = {}, {}, 0, false, nil
for i = 1, locks do
local holder = call('GET', KEYS[i])
if not holder then
free[i] = true
else
local ms = call('PTTL', KEYS[i])
if holder ~= token then
busy, other = true, holder
left = (ms < 0 or left < 0) and -1 or math.max(left, ms)
elseif ms >= 0 then
ours[i] = math.max(ms, tonumber(ttl))
end
end
end
local last = not busy and count > 0 and lastFence(fence) or 0
for i = 1, busy and 0 or locks do
local lock, queue = KEYS[i], KEYS[locks + i]
if free[i] and call('ZCARD', queue) > 0 then
local ticket = mayQueue and enqueue(queue, token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7], silence)
local whose, value = grant(lock, fence, queue, mayQueue and token, 0, false)
if whose == 'mine' then
return { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }
elseif mayQueue then
return answer(value, nil, ticket, positionOf(queue, ticket))
elseif whose == 'given' then
busy, left = true, value
break
end
end
end
if busy then
if mayQueue then
return answer(left, other, enqueue(KEYS[2], token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7], silence))
end
local pause = #ARGV == 6 and tonumber(ARGV[6]) or 0
for i = 1, pause > 0 and locks or 0 do
markPoll(KEYS[locks + i], pause)
end
return { 0, left, 0, now }
end
for i = 1, locks do
if free[i] then
mayExpire(KEYS[i], ttl)
end
end
local minFence = (#ARGV == 5 or #ARGV == 6) and checkFence(tonumber(ARGV[5])) or 0
local first = next(free) == nil and count > 0 and last > 0 and last - count + 1 or mint(fence, count, minFence)
if mark then
call('SET', KEYS[3], unpack(mark))
end
for i = 1, locks do
if free[i] then
setLock(KEYS[i], token, ttl)
elseif ours[i] then
call('PEXPIRE', KEYS[i], string.format('%.0f', ours[i]))
end
end
return { 1, first, mayQueue and call('ZCOUNT', KEYS[2], 0, '+inf') or 0, now }`;
const extend1Part = `local lifetime, exact = tonumber(ARGV[2]), ARGV[3] == '1'
if not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then
return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local result, later = 1, {}
for i = 1, #KEYS do
local holder = redis.pcall('GET', KEYS[i])
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
return holder
elseif not holder then
result = math.min(result, 0)
elseif holder ~= ARGV[1] then
result = -1
else
local left = redis.call('PTTL', KEYS[i])
later[i] = exact or (left >= 0 and (lifetime == 0 or left < lifetime))
end
end
if result == 1 and now > tonumber(ARGV[4]) then
result = -2
end
if result == 1 then
for i = 1, #KEYS do
if later[i] and lifetime == 0 then
redis.call('PERSIST', KEYS[i])
elseif later[i] then
redis.call('PEXPIRE', KEYS[i], string.format('%.0f', lifetime))
end
end
end
return { result, now }`;
const raiseFence2Part = `clock()
local minFence = checkFence(tonumber(ARGV[2]))
for i = 1, #KEYS - 1 do
if call('GET', KEYS[i]) ~= ARGV[1] then
return { 0 }
end
end
if lastFence(KEYS[#KEYS]) < minFence then
setFence(KEYS[#KEYS], minFence)
end
return { 1 }`;
const release1Part = `local token, ticket, locks = ARGV[1], ARGV[2], (#KEYS - 1) / 2
local first = attempt('GET', KEYS[1])
local length = attempt('ZCARD', KEYS[locks + 1])
if first == token and length == 0 and locks == 1 and #ARGV == 3 then
call('DEL', KEYS[1])
return 1
end
local reply, hasQueue = {}, false
for i = 1, locks do
local holder = i == 1 and first
if i > 1 then
holder = attempt('GET', KEYS[i])
length = attempt('ZCARD', KEYS[locks + i])
end
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
return holder
end
reply[i] = not holder and 0 or holder == token and 1 or -1
hasQueue = hasQueue or length ~= 0
end
for i = 1, locks do
if reply[i] == 1 then
call('DEL', KEYS[i])
end
end
if not hasQueue and #ARGV == 3 then
return reply
end`;
const release2Part = `local function handOff(lock, queue, status)
clock()
if ticket ~= '0' then
local mine = entriesOf(queue, token, tonumber(ticket))
for i = 1, #mine do
call('ZREM', queue, mine[i])
end
end
local next = #ARGV > 3 and ARGV[4]
local silence = #ARGV > 9 and tonumber(ARGV[10]) or 0
if next then
checkLifetime(ARGV[5])
ticket = enqueue(queue, next, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], silence)
end
local whose, value
if status >= 0 then
whose, value = grant(lock, KEYS[#KEYS], queue, next, tonumber(ARGV[3]), status == 1)
end
if whose == 'mine' then
return { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }
elseif next then
return answer(value or call('PTTL', lock), not whose and first, ticket, positionOf(queue, ticket))
end
end
for i = 1, locks do
local ran, answered = pcall(handOff, KEYS[i], KEYS[locks + i], reply[i])
if #ARGV > 3 then
answered = ran and answered or { 0, 0, 0, 0, 0, 0 }
for n = 1, #answered do
reply[#reply + 1] = answered[n]
end
end
end
return reply`;
const writeValue1Part = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then
return { 0 }
end
if ARGV[4] == '0' then
redis.call('DEL', KEYS[2])
else
redis.call('SET', KEYS[2], ARGV[2], ARGV[3], ARGV[4])
end
if ARGV[5] ~= '' then
redis.pcall('PUBLISH', ARGV[5], ARGV[6])
end
return { 1 }`;

const acquireSharedScript = {
  name: 'acquireShared',
};

/**
 * become a holder of a lock if its other holders and its queue leave room; or be queued; or change in place.
 *
 * @param lock sorted set: one member for each holder
 * @param fence string: the last fence minted for any lock
 * @param queue sorted set: the queue of the lock
 * @param limit string: the number of permits of the lock
 * @param token the caller's token; a member with it is ours, and this is a resend
 * @param lifetime ms until our member ends by itself
 * @param notAfter server time in ms after which this request must change nothing
 * @param fences the number of fences to mint; more than 1 for permits that are handed off; 0: none
 * @param kind r reader, w writer, p permits
 * @param prefer w writers first, r readers first, f in order of arrival
 * @param permits the number of permits wanted
 * @param total the number of permits of the lock
 * @param step 0: a new holder; otherwise the number of this change in place: r downgrades, w upgrades
 * @param group readers of one group share; for permits on a quorum: the places that are wanted: ",0,3,"
 * @param place for a caller to be queued when there is no room: channel, id, ticket (0: none yet, -1: perhaps one), ms of silence after which its entry expires (0: by its position); on a node of a quorum (channel: empty if the caller is not to be queued) also the token of the entry, which stays the same while each attempt has a token of its own, and the minimum fence; for a reader that has shared a member: only that member, beside which there is room for the reader's own
 * @returns the call; its reply: [1 granted, fence, number of others queued, server time in ms | 0 no room, ms until there may be room (-1: unknown), ticket, server time, position, 0 | -1 too late, 0, 0, server time | -2 another reader is upgrading, 0, 0, server time | -3 the holder that should change is gone, 0, 0, server time]
 */
export function acquireShared(
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
  total: string | number,
  step: string | number,
  group: string | number,
  place: readonly string[],
): BatchableCall {
  return {
    script: acquireSharedScript,
    keys: [lock, fence, queue, limit],
    args: [
      String(token),
      String(lifetime),
      String(notAfter),
      String(fences),
      String(kind),
      String(prefer),
      String(permits),
      String(total),
      String(step),
      String(group),
      ...place,
    ],
  };
}

const acquireScript: Script = {
  name: 'acquire',
  sha: 'fc26212e1e45f312b4da4b76df9d7472fe9b817a',
  lua:
    clockPart +
    `
` +
    acquire1Part +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
` +
    acquire2Part,
};

/**
 * take every lock or none, for one lifetime, under one fence; or be queued. For a job that runs once a slot: unless the job has run in the current slot of this clock.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock in the same place; for a job (one lock), after it the mark, a string: the start, in ms of the epoch, of the slot whose job has run; the key ends with that slot
 * @param fence string: the last fence minted for any lock
 * @param token the caller's token; a lock that holds it already is ours, and this is a resend
 * @param lifetime ms until the server frees the locks by itself
 * @param notAfter server time in ms after which this request must change nothing
 * @param fences the number of fences to mint: 0 none; more than 1 for a queue that hands the lock off by itself
 * @param place for a process to be queued when the lock is busy (one lock): channel, id, ticket (minus the server time in µs since when it may be queued: not known), and optionally the ms of silence after which its entry expires (default: by its position); for others: the minimum fence (0: any), and then, for a polling caller, the ms until its next request; for a job: the length of a slot in ms, the start of any slot in ms of the epoch, and 1 if the slot counts as done from now on (0: a later write-value says so)
 * @returns the call; its reply: the fence, if it is the server's time in µs, of a single lock that was free | [1 granted, first fence, number of others queued, server time in ms | 0 busy, ms left to the holders (-1: no end), ticket, server time; for a queued process also its position, and 1 if the holder's release wakes nobody | -1 too late, 0, 0, server time | -4 the job has run, 0, 0, server time]
 */
export function acquire(
  lock: readonly string[],
  queue: readonly string[],
  fence: string,
  token: string | number,
  lifetime: string | number,
  notAfter: string | number,
  fences: string | number,
  place: readonly string[],
): ScriptCall {
  return {
    script: acquireScript,
    keys: [...lock, ...queue, fence],
    args: [String(token), String(lifetime), String(notAfter), String(fences), ...place],
  };
}

const batchSharedScript: Script = {
  name: 'batchShared',
  sha: '77baaafe9d3a40756a3732c73541bba42c4ea898',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    holdersPart +
    `
` +
    waitersPart +
    `
` +
    wakePart +
    `
local scripts = {
acquireShared = function(k, a, kn, an)
local token, fences, kind, prefer, group = ARGV[a+1], ARGV[a+4] ~= '0', ARGV[a+5], ARGV[a+6], ARGV[a+10]
local notAfter, permits, total, step = tonumber(ARGV[a+3]), tonumber(ARGV[a+7]), tonumber(ARGV[a+8]), tonumber(ARGV[a+9])
local mayQueue = an > 11 and ARGV[a+11] ~= ''
local queuedAs, minFence = token, 0
if an > 14 then
queuedAs, minFence = ARGV[a+15], tonumber(ARGV[a+16])
end
checkLifetime(ARGV[a+2])
local ttl = tonumber(ARGV[a+2])
local fixed = permits and total and step and permits >= 1 and permits % 1 == 0 and string.find('rwp', kind, 1, true)
if token == '' or not notAfter or not fixed then
return redis.error_reply('ERR expected a token, a time, a kind, permits and a step')
end
clock()
if now > notAfter then
return { -1, 0, 0, now }
end
checkFence(minFence)
local lock, fence, queue, limit = KEYS[k+1], KEYS[k+2], KEYS[k+3], KEYS[k+4]
local all = queueOf(queue)
local upgrade = step > 0 and kind == 'w'
local band = bandOf(upgrade and 'u' or kind, prefer)
local ticket = mayQueue and tonumber(ARGV[a+13]) or 0
local queued = find(queue, all, queuedAs, ticket, band)
ticket = ticket > shifts[1] and ticket <= micros + 86400000000 and ticket or 0
local others = waiting(all) - (queued and 1 or 0)
local asking = { kind = upgrade and 'u' or kind, permits = permits, prefer = prefer, token = queuedAs, group = group }
asking.band = band
asking.ticket = upgrade and upgradeTicket or queued and queued.kind ~= 'u' and queued.ticket or ticket
if asking.ticket == 0 then
asking.ticket = newTicket(queue, all, asking)
end
local granted, mine, held, seen, known = false, nil, nil, nil, 0
local function ourReader(shared)
local each = member(text('r', 1, 0, fences and shared or 0, token, group))
each.ends = tonumber(call('ZSCORE', lock, each.text))
return each.ends and each.ends > now and each
end
local isChanged = step > 0 or (kind ~= 'p' and call('GET', limit) == token)
if kind ~= 'p' and not isChanged and #all.expired == 0 and (not queued or queued.kind == kind) then
held, seen = lastHolder(lock, token, group, fences)
granted = held and isTurnOf(queue, all, held, asking, total)
if held and not granted and held.kind == 'r' and ourReader(held.fence) then
held = nil
end
end
mayExpire(lock, ARGV[a+2])
local ends = now + ttl
local score = string.format('%.0f', ends)
if not held then
local everybody = ourHolders(lock, isChanged, seen)
if kind == 'r' and fences and everybody.fence == 0 then
everybody = ourHolders(lock, true)
end
mine = holderOf(everybody, token)
held = without(everybody, mine)
if not mine and not everybody.whole and kind == 'r' then
mine = ourReader(everybody.fence)
end
if step > 0 and not mine then
return { -3, 0, 0, now }
elseif step > 0 and mine.step > step then
return { -1, 0, 0, now }
end
if everybody.kind and (everybody.kind == 'p') ~= (kind == 'p') then
return redis.error_reply('WRONGTYPE this key is ' .. (kind == 'p' and 'a readers-writer lock' or 'a semaphore'))
end
known = kind == 'p' and tonumber(call('GET', limit) or 0) or 0
local isKnown = everybody.count > 0
if known ~= 0 and known ~= total and not isKnown then
at(queue, all, 3, 1)
for i = 1, #all[3].list do
isKnown = isKnown or all[3].list[i].kind == 'p'
end
end
if isKnown and known ~= 0 and known ~= total then
return redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f', known, total))
end
local first = upgrade and mine.step < step and at(queue, all, 1, 1)
if first and first.kind == 'u' and first.token ~= token then
return { -2, 0, 0, now }
end
ends = math.max(ends, mine and mine.ends or 0)
score = ends == math.huge and '+inf' or string.format('%.0f', ends)
if mine and (step == 0 or mine.step == step) then
call('ZADD', lock, score, mine.text)
everybody.of[mine.text] = ends
leave(queue, all, queued)
setEnd(lock)
return { 1, mine.fence, others, now }
end
if step > 0 and kind == 'r' then
locks[lock] = nil
call('ZREM', lock, mine.text)
call('ZADD', lock, score, text('r', 1, step, mine.fence, token, mine.group))
call('SET', limit, token, 'PX', 60000)
leave(queue, all, queued)
setEnd(lock)
wakeLater(lock, queue, limit)
return { 1, mine.fence, others, now }
end
granted = held.count == 0
if not upgrade then
granted = not (kind == 'p' and sharesPlace(held, group)) and isTurnOf(queue, all, held, asking, total)
end
end
if not granted and an == 11 and string.find(ARGV[a+11], '^1 r') then
local shared = tonumber(call('ZSCORE', lock, ARGV[a+11]))
granted = shared and shared > now
end
if granted then
local minted = fences and kind == 'r' and held.fence or 0
if fences and minted == 0 then
minted = mint(fence, kind == 'p' and tonumber(ARGV[a+4]) or 1, minFence)
end
local new = member(text(kind, permits, step, minted, token, group))
call('ZADD', lock, 'GT', score, new.text)
if mine then
call('ZREM', lock, mine.text)
locks[lock] = nil
elseif locks[lock] then
enter(locks[lock], new, ends)
end
local last = setEnd(lock)
purge(lock, new.text)
if kind == 'p' then
last = last or call('PTTL', lock)
call('SET', limit, ARGV[a+8], 'PX', string.format('%.0f', math.max(last, 0) + 3600000))
if last < 0 then
call('PERSIST', limit)
end
end
local hasExpired = #all.expired > 0
local isLastNotified = queued and all.notified > 0 and queued.ticket >= all.notified
leave(queue, all, queued)
if kind == 'w' and others > 0 then
call('ZREMRANGEBYSCORE', queue, '-inf', '(0')
call('ZADD', queue, string.format('-%.0f', micros), 'phase')
all.phase, all.notified = micros, 0
elseif queued or hasExpired then
isEmpty(queue, all)
end
if hasExpired or isLastNotified then
wakeLater(lock, queue, limit)
end
return { 1, minted, others, now }
end
local left = 0
for _, each in pairs(held.of) do
if left == 0 or (kind == 'p') == (each - now < left) then
left = each - now
end
end
if left == math.huge then
left = -1
end
if not mayQueue then
return { 0, left, asking.ticket, now, 0, 0 }
end
local isNew = not queued and ticket == 0 and band == 3
local before = isNew and others or positionOf(queue, all, asking)
local silence = tonumber(ARGV[a+14])
if silence == 0 then
silence = 2 * math.min(math.max(1000, 125 * (before + 1)), 2000)
end
asking.channel, asking.id = ARGV[a+11], ARGV[a+12]
asking.text = string.format(
'2 %.0f %s %s %.0f %s %s %d ',
now + math.min(silence, maxSilence),
asking.id,
asking.kind,
permits,
prefer,
asking.channel,
#queuedAs
) .. queuedAs .. group
all.size = all.size + call('ZADD', queue, string.format('%.0f', scoreOf(asking, asking.ticket)), asking.text)
call('PEXPIRE', queue, maxSilence)
if kind == 'p' and known == 0 then
call('SET', limit, ARGV[a+8], 'PX', 3600000)
end
if queued and queued.text == asking.text then
queued.text = ''
end
local hasExpired = #all.expired > 0
leave(queue, all, queued)
insert(queue, all, asking)
if hasExpired then
wakeLater(lock, queue, limit)
end
return { 0, left, asking.ticket, now, before, 0 }
end,
extendShared = function(k, a, kn, an)
local lifetime, exact, notAfter = tonumber(ARGV[a+3]), ARGV[a+4] == '1', tonumber(ARGV[a+5])
if not notAfter or not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then
return redis.error_reply('ERR expected a time, and a lifetime in whole milliseconds, at least 0')
end
clock()
local lock, mine, ends = KEYS[k+1], ARGV[a+2], nil
ends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil
if not ends or ends <= now then
local held = holders(lock, true)
local found = holderOf(held, ARGV[a+1])
if not found then
return { held.count > 0 and (held.kind == 'w' or string.find(mine, '^1 w')) and -1 or 0, now }
end
mine, ends = found.text, found.ends
end
if an > 5 and string.sub(mine, 3, 3) ~= ARGV[a+6] then
return { 0, now }
end
if now > notAfter then
return { -2, now }
end
local wanted = lifetime == 0 and math.huge or now + lifetime
if exact or wanted > ends then
locks[lock] = nil
purge(lock, mine)
call('ZADD', lock, wanted == math.huge and '+inf' or string.format('%.0f', wanted), mine)
setEnd(lock)
if string.find(mine, '^1 p') then
local kept = call('PTTL', lock)
if kept < 0 then
call('PERSIST', KEYS[k+2])
else
call('PEXPIRE', KEYS[k+2], string.format('%.0f', kept + 3600000))
end
end
end
return { 1, now }
end,
releaseShared = function(k, a, kn, an)
clock()
local lock, queue, mine = KEYS[k+1], KEYS[k+2], ARGV[a+2]
local ends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil
local reply = 1
if not ends then
local held = holders(lock, true)
local found = holderOf(held, ARGV[a+1])
if found then
mine, ends = found.text, found.ends
else
reply = held.count > 0 and (held.kind == 'w' or string.find(mine, '^1 w')) and -1 or 0
end
elseif ends <= now then
reply = 0
end
if ends then
call('ZREM', lock, mine)
forget(lock, ARGV[a+1])
if ends == math.huge then
setEnd(lock)
end
end
if ends and string.find(mine, '^1 r 1 [1-9]') and call('GET', KEYS[k+3]) == ARGV[a+1] then
call('DEL', KEYS[k+3])
end
local function others()
if ARGV[a+3] ~= '0' then
local all = queueOf(queue)
leave(queue, all, find(queue, all, ARGV[a+1], tonumber(ARGV[a+3])))
elseif reply == 1 and string.find(mine, '^1 r') and call('ZCOUNT', lock, string.format('(%.0f', now), '+inf') > 1 then
return
end
if call('ZCARD', queue) > 0 then
wakeLater(lock, queue, KEYS[k+3], reply == 1 and ARGV[a+3] == '0' and member(mine) or nil)
end
end
pcall(others)
return { reply }
end,
countPermits = function(k, a, kn, an)
clock()
return { ourHolders(KEYS[k+1], true).used }
end,
raiseFenceShared = function(k, a, kn, an)
clock()
local minFence = checkFence(tonumber(ARGV[a+2]))
local lock, mine = KEYS[k+1], holderOf(ourHolders(KEYS[k+1], true), ARGV[a+1])
if not mine then
return { 0 }
end
if lastFence(KEYS[k+2]) < minFence then
setFence(KEYS[k+2], minFence)
end
if mine.kind == 'w' and mine.fence < minFence then
local ends = mine.ends == math.huge and '+inf' or string.format('%.0f', mine.ends)
call('ZADD', lock, ends, text(mine.kind, mine.permits, mine.step, minFence, mine.token, mine.group))
call('ZREM', lock, mine.text)
locks[lock] = nil
end
return { 1 }
end,
freeShared = function(k, a, kn, an)
clock()
local lock, queue, id, count = KEYS[k+1], KEYS[k+2], ARGV[a+1], 0
for text in pairs(ourHolders(lock, true).of) do
local token = member(text).token
local hash = redis.sha1hex(token)
if string.sub(hash, 1, #id) == id then
call('ZREM', lock, text)
forget(lock, token)
attempt('PUBLISH', ARGV[a+2], '!' .. hash .. ' ' .. lock)
if string.find(text, '^1 r 1 [1-9]') then
call('DEL', KEYS[k+3])
end
count = count + 1
end
end
if count > 0 then
setEnd(lock)
pcall(function()
if call('ZCARD', queue) > 0 then
wakeLater(lock, queue, KEYS[k+3])
end
end)
end
return { count }
end,
}
` +
    replyPart +
    `
` +
    dispatchPart +
    `
for i = 1, #wakes do
local each = wakes[i]
pcall(wake, each[1], each[2], each[3], each[4], each.isFresh)
end
return reply`,
};

/**
 * run calls with a mode, as batch does. A single call is a batch of one.
 *
 * @param key the keys of all calls, one after the other
 * @param part for each call: its script, its number of keys and its number of arguments, in one text; then its arguments
 * @returns the call; its reply: [for each call its number of integers, then these integers; or -1 and the text of its error]
 */
export function batchShared(key: readonly string[], part: readonly string[]): ScriptCall {
  return { script: batchSharedScript, keys: key, args: part };
}

const batchScript: Script = {
  name: 'batch',
  sha: 'e521234d73579d20ba10e3c9110b0f262d0a8007',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
local scripts = {
acquire = function(k, a, kn, an)
` +
    inBatch(acquire1Part) +
    `
` +
    inBatch(acquire2Part) +
    `
end,
extend = function(k, a, kn, an)
` +
    inBatch(extend1Part) +
    `
end,
release = function(k, a, kn, an)
` +
    inBatch(release1Part) +
    `
` +
    inBatch(release2Part) +
    `
end,
raiseFence = function(k, a, kn, an)
` +
    inBatch(raiseFence2Part) +
    `
end,
writeValue = function(k, a, kn, an)
` +
    inBatch(writeValue1Part) +
    `
end,
}
` +
    replyPart +
    `
` +
    dispatchPart +
    `
return reply`,
};

/**
 * run several calls in the order given, each on its own keys, arguments and fate.
 *
 * @param key the keys of all calls, one after the other
 * @param part for each call: its script, its number of keys and its number of arguments, in one text; then its arguments
 * @returns the call; its reply: [for each call its number of integers, then these integers; or -1 and the text of its error]
 */
export function batch(key: readonly string[], part: readonly string[]): ScriptCall {
  return { script: batchScript, keys: key, args: part };
}

const countPermitsScript = {
  name: 'countPermits',
};

/**
 * the number of permits of a semaphore that are held. Changes nothing.
 *
 * @param lock sorted set: one member for each holder
 * @returns the call; its reply: [the number]
 */
export function countPermits(lock: string): BatchableCall {
  return { script: countPermitsScript, keys: [lock], args: [] };
}

const extendSharedScript = {
  name: 'extendShared',
};

/**
 * move the end of a holder that is still there. Never makes a holder, never touches another one.
 *
 * @param lock sorted set: one member for each holder
 * @param limit string: the number of permits of the lock
 * @param token the holder's token
 * @param known the holder's member, as the holder knows it; if it is not there, the member is searched for by token
 * @param lifetime ms from now until the holder's end; 0: no end
 * @param exact 1: set this end; 0: only move the end later (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the lock ends for the holder
 * @param as for a writer on a quorum: w; a holder of another kind counts as gone
 * @returns the call; its reply: [1 extended | 0 gone | -1 lost: others hold the lock, beside whom this holder cannot be | -2 too late: nothing was changed, server time in ms]
 */
export function extendShared(
  lock: string,
  limit: string,
  token: string | number,
  known: string | number,
  lifetime: string | number,
  exact: string | number,
  notAfter: string | number,
  as: readonly string[],
): BatchableCall {
  return {
    script: extendSharedScript,
    keys: [lock, limit],
    args: [String(token), String(known), String(lifetime), String(exact), String(notAfter), ...as],
  };
}

const extendScript: Script = {
  name: 'extend',
  sha: 'ce78964c436c87bd6bb81e99f98b867a1d10124d',
  lua: extend1Part,
};

/**
 * move the end of locks that are still ours. Never makes a key, never touches the lock of another token.
 *
 * @param lock string: the holder's token
 * @param token the token that acquired the locks
 * @param lifetime ms from now until the server frees the locks; 0: no end
 * @param exact 1: set this end; 0: only move the end later (a renewal must not undo an extension)
 * @param notAfter server time in ms at which the locks end for the holder
 * @returns the call; its reply: [1 extended | 0 gone | -1 held by another token | -2 too late: nothing was changed, server time in ms]
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

const freeSharedScript = {
  name: 'freeShared',
};

/**
 * for an operator, take a lock with a mode away from one of its holders, or from all, and wake its queue.
 *
 * @param lock sorted set: one member for each holder
 * @param queue sorted set: the queue of the lock
 * @param limit string: the number of permits of the lock
 * @param id the first characters of the SHA-1 of the holder's token; '': all holders
 * @param channel the channel on which a holder hears that it lost the lock
 * @returns the call; its reply: [the number of holders that lost the lock]
 */
export function freeShared(
  lock: string,
  queue: string,
  limit: string,
  id: string | number,
  channel: string | number,
): BatchableCall {
  return { script: freeSharedScript, keys: [lock, queue, limit], args: [String(id), String(channel)] };
}

const freeScript: Script = {
  name: 'free',
  sha: '2ee07beeba2e56a2d39c7a07153e950d508e090f',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
local scripts = {
release = function(k, a, kn, an)
` +
    inBatch(release1Part) +
    `
` +
    inBatch(release2Part) +
    `
end,
}
local holder = attempt('GET', KEYS[1])
if type(holder) == 'table' then
return string.find(holder.err, 'WRONGTYPE', 1, true) and { -1 } or holder
end
local hash = holder and redis.sha1hex(holder)
if not hash or string.sub(hash, 1, #ARGV[1]) ~= ARGV[1] then
return { 0 }
end
attempt('ZREM', KEYS[2], 'passes')
attempt('PUBLISH', ARGV[2], '!' .. hash .. ' ' .. KEYS[1])
ARGV = { holder, '0', '0' }
scripts.release(0, 0, 3, 3)
return { 1 }`,
};

/**
 * for an operator, take a lock away from its holder: its release, without a window for callers outside the queue.
 *
 * @param key the keys of a release: the lock, its queue, and the fence counter
 * @param id the first characters of the SHA-1 of the holder's token; '': any holder
 * @param channel the channel on which the holder hears that it lost the lock
 * @returns the call; its reply: [1 freed | 0 not held, or held by another: nothing was changed | -1 the lock has a mode: nothing was changed]
 */
export function free(key: readonly string[], id: string | number, channel: string | number): ScriptCall {
  return { script: freeScript, keys: key, args: [String(id), String(channel)] };
}

const inspectScript: Script = {
  name: 'inspect',
  sha: '8c33123a57a540234464e876941a51c948eb06e9',
  lua: `local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local function shared(lock)
local first = redis.pcall('ZRANGE', lock, 0, 15)
if first.err then
return nil, first.err
end
local last = redis.call('ZRANGE', lock, -1, -1, 'WITHSCORES')
first[#first + 1] = last[1]
for i = 1, #first do
if not string.find(first[i], '^1 [rwp] %d+ %d+ %d+ %d+ .') then
return nil, 'FOREIGN this sorted set has a member that is not of redis-exp-lock'
end
end
local kind, length, rest = string.match(last[1], '^1 ([rwp]) %d+ %d+ %d+ (%d+) (.*)$')
if tonumber(last[2]) <= now then
return { false, -2, 0, kind, {} }
end
local held = redis.call('ZRANGEBYSCORE', lock, string.format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local left = last[2] == 'inf' and -1 or tonumber(last[2]) - now
return { string.sub(rest, 1, tonumber(length)), left, 0, kind, held }
end
local locks = (#KEYS - 1) / 2
local reply = { micros, redis.call('GET', KEYS[#KEYS]) }
local shown = 0
for i = 1, locks do
local holder = redis.pcall('GETRANGE', KEYS[i], 0, 4095)
local left = redis.call('PTTL', KEYS[i])
if type(holder) == 'table' then
holder = redis.pcall('GET', KEYS[i])
elseif left == -2 then
holder = false
end
local state, refusal
if type(holder) == 'table' then
state, refusal = shared(KEYS[i])
refusal = refusal and (string.find(refusal, '^FOREIGN') and refusal or holder.err)
else
state = { holder, left, 0, 'm', {} }
end
if state then
state[3] = redis.call('ZCOUNT', KEYS[locks + i], 0, '+inf')
state[6] = state[3] == 0 and {}
or redis.call('ZRANGEBYSCORE', KEYS[locks + i], 0, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
end
reply[i + 2] = state or refusal
shown = shown + (state and #state[5] + #state[6] or 0)
if shown > 4096 then
break
end
end
return reply`,
};

/**
 * the state of locks in Redis. Changes nothing.
 *
 * @param lock string: the holder's token; or a sorted set of its holders
 * @param queue sorted set: the queue of the lock in the same place
 * @param fence string: the last fence minted for any lock
 * @param maxListed the maximum number of holders, and of queue entries, of each lock that are listed individually
 * @returns the call; its reply: [server time in µs, last fence or nil, then, for each of the first locks (for all of them if they are not very long), the text of an error, or a list: token or nil, ms left (-1 no end, -2 free), number of queued entries, m for a mutex or the kind of its holders r, w, p, [holder, its end, …], [queue entry, its score, …]]
 */
export function inspect(
  lock: readonly string[],
  queue: readonly string[],
  fence: string,
  maxListed: string | number,
): ScriptCall {
  return { script: inspectScript, keys: [...lock, ...queue, fence], args: [String(maxListed)] };
}

const plainScript: Script = {
  name: 'plain',
  sha: '885d1ecfc1f3993e835266d03a3be2f4b53a3ead',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
local scripts = {
acquire = function(k, a, kn, an)
` +
    inBatch(acquire1Part) +
    `
` +
    inBatch(acquire2Part) +
    `
end,
extend = function(k, a, kn, an)
` +
    inBatch(extend1Part) +
    `
end,
release = function(k, a, kn, an)
` +
    inBatch(release1Part) +
    `
` +
    inBatch(release2Part) +
    `
end,
}
` +
    replyPart +
    `
local names, words = KEYS, ARGV
local renewals, releases, later, window = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local ttl, notAfter, count = ARGV[5], ARGV[6], tonumber(ARGV[7])
local known, fence, t = renewals + releases, KEYS[#KEYS], 7 + renewals
local acquires, a = (#KEYS - 1 - known - releases) / 2, known + releases
local minFences = #words > t + known + acquires and t + known + acquires
local ours, queued, usual, n = {}, 0, {}, 0
local held = known > 0 and call('MGET', unpack(names, 1, known))
if acquires + renewals > 0 then
clock()
end
local mayRenew = mayCheck and renewals > 0 and isLifetime(later)
for i = 1, renewals do
usual[i] = mayRenew and held[i] == words[7 + i] and now <= tonumber(words[t + i])
end
if releases > 0 then
queued = call('EXISTS', unpack(names, known + 1, a))
for i = renewals + 1, known do
if held[i] == words[t + i] and (queued == 0 or call('EXISTS', names[releases + i]) == 0) then
n = n + 1
ours[n], usual[i] = names[i], true
end
end
end
local first, areUsual = 0, false
if acquires > 0 then
queued = call('EXISTS', unpack(names, a + acquires + 1, a + 2 * acquires))
local last = count == 1 and call('GET', fence) or '0'
areUsual = now <= tonumber(notAfter) and isLifetime(ttl)
areUsual = areUsual and string.find(last, '^%d+$') and tonumber(last) <= micros + 86400000000
if areUsual and count == 1 then
first = math.max(last + 1, micros)
last = first + acquires - 1
for i = 1, minFences and acquires or 0 do
local minFence = tonumber(words[minFences + i])
areUsual = areUsual and minFence and minFence <= micros + 86400000000
last = math.max(i == 1 and first or last + 1, minFence or 0)
first = i == 1 and last or first
end
areUsual = areUsual and not attempt('SET', fence, string.format('%.0f', last)).err
end
end
reply, size = { known + acquires, first, now or 0 }, 3
local function runAlone(n, script, keys, ...)
KEYS, ARGV = keys, { ... }
reply[1], reply[size + 1] = reply[1] - 1, n
size = size + 1
append(pcall(scripts[script], 0, 0, #KEYS, #ARGV))
end
local function acquireAll()
for i = 1, acquires do
local lock, queue, token = names[a + i], names[a + acquires + i], words[t + known + i]
local isFree = areUsual and (queued == 0 or call('EXISTS', queue) == 0)
if not isFree or not call('SET', lock, token, 'NX', 'PX', ttl) then
local minFence = minFences and words[minFences + i] or nil
runAlone(known + i, 'acquire', { lock, queue, fence }, token, ttl, notAfter, words[7], minFence)
end
end
end
if not areUsual then
acquireAll()
end
for i = 1, renewals do
if not usual[i] or type(attempt('PEXPIRE', names[i], later, 'GT')) == 'table' then
runAlone(i, 'extend', { names[i] }, words[7 + i], later, '0', words[t + i])
end
end
local deleted = n > 0 and attempt('DEL', unpack(ours))
for i = renewals + 1, known do
if type(deleted) == 'table' or not usual[i] then
runAlone(i, 'release', { names[i], names[releases + i], fence }, words[t + i], '0', window)
end
end
if areUsual then
acquireAll()
end
return reply`,
};

/**
 * renew locks, release locks, then acquire locks, each by itself and all on equal terms, as nearly all calls of a tick are.
 *
 * @param key the locks to renew; the locks to release, then their queues; the locks to acquire, then their queues
 * @param fence string: the last fence minted for any lock
 * @param renewals the number of locks to renew
 * @param releases the number of locks to release
 * @param later ms from now until the server frees the renewed locks; a lock that lasts longer already stays as it is
 * @param window ms for which the released locks yield, when it is the turn of callers outside the queue
 * @param lifetime ms until the server frees the acquired locks by itself
 * @param notAfter server time in ms after which the acquires must change nothing
 * @param fences 1: mint a fence for each; 0: none
 * @param token the tokens of the locks to renew, then the notAfter of each; the tokens of the locks to release, none of which is also acquired here; the tokens of the locks to acquire, then optionally the minimum fence of each
 * @returns the call; its reply: [number of calls that went as usual, first fence of the acquires or 0, server time in ms or 0; for each other call its position, then its number of integers and these integers, or -1 and the text of its error]
 */
export function plain(
  key: readonly string[],
  fence: string,
  renewals: string | number,
  releases: string | number,
  later: string | number,
  window: string | number,
  lifetime: string | number,
  notAfter: string | number,
  fences: string | number,
  token: readonly string[],
): ScriptCall {
  return {
    script: plainScript,
    keys: [...key, fence],
    args: [
      String(renewals),
      String(releases),
      String(later),
      String(window),
      String(lifetime),
      String(notAfter),
      String(fences),
      ...token,
    ],
  };
}

const processesScript: Script = {
  name: 'processes',
  sha: 'e7ccb5c9327850f6ba65650ed6043e6917f5d1cf',
  lua: `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
table.insert(ids, 1, now)
return ids`,
};

/**
 * the processes that have a record. Changes nothing.
 *
 * @param processes sorted set: the ids of processes, each with the server time in ms at which its entry expires
 * @returns the call; its reply: [server time in ms, then the ids]
 */
export function processes(processes: string): ScriptCall {
  return { script: processesScript, keys: [processes], args: [] };
}

const raiseFenceSharedScript = {
  name: 'raiseFenceShared',
};

/**
 * as raise-fence, for a lock with a mode, while the token is one of its holders. Also raises a writer's own fence, which readers share after its downgrade; but not a reader's own: its resent request finds its member by the fence.
 *
 * @param lock sorted set: one member for each holder
 * @param fence string: the last fence minted for any lock
 * @param token the holder's token
 * @param minFence the fence that every later one must exceed
 * @returns the call; its reply: [1 the last fence is at least `minFence` | 0 the token holds nothing: nothing was changed]
 */
export function raiseFenceShared(
  lock: string,
  fence: string,
  token: string | number,
  minFence: string | number,
): BatchableCall {
  return { script: raiseFenceSharedScript, keys: [lock, fence], args: [String(token), String(minFence)] };
}

const raiseFenceScript: Script = {
  name: 'raiseFence',
  sha: '59b024f3147bdce4db69be4b0cac8fae79ef858e',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    raiseFence2Part,
};

/**
 * raise the last fence to at least `minFence`, while locks are still ours. For a node of a quorum.
 *
 * @param lock string: the holder's token
 * @param fence string: the last fence minted for any lock
 * @param token the token that acquired the locks
 * @param minFence the fence that every later one must exceed
 * @returns the call; its reply: [1 the last fence is at least `minFence` | 0 not all locks are ours: nothing was changed]
 */
export function raiseFence(
  lock: readonly string[],
  fence: string,
  token: string | number,
  minFence: string | number,
): ScriptCall {
  return { script: raiseFenceScript, keys: [...lock, fence], args: [String(token), String(minFence)] };
}

const readHolderScript: Script = {
  name: 'readHolder',
  sha: 'd7731b34f083a5e65af2a959e322f24e13031cd7',
  lua: "return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) }",
};

/**
 * the holder of a lock, and the value beside it. Changes nothing.
 *
 * @param lock string: the holder's token
 * @param value string: the value beside the lock
 * @returns the call; its reply: [token or nil, ms left (-1 no end, -2 free), text or nil]
 */
export function readHolder(lock: string, value: string): ScriptCall {
  return { script: readHolderScript, keys: [lock, value], args: [] };
}

const readPlacesScript: Script = {
  name: 'readPlaces',
  sha: 'ad746a40f0224b18af14c23011b2ab668c2128af',
  lua:
    clockPart +
    `
` +
    mintPart +
    `
` +
    holdersPart +
    `
clock()
local places = {}
for text in pairs(ourHolders(KEYS[1], true).of) do
places[#places + 1] = member(text).group
end
return places`,
};

/**
 * the places of a semaphore on a quorum that are taken at this node. Changes nothing.
 *
 * @param lock sorted set: one member for each holder
 * @returns the call; its reply: [for each holder its places: ",0,3,"]
 */
export function readPlaces(lock: string): ScriptCall {
  return { script: readPlacesScript, keys: [lock], args: [] };
}

const readValueScript: Script = {
  name: 'readValue',
  sha: 'd3c21d0c2b9ca22f82737626a27bcaf5d288f99f',
  lua: "return redis.call('GET', KEYS[1])",
};

/**
 * the text at a key: a value beside a lock, or the record of a process. Changes nothing.
 *
 * @param value string
 * @returns the call; its reply: the text, or nil
 */
export function readValue(value: string): ScriptCall {
  return { script: readValueScript, keys: [value], args: [] };
}

const registerProcessScript: Script = {
  name: 'registerProcess',
  sha: 'f3efc2db38704cace5e40df35acd6834dedb3a39',
  lua: `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] == '0' then
redis.call('ZREM', KEYS[1], ARGV[1])
else
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if ARGV[3] ~= '' then
redis.pcall('PUBLISH', ARGV[3], ARGV[1])
end
return { 1 }`,
};

/**
 * add a process with a record to the list of processes, or take it off the list.
 *
 * @param processes sorted set: the ids of processes, each with the server time in ms at which its entry expires
 * @param id the id of the process
 * @param ttl ms after which the entry expires; 0: now
 * @param channel the channel on which a change is published; '': nothing changed
 * @returns the call; its reply: [1]
 */
export function registerProcess(
  processes: string,
  id: string | number,
  ttl: string | number,
  channel: string | number,
): ScriptCall {
  return { script: registerProcessScript, keys: [processes], args: [String(id), String(ttl), String(channel)] };
}

const releaseSharedScript = {
  name: 'releaseShared',
};

/**
 * remove a holder of a lock, or leave its queue, and notify the waiters that can then be admitted.
 *
 * @param lock sorted set: one member for each holder
 * @param queue sorted set: the queue of the lock
 * @param limit string: the number of permits of the lock
 * @param token the holder's token
 * @param known the holder's member, as the holder knows it; if it is not there, the member is searched for by token
 * @param ticket the ticket of the token in the queue, which it then leaves too; 0: not queued
 * @returns the call; its reply: [1 released | 0 gone | -1 lost: others hold the lock, beside whom this holder cannot be]
 */
export function releaseShared(
  lock: string,
  queue: string,
  limit: string,
  token: string | number,
  known: string | number,
  ticket: string | number,
): BatchableCall {
  return {
    script: releaseSharedScript,
    keys: [lock, queue, limit],
    args: [String(token), String(known), String(ticket)],
  };
}

const releaseScript: Script = {
  name: 'release',
  sha: '20b5b90a248123fc1140bc0a1e3fb6ed467e67bc',
  lua:
    clockPart +
    `
` +
    release1Part +
    `
` +
    mintPart +
    `
` +
    queuePart +
    `
` +
    release2Part,
};

/**
 * release locks, each if it is still ours, and hand each off to its queue. Also removes an entry from its queue.
 *
 * @param lock string: the holder's token
 * @param queue sorted set: the queue of the lock in the same place
 * @param fence string: the last fence minted for any lock
 * @param token the token that acquired the locks
 * @param ticket the ticket of the token in the queue: 0 not queued; -1 perhaps queued, with an unknown ticket
 * @param window ms for which the lock yields, when it is the turn of callers outside the queue
 * @param next the next queue entry of the same process (one lock): token, lifetime, fences, channel, id, ticket (minus a server time in µs: not queued before), and optionally the ms of silence after which the entry expires (default: by its position)
 * @returns the call; its reply: 1 one lock was released, and nobody is queued | [for each lock 1 released | 0 gone | -1 held by another token: left alone; then, with next, the reply of its acquire]
 */
export function release(
  lock: readonly string[],
  queue: readonly string[],
  fence: string,
  token: string | number,
  ticket: string | number,
  window: string | number,
  next: readonly string[],
): ScriptCall {
  return {
    script: releaseScript,
    keys: [...lock, ...queue, fence],
    args: [String(token), String(ticket), String(window), ...next],
  };
}

const writeProcessScript: Script = {
  name: 'writeProcess',
  sha: 'db9a8c214969ae26873c88b69747c1202a4ce54c',
  lua: `if ARGV[1] == '=' then
return { redis.call('PEXPIRE', KEYS[1], ARGV[2]) }
elseif ARGV[1] == '' then
redis.call('DEL', KEYS[1])
else
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return { 1 }`,
};

/**
 * write the record of a process, which others can list: its held locks and its waits.
 *
 * @param process string: the record, as JSON
 * @param text the record; '': the process neither holds nor waits; '=': unchanged
 * @param ttl ms after which the record expires
 * @returns the call; its reply: [1 done | 0 there was no record that could stay unchanged]
 */
export function writeProcess(process: string, text: string | number, ttl: string | number): ScriptCall {
  return { script: writeProcessScript, keys: [process], args: [String(text), String(ttl)] };
}

const writeValueScript: Script = {
  name: 'writeValue',
  sha: 'decd729e6725df57bc73920ae7ab65078bafc87b',
  lua: writeValue1Part,
};

/**
 * write a text beside a lock, if the lock is still ours, and notify observers.
 *
 * @param lock string: the holder's token
 * @param value string: a cached value; the leader, as its process wrote it; or the start, in ms of the epoch, of the slot whose job has run
 * @param token the token that acquired the lock
 * @param text the text
 * @param unit PX: the end is in ms from now; PXAT: in ms of the epoch
 * @param ends the end of the text; 0: no text from now on
 * @param channel the channel of the observers; '': there are none
 * @param message the message to the observers
 * @returns the call; its reply: [1 written | 0 the lock is no longer ours: nothing changed]
 */
export function writeValue(
  lock: string,
  value: string,
  token: string | number,
  text: string | number,
  unit: string | number,
  ends: string | number,
  channel: string | number,
  message: string | number,
): ScriptCall {
  return {
    script: writeValueScript,
    keys: [lock, value],
    args: [String(token), String(text), String(unit), String(ends), String(channel), String(message)],
  };
}

export const scripts: readonly Script[] = [
  acquireScript,
  batchSharedScript,
  batchScript,
  extendScript,
  freeScript,
  inspectScript,
  plainScript,
  processesScript,
  raiseFenceScript,
  readHolderScript,
  readPlacesScript,
  readValueScript,
  registerProcessScript,
  releaseScript,
  writeProcessScript,
  writeValueScript,
];
