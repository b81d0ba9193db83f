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
-- The distance between tickets and scores in each band, in µs.
local shifts = { protocol.readersFirstMicros, protocol.writersFirstMicros, 0 }

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

-- The edge between the scores of a band and the next one, in the middle: tickets are times, and no waiter waits for years.
local function edgeOf(band)
  return micros - (shifts[band] + shifts[band + 1]) / 2
end

local function lowest(band)
  return band > 1 and string.format('%.0f', edgeOf(band - 1)) or '0'
end

local function highest(band)
  return band < 3 and string.format('(%.0f', edgeOf(band)) or '+inf'
end

local function read(queue, all, text, score)
  local each = entry(queue, text, score)
  if each then
    local list = all[each.band].list
    list[#list + 1] = each
    all.of[each.token] = all.of[each.token] or each
  else
    all.expired[#all.expired + 1] = text
  end
end

-- Reads entries of the front up to the last one, or to one at a position of it.
local function readFront(queue, all, upto)
  for i = all.done + 1, upto or #all.front do
    all.done = i
    read(queue, all, all.front[i], all.scores[i])
  end
end

-- The marks of a queue, and its front: which may be the whole queue (`whole`), and is read at once then. Otherwise each entry of
-- the front is read when it is needed. A band before the last entry of the front has no others.
local function queueOf(queue)
  local all = queues[queue]
  if all then
    return all
  end
  all = { phase = 0, notified = 0, last = 0, of = {}, expired = {}, front = {}, scores = {}, done = 0 }
  all.size = call('ZCARD', queue)
  all.whole = all.size <= few
  local found, band = all.size == 0 and {} or call('ZRANGE', queue, 0, few - 1, 'WITHSCORES'), 1
  for n = 1, 3 do
    all[n] = { list = {}, more = not all.whole }
  end
  for i = 1, #found, 2 do
    local score = tonumber(found[i + 1])
    if score < 0 then
      all.size = all.size - 1
      if found[i] == 'phase' and -score <= micros then
        all.phase = -score
      elseif found[i] == 'told' then
        all.notified = -score
      end
    else
      while band < 3 and score >= edgeOf(band) do
        all[band].more = false
        band = band + 1
      end
      all[band].upto = score
      all.front[#all.front + 1] = found[i]
      all.scores[#all.front] = score
    end
  end
  if #all.front > 0 then
    all[band].low = '(' .. found[#found]
  end
  queues[queue] = all
  if all.whole then
    readFront(queue, all)
  end
  return all
end

-- The entry at a position of a band. Reads more entries if it must, but stops after very many expired ones: the next call goes
-- on there.
local function at(queue, all, band, n)
  local part = all[band]
  while n > #part.list and all.done < #all.front and (band == 3 or all.scores[all.done + 1] < edgeOf(band)) do
    readFront(queue, all, all.done + 1)
  end
  while n > #part.list and part.more and #all.expired < protocol.maxExpired do
    local count = math.min(chunk, math.max(n, 3))
    local low = part.low or lowest(band)
    local found = call('ZRANGEBYSCORE', queue, low, highest(band), 'WITHSCORES', 'LIMIT', 0, count)
    part.more = #found == 2 * count
    for i = 1, #found, 2 do
      part.upto = tonumber(found[i + 1])
      part.low = '(' .. found[i + 1]
      read(queue, all, found[i], part.upto)
    end
  end
  return part.list[n]
end

-- The entry of a token, by its ticket. 0: it was never queued. -1: it may be queued, with an unknown ticket: then only the last
-- entries are checked, and an entry that is not among them expires. `only` is its band, if known.
local function find(queue, all, token, ticket, only)
  for i = all.done + 1, #all.front do
    if string.find(all.front[i], token, 1, true) then
      readFront(queue, all, i)
    end
  end
  local each = all.of[token]
  for band = only or 1, (each or all.whole or ticket == 0) and 0 or only or 3 do
    local found
    if ticket > 0 then
      local score = ticket == upgradeTicket and ticket or ticket - shifts[band]
      found = call('ZRANGEBYSCORE', queue, score, score, 'WITHSCORES')
    else
      found = call('ZRANGE', queue, highest(band), '0', 'BYSCORE', 'REV', 'LIMIT', 0, 4 * chunk, 'WITHSCORES')
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
    local found = call('ZRANGE', queue, highest(asking.band), '0', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
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

local function insert(queue, all, each)
  local part, score = all[each.band], scoreOf(each, each.ticket)
  all.last = math.max(all.last, each.ticket)
  if part.more and not (part.upto and score <= part.upto) then
    return -- the entry lies behind the part that was read
  end
  readFront(queue, all)
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
