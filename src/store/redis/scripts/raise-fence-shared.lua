-- raise-fence-shared: as raise-fence, for a lock with a mode, while the token is one of its holders. Also raises a writer's own fence, which readers share after its downgrade; but not a reader's own: its resent request finds its member by the fence.
-- WITHIN batch-shared
-- KEYS   lock    sorted set: one member for each holder
-- KEYS   fence   string: the last fence minted for any lock
-- ARGV   token   the holder's token
-- ARGV   minFence the fence that every later one must exceed
-- REPLY  [1 the last fence is at least `minFence` | 0 the token holds nothing: nothing was changed]
clock()
local minFence = checkFence(tonumber(ARGV[2]))
local lock, mine = KEYS[1], holderOf(ourHolders(KEYS[1], true), ARGV[1])
if not mine then
  return { 0 }
end
if lastFence(KEYS[2]) < minFence then
  setFence(KEYS[2], minFence)
end
if mine.kind == 'w' and mine.fence < minFence then
  local ends = mine.ends == math.huge and '+inf' or string.format('%.0f', mine.ends)
  call('ZADD', lock, ends, text(mine.kind, mine.permits, mine.step, minFence, mine.token, mine.group))
  call('ZREM', lock, mine.text)
  locks[lock] = nil
end
return { 1 }
