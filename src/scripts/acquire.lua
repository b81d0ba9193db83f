-- acquire: take every lock or none, for one lifetime, under one fence; or stand in line.
-- USES common line
-- KEYS   lock[]    string: the holder's token
-- KEYS   fence[]   string: the last fence minted for the lock in the same place
-- KEYS   queue[]   sorted set: who stands in line for the lock in the same place
-- ARGV   token     who asks; a lock that holds it already is ours, and this is a resend
-- ARGV   lifetime  ms until the server frees the locks by itself
-- ARGV   notAfter  server time in ms after which nobody waits for this request any more
-- ARGV   fences    how many fences to mint: 0 none; more than 1 for a line that passes the lock on by itself
-- ARGV   place[]   for who stands in line when it is busy (one lock): channel, id, ticket (0: it has none yet)
-- REPLY  [1 granted, first fence, others in line, server time in ms | 0 busy, ms that others have left (-1: they never end), ticket, server time; with a place also how many stand before it, 1 when the holder wakes nobody | -1 too late, 0, 0, server time]
local token, ttl, count = ARGV[1], milliseconds(ARGV[2]), tonumber(ARGV[4])
local lifetime, notAfter = tonumber(ttl), tonumber(ARGV[3])
if token == '' or not notAfter or not count or count % 1 ~= 0 or count < 0 then
  return redis.error_reply('ERR expected a token, a moment, and how many fences')
end
clock()
if now > notAfter then
  return { -1, 0, 0, now }
end

local locks, placed = #KEYS / 3, #ARGV > 4
local holders, free, ours, left, busy = {}, {}, {}, 0, false
for i = 1, locks do
  local holder = call('GET', KEYS[i])
  holders[i] = holder
  if not holder then
    free[#free + 1] = KEYS[i]
  else
    local ms = call('PTTL', KEYS[i])
    if holder ~= token then
      busy = true
      left = (ms < 0 or left < 0) and -1 or math.max(left, ms)
    elseif ms >= 0 then
      ours[#ours + 1] = { KEYS[i], math.max(ms, lifetime) }
    end
  end
end
for i = 1, busy and 0 or locks do
  local lock, fence, queue = KEYS[i], KEYS[locks + i], KEYS[2 * locks + i]
  if not holders[i] and call('ZCARD', queue) > 0 then
    if placed then
      stand(queue, token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7])
    end
    local whose, value = grant(lock, fence, queue, placed and token, 0, false)
    if whose == 'mine' then
      return { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }
    end
    if whose == 'given' or placed then
      busy = true
      left = whose == 'given' and call('PTTL', lock) or whose == 'resting' and value - now or 0
      break
    end
  end
end
if busy then
  if placed then
    return answer(KEYS[1], KEYS[3], token, ttl, ARGV[4], ARGV[5], ARGV[6], ARGV[7], left)
  end
  return { 0, left, 0, now }
end

local fence, fences = 0, {}
if count > 0 then
  for i = locks + 1, 2 * locks do
    fences[#fences + 1] = KEYS[i]
    fence = math.max(fence, lastFence(KEYS[i]))
  end
end
if #free == 0 and fence > 0 then
  fence = fence - count + 1
else
  fence = take(free, fences, token, ttl, fence, count)
end
-- Written even where nothing changes: WAIT after it then speaks of this very connection.
for i = 1, #ours do
  call('PEXPIRE', ours[i][1], string.format('%.0f', ours[i][2]))
end
return { 1, fence, placed and call('ZCOUNT', KEYS[3], 0, '+inf') or 0, now }
