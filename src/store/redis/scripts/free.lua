-- free: take a lock away from its holder, for an operator, and hand it off to its queue.
-- USES clock
-- KEYS   lock     string: the holder's token
-- KEYS   queue    sorted set: the queue of the lock
-- KEYS   fence    string: the last fence minted for any lock
-- ARGV   id       how the SHA-1 of the holder's token begins; '': any holder
-- ARGV   channel  where the holder hears that it lost the lock
-- REPLY  [1 freed | 0 it is not held, or by another one: nothing was changed | -1 several may hold it: nothing was changed]
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
  -- No window for callers outside the queue: the next one is served now.
  if call('ZCARD', KEYS[2]) > 0 then
    call('ZREM', KEYS[2], 'passes')
    grant(KEYS[1], KEYS[3], KEYS[2], nil, 0, true)
  end
end
-- What was freed stays freed, whatever is wrong with the queue: its processes poll by themselves.
pcall(handOff) -- H88b
return { 1 }
