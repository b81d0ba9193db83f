-- mark-slot: mark the job of a slot as done, if the lock that it ran under is still ours.
-- USES clock
-- KEYS   lock   string: the holder's token
-- KEYS   slot   string: when the slot began, in ms of the epoch, whose job has run; ends with that slot
-- ARGV   token  the token that acquired the lock
-- ARGV   start  when the slot began, in ms of the epoch
-- ARGV   stop   when it ends
-- REPLY  [1 marked | 0 the lock is no longer ours, or the slot is over: nothing changed]
-- THEN mint
local left = tonumber(ARGV[3])
clock()
if not left or left <= now or call('GET', KEYS[1]) ~= ARGV[1] then -- H85f
  return { 0 }
end
call('SET', KEYS[2], ARGV[2], 'PX', string.format('%.0f', left - now))
return { 1 }
