-- extend-shared: move the end of a holder that is still there. Never makes a holder, never touches another one.
-- WITHIN batch-shared
-- KEYS   lock      sorted set: one member for each holder
-- KEYS   limit     string: the number of permits of the lock
-- ARGV   token     the holder's token
-- ARGV   known     the holder's member, as the holder knows it; if it is not there, the member is searched for by token
-- ARGV   lifetime  ms from now until the holder's end; 0: no end
-- ARGV   exact     1: set this end; 0: only move the end later (a renewal must not undo an extension)
-- ARGV   notAfter  server time in ms at which the lock ends for the holder
-- ARGV   as[]      for a writer on a quorum: w; a holder of another kind counts as gone
-- REPLY  [1 extended | 0 gone | -1 lost: others hold the lock, beside whom this holder cannot be | -2 too late: nothing was changed, server time in ms]
local lifetime, exact, notAfter = tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5])
if not notAfter or not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > protocol.maxInteger then
  return redis.error_reply('ERR expected a time, and a lifetime in whole milliseconds, at least 0')
end
clock()
local lock, mine, ends = KEYS[1], ARGV[2], nil
ends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil -- S7
if not ends or ends <= now then
  local held = holders(lock, true)
  local found = holderOf(held, ARGV[1])
  if not found then
    return { held.count > 0 and (held.kind == 'w' or string.find(mine, '^1 w')) and -1 or 0, now }
  end
  mine, ends = found.text, found.ends
end
if #ARGV > 5 and string.sub(mine, 3, 3) ~= ARGV[6] then
  return { 0, now }
end
if now > notAfter then
  return { -2, now }
end
local wanted = lifetime == 0 and math.huge or now + lifetime
if exact or wanted > ends then
  locks[lock] = nil
  -- The first write is one that Redis permits when memory is full; after it Redis permits the second too.
  purge(lock, mine) -- H55e
  call('ZADD', lock, wanted == math.huge and '+inf' or string.format('%.0f', wanted), mine)
  setEnd(lock)
  if string.find(mine, '^1 p') then
    local kept = call('PTTL', lock)
    if kept < 0 then
      call('PERSIST', KEYS[2])
    else
      call('PEXPIRE', KEYS[2], string.format('%.0f', kept + 3600000))
    end
  end
end
return { 1, now }
