-- free-shared: for an operator, take a lock with a mode away from one of its holders, or from all, and wake its queue.
-- WITHIN batch-shared
-- KEYS   lock     sorted set: one member for each holder
-- KEYS   queue    sorted set: the queue of the lock
-- KEYS   limit    string: the number of permits of the lock
-- ARGV   id       the first characters of the SHA-1 of the holder's token; '': all holders
-- ARGV   channel  the channel on which a holder hears that it lost the lock
-- REPLY  [the number of holders that lost the lock]
clock()
local lock, queue, id, count = KEYS[1], KEYS[2], ARGV[1], 0
for text in pairs(ourHolders(lock, true).of) do
  local token = member(text).token
  local hash = redis.sha1hex(token)
  if string.sub(hash, 1, #id) == id then
    call('ZREM', lock, text)
    forget(lock, token)
    attempt('PUBLISH', ARGV[2], '!' .. hash .. ' ' .. lock)
    if string.find(text, '^1 r 1 [1-9]') then
      call('DEL', KEYS[3])
    end
    count = count + 1
  end
end
if count > 0 then
  setEnd(lock)
  pcall(function()
    if call('ZCARD', queue) > 0 then
      wakeLater(lock, queue, KEYS[3])
    end
  end)
end
return { count }
