-- mark-slot: mark the job of a slot as done, if the lock under which it ran is still ours.
-- USES clock
-- KEYS   lock   string: the holder's token
-- KEYS   slot   string: the start, in ms of the epoch, of the slot whose job has run; the key ends with that slot
-- ARGV   token  the token that acquired the lock
-- ARGV   start  the start of the slot, in ms of the epoch
-- ARGV   stop   the end of the slot
-- REPLY  [1 marked | 0 the lock is no longer ours, or the slot is over: nothing changed]
-- THEN mint
local left = tonumber(ARGV[3])
clock()
if not left or left <= now or call('GET', KEYS[1]) ~= ARGV[1] then -- H85f
  return { 0 }
end
call('SET', KEYS[2], ARGV[2], 'PX', string.format('%.0f', left - now))
return { 1 }
