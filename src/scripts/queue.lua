-- PART queue: the queue of a lock, and handing the lock off to the first process in it.
-- A queue is a sorted set by ticket, one member for each process that waits: "1 deadline id lifetime fences channel token",
-- where 1 is the version of this format, and the id a name that cannot be guessed, another one with each request. A process that
-- is granted the lock is told "id=fence lock"; one that should request, "id lock".
-- Marks come first, with scores below zero. `passes`: minus how often the lock was handed off in a row without being free, or
-- minus the server time in ms until which it yields to callers outside the queue. "poll since until": minus the longest pause in
-- ms of a caller that polls beside the queue, in vain since then.
-- Nothing in a queue is trusted further than a process that has just died would be: no deadline is further away than
-- `mostSilence`, the queue ends that long after the last entry was written, and damaged entries are taken out as expired ones are.
local mostSilence, mostYield = 10000, 1000
-- False for what is no entry. One of another version is an error by name, for as long as its queue lasts and no longer.
local function checkVersion(queue, member)
  local version = string.match(member, '^(%d+) ')
  if version and version ~= '1' then
    if call('PTTL', queue) < 0 then
      call('PEXPIRE', queue, mostSilence)
    end
    error('VERSION the queue of this lock was written by another version of redis-exp-lock', 0)
  end
  return version
end

-- The parts of an entry that may be granted the lock; nil for one that expired or is damaged.
local function entry(queue, member)
  local deadline, id, lifetime, fences, channel, token =
    string.match(checkVersion(queue, member) and member or '', '^1 (%d+) (%S+) (%d+) (%d+) (%S+) (.+)$')
  deadline, fences = tonumber(deadline), tonumber(fences)
  if not deadline or deadline < now or deadline > now + mostSilence or fences > 1024 then
    return nil
  end
  local ms = tonumber(lifetime)
  if ms >= 1 and ms <= 9007199254740991 then
    return id, lifetime, fences, channel, token
  end
end

