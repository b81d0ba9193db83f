-- register-process: add a process with a record to the list of processes, or take it off the list.
-- KEYS   processes  sorted set: the ids of processes, each with the server time in ms at which its entry expires
-- ARGV   id         the id of the process
-- ARGV   ttl        ms after which the entry expires; 0: now
-- ARGV   channel    the channel on which a change is published; '': nothing changed
-- REPLY  [1]
local time = redis.call('TIME')
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
return { 1 }
