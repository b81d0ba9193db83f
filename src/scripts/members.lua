-- PART members: locks that several may hold, and the line of those who wait for one.
-- The lock is a sorted set, one member for each holder, its own end (server time in ms) as score: who is past it is gone,
-- whatever became of the others. "1 kind permits step fence length token group": kind r reads, w writes, p has permits; step
-- counts changes in place; length is that of the token in bytes.
-- The line is a sorted set by ticket: "2 deadline id kind permits prefer channel length token group", u an upgrade, channel -
-- for who cannot be told. Its member `phase` comes first: minus the moment (server time in µs) of the last writer's grant.
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

-- Who holds the lock now: our own member and its end, and what all the others are together.
local function holders(lock, token)
  local found = call('ZRANGEBYSCORE', lock, string.format('(%.0f', now), '+inf', 'WITHSCORES')
  local held = { count = 0, used = 0, fence = 0, first = math.huge, last = 0 }
  for i = 1, #found, 2 do
    local each, ends = member(found[i]), tonumber(found[i + 1])
    if each.token == token then
      held.mine, held.ends = each, ends
    else
      held.kind, held.group = each.kind, each.group
      held.count, held.used, held.only = held.count + 1, held.used + each.permits, each.token
      held.fence = math.max(held.fence, each.fence)
      held.first, held.last = math.min(held.first, ends), math.max(held.last, ends)
    end
  end
  return held
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

-- Everybody in line who gives signs, in the order in which they go in, and those who are passed over. An upgrade first: nobody
-- else can go in before it. Readers that pass writers next. Then by ticket, but a writer that is preferred passes each reader
-- who came after the last writer's grant: so each reader is passed once, and no stream of writers starves it.
local function line(queue)
  local found = call('ZRANGE', queue, 0, -1, 'WITHSCORES')
  local live, dead, phase = {}, {}, 0
  for i = 1, #found, 2 do
    local ticket = tonumber(found[i + 1])
    if found[i] == 'phase' then
      phase = -ticket
    else
      local deadline, id, kind, permits, prefer, channel, length, rest =
        string.match(found[i], '^2 (%d+) (%d+) ([rwpu]) (%d+) ([wrf]) (%S+) (%d+) (.*)$')
      if not deadline then
        error('VERSION the line of this lock was written by another version of redis-exp-lock', 0)
      end
      length = tonumber(length)
      if tonumber(deadline) < now then
        dead[#dead + 1] = found[i]
      else
        live[#live + 1] = {
          kind = kind,
          permits = tonumber(permits),
          prefer = prefer,
          channel = channel,
          id = id,
          token = string.sub(rest, 1, length),
          group = string.sub(rest, length + 1),
          ticket = ticket,
          text = found[i],
        }
      end
    end
  end
  return live, dead, phase
end

local function order(live, phase)
  local writer = 0
  for i = 1, #live do
    if live[i].kind == 'w' and live[i].prefer == 'w' then
      writer = math.max(writer, live[i].ticket)
    end
  end
  for i = 1, #live do
    local each = live[i]
    each.at, each.rank = each.ticket, 3
    if each.kind == 'u' then
      each.rank = 1
    elseif each.kind == 'r' and each.prefer == 'r' then
      each.rank = 2
    elseif each.kind == 'r' and each.ticket > phase and each.ticket < writer then
      each.at, each.passed = writer, true
    end
  end
  table.sort(live, function(a, b)
    if a.rank ~= b.rank then
      return a.rank < b.rank
    elseif a.at ~= b.at then
      return a.at < b.at
    elseif a.passed ~= b.passed then
      return not a.passed
    end
    return a.ticket < b.ticket
  end)
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

-- As if they had gone in: who comes after them finds less room.
local function goesIn(held, each)
  held.kind, held.group = each.kind, each.group
  held.count, held.used = held.count + 1, held.used + each.permits
end

-- Tells everybody for whom there is room now, one message for each process: "id,id,id lock".
local function wake(lock, queue, limit)
  local live, dead, phase = line(queue)
  for i = 1, #dead do
    call('ZREM', queue, dead[i])
  end
  if #live == 0 then
    call('DEL', queue)
    return
  end
  local held = holders(lock, nil)
  order(live, phase)
  local ids, channels = {}, {}
  for i = 1, #live do
    local each = live[i]
    if not admits(held, each, limit) then
      break
    end
    goesIn(held, each)
    if each.channel ~= '-' then
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
end
