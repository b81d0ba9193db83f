-- free: for an operator, take a lock away from its holder, and hand it off to its queue.
-- USES clock
-- KEYS   lock     string: the holder's token
-- KEYS   queue    sorted set: the queue of the lock
-- KEYS   fence    string: the last fence minted for any lock
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
call('DEL', KEYS[1])
attempt('PUBLISH', ARGV[2], '!' .. hash .. ' ' .. KEYS[1])
-- THEN mint queue
local function handOff()
  clock()
  -- There is no window for callers outside the queue: the next entry is served now.
  if call('ZCARD', KEYS[2]) > 0 then
    call('ZREM', KEYS[2], 'passes')
    grant(KEYS[1], KEYS[3], KEYS[2], nil, 0, true)
  end
end
-- The freed lock stays freed even if the queue is damaged: its processes poll by themselves.
pcall(handOff) -- H88b
return { 1 }
