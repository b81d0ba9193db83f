-- release-shared: stop being one of a lock's holders, or leave its queue, and notify waiters that can then be admitted.
-- USES clock mint holders waiters wake
-- WITHIN batch-shared
-- KEYS   lock    sorted set: one member for each holder
-- KEYS   queue   sorted set: the queue of the lock
-- KEYS   limit   string: how many permits the lock has
-- ARGV   token   the holder's
-- ARGV   known   the member, as the holder knows it; searched for by token if that is not there
-- ARGV   ticket  what the token is queued with: 0 it is not; else it leaves the queue too
-- REPLY  [1 released | 0 gone | -1 others hold it, beside whom it cannot be]
clock()
local lock, queue, mine = KEYS[1], KEYS[2], ARGV[2]
local ends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil -- S5
local reply = 1
if not ends then
  local held = holders(lock, true)
  local found = held.of[ARGV[1]] -- H39
  if found then
    mine, ends = found.text, found.ends
  else
    reply = held.count > 0 and (held.kind == 'w' or string.find(mine, '^1 w')) and -1 or 0
  end
elseif ends <= now then -- H38b
  reply = 0
end
if ends then
  call('ZREM', lock, mine)
  forget(lock, ARGV[1])
  if ends == math.huge then
    setEnd(lock)
  end
end
if ends and string.find(mine, '^1 r 1 [1-9]') and changed(KEYS[3]) == ARGV[1] then
  call('DEL', KEYS[3])
  changes[KEYS[3]] = nil
end
local function others()
  if ARGV[3] ~= '0' then
    local all = queueOf(queue)
    leave(queue, all, find(queue, all, ARGV[1], tonumber(ARGV[3])))
  elseif reply == 1 and string.find(mine, '^1 r') and call('ZCOUNT', lock, string.format('(%.0f', now), '+inf') > 1 then -- S6
    return -- a waiter that could be admitted beside two readers would have been before
  end
  if call('ZCARD', queue) > 0 then
    wakeLater(lock, queue, KEYS[3])
  end
end
-- The release counts even if the queue is damaged: its waiters poll by themselves.
pcall(others)
return { reply }
