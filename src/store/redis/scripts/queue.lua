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
  local deadline, id, lifetime, fences, channel, token = string.match(member, '^1 (%d+) (%S+) (%d+) (%d+) (%S+) (.+)$')
  if not deadline then
    checkVersion(queue, member, '1')
  end
  deadline, fences = tonumber(deadline), tonumber(fences)
  if not deadline or deadline < now or deadline > now + maxSilence or fences > protocol.maxFences then -- H29 H82
    return nil
  end
  local ms = tonumber(lifetime)
  if ms >= 1 and ms <= protocol.maxInteger then
    return { member = member, id = id, lifetime = lifetime, fences = fences, channel = channel, token = token }
  end
end

-- The entries of `token`, and its ticket. A ticket that is not known is minus the time (server time in µs) before which the token was
-- not queued: a token that was never queued finds only the entries that came while its request was on its way.
local function entriesOf(queue, token, ticket)
  local found
  if ticket > 0 then
    found = call('ZRANGEBYSCORE', queue, ticket, ticket, 'WITHSCORES')
  else
    local since = math.min(-ticket, micros)
    found = call('ZRANGE', queue, '+inf', since, 'BYSCORE', 'REV', 'LIMIT', 0, 256, 'WITHSCORES') -- H95d
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

-- The number of entries before a ticket.
local function positionOf(queue, ticket)
  return call('ZCOUNT', queue, 0, string.format('(%.0f', ticket))
end

