-- acquire: take every lock or none, for one lifetime, under one fence; or be queued. For a job that runs once a slot: unless the job has run in the current slot of this clock.
-- USES clock
-- KEYS   lock[]    string: the holder's token
-- KEYS   queue[]   sorted set: the queue of the lock in the same place; for a job (one lock), after it the mark, a string: the start, in ms of the epoch, of the slot whose job has run; the key ends with that slot
-- KEYS   fence     string: the last fence minted for any lock
-- ARGV   token     the caller's token; a lock that holds it already is ours, and this is a resend
-- ARGV   lifetime  ms until the server frees the locks by itself
-- ARGV   notAfter  server time in ms after which this request must change nothing
-- ARGV   fences    the number of fences to mint: 0 none; more than 1 for a queue that hands the lock off by itself
-- ARGV   place[]   for a process to be queued when the lock is busy (one lock): channel, id, ticket (minus the server time in µs since when it may be queued: not known), and optionally the ms of silence after which its entry expires (default: by its position); for others: the minimum fence (0: any), and then, for a polling caller, the ms until its next request; for a job: the length of a slot in ms, the start of any slot in ms of the epoch, and 1 if the slot counts as done from now on (0: a later write-value says so)
-- REPLY  the fence, if it is the server's time in µs, of a single lock that was free | [1 granted, first fence, number of others queued, server time in ms | 0 busy, ms left to the holders (-1: no end), ticket, server time; for a queued process also its position, and 1 if the holder's release wakes nobody | -1 too late, 0, 0, server time | -4 the job has run, 0, 0, server time]
local token, ttl, count, notAfter = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[3])
if ttl ~= checked then -- S20
  local ms = tonumber(ttl)
  if not ms or ms < 1 or ms > protocol.maxInteger or not string.find(ttl, '^%d+$') then -- H1
    return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 1')
  end
  checked = ttl
end
if token == '' or not notAfter or not count or count % 1 ~= 0 or count < 0 or count > protocol.maxFences then
  return redis.error_reply('ERR expected a token, a time, and how many fences')
end
if not now then
  local time = call('TIME')
  micros = time[1] * 1000000 + time[2]
  now = math.floor(micros / 1000)
end
if now > notAfter then -- H3
  return { -1, 0, 0, now }
end

-- Nearly every call ends here: one lock, free, without a queue. The result is that of the code below, without its functions and
-- tables, which would cost more than the work. The reply is a single integer.
if #KEYS == 3 and count <= 1 and mayCheck and attempt('EXISTS', KEYS[1], KEYS[2]) == 0 then -- H32 S1
  local fence = 0
  if count == 1 then
    local last = top or call('GET', KEYS[3]) or '0' -- H58
    local minFence = (#ARGV == 5 or #ARGV == 6) and tonumber(ARGV[5]) or 0
    fence = (top or string.find(last, '^%d+$')) and math.max(last + 1, micros, minFence) -- H59 H61b
  end
  if fence and fence <= micros + protocol.maxAheadMicros and mayCheck('PEXPIRE', KEYS[1], ttl) then
    if count == 1 then
      call('SET', KEYS[3], string.format('%.0f', fence)) -- H58b
      top = fence
    end
    call('SETNX', KEYS[1], token)
    call('PEXPIRE', KEYS[1], ttl) -- H69
    return (fence == micros or count == 0) and micros or { 1, fence, 0, now }
  end
end
-- THEN mint queue

local locks, fence, mayQueue = (#KEYS - 1) / 2, KEYS[#KEYS], #ARGV > 6
local silence = #ARGV > 7 and ARGV[8] or 0
local mark
if mayQueue and #KEYS == 4 then
  locks, mayQueue = 1, false
  local every, offset = tonumber(ARGV[5]), tonumber(ARGV[6])
  if not every or every < 1 or not offset then
    return redis.error_reply('ERR expected a slot')
  end
  local start = math.floor((now - offset) / every) * every + offset
  -- A damaged mark is ignored, and so is one from the future: when it was written, this clock ran ahead, in another slot.
  local done = tonumber(call('GET', KEYS[3]) or '')
  if done and done >= start and done <= now and call('GET', KEYS[1]) ~= token then -- H85b H85h
    return { -4, 0, 0, now }
  end
  mark = ARGV[7] == '1' and { string.format('%.0f', start), 'PX', string.format('%.0f', start + every - now) }
end
local free, ours, left, busy, other = {}, {}, 0, false, nil
for i = 1, locks do
  local holder = call('GET', KEYS[i]) -- H10
  if not holder then
    free[i] = true
  else
    local ms = call('PTTL', KEYS[i])
    if holder ~= token then -- H2b
      busy, other = true, holder
      left = (ms < 0 or left < 0) and -1 or math.max(left, ms)
    elseif ms >= 0 then
      ours[i] = math.max(ms, tonumber(ttl)) -- H4b
    end
  end
end
local last = not busy and count > 0 and lastFence(fence) or 0
for i = 1, busy and 0 or locks do
  local lock, queue = KEYS[i], KEYS[locks + i]
  if free[i] and call('ZCARD', queue) > 0 then -- H32b
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
  if mayQueue then -- H71
    return answer(left, other, enqueue(KEYS[2], token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7], silence))
  end
  local pause = #ARGV == 6 and tonumber(ARGV[6]) or 0 -- H80e
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
-- If all locks are ours already, no later holder has a fence: the last minted fences are as good as those of the first request.
local first = next(free) == nil and count > 0 and last > 0 and last - count + 1 or mint(fence, count, minFence) -- H2c H4
if mark then
  call('SET', KEYS[3], unpack(mark))
end
-- A lock that is ours already is written even if nothing changes: a WAIT that follows covers only the writes of this
-- connection.
for i = 1, locks do
  if free[i] then
    setLock(KEYS[i], token, ttl)
  elseif ours[i] then
    call('PEXPIRE', KEYS[i], string.format('%.0f', ours[i]))
  end
end
return { 1, first, mayQueue and call('ZCOUNT', KEYS[2], 0, '+inf') or 0, now }
