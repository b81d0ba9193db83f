-- release-if-unqueued: release locks that are all still ours, with nobody queued; of anything else `release` has to be asked.
-- KEYS   lock[]   string: the holder's token
-- KEYS   queue[]  sorted set: the queue of the lock in the same place
-- ARGV   token    the token that acquired them
-- REPLY  1 released | 0 nothing was changed: ask `release`
local call, names, locks = redis.call, KEYS, #KEYS / 2
if call('EXISTS', unpack(names, locks + 1, #KEYS)) > 0 then
  return 0
end
for i = 1, locks do
  if redis.pcall('GET', KEYS[i]) ~= ARGV[1] then
    return 0
  end
end
call('DEL', unpack(names, 1, locks))
return 1
