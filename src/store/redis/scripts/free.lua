-- free: for an operator, take a lock away from its holder: its release, without a window for callers outside the queue.
-- INCLUDE release
-- KEYS   key[]    the keys of a release: the lock, its queue, and the fence counter
-- ARGV   id       the first characters of the SHA-1 of the holder's token; '': any holder
-- ARGV   channel  the channel on which the holder hears that it lost the lock
-- REPLY  [1 freed | 0 not held, or held by another: nothing was changed | -1 the lock has a mode: nothing was changed]
local holder = attempt('GET', KEYS[1])
if type(holder) == 'table' then
  return string.find(holder.err, 'WRONGTYPE', 1, true) and { -1 } or holder
end
local hash = holder and redis.sha1hex(holder)
if not hash or string.sub(hash, 1, #ARGV[1]) ~= ARGV[1] then -- H88
  return { 0 }
end
attempt('ZREM', KEYS[2], 'passes')
attempt('PUBLISH', ARGV[2], '!' .. hash .. ' ' .. KEYS[1])
ARGV = { holder, '0', '0' }
scripts.release(0, 0, 3, 3) -- H88b
return { 1 }
