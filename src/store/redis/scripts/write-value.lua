-- write-value: write a text beside a lock, if the lock is still ours, and notify observers.
-- KEYS   lock     string: the holder's token
-- KEYS   value    string: a cached value; the leader, as its process wrote it; or the start, in ms of the epoch, of the slot whose job has run
-- ARGV   token    the token that acquired the lock
-- ARGV   text     the text
-- ARGV   unit     PX: the end is in ms from now; PXAT: in ms of the epoch
-- ARGV   ends     the end of the text; 0: no text from now on
-- ARGV   channel  the channel of the observers; '': there are none
-- ARGV   message  the message to the observers
-- REPLY  [1 written | 0 the lock is no longer ours: nothing changed]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then -- H85f H86
  return { 0 }
end
if ARGV[4] == '0' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[2], ARGV[3], ARGV[4])
end
if ARGV[5] ~= '' then
  redis.pcall('PUBLISH', ARGV[5], ARGV[6])
end
return { 1 }