-- Queues `token` under its first ticket, or renews its entry. An entry expires when its process has skipped two of its usual
-- requests, or after `silence` ms if the process has announced a longer silence. Returns the ticket and the number of entries
-- before it.
local function enqueue(queue, token, lifetime, fences, channel, id, ticket, silence)
  local sane = micros + protocol.maxAheadMicros
  local score, mine, second = tonumber(ticket), {}, nil
  score = score <= sane and score or 0
  local last = score <= 0 and call('ZRANGE', queue, -1, -1, 'WITHSCORES')
  if last and last[1] then
    checkVersion(queue, last[1], '1')
  end
  -- No entry is as young as the request: the token has none.
  if not last or (last[1] and tonumber(last[2]) >= math.min(-score, micros)) then -- H95
    mine, score = entriesOf(queue, token, score)
  end
  for i = 1, #mine - 1 do -- H56c
    call('ZREM', queue, mine[i])
  end
  if score <= 0 or score > sane then
    last = last or call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    if last[1] and tonumber(last[2]) > sane then
      call('ZREM', queue, unpack(call('ZRANGE', queue, '+inf', sane, 'BYSCORE', 'REV', 'LIMIT', 0, protocol.maxExpired)))
      last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    end
    local latest = tonumber(last[2]) or 0
    score = latest <= sane and math.max(micros, latest + 1) or micros
    second = math.floor(latest / 1000000)
  end
  local before = positionOf(queue, score)
  local ms = math.max(2 * math.min(math.max(protocol.pollMs, protocol.pollMsEach * (before + 1)), protocol.maxPollMs), math.min(silence, maxSilence))
  local deadline = string.format('%.0f', now + ms)
  local member = '1 ' .. deadline .. ' ' .. id .. ' ' .. lifetime .. ' ' .. fences .. ' ' .. channel .. ' ' .. token
  local old = mine[#mine]
  if old then
    -- Where memory is full, the first write must be one that is permitted then. The others are permitted after it.
    call('PEXPIRE', queue, maxSilence) -- H55j
  end
  call('ZADD', queue, string.format('%.0f', score), member)
  -- Removed only now: the key of an empty queue is gone, and a node whose slot is on the move lets no script make it anew.
  if old and old ~= member then
    call('ZREM', queue, old)
  end
  -- An entry of the same second has moved the end of the queue already.
  if not old and second ~= math.floor(micros / 1000000) then -- S32
    call('PEXPIRE', queue, maxSilence)
  end
  return score, before
end

-- The parts of a poll mark: pause, since, until; nil for a mark that has expired, and for any other member.
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
    local longest, first, last = pollOf(found[i], tonumber(found[i + 1]))
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

-- Removes all expired entries in front of the first live one, up to 2,048. Returns the parts of the live one, and the values of the
-- marks: the number of hand-offs, the end of the yield, the longest pause of polling callers, the time since which they poll, and
-- their mark.
local function front(queue)
  local first, handOffs, till, pause, since, mark = nil, 0, 0, 0, now, nil
  -- Nearly always, one mark is followed by a live entry.
  local gone, from, upto = {}, 0, 1
  repeat
    local found = call('ZRANGE', queue, from, upto, 'WITHSCORES')
    for i = 1, #found, 2 do
      local member, score = found[i], tonumber(found[i + 1])
      if score >= 0 then
        first = entry(queue, member)
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
    local isEnd = #found < 2 * (upto - from + 1)
    from, upto = upto + 1, upto + 33
  until first or isEnd or #gone >= protocol.maxExpired
  if #gone > 0 then
    call('ZREM', queue, unpack(gone))
  end
  return first, handOffs, till, pause, since, mark
end

-- Grants a free lock to the first live entry of its queue. `mine` is the caller's token: an entry of the caller needs no
-- message, and is granted its whole lifetime. Any other entry is granted provisionally, until its process confirms. Returns
-- 'mine' and the fence, 'given' and the ms of the grant, 'yielding' and the ms of the yield, or 'none' and 0.
-- The key yields after 64 hand-offs in a row. Because holders may be slow, the key also yields once callers have polled in vain
-- for eight of their pauses. A yield lasts for one pause of the holder, or for the longest one of the polling callers.
local function grant(lock, fence, queue, mine, window, handedOff)
  local first, handOffs, till, pause, since, mark = front(queue)
  if not first then
    if call('ZCOUNT', queue, 0, '+inf') == 0 then
      call('DEL', queue)
    end
    return 'none', 0
  end
  if till > now then
    return 'yielding', till - now
  end
  local isMine = first.token == mine
  local yield = math.max(math.min(window, maxYield), pause > 0 and pause + protocol.pollLatenessMs or 0) -- H80c
  if handedOff and window > 0 and (handOffs >= protocol.handOffs or (pause > 0 and now - since >= protocol.pollsInVain * yield)) then -- H80
    call('ZADD', queue, string.format('-%.0f', now + yield), 'passes')
    if mark then
      call('ZREM', queue, mark)
    end
    if not isMine then
      attempt('PUBLISH', first.channel, first.id .. ' ' .. lock)
    end
    return 'yielding', yield
  end
  local ttl = isMine and first.lifetime or string.format('%.0f', math.min(tonumber(first.lifetime), protocol.provisionalMs)) -- H29b H58d
  if first.fences > 0 then
    lastFence(fence) -- an error of the counter must come before the first write
  end
  -- The mark is written before the entry is removed: a set that is empty for a moment would lose its end, and stay if the
  -- holder dies.
  if handedOff then
    call('ZADD', queue, -(handOffs + 1), 'passes')
  elseif handOffs + till > 0 then
    call('ZREM', queue, 'passes')
  end
  call('ZREM', queue, first.member)
  local minted = mint(fence, first.fences)
  call('SET', lock, first.token, 'PX', ttl)
  if isMine then
    return 'mine', minted
  end
  attempt('PUBLISH', first.channel, first.id .. '=' .. string.format('%.0f', minted) .. ' ' .. lock)
  return 'given', tonumber(ttl)
end

-- True for our own tokens, which end with the first characters of their uuid. The release of any other holder notifies no
-- waiter.
local function isOurs(token)
  return #token >= 36 and string.sub(token, -4) == string.sub(token, -36, -33)
end

-- The reply to a process that was queued. `holder` is the one that was read before.
local function answer(left, holder, ticket, before)
  return { 0, left, ticket, now, before, holder and not isOurs(holder) and 1 or 0 }
end
