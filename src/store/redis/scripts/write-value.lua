-- write-value: write a text beside a lock, if the lock is still ours, and notify observers.
-- KEYS   lock     string: the holder's token
-- KEYS   value    string: a cached value, or the leader, as its process wrote it
-- ARGV   token    the token that acquired the lock
-- ARGV   text     the text
-- ARGV   ttl      ms for which the text is kept; 0: no text from now on
-- ARGV   channel  the channel of the observers; '': there are none
-- ARGV   message  the message to the observers
-- REPLY  [1 written | 0 the lock is no longer ours: nothing changed]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then -- H86
  return { 0 }
end
if ARGV[3] == '0' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
if ARGV[4] ~= '' then
  redis.pcall('PUBLISH', ARGV[4], ARGV[5])
end
return { 1 }
