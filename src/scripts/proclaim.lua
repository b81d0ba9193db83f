-- proclaim: write down beside a lock who leads with it, if that is still us, and tell those that observe it.
-- KEYS   lock     string: the holder's token
-- KEYS   value    string: who leads, as its holder wrote it down
-- ARGV   token    the token that acquired the lock
-- ARGV   text     who leads; '': nobody does from now on
-- ARGV   ttl      ms for which it is kept
-- ARGV   channel  where observers hear that there is something new
-- ARGV   message  what they hear
-- REPLY  [1 written | 0 the lock is no longer ours: nothing changed]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return { 0 }
end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
redis.pcall('PUBLISH', ARGV[4], ARGV[5])
return { 1 }
