-- PART members: locks that several may hold, and the line of those who wait for one.
-- The lock is a sorted set, one member for each holder, its own end (server time in ms) as score: who is past it is gone,
-- whatever became of the others. "1 kind permits step fence length token group": kind r reads, w writes, p has permits; step
-- counts changes in place; length is that of the token in bytes.
-- The line is a sorted set by ticket: "2 deadline id kind permits prefer channel length token group", u an upgrade, channel -
-- for who cannot be told. Its member `phase` comes first: minus the moment (server time in µs) of the last writer's grant.
-- What the calls of a batch have read is remembered, and changed as they change it: nobody else writes in between.
local locks, lines, wakes = {}, {}, {}

local function member(text)
  local kind, permits, step, fence, length, rest = string.match(text, '^1 ([rwp]) (%d+) (%d+) (%d+) (%d+) (.*)$')
  if not kind then
    error('WRONGTYPE this sorted set is no lock of redis-exp-lock, or one of another version', 0)
  end
  length = tonumber(length)
  return {
    kind = kind,
    permits = tonumber(permits),
    step = tonumber(step),
    fence = tonumber(fence),
    token = string.sub(rest, 1, length),
    group = string.sub(rest, length + 1),
    text = text,
  }
end

local function text(kind, permits, step, fence, token, group)
  return string.format('1 %s %.0f %.0f %.0f %d ', kind, permits, step, fence, #token) .. token .. group
end

-- As if somebody had gone in: who comes after it finds less room.
local function goesIn(held, each)
  held.kind, held.group = each.kind, each.group
  held.count, held.used = held.count + 1, held.used + each.permits
end

local function enter(held, each, ends)
  each.ends = ends
  held.of[each.token] = each
  held.fence = math.max(held.fence, each.fence)
  goesIn(held, each)
end

local function nobody()
  return { of = {}, count = 0, used = 0, fence = 0 }
end

-- Who holds the lock now: each by its token, and what they are together.
local function holders(lock)
  local held = locks[lock]
  if not held then
    held = nobody()
    local found = call('ZRANGEBYSCORE', lock, string.format('(%.0f', now), '+inf', 'WITHSCORES')
    for i = 1, #found, 2 do
      enter(held, member(found[i]), tonumber(found[i + 1]))
    end
    locks[lock] = held
  end
  return held
end

-- For a reader who has just come, whoever ends last stands for all when that is a reader of its own group; else nil.
local function lastReader(lock, token, group, fenced)
  if locks[lock] then
    return nil
  end
  local found = call('ZRANGE', lock, -1, -1, 'WITHSCORES')
  local last = found[1] and tonumber(found[2]) > now and member(found[1])
  if not last or last.kind ~= 'r' or last.group ~= group or last.token == token or (fenced and last.fence == 0) then
    return nil
  end
  local held = nobody()
  enter(held, last, tonumber(found[2]))
  return held
end

local function without(held, token)
  if not held.of[token] then
    return held
  end
  local others = nobody()
  for whose, each in pairs(held.of) do
    if whose ~= token then
      enter(others, each, each.ends)
    end
  end
  return others
end

-- The set ends with its last member, so that what nobody cleans up does not stay.
local function keep(lock)
  local last = call('ZRANGE', lock, -1, -1, 'WITHSCORES')
  if last[2] == 'inf' then
    call('PERSIST', lock)
  elseif last[2] then
    call('PEXPIRE', lock, string.format('%.0f', math.max(tonumber(last[2]) - now, 1)))
  end
end

-- Whether somebody may go in, or make others go in, out of turn.
local function isSpecial(each)
  return each.kind == 'u' or (each.kind ~= 'p' and each.kind == each.prefer)
end

local function stands(all, each)
  local live = all.live
  local at = #live + 1
  while at > 1 and live[at - 1].ticket > each.ticket do
    at = at - 1
  end
  table.insert(live, at, each)
  all.of[each.token] = each
  all.special = all.special + (isSpecial(each) and 1 or 0)
end

local function entry(found, ticket)
  local deadline, id, kind, permits, prefer, channel, length, rest =
    string.match(found, '^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.*)$')
  if not deadline then
    error('VERSION the line of this lock was written by another version of redis-exp-lock', 0)
  end
  length = tonumber(length)
  return {
    deadline = tonumber(deadline),
    kind = kind,
    permits = tonumber(permits),
    prefer = prefer,
    channel = channel,
    id = id,
    token = string.sub(rest, 1, length),
    group = string.sub(rest, length + 1),
    ticket = tonumber(ticket),
    text = found,
  }
end

-- Everybody in line who gives signs, by ticket; and those who are passed over. Of a long line for permits, where nobody goes in
-- out of turn, only the front unless all of it is asked for: `more` stand behind.
local function line(queue, whole)
  local all = lines[queue]
  if all and not (whole and all.more) then
    return all
  end
  all = { live = {}, of = {}, dead = {}, phase = 0, special = 0 }
  local found = call('ZRANGE', queue, 0, whole and -1 or 16, 'WITHSCORES')
  all.more = not whole and #found == 34
  for i = 1, #found, 2 do
    if found[i] == 'phase' then
      all.phase = -tonumber(found[i + 1])
    else
      local each = entry(found[i], found[i + 1])
      if each.deadline < now then
        all.dead[#all.dead + 1] = each.text
      else
        stands(all, each)
      end
      if all.more and each.kind ~= 'p' then
        return line(queue, true)
      end
    end
  end
  if all.more and #all.live == 0 then
    return line(queue, true)
  end
  lines[queue] = all
  return all
end

-- Takes out who is passed over, and `each` if it stands there.
local function leaves(queue, all, each)
  for i = 1, #all.dead do
    call('ZREM', queue, all.dead[i])
  end
  all.dead = {}
  if each then
    if each.text then
      call('ZREM', queue, each.text)
    end
    for i = 1, #all.live do
      if all.live[i] == each then
        table.remove(all.live, i)
        break
      end
    end
    all.of[each.token] = nil
    all.special = all.special - (isSpecial(each) and 1 or 0)
  end
  if all.more and #all.live == 0 then
    lines[queue] = nil
  end
end

-- Those in line, and who is asking, in the order in which they go in. An upgrade first: nobody else can go in before it. Readers
-- that pass writers next. Then by ticket, but a writer that is preferred passes each reader who came after the last writer's
-- grant: so each reader is passed once, and no stream of writers starves it.
local function turns(all, asking)
  local list = {}
  local put = not asking
  for i = 1, #all.live do
    local each = all.live[i]
    if not put and each.ticket > asking.ticket then
      list[#list + 1] = asking
      put = true
    end
    if not asking or each.token ~= asking.token then
      list[#list + 1] = each
    end
  end
  if not put then
    list[#list + 1] = asking
  end
  if all.special == 0 and not (asking and isSpecial(asking)) then
    return list
  end
  local writer = 0
  for i = 1, #list do
    if list[i].kind == 'w' and list[i].prefer == 'w' then
      writer = list[i].ticket
    end
  end
  local ranks = { {}, {}, {}, {}, {} }
  for i = 1, #list do
    local each = list[i]
    local rank = 3
    if each.kind == 'u' then
      rank = 1
    elseif each.kind == 'r' and each.prefer == 'r' then
      rank = 2
    elseif each.ticket > writer then
      rank = 5
    elseif each.kind == 'r' and each.ticket > all.phase and each.ticket < writer then
      rank = 4
    end
    table.insert(ranks[rank], each)
  end
  list = ranks[1]
  for rank = 2, 5 do
    for i = 1, #ranks[rank] do
      list[#list + 1] = ranks[rank][i]
    end
  end
  return list
end

local function roomBeside(held)
  local only = held.count == 1 and next(held.of) or nil
  return { count = held.count, kind = held.kind, group = held.group, used = held.used, only = only }
end

-- Whether somebody may hold the lock beside these holders.
local function admits(held, each, limit)
  if each.kind == 'p' then
    return held.used + each.permits <= limit
  elseif each.kind == 'r' then
    return held.count == 0 or (held.kind == 'r' and held.group == each.group)
  elseif each.kind == 'u' and held.count == 1 and held.only == each.token then
    return true
  end
  return held.count == 0
end

-- Takes out who is passed over. False: nobody is left.
local function isWaitedFor(queue)
  local all = line(queue)
  leaves(queue, all)
  if #all.live == 0 then
    call('DEL', queue)
    all.phase = 0
  end
  return #all.live > 0
end

-- When the batch is done, everybody is told for whom there is room then: one message for each process, "id,id,id lock".
local function wakeLater(lock, queue, limit)
  if isWaitedFor(queue) and not wakes[lock] then
    wakes[lock] = true
    wakes[#wakes + 1] = { lock, queue, limit }
  end
end

local function wake(lock, queue, limit)
  local all = line(queue)
  local room = roomBeside(holders(lock))
  local most = tonumber(call('GET', limit) or 0)
  local list = turns(all)
  local ids, channels = {}, {}
  local i = 0
  while i < #list do
    i = i + 1
    local each = list[i]
    if not admits(room, each, most) then
      break
    end
    goesIn(room, each)
    if each.channel ~= '-' then
      if not ids[each.channel] then
        channels[#channels + 1] = each.channel
        ids[each.channel] = {}
      end
      table.insert(ids[each.channel], each.id)
    end
    if i == #list and all.more then
      all = line(queue, true)
      list = turns(all)
    end
  end
  for i = 1, #channels do
    redis.pcall('PUBLISH', channels[i], table.concat(ids[channels[i]], ',') .. ' ' .. lock)
  end
end
