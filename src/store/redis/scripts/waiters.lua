-- PART waiters: the queue of a lock with a mode.
-- The queue is a sorted set with one entry for each waiter: "2 deadline id kind permits prefer channel length token group". The
-- kind u is an upgrade; the channel - marks a waiter that cannot be notified. The score is the ticket, shifted so that each
-- range of scores is a band with its own rule: upgrades and readers that prefer readers; then writers that prefer writers; then
-- all others.
-- Marks come first, with scores below zero. The score of `phase` is minus the time (server time in µs) of the last writer's
-- grant. The score of `told` is minus the ticket of the last notified waiter, when more waiters could be admitted.
-- No call reads more than the front of each band: its cost does not grow with the queue.
local queues, wakes = {}, {}
local maxSilence, maxNotified = protocol.maxSilenceMs, protocol.maxNotified
-- The marks and entries that are read first: of those who wait, few can be next.
local few = 5 -- H81b H95c
-- In µs: the distance between tickets and scores in each band; and the maximum time for which readers that prefer readers may
-- pass a waiter.
local shifts, readersPass = { protocol.readersFirstMicros, protocol.writersFirstMicros, 0 }, protocol.readersPassMicros

local function bandOf(kind, prefer)
  if kind == 'u' or (kind == 'r' and prefer == 'r') then -- H37
    return 1
  end
  return kind == 'w' and prefer == 'w' and 2 or 3
end

-- The ticket of an upgrade is before all others: there is at most one upgrade, and no other request can be granted before it.
local upgradeTicket = 1

local function scoreOf(each, ticket)
  return each.kind == 'u' and upgradeTicket or ticket - shifts[each.band]
end

-- The parts of an entry; nil if the entry has expired or is damaged.
local function entry(queue, found, score)
  local deadline, id, kind, permits, prefer, channel, length, rest =
    string.match(found, '^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.+)$')
  if not deadline then
    checkVersion(queue, found, '2')
    return nil
  end
  deadline, length = tonumber(deadline), tonumber(length)
  if deadline < now or deadline > now + maxSilence or length < 1 or length > #rest then -- H82d
    return nil
  end
  local each = {
    kind = kind,
    band = bandOf(kind, prefer),
    permits = tonumber(permits),
    prefer = prefer,
    channel = channel,
    id = id,
    token = string.sub(rest, 1, length),
    group = string.sub(rest, length + 1),
    text = found,
  }
  each.ticket = kind == 'u' and upgradeTicket or score + shifts[each.band]
  return each.ticket <= micros + protocol.maxAheadMicros and each or nil
end

-- The edges of a band's scores, in the middle between bands: tickets are times, and no waiter waits for years.
local function edges(band)
  local low = band > 1 and string.format('%.0f', micros - (shifts[band - 1] + shifts[band]) / 2) or '0'
  local high = band < 3 and string.format('(%.0f', micros - (shifts[band] + shifts[band + 1]) / 2) or '+inf'
  return low, high
end

