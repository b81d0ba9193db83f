-- raise-fence: raise the last fence to at least `minFence`, while locks are still ours. For a node of a quorum.
-- USES clock
-- KEYS   lock[]   string: the holder's token
-- KEYS   fence    string: the last fence minted for any lock
-- ARGV   token    the token that acquired the locks
-- ARGV   minFence the fence that every later one must exceed
-- REPLY  [1 the last fence is at least `minFence` | 0 not all locks are ours: nothing was changed]
-- THEN mint
clock()
local minFence = checkFence(tonumber(ARGV[2]))
for i = 1, #KEYS - 1 do
  if call('GET', KEYS[i]) ~= ARGV[1] then
    return { 0 }
  end
end
if lastFence(KEYS[#KEYS]) < minFence then
  setFence(KEYS[#KEYS], minFence)
end
return { 1 }