-- The entries of `token`: of a ticket that is not known, only the last ones are looked at; what is missed there expires.
local function entriesOf(queue, token, ticket)
  local found
  if ticket > 0 then
    found = call('ZRANGEBYSCORE', queue, ticket, ticket, 'WITHSCORES')
  else
    found = call('ZRANGE', queue, '+inf', 0, 'BYSCORE', 'REV', 'LIMIT', 0, 256, 'WITHSCORES')
  end
  local mine = {}
  for i = 1, #found, 2 do
    if checkVersion(queue, found[i]) and string.match(found[i], '^1 %d+ %S+ %d+ %d+ %S+ (.+)$') == token then
      mine[#mine + 1] = found[i]
      ticket = tonumber(found[i + 1])
    end
  end
  return mine, ticket
end

-- Writes down where `token` is queued: under its first ticket, whatever happened meanwhile. A process that is silent for two
-- requests expires: of its usual ones, or after `silence` ms if it has said that it will be silent for longer. Returns the
-- ticket, and how many are before it.
local function enqueue(queue, token, lifetime, fences, channel, id, ticket, silence)
  local sane = micros + 86400000000
  local score = tonumber(ticket)
  local mine
  mine, score = entriesOf(queue, token, score <= sane and score or 0)
  for i = 1, #mine do
    call('ZREM', queue, mine[i])
  end
  if score <= 0 or score > sane then
    local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    while last[1] and tonumber(last[2]) > sane do
      call('ZREM', queue, last[1])
      last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    end
    score = math.max(micros, (tonumber(last[2]) or 0) + 1)
  end
  local at = string.format('%.0f', score)
  local before = call('ZCOUNT', queue, 0, '(' .. at)
  local ms = math.max(2 * math.min(math.max(1000, 125 * (before + 1)), 2000), math.min(silence, mostSilence))
  local deadline = string.format('%.0f', now + ms)
  call('ZADD', queue, at, table.concat({ '1', deadline, id, lifetime, fences, channel, token }, ' '))
  call('PEXPIRE', queue, mostSilence)
  return score, before
end

-- The poll mark that is in force: pause, since, until, and its member.
local function pollOf(member, score)
  local since, till = string.match(member, '^poll (%d+) (%d+)$')
  since, till = tonumber(since), tonumber(till)
  if since and since <= now and till >= now and till <= now + mostSilence and -score <= mostYield then
    return -score, since, till
  end
end

-- A caller that polls was refused beside a queue, and will try again after `pause` ms: the key yields for that long when it is
-- due. Callers with longer pauses than `mostYield` leave no mark. A mark is no reason to fail.
local function markPoll(queue, pause)
  pause = math.ceil(pause)
  if pause > mostYield or call('ZCARD', queue) == 0 then
    return
  end
  local since, till = now, now + 2 * pause + 100
  local found = call('ZRANGEBYSCORE', queue, '-inf', '(0', 'WITHSCORES')
  for i = 1, #found, 2 do
    local longest, first, last = nil, nil, nil
    if string.sub(found[i], 1, 5) == 'poll ' then
      longest, first, last = pollOf(found[i], tonumber(found[i + 1]))
    end
    if longest then
      since = math.min(since, first)
      if longest > pause then
        pause, till = longest, last
      end
    end
  end
  -- Before the old ones go: a set that was empty for a moment would have lost its end, and stay.
  local mark = string.format('poll %.0f %.0f', since, till)
  attempt('ZADD', queue, string.format('-%.0f', math.max(pause, 1)), mark)
  for i = 1, #found, 2 do
    if string.sub(found[i], 1, 5) == 'poll ' and found[i] ~= mark then
      attempt('ZREM', queue, found[i])
    end
  end
end

-- Takes expired entries out, all in front of the first live one, up to 2,048 of them.
-- Returns that one and what the marks say: how often it was handed off, until when it yields; the longest pause of callers
-- that poll, since when they do, and that mark.
local function front(queue)
  local first, handOffs, till, pause, since, mark = nil, 0, 0, 0, now, nil
  local gone, from = {}, 0
  repeat
    local found = call('ZRANGE', queue, from, from + 32, 'WITHSCORES')
    for i = 1, #found, 2 do
      local member, score = found[i], tonumber(found[i + 1])
      if score >= 0 then
        first = entry(queue, member) and member
        if first then
          break
        end
        gone[#gone + 1] = member
      elseif member == 'passes' then
        handOffs = score >= -1000000 and -score or 0
        till = handOffs == 0 and -score <= now + 2 * mostYield and -score or 0
      else
        local longest, begun = pollOf(member, score)
        if longest then
          pause, since, mark = longest, begun, member
        else
          gone[#gone + 1] = member
        end
      end
    end
    from = from + 33
  until first or #found < 66 or #gone >= 2048
  if #gone > 0 then
    call('ZREM', queue, unpack(gone))
  end
  return first, handOffs, till, pause, since, mark
end

-- Gives a free lock to the first live entry of its queue. `mine` is the token of the caller: it needs no message, and is
-- granted for its whole lifetime; any other for as long as it takes to confirm. Returns 'mine' and its fence, 'given',
-- 'yielding' and until when, or 'none'.
-- The key yields after 64 hand-offs in a row; and, so that this does not depend on how long each holder takes, once callers have
-- polled in vain for eight such pauses. It yields for one pause of the holder, or the longest of those that poll.
local function grant(lock, fence, queue, mine, window, handedOff)
  local first, handOffs, till, pause, since, mark = front(queue)
  if not first then
    if call('ZCOUNT', queue, 0, '+inf') == 0 then
      call('DEL', queue)
    end
    return 'none'
  end
  if till > now then
    return 'yielding', till
  end
  local id, lifetime, fences, channel, token = entry(queue, first)
  local yield = math.max(math.min(window, mostYield), pause > 0 and pause + 20 or 0)
  if handedOff and window > 0 and (handOffs >= 64 or (pause > 0 and now - since >= 8 * yield)) then
    call('ZADD', queue, string.format('-%.0f', now + yield), 'passes')
    if mark then
      call('ZREM', queue, mark)
    end
    if token ~= mine then
      attempt('PUBLISH', channel, id .. ' ' .. lock)
    end
    return 'yielding', now + yield
  end
  local ttl = token == mine and lifetime or string.format('%.0f', math.min(tonumber(lifetime), 2000))
  mayExpire(lock, ttl)
  if fences > 0 then
    lastFence(fence) -- an error, if it is one, comes before the first write
  end
  -- Before the entry goes: a set that was empty for a moment would have lost its end, and stay when its holder dies.
  if handedOff then
    call('ZADD', queue, -(handOffs + 1), 'passes')
  elseif handOffs + till > 0 then
    call('ZREM', queue, 'passes')
  end
  call('ZREM', queue, first)
  local minted = mint(fence, fences)
  setLock(lock, token, ttl)
  if token == mine then
    return 'mine', minted
  end
  attempt('PUBLISH', channel, id .. '=' .. string.format('%.0f', minted) .. ' ' .. lock)
  return 'given'
end

-- Our tokens end as their uuid begins. The release of any other holder wakes nobody.
local function isOurs(token)
  return #token >= 36 and string.sub(token, -4) == string.sub(token, -36, -33)
end

local function answer(lock, queue, token, lifetime, fences, channel, id, ticket, silence, left)
  local holder = call('GET', lock)
  local score, before = enqueue(queue, token, lifetime, fences, channel, id, ticket, silence)
  return { 0, left or call('PTTL', lock), score, now, before, holder and not isOurs(holder) and 1 or 0 }
end
