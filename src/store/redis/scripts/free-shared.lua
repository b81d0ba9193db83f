-- free-shared: take a lock that several may hold away from one of its holders, or from all, for an operator, and wake its queue.
-- USES clock mint holders waiters wake
-- WITHIN batch-shared
-- KEYS   lock     sorted set: one member for each holder
-- KEYS   queue    sorted set: the queue of the lock
-- KEYS   limit    string: how many permits the lock has
-- ARGV   id       how the SHA-1 of the holder's token begins; '': all that hold it
-- ARGV   channel  where a holder hears that it lost the lock
-- REPLY  [how many were taken away]
clock()
local lock, queue, id, count = KEYS[1], KEYS[2], ARGV[1], 0
local tokens = {}
for token, each in pairs(ourHolders(lock, true).of) do
  if string.sub(redis.sha1hex(token), 1, #id) == id then
    tokens[#tokens + 1] = each
  end
end
for _, each in ipairs(tokens) do
  call('ZREM', lock, each.text)
  forget(lock, each.token)
  attempt('PUBLISH', ARGV[2], '!' .. redis.sha1hex(each.token) .. ' ' .. lock)
  if string.find(each.text, '^1 r 1 [1-9]') then
    call('DEL', KEYS[3])
    changes[KEYS[3]] = nil
  end
  count = count + 1
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