local function read(queue, all, found)
  for i = 1, #found, 2 do
    local score = tonumber(found[i + 1])
    local each = score >= 0 and entry(queue, found[i], score)
    all.size = all.size - (score < 0 and 1 or 0)
    if found[i] == 'phase' and -score <= micros then
      all.phase = -score
    elseif found[i] == 'told' then
      all.notified = -score
    elseif each then
      local list = all[each.band].list
      list[#list + 1] = each
      all[each.band].upto = score
      all.of[each.token] = all.of[each.token] or each
    elseif score >= 0 then
      all.expired[#all.expired + 1] = found[i]
    end
  end
end

-- The part of the queue that was read. The front is read first, which may be the whole queue (`whole`). A band before its last
-- entry has no others.
local function queueOf(queue)
  local all = queues[queue]
  if all then
    return all
  end
  all = { phase = 0, notified = 0, last = 0, of = {}, expired = {} }
  for band = 1, 3 do
    local low, high = edges(band)
    all[band] = { list = {}, low = low, high = high }
  end
  all.size = call('ZCARD', queue)
  all.whole = all.size <= few
  local found = all.size == 0 and {} or call('ZRANGE', queue, 0, few - 1, 'WITHSCORES')
  read(queue, all, found)
  local last = tonumber(found[#found]) or 0
  for band = 1, 3 do
    local part = all[band]
    part.more = not all.whole and (band == 3 or last < tonumber(all[band + 1].low))
    if part.more and last >= tonumber(part.low) then
      part.low = '(' .. found[#found]
    end
  end
  queues[queue] = all
  return all
end

-- The entry at a position of a band. Reads more entries if it must, but stops after very many expired ones: the next call goes
-- on there.
local function at(queue, all, band, n)
  local part = all[band]
  while n > #part.list and part.more and #all.expired < protocol.maxExpired do
    local count = math.min(chunk, math.max(n, 3))
    local found = call('ZRANGEBYSCORE', queue, part.low, part.high, 'WITHSCORES', 'LIMIT', 0, count)
    part.more = #found == 2 * count
    if #found > 0 then
      part.low = '(' .. found[#found]
    end
    read(queue, all, found)
  end
  return part.list[n]
end

-- The entry of a token, by its ticket. 0: it was never queued. -1: it may be queued, with an unknown ticket: then only the last
-- entries are checked, and an entry that is not among them expires. `only` is its band, if known.
local function find(queue, all, token, ticket, only)
  local each = all.of[token]
  for band = only or 1, (each or all.whole or ticket == 0) and 0 or only or 3 do
    local found
    if ticket > 0 then
      local score = ticket == upgradeTicket and ticket or ticket - shifts[band]
      found = call('ZRANGEBYSCORE', queue, score, score, 'WITHSCORES')
    else
      found = call('ZRANGE', queue, all[band].high, '0', 'BYSCORE', 'REV', 'LIMIT', 0, 4 * chunk, 'WITHSCORES')
    end
    for i = 1, #found, 2 do
      local one = string.find(found[i], token, 1, true) and entry(queue, found[i], tonumber(found[i + 1]))
      each = one and one.token == token and one or each
    end
  end
  return each
end

local function waiting(all)
  return all.size - #all.expired
end

-- A new ticket behind all others.
local function newTicket(queue, all, asking)
  local last = all.whole and 0 or all.last
  for band = 1, 3 do
    local list = all[band].list
    last = math.max(last, list[#list] and list[#list].ticket or 0)
  end
  if not all.whole then
    local found = call('ZRANGE', queue, all[asking.band].high, '0', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
    local ticket = (tonumber(found[2]) or 0) + shifts[asking.band]
    last = math.max(last, ticket <= micros + protocol.maxAheadMicros and ticket or 0)
  end
  return math.max(micros, last + 1)
end

-- The number of entries before `asking`, by score.
local function positionOf(queue, all, asking)
  local score = scoreOf(asking, asking.ticket)
  if not all.whole then
    return call('ZCOUNT', queue, 0, string.format('(%.0f', score))
  end
  local before = 0
  for band = 1, asking.band do
    for _, each in ipairs(all[band].list) do
      if each.token ~= asking.token and scoreOf(each, each.ticket) < score then
        before = before + 1
      end
    end
  end
  return before
end

local function insert(all, each)
  local part, score = all[each.band], scoreOf(each, each.ticket)
  all.last = math.max(all.last, each.ticket)
  if part.more and not (part.upto and score <= part.upto) then
    return -- the entry lies behind the part that was read
  end
  local n = #part.list + 1
  while n > 1 and part.list[n - 1].ticket > each.ticket do
    n = n - 1
  end
  table.insert(part.list, n, each)
  all.of[each.token] = each
end

-- Removes expired entries, and `each` if it is not nil.
local function leave(queue, all, each)
  if each or #all.expired > 0 then
    all.size = all.size - call('ZREM', queue, each and each.text or all.expired[1], unpack(all.expired))
    all.expired = {}
  end
  if each then
    local list = all[each.band].list
    for n = 1, #list do
      if list[n] == each then
        table.remove(list, n)
        break
      end
    end
    all.of[each.token] = nil
  end
end

local function isEmpty(queue, all)
  if waiting(all) == 0 then
    call('DEL', queue)
    all.phase, all.notified = 0, 0
    return true
  end
end
