-- acquireMember: become one of a lock's holders when those who hold it and those who wait leave room; or stand in line; or change in place.
-- USES moment take members
-- WITHIN batchMembers
-- KEYS   lock      sorted set: one member for each holder
-- KEYS   fence     string: the last fence minted for the lock
-- KEYS   queue     sorted set: who stands in line for the lock
-- KEYS   limit     string: how many permits the lock has
-- ARGV   token     who asks; a member with it is ours, and this is a resend
-- ARGV   lifetime  ms until our member ends by itself
-- ARGV   notAfter  server time in ms after which nobody waits for this request any more
-- ARGV   fences    1: mint a fence; 0: none
-- ARGV   kind      r to read, w to write, p for permits
-- ARGV   prefer    w writers go first, r readers do, f whoever came first
-- ARGV   permits   how many we want
-- ARGV   most      how many there are
-- ARGV   step      0: a new holder; else the number of this change of a holder: r gives writing up, w asks for it
-- ARGV   group     readers of one group share
-- ARGV   place[]   for who stands in line when there is no room: channel, id, ticket (0: it has none yet), ms after which it is passed over without a sign (0: by its place)
-- REPLY  [1 granted, fence, others in line, server time in ms | 0 no room, ms until there may be some (-1: nobody knows), ticket, server time, how many stand before it, 0 | -1 too late, 0, 0, server time | -2 another reader asks to write, 0, 0, server time | -3 the holder that should change is gone, 0, 0, server time]
local token, fences, kind, prefer, group = ARGV[1], ARGV[4] == '1', ARGV[5], ARGV[6], ARGV[10]
local notAfter, permits, most, step = tonumber(ARGV[3]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
-- What comes after our arguments is the next call's: their number says whether there is a place.
local placed = #ARGV > 10
checkLifetime(ARGV[2])
local ttl = tonumber(ARGV[2])
local fixed = permits and most and step and permits >= 1 and permits % 1 == 0 and string.find('rwp', kind, 1, true)
if token == '' or not notAfter or not fixed then
  return redis.error_reply('ERR expected a token, a moment, a kind, permits and a step')
end
clock()
if now > notAfter then
  return { -1, 0, 0, now }
end
local lock, fence, queue, limit = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local held = holders(lock, token)
local mine = held.mine
local upgrade = step > 0 and kind == 'w'
if step > 0 and not mine then
  return { -3, 0, 0, now }
elseif step > 0 and mine.step > step then
  return { -1, 0, 0, now }
end
for _, each in ipairs({ mine or false, held.count > 0 and held or false }) do
  if each and (each.kind == 'p') ~= (kind == 'p') then
    return redis.error_reply('WRONGTYPE this key is ' .. (each.kind == 'p' and 'a semaphore' or 'a readers-writer lock'))
  end
end
local live, dead, phase = line(queue)
local known = tonumber(call('GET', limit) or 0)
if kind == 'p' and known ~= most and known ~= 0 and (held.count > 0 or mine or #live > 0) then
  return redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f', known, most))
end

local others = {}
local standing
for i = 1, #live do
  if live[i].token == token then
    standing = live[i]
  else
    others[#others + 1] = live[i]
    if upgrade and live[i].kind == 'u' and mine.step < step then
      return { -2, 0, 0, now }
    end
  end
end
-- What left the line by itself is taken out only after the first write that memory must allow.
local function leave()
  for i = 1, #dead do
    call('ZREM', queue, dead[i])
  end
  if standing then
    call('ZREM', queue, standing.text)
  end
end

mayExpire(lock, ARGV[2])
local ends = now + ttl
local function score(value)
  return value == math.huge and '+inf' or string.format('%.0f', value)
end
if mine and (step == 0 or mine.step == step) then
  ends = math.max(ends, held.ends)
  call('ZADD', lock, score(ends), mine.text)
  leave()
  keep(lock)
  return { 1, mine.fence, #others, now }
end
if step > 0 and kind == 'r' then
  -- Writing is given up: there is always room for that, and there must be, also when memory is full.
  call('ZREM', lock, mine.text)
  call('ZADD', lock, score(math.max(ends, held.ends)), text('r', 1, step, mine.fence, token, mine.group))
  leave()
  keep(lock)
  pcall(wake, lock, queue, most)
  return { 1, mine.fence, #others, now }
end

local asking = { kind = upgrade and 'u' or kind, permits = permits, prefer = prefer, token = token, group = group }
local ticket = standing and standing.ticket or placed and tonumber(ARGV[13]) or 0
if ticket == 0 then
  ticket = micros
  for i = 1, #others do
    ticket = math.max(ticket, others[i].ticket + 1)
  end
end
asking.ticket = ticket
others[#others + 1] = asking
order(others, phase)
-- Those before us for whom there is room go in first, whether they have asked yet or not.
local room = { count = held.count, kind = held.kind, group = held.group, used = held.used, only = held.only }
local before, granted = 0, false
if upgrade then
  granted = held.count == 0
else
  if mine then
    goesIn(room, mine)
  end
  local open = true
  for i = 1, #others do
    local each = others[i]
    open = open and admits(room, each, most)
    if each == asking then
      granted = open
      break
    end
    before = before + 1
    if open then
      goesIn(room, each)
    end
  end
end

if granted then
  local minted = 0
  if fences then
    minted = kind == 'r' and held.fence or 0
    local last = lastFence(fence)
    if minted == 0 then
      minted = math.max(last + 1, micros)
    end
    -- The fence goes first: when memory is missing, no lock was touched yet.
    setFence(fence, math.max(minted, last))
  end
  if mine then
    ends = math.max(ends, held.ends)
  end
  call('ZADD', lock, score(ends), text(kind, permits, step, minted, token, group))
  if mine then
    call('ZREM', lock, mine.text)
  end
  keep(lock)
  call('ZREMRANGEBYSCORE', lock, '-inf', string.format('%.0f', now))
  if kind == 'p' then
    local last = math.max(ends, held.last)
    call('PSETEX', limit, string.format('%.0f', (last == math.huge and 0 or last - now) + 3600000), ARGV[8])
    if last == math.huge then
      call('PERSIST', limit)
    end
  end
  leave()
  if kind == 'w' and #others > 1 then
    call('ZREMRANGEBYSCORE', queue, '-inf', '(0')
    call('ZADD', queue, string.format('-%.0f', micros), 'phase')
  elseif #others == 1 and (standing or #dead > 0) then
    call('DEL', queue)
  end
  if #dead > 0 then
    pcall(wake, lock, queue, most)
  end
  return { 1, minted, #others - 1, now }
end

-- A writer waits for the last holder's end, who wants permits for the first one's.
local left = (kind == 'p' and held.first or held.last) - now
if held.count == 0 then
  left = 0
elseif left == math.huge then
  left = -1
end
if not placed then
  return { 0, left, ticket, now, before, 0 }
end
local patience = tonumber(ARGV[14])
if patience == 0 then
  patience = 2 * math.max(1000, 125 * (before + 1))
end
local mark = string.format('2 %.0f %s %s %.0f %s %s %d ', now + patience, ARGV[12], asking.kind, permits, prefer, ARGV[11], #token)
call('ZADD', queue, string.format('%.0f', ticket), mark .. token .. group)
call('PEXPIRE', queue, 600000)
if kind == 'p' and known == 0 then
  call('PSETEX', limit, 3600000, ARGV[8])
end
leave()
return { 0, left, ticket, now, before, 0 }
