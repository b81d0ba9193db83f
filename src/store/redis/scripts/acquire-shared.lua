-- acquire-shared: become a holder of a lock if its other holders and its queue leave room; or be queued; or change in place.
-- WITHIN batch-shared
-- KEYS   lock      sorted set: one member for each holder
-- KEYS   fence     string: the last fence minted for any lock
-- KEYS   queue     sorted set: the queue of the lock
-- KEYS   limit     string: the number of permits of the lock
-- ARGV   token     the caller's token; a member with it is ours, and this is a resend
-- ARGV   lifetime  ms until our member ends by itself
-- ARGV   notAfter  server time in ms after which this request must change nothing
-- ARGV   fences    the number of fences to mint; more than 1 for permits that are handed off; 0: none
-- ARGV   kind      r reader, w writer, p permits
-- ARGV   prefer    w writers first, r readers first, f in order of arrival
-- ARGV   permits   the number of permits wanted
-- ARGV   total     the number of permits of the lock
-- ARGV   step      0: a new holder; otherwise the number of this change in place: r downgrades, w upgrades
-- ARGV   group     readers of one group share; for permits on a quorum: the places that are wanted: ",0,3,"
-- ARGV   place[]   for a caller to be queued when there is no room: channel, id, ticket (0: none yet, -1: perhaps one), ms of silence after which its entry expires (0: by its position); on a node of a quorum (channel: empty if the caller is not to be queued) also the token of the entry, which stays the same while each attempt has a token of its own, and the minimum fence; for a reader that has shared a member: only that member, beside which there is room for the reader's own
-- REPLY  [1 granted, fence, number of others queued, server time in ms | 0 no room, ms until there may be room (-1: unknown), ticket, server time, position, 0 | -1 too late, 0, 0, server time | -2 another reader is upgrading, 0, 0, server time | -3 the holder that should change is gone, 0, 0, server time]
local token, fences, kind, prefer, group = ARGV[1], ARGV[4] ~= '0', ARGV[5], ARGV[6], ARGV[10]
local notAfter, permits, total, step = tonumber(ARGV[3]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
-- The arguments of the next call follow ours: only the number of our arguments says whether the caller is to be queued.
local mayQueue = #ARGV > 11 and ARGV[11] ~= ''
local queuedAs, minFence = token, 0
if #ARGV > 14 then
  queuedAs, minFence = ARGV[15], tonumber(ARGV[16])
end
checkLifetime(ARGV[2])
local ttl = tonumber(ARGV[2])
local fixed = permits and total and step and permits >= 1 and permits % 1 == 0 and string.find('rwp', kind, 1, true)
if token == '' or not notAfter or not fixed then
  return redis.error_reply('ERR expected a token, a time, a kind, permits and a step')
end
clock()
if now > notAfter then
  return { -1, 0, 0, now }
end
checkFence(minFence)
local lock, fence, queue, limit = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local all = queueOf(queue)
local upgrade = step > 0 and kind == 'w'
local band = bandOf(upgrade and 'u' or kind, prefer)
local ticket = mayQueue and tonumber(ARGV[13]) or 0
local queued = find(queue, all, queuedAs, ticket, band)
ticket = ticket > shifts[1] and ticket <= micros + protocol.maxAheadMicros and ticket or 0
local others = waiting(all) - (queued and 1 or 0)
local asking = { kind = upgrade and 'u' or kind, permits = permits, prefer = prefer, token = queuedAs, group = group }
asking.band = band
asking.ticket = upgrade and upgradeTicket or queued and queued.kind ~= 'u' and queued.ticket or ticket
if asking.ticket == 0 then
  asking.ticket = newTicket(queue, all, asking)
end

local granted, mine, held, seen, known = false, nil, nil, nil, 0
-- Our member, if it is one of many readers. Readers of one phase share a fence, so its text is known.
local function ourReader(shared)
  local each = member(text('r', 1, 0, fences and shared or 0, token, group))
  each.ends = tonumber(call('ZSCORE', lock, each.text))
  return each.ends and each.ends > now and each
end
-- Nearly every request joins other readers or has to wait, and needs to read only one of the holders: two fifths less time where a
-- reader waits behind twenty. A reader that holds the lock already writes its own member again, unless it was changed in place.
-- The limit of a readers-writer lock is the token of the holder that was downgraded in place and reads since. There is at most
-- one, since a writer is alone.
local isChanged = step > 0 or (kind ~= 'p' and call('GET', limit) == token)
if kind ~= 'p' and not isChanged and #all.expired == 0 and (not queued or queued.kind == kind) then -- S4
  held, seen = lastHolder(lock, token, group, fences)
  granted = held and isTurnOf(queue, all, held, asking, total)
  if held and not granted and held.kind == 'r' and ourReader(held.fence) then
    held = nil
  end
end
mayExpire(lock, ARGV[2])
local ends = now + ttl
local score = string.format('%.0f', ends)
if not held then
  local everybody = ourHolders(lock, isChanged, seen)
  if kind == 'r' and fences and everybody.fence == 0 then
    everybody = ourHolders(lock, true)
  end
  mine = holderOf(everybody, token)
  held = without(everybody, mine)
  if not mine and not everybody.whole and kind == 'r' then
    mine = ourReader(everybody.fence)
  end
  if step > 0 and not mine then
    return { -3, 0, 0, now }
  elseif step > 0 and mine.step > step then
    return { -1, 0, 0, now }
  end
  if everybody.kind and (everybody.kind == 'p') ~= (kind == 'p') then
    return redis.error_reply('WRONGTYPE this key is ' .. (kind == 'p' and 'a readers-writer lock' or 'a semaphore'))
  end
  known = kind == 'p' and tonumber(call('GET', limit) or 0) or 0
  local isKnown = everybody.count > 0
  if known ~= 0 and known ~= total and not isKnown then
    at(queue, all, 3, 1)
    for i = 1, #all[3].list do
      isKnown = isKnown or all[3].list[i].kind == 'p'
    end
  end
  if isKnown and known ~= 0 and known ~= total then
    return redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f', known, total))
  end
  local first = upgrade and mine.step < step and at(queue, all, 1, 1)
  if first and first.kind == 'u' and first.token ~= token then -- H46
    return { -2, 0, 0, now }
  end
  ends = math.max(ends, mine and mine.ends or 0)
  score = ends == math.huge and '+inf' or string.format('%.0f', ends)
  -- Entries are removed only after the first write that needs memory.
  if mine and (step == 0 or mine.step == step) then
    call('ZADD', lock, score, mine.text)
    everybody.of[mine.text] = ends
    leave(queue, all, queued)
    setEnd(lock)
    return { 1, mine.fence, others, now }
  end
  if step > 0 and kind == 'r' then
    -- A downgrade: it is always granted, and must be possible when memory is full.
    locks[lock] = nil
    call('ZREM', lock, mine.text) -- H55f
    call('ZADD', lock, score, text('r', 1, step, mine.fence, token, mine.group)) -- H55g
    -- The client may resend the request that made it a holder for as long as it waits for the answer; the mark says that it
    -- holds already.
    call('SET', limit, token, 'PX', 60000)
    leave(queue, all, queued)
    setEnd(lock)
    wakeLater(lock, queue, limit)
    return { 1, mine.fence, others, now }
  end
  granted = held.count == 0 -- B5
  if not upgrade then
    granted = not (kind == 'p' and sharesPlace(held, group)) and isTurnOf(queue, all, held, asking, total) -- H67c
  end
end
if not granted and #ARGV == 11 and string.find(ARGV[11], '^1 r') then
  -- While the shared member reads, no writer holds the lock, and no writer is granted it before both readers have released.
  local shared = tonumber(call('ZSCORE', lock, ARGV[11]))
  granted = shared and shared > now
end

if granted then -- H55h
  -- Readers of one phase share a fence.
  local minted = fences and kind == 'r' and held.fence or 0
  if fences and minted == 0 then
    -- The fence is written before the lock: if memory is full, no lock was changed yet.
    minted = mint(fence, kind == 'p' and tonumber(ARGV[4]) or 1, minFence)
  end
  local new = member(text(kind, permits, step, minted, token, group))
  call('ZADD', lock, 'GT', score, new.text)
  if mine then -- H40
    call('ZREM', lock, mine.text)
    locks[lock] = nil
  elseif locks[lock] then
    enter(locks[lock], new, ends)
  end
  local last = setEnd(lock) -- H47
  purge(lock, new.text)
  if kind == 'p' then
    last = last or call('PTTL', lock)
    call('SET', limit, ARGV[8], 'PX', string.format('%.0f', math.max(last, 0) + 3600000))
    if last < 0 then
      call('PERSIST', limit)
    end
  end
  local hasExpired = #all.expired > 0
  local isLastNotified = queued and all.notified > 0 and queued.ticket >= all.notified
  leave(queue, all, queued)
  if kind == 'w' and others > 0 then
    call('ZREMRANGEBYSCORE', queue, '-inf', '(0') -- H43b
    call('ZADD', queue, string.format('-%.0f', micros), 'phase')
    all.phase, all.notified = micros, 0
  elseif queued or hasExpired then
    isEmpty(queue, all)
  end
  if hasExpired or isLastNotified then
    wakeLater(lock, queue, limit)
  end
  return { 1, minted, others, now }
end

-- A writer waits for the end of the last holder; a caller that wants permits waits for the end of the first.
local left = 0
for _, each in pairs(held.of) do
  if left == 0 or (kind == 'p') == (each - now < left) then
    left = each - now
  end
end
if left == math.huge then
  left = -1
end
if not mayQueue then
  return { 0, left, asking.ticket, now, 0, 0 }
end
local isNew = not queued and ticket == 0 and band == 3
local before = isNew and others or positionOf(queue, all, asking)
local silence = tonumber(ARGV[14])
if silence == 0 then
  silence = 2 * math.min(math.max(protocol.pollMs, protocol.pollMsEach * (before + 1)), protocol.maxPollMs)
end
asking.channel, asking.id = ARGV[11], ARGV[12]
asking.text = string.format(
  '2 %.0f %s %s %.0f %s %s %d ',
  now + math.min(silence, maxSilence),
  asking.id,
  asking.kind,
  permits,
  prefer,
  asking.channel,
  #queuedAs
) .. queuedAs .. group
all.size = all.size + call('ZADD', queue, string.format('%.0f', scoreOf(asking, asking.ticket)), asking.text)
call('PEXPIRE', queue, maxSilence)
if kind == 'p' and known == 0 then
  call('SET', limit, ARGV[8], 'PX', 3600000)
end
if queued and queued.text == asking.text then
  queued.text = '' -- the entry was written again
end
local hasExpired = #all.expired > 0
leave(queue, all, queued)
insert(queue, all, asking)
if hasExpired then
  wakeLater(lock, queue, limit)
end
return { 0, left, asking.ticket, now, before, 0 }
