-- acquire-once: take a lock for a job that runs once a slot, unless the job has run in the current slot of this clock.
-- USES clock mint queue
-- KEYS   lock      string: the holder's token
-- KEYS   fence     string: the last fence minted for any lock
-- KEYS   queue     sorted set: the queue of the lock
-- KEYS   slot      string: the start, in ms of the epoch, of the slot whose job has run; the key ends with that slot
-- ARGV   token     the caller's token; a lock that holds it already is ours, and this is a resend
-- ARGV   lifetime  ms until the server frees the lock by itself
-- ARGV   notAfter  server time in ms after which this request must change nothing
-- ARGV   fences    1: mint a fence; 0: none
-- ARGV   every     the length of a slot, in ms
-- ARGV   offset    the start of any slot, in ms of the epoch
-- ARGV   marks     1: the slot counts as done from now on; 0: a later mark-slot says so
-- REPLY  [1 granted, fence, 0, server time in ms | 0 busy, ms left to the holder (-1: no end), 0, server time | -1 too late, 0, 0, server time | -4 done, 0, 0, server time]
local token, ttl, notAfter, fences = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local every, offset = tonumber(ARGV[5]), tonumber(ARGV[6])
checkLifetime(ttl)
if token == '' or not notAfter or not fences or not every or every < 1 or not offset then
  return redis.error_reply('ERR expected a token, a moment, how many fences, and a slot')
end
clock()
if now > notAfter then
  return { -1, 0, 0, now }
end
local lock, fence, queue, slot = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local holder = call('GET', lock)
local start = math.floor((now - offset) / every) * every + offset
-- A damaged mark is ignored, and so is one from the future: when it was written, this clock ran ahead, in another slot.
local done = tonumber(call('GET', slot) or '')
if holder ~= token and done and done >= start and done <= now then -- H85b H85h
  return { -4, 0, 0, now }
end
if holder and holder ~= token then
  return { 0, call('PTTL', lock), 0, now }
end
if not holder and call('ZCARD', queue) > 0 and grant(lock, fence, queue, false, 0, false) == 'given' then
  return { 0, call('PTTL', lock), 0, now }
end

mayExpire(lock, ttl)
-- A resend finds its own lock: no later holder has a fence, so the last minted fence is as good as that of the first request.
local minted = holder and fences > 0 and lastFence(fence) or 0
if minted == 0 then
  minted = mint(fence, fences)
end
if ARGV[7] == '1' then
  call('SET', slot, string.format('%.0f', start), 'PX', string.format('%.0f', start + every - now))
end
if not holder then
  setLock(lock, token, ttl)
else
  call('PEXPIRE', lock, string.format('%.0f', math.max(call('PTTL', lock), tonumber(ttl))))
end
return { 1, minted, 0, now }
