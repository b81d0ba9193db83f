-- release-shared: remove a holder of a lock, or leave its queue, and notify the waiters that can then be admitted.
-- WITHIN batch-shared
-- KEYS   lock    sorted set: one member for each holder
-- KEYS   queue   sorted set: the queue of the lock
-- KEYS   limit   string: the number of permits of the lock
-- ARGV   token   the holder's token
-- ARGV   known   the holder's member, as the holder knows it; if it is not there, the member is searched for by token
-- ARGV   ticket  the ticket of the token in the queue, which it then leaves too; 0: not queued
-- REPLY  [1 released | 0 gone | -1 lost: others hold the lock, beside whom this holder cannot be]
clock()
local lock, queue, mine = KEYS[1], KEYS[2], ARGV[2]
local ends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil -- S5
local reply = 1
if not ends then
  local held = holders(lock, true)
  local found = holderOf(held, ARGV[1]) -- H39
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
if ends and string.find(mine, '^1 r 1 [1-9]') and call('GET', KEYS[3]) == ARGV[1] then
  call('DEL', KEYS[3])
end
local function others()
  if ARGV[3] ~= '0' then
    local all = queueOf(queue)
    leave(queue, all, find(queue, all, ARGV[1], tonumber(ARGV[3])))
  elseif reply == 1 and string.find(mine, '^1 r') and call('ZCOUNT', lock, string.format('(%.0f', now), '+inf') > 1 then -- S6
    return -- a waiter that can be admitted beside two readers was admitted before
  end
  if call('ZCARD', queue) > 0 then
    wakeLater(lock, queue, KEYS[3], reply == 1 and ARGV[3] == '0' and member(mine) or nil)
  end
end
-- The release counts even if the queue is damaged: its waiters poll by themselves.
pcall(others)
return { reply }
