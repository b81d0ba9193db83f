-- PART wake: the order in which waiters are admitted, and notifying those whose turn it is.
-- The next entry in the order of admission, after the entries that `cursor` counts in each band; `asking` counts as queued. An
-- upgrade is first. Readers that prefer readers pass the others, except earlier ones that have waited for half a second.
-- Writers that prefer writers pass all entries that came after the last writer's grant: so each entry is passed at most once by
-- them, and no stream of writers starves it. Otherwise the order is by ticket.
local function nextOf(queue, all, cursor, asking)
  local heads = {}
  for band = 1, 3 do
    local each = at(queue, all, band, cursor[band])
    while each and asking and each.token == asking.token do
      cursor[band] = cursor[band] + 1
      each = at(queue, all, band, cursor[band])
    end
    if asking and asking.band == band and not cursor.asked and (not each or asking.ticket < each.ticket) then
      each = asking
    end
    heads[band] = each
  end
  local reader, first, other = heads[1], heads[2], heads[3]
  if other and (not first or (other.ticket <= all.phase and other.ticket < first.ticket)) then
    first = other
  end
  local isPassed = reader and first and (first.ticket > reader.ticket or micros - first.ticket <= protocol.readersPassMicros)
  if reader and (not first or isPassed or reader.kind == 'u') then
    first = reader
  end
  if first and first == asking then
    cursor.asked = true
  elseif first then
    cursor[first.band] = cursor[first.band] + 1
  end
  return first
end

local function roomBeside(held)
  local only = held.count == 1 and held.kind ~= 'p' and member(next(held.of)).token or nil
  return { count = held.count, kind = held.kind, group = held.group, used = held.used, only = only }
end

-- True if an entry may hold the lock beside these holders.
local function admits(held, each, limit)
  if each.kind == 'p' then
    return held.used + each.permits <= limit -- B4
  elseif each.kind == 'r' then
    return held.count == 0 or (held.kind == 'r' and held.group == each.group) -- H42
  elseif each.kind == 'u' and held.count == 1 and held.only == each.token then
    return true
  end
  return held.count == 0
end

-- True if only readers of its group come before this reader of the third band, false if a writer does, nil if neither is certain. It
-- saves a fifth of the scripts' time where 1,000 processes want the lock.
local function isTurnOfReader(queue, all, asking)
  local writer = at(queue, all, 2, 1)
  if at(queue, all, 1, 1) or (writer and writer.token == asking.token) then
    return nil
  elseif writer and (asking.ticket > all.phase or asking.ticket > writer.ticket) then
    return false
  end
  local found = call('ZRANGEBYSCORE', queue, lowest(3), string.format('(%.0f', asking.ticket), 'LIMIT', 0, maxNotified)
  for i = 1, #found do
    local length, start = string.match(found[i], '^2 %d+ %d+ r 1 [wf] %S+ (%d+) ()')
    if not length or string.sub(found[i], start + length) ~= asking.group then
      return nil
    end
  end
  return #found < maxNotified or nil
end

-- True if `asking` may be granted. Entries before it that have room count as holders, even if they have not retried yet.
local function isTurnOf(queue, all, held, asking, total)
  local room, cursor = roomBeside(held), { 1, 1, 1 }
  if not admits(room, asking, total) then
    return false
  end
  if asking.kind == 'r' and asking.band == 3 then -- S33
    local isTurn = isTurnOfReader(queue, all, asking)
    if isTurn ~= nil then
      return isTurn
    end
  end
  for _ = 1, maxNotified do
    local each = nextOf(queue, all, cursor, asking)
    if not each or not admits(room, each, total) then
      return false
    elseif each == asking then
      return true
    end
    admit(room, each)
  end
  return false
end

-- The holders of a semaphore after these releases, or nil. They are only counted if that tells how many permits are taken: each
-- holder has one at least, and together with those just released they are the limit at most.
local function countedHolders(lock, released, total)
  local left = total
  for i = 1, #released do
    left = left - (released[i].kind == 'p' and released[i].permits or total)
  end
  local count = left > 0 and not locks[lock] and call('ZCOUNT', lock, string.format('(%.0f', now), '+inf')
  if count == left then
    return { of = {}, kind = 'p', count = count, used = count }
  end
end

-- Schedules the notification of the waiters that can be admitted, for the end of the batch: one message for each process,
-- "id,id,id lock". `released` is the holder that made room. A waiter that had room beside it too was notified before, unless an
-- entry that has expired, or the end of a notification, was in its way. The last holder that leaves notifies all for whom there is
-- room: if a notification was lost, no other release would follow.
local function wakeLater(lock, queue, limit, released)
  local all, later = queueOf(queue), wakes[lock]
  local isFresh = not released or #all.expired > 0 or all.notified > 0
  leave(queue, all)
  if isEmpty(queue, all) then
    return
  end
  if not later then
    later = { lock, queue, limit, {} }
    wakes[lock] = later
    wakes[#wakes + 1] = later
  end
  later.isFresh = later.isFresh or isFresh
  table.insert(later[4], released)
end

-- Notifies the waiters that can be admitted, up to `maxNotified`. The rest is notified when the last of these is admitted.
local function wake(lock, queue, limit, released, isFresh)
  local all, cursor = queueOf(queue), { 1, 1, 1 }
  local total = tonumber(call('GET', limit) or 0) or 0
  local held = not isFresh and countedHolders(lock, released, total) or ourHolders(lock)
  local room = roomBeside(held)
  local before = not isFresh and held.count > 0 and roomBeside(held) -- H95e
  for i = 1, before and #released or 0 do
    admit(before, released[i])
  end
  local ids, channels, last = {}, {}, 0
  for n = 1, maxNotified do
    local isFull = room.kind == 'p' and room.used >= total
    local each = not isFull and nextOf(queue, all, cursor)
    if not each or not admits(room, each, total) then -- H30c
      break
    end
    admit(room, each)
    last = n == maxNotified and each.ticket or 0
    before = before and #all.expired == 0 and admits(before, each, total) and before
    if before then
      admit(before, each)
    elseif each.channel ~= '-' then
      if not ids[each.channel] then
        channels[#channels + 1] = each.channel
        ids[each.channel] = {}
      end
      table.insert(ids[each.channel], each.id)
    end
  end
  for i = 1, #channels do
    redis.pcall('PUBLISH', channels[i], table.concat(ids[channels[i]], ',') .. ' ' .. lock)
  end
  leave(queue, all)
  if isEmpty(queue, all) then
    return
  elseif last > 0 then
    call('ZADD', queue, string.format('-%.0f', last), 'told')
  elseif all.notified > 0 then
    call('ZREM', queue, 'told')
  end
  all.notified = last
end
