-- publish-value: write the leader beside its lock, if the lock is still ours, and notify observers.
-- KEYS   lock     string: the holder's token
-- KEYS   value    string: the leader, as its process wrote it
-- ARGV   token    the token that acquired the lock
-- ARGV   text     the leader; '': no leader from now on
-- ARGV   ttl      ms for which the text is kept
-- ARGV   channel  the channel of the observers
-- ARGV   message  the message to the observers
-- REPLY  [1 written | 0 the lock is no longer ours: nothing changed]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then -- H86
  return { 0 }
end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
redis.pcall('PUBLISH', ARGV[4], ARGV[5])
return { 1 }
