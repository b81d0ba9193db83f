-- processes: the processes that have a record. Changes nothing.
-- KEYS   processes  sorted set: the ids of processes, each with the server time in ms at which its entry expires
-- REPLY  [server time in ms, then the ids]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
table.insert(ids, 1, now)
return ids
