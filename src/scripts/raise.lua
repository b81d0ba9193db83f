-- raise: let the last fence of locks that are still ours be at least so large. For one of a quorum.
-- USES clock
-- KEYS   lock[]   string: the holder's token
-- KEYS   fence[]  string: the last fence minted for the lock in the same place
-- ARGV   token    the token that acquired them
-- ARGV   least    the fence that every later one must exceed
-- REPLY  [1 it is that large | 0 not all of them are ours: nothing was changed]
-- THEN mint
local locks, least, low = #KEYS / 2, tonumber(ARGV[2]), {}
if not least or least % 1 ~= 0 or least < 0 or least > 9007199254740991 then
  return redis.error_reply('ERR expected a fence')
end
clock()
checkFence(least)
for i = 1, locks do
  if call('GET', KEYS[i]) ~= ARGV[1] then
    return { 0 }
  end
  low[i] = lastFence(KEYS[locks + i]) < least
end
for i = 1, locks do
  if low[i] then
    setFence(KEYS[locks + i], least)
  end
end
return { 1 }
