-- PART line: those who stand in line for a lock, and giving it to the first of them.
-- A line is a sorted set by ticket, one member for each process that waits: "1 deadline id lifetime fences channel token",
-- where 1 is the version of this format. The member `passes` comes first: minus how often the lock went on without being
-- free, or minus the server time in ms until which it is left free for callers outside the line.
local otherVersion = 'VERSION the line of this lock was written by another version of redis-exp-lock'
local function entry(member)
  local version, deadline, id, lifetime, fences, channel, token =
    string.match(member, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  if version ~= '1' then
    error(otherVersion, 0)
  end
  return tonumber(deadline), id, lifetime, tonumber(fences), channel, token
end

-- Writes down where `token` stands: under its first ticket, whatever happened meanwhile. Who gives no sign for two questions
-- is passed over. Returns the ticket, and how many stand before it.
local function stand(queue, token, lifetime, fences, channel, id, ticket)
  local score = tonumber(ticket)
  local from, to = ticket, ticket
  if score <= 0 then
    from, to = 0, '+inf'
  end
  local found = call('ZRANGEBYSCORE', queue, from, to, 'WITHSCORES')
  for i = 1, #found, 2 do
    local _, _, _, _, _, whose = entry(found[i])
    if whose == token then
      score = tonumber(found[i + 1])
      call('ZREM', queue, found[i])
    end
  end
  if score <= 0 then
    local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    score = math.max(micros, (tonumber(last[2]) or 0) + 1)
  end
  local at = string.format('%.0f', score)
  local before = call('ZCOUNT', queue, 0, '(' .. at)
  local deadline = string.format('%.0f', now + 2 * math.max(1000, 125 * (before + 1)))
  call('ZADD', queue, at, table.concat({ '1', deadline, id, lifetime, fences, channel, token }, ' '))
  call('PEXPIRE', queue, 600000)
  return score, before
end

-- Gives a free lock to the first live entry of its line. `mine` is the token of whoever asks here and now: it needs no
-- message, and is granted for its whole lifetime; anybody else for as long as it takes to confirm. Returns 'mine' and its
-- fence, 'given', 'resting' and until when, or 'none'.
local function grant(lock, fence, queue, mine, rest, passed)
  local found = call('ZRANGE', queue, 0, 32, 'WITHSCORES')
  local mark, from, first = 0, 1, nil
  if #found > 0 and tonumber(found[2]) < 0 then
    mark, from = -tonumber(found[2]), 3
  end
  for i = from, math.min(#found, from + 63), 2 do
    if entry(found[i]) >= now then
      first = found[i]
      break
    end
    call('ZREM', queue, found[i])
  end
  if not first then
    if call('ZCOUNT', queue, 0, '+inf') == 0 then
      call('DEL', queue)
    end
    return 'none'
  end
  if mark > now then
    return 'resting', mark
  end
  local _, id, lifetime, fences, channel, token = entry(first)
  local passes = passed and mark <= 1000000 and mark or 0
  if passes >= 64 and rest > 0 then
    call('ZADD', queue, string.format('%.0f', -(now + rest)), 'passes')
    if token ~= mine then
      attempt('PUBLISH', channel, id .. ' ' .. lock)
    end
    return 'resting', now + rest
  end
  local ttl = token == mine and lifetime or string.format('%.0f', math.min(tonumber(lifetime), 2000))
  mayExpire(lock, ttl)
  -- Before the entry goes: a set that was empty for a moment would have lost its end, and stay when its holder dies.
  if passed then
    call('ZADD', queue, -(passes + 1), 'passes')
  elseif mark > 0 then
    call('ZREM', queue, 'passes')
  end
  call('ZREM', queue, first)
  local minted = mint(fence, fences)
  take(lock, token, ttl)
  if token == mine then
    return 'mine', minted
  end
  attempt('PUBLISH', channel, id .. ' ' .. lock)
  return 'given'
end

-- Our tokens end as their uuid begins: a release of theirs wakes who stands in line. Anybody else's wakes nobody.
local function isOurs(token)
  return #token >= 36 and string.sub(token, -4) == string.sub(token, -36, -33)
end

local function answer(lock, queue, token, lifetime, fences, channel, id, ticket, left)
  local holder = call('GET', lock)
  local score, before = stand(queue, token, lifetime, fences, channel, id, ticket)
  return { 0, left or call('PTTL', lock), score, now, before, holder and not isOurs(holder) and 1 or 0 }
end
