-- write-value: cache a value beside a lock, if the lock is still ours.
-- KEYS   lock    string: the holder's token
-- KEYS   value   string: the cached value
-- ARGV   token   the token that acquired the lock
-- ARGV   text    the value
-- ARGV   ttl     ms for which the value is kept
-- REPLY  [1 stored | 0 the lock is no longer ours: nothing changed]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return { 0 }
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return { 1 }
