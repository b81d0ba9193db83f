-- PART queue: the queue of a lock, and handing the lock off to the first process in it.
-- A queue is a sorted set by ticket, with one member for each waiting process: "1 deadline id lifetime fences channel token". 1
-- is the version of this format. The id is a name that cannot be guessed, and differs with each request. The message of a grant
-- is "id=fence lock"; the wake-up of a process that should request is "id lock".
-- Marks come first, with scores below zero. The score of `passes` is minus the number of hand-offs in a row, or minus the
-- server time in ms until which the lock yields to callers outside the queue. The score of "poll since until" is minus the
-- longest pause, in ms, of the callers that have polled beside the queue, in vain, since that time.
-- A forged or damaged entry delays others for at most as long as a process that has just died. No deadline is further away than
-- `maxSilence`, the queue ends that long after the last entry was written, and damaged entries are removed as expired ones are.
local maxSilence, maxYield = protocol.maxSilenceMs, protocol.maxYieldMs

-- The parts of an entry that may be granted the lock; nil if the entry has expired or is damaged.
local function entry(queue, member)
  local deadline, id, lifetime, fences, channel, token =
    string.match(checkVersion(queue, member, '1') and member or '', '^1 (%d+) (%S+) (%d+) (%d+) (%S+) (.+)$')
  deadline, fences = tonumber(deadline), tonumber(fences)
  if not deadline or deadline < now or deadline > now + maxSilence or fences > protocol.maxFences then -- H29 H82
    return nil
  end
  local ms = tonumber(lifetime)
  if ms >= 1 and ms <= protocol.maxInteger then
    return id, lifetime, fences, channel, token
  end
end

-- The entries of `token`, and its ticket. If the ticket is not known, only the last entries are checked; an entry that is not
-- among them expires.
local function entriesOf(queue, token, ticket)
  local found
  if ticket > 0 then
    found = call('ZRANGEBYSCORE', queue, ticket, ticket, 'WITHSCORES')
  else
    found = call('ZRANGE', queue, '+inf', 0, 'BYSCORE', 'REV', 'LIMIT', 0, 256, 'WITHSCORES')
  end
  local mine = {}
  for i = 1, #found, 2 do
    if checkVersion(queue, found[i], '1') and string.match(found[i], '^1 %d+ %S+ %d+ %d+ %S+ (.+)$') == token then
      mine[#mine + 1] = found[i]
      ticket = tonumber(found[i + 1])
    end
  end
  return mine, ticket
end

-- Queues `token` under its first ticket, or renews its entry. An entry expires when its process has skipped two of its usual
-- requests, or after `silence` ms if the process has announced a longer silence. Returns the ticket and the number of entries
-- before it.
local function enqueue(queue, token, lifetime, fences, channel, id, ticket, silence)
  local sane = micros + protocol.maxAheadMicros
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
  local ms = math.max(2 * math.min(math.max(protocol.pollMs, protocol.pollMsEach * (before + 1)), protocol.maxPollMs), math.min(silence, maxSilence))
  local deadline = string.format('%.0f', now + ms)
  call('ZADD', queue, at, table.concat({ '1', deadline, id, lifetime, fences, channel, token }, ' '))
  call('PEXPIRE', queue, maxSilence)
  return score, before
end

-- The parts of the current poll mark: pause, since, until.
local function pollOf(member, score)
  local since, till = string.match(member, '^poll (%d+) (%d+)$')
  since, till = tonumber(since), tonumber(till)
  if since and since <= now and till >= now and till <= now + maxSilence and -score <= maxYield then
    return -score, since, till
  end
end

-- Marks that a polling caller found the lock busy, beside a queue, and will try again after `pause` ms: the key yields for that
-- time at the next yield. A caller with a pause above `maxYield` leaves no mark. An error here does not fail the call.
local function markPoll(queue, pause)
  pause = math.ceil(pause)
  if pause > maxYield or call('ZCARD', queue) == 0 then
    return
  end
  local since, till = now, now + 2 * pause + protocol.pollMarkMs
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
  -- The new mark is written before the old ones are removed: a set that is empty for a moment would lose its end, and stay.
  local mark = string.format('poll %.0f %.0f', since, till)
  attempt('ZADD', queue, string.format('-%.0f', math.max(pause, 1)), mark)
  for i = 1, #found, 2 do
    if string.sub(found[i], 1, 5) == 'poll ' and found[i] ~= mark then
      attempt('ZREM', queue, found[i])
    end
  end
end

-- Removes all expired entries in front of the first live one, up to 2,048. Returns the live one and the values of the marks:
-- the number of hand-offs, the end of the yield, the longest pause of polling callers, the time since which they poll, and
-- their mark.
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
        till = handOffs == 0 and -score <= now + 2 * maxYield and -score or 0 -- H82b
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
  until first or #found < 66 or #gone >= protocol.maxExpired
  if #gone > 0 then
    call('ZREM', queue, unpack(gone))
  end
  return first, handOffs, till, pause, since, mark
end

-- Grants a free lock to the first live entry of its queue. `mine` is the caller's token: an entry of the caller needs no
-- message, and is granted its whole lifetime. Any other entry is granted provisionally, until its process confirms. Returns
-- 'mine' and the fence, 'given', 'yielding' and the end of the yield, or 'none'.
-- The key yields after 64 hand-offs in a row. Because holders may be slow, the key also yields once callers have polled in vain
-- for eight of their pauses. A yield lasts for one pause of the holder, or for the longest one of the polling callers.
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
  local yield = math.max(math.min(window, maxYield), pause > 0 and pause + protocol.pollLatenessMs or 0) -- H80c
  if handedOff and window > 0 and (handOffs >= protocol.handOffs or (pause > 0 and now - since >= protocol.pollsInVain * yield)) then -- H80
    call('ZADD', queue, string.format('-%.0f', now + yield), 'passes')
    if mark then
      call('ZREM', queue, mark)
    end
    if token ~= mine then
      attempt('PUBLISH', channel, id .. ' ' .. lock)
    end
    return 'yielding', now + yield
  end
  local ttl = token == mine and lifetime or string.format('%.0f', math.min(tonumber(lifetime), protocol.provisionalMs)) -- H29b H58d
  mayExpire(lock, ttl)
  if fences > 0 then
    lastFence(fence) -- an error of the counter must come before the first write
  end
  -- The mark is written before the entry is removed: a set that is empty for a moment would lose its end, and stay if the
  -- holder dies.
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

-- True for our own tokens, which end with the first characters of their uuid. The release of any other holder notifies no
-- waiter.
local function isOurs(token)
  return #token >= 36 and string.sub(token, -4) == string.sub(token, -36, -33)
end

local function answer(lock, queue, token, lifetime, fences, channel, id, ticket, silence, left)
  local holder = call('GET', lock)
  local score, before = enqueue(queue, token, lifetime, fences, channel, id, ticket, silence)
  return { 0, left or call('PTTL', lock), score, now, before, holder and not isOurs(holder) and 1 or 0 }
end
