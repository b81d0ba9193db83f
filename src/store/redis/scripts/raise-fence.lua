-- raise-fence: raise the last fence to at least `least`, while locks are still ours. For a node of a quorum.
-- USES clock
-- KEYS   lock[]   string: the holder's token
-- KEYS   fence    string: the last fence minted for any lock
-- ARGV   token    the token that acquired the locks
-- ARGV   least    the fence that every later one must exceed
-- REPLY  [1 the last fence is at least `least` | 0 not all locks are ours: nothing was changed]
-- THEN mint
local least = tonumber(ARGV[2])
if not least or least % 1 ~= 0 or least < 0 or least > protocol.maxInteger then
  return redis.error_reply('ERR expected a fence')
end
clock()
checkFence(least)
for i = 1, #KEYS - 1 do
  if call('GET', KEYS[i]) ~= ARGV[1] then
    return { 0 }
  end
end
if lastFence(KEYS[#KEYS]) < least then
  setFence(KEYS[#KEYS], least)
end
return { 1 }
