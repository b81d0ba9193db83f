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
local all = line(queue, kind ~= 'p')
local standing = all.of[token]
local asked = placed and tonumber(ARGV[13]) or 0
if all.more and not standing and asked > 0 then
  local found = call('ZRANGEBYSCORE', queue, ARGV[13], ARGV[13])
  for i = 1, #found do
    local each = entry(found[i], asked)
    standing = each.token == token and each or standing
  end
end
local others = (all.more and call('ZCOUNT', queue, 0, '+inf') or #all.live) - (standing and 1 or 0)
local upgrade = step > 0 and kind == 'w'
local asking = { kind = upgrade and 'u' or kind, permits = permits, prefer = prefer, token = token, group = group }
asking.ticket = standing and standing.ticket or asked
if asking.ticket == 0 then
  local last = all.live[#all.live]
  last = all.more and tonumber(call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]) or last and last.ticket or 0
  asking.ticket = math.max(micros, last + 1)
end
-- Behind the front of a long line, of which no more than that was read.
local isBehind = all.more and asking.ticket > all.live[#all.live].ticket

-- Those before us for whom there is room go in first, whether they have asked yet or not.
local function isOurTurn(held, mine)
  local room, before, granted = roomBeside(held), 0, true
  if mine then
    goesIn(room, mine)
  end
  local list = turns(all, asking)
  for i = 1, #list do
    local each = list[i]
    granted = granted and admits(room, each, most)
    if each == asking then
      return granted, before
    end
    before = before + 1
    if granted then
      goesIn(room, each)
    end
  end
end

local granted, before, mine, held, known = false, 0, nil, nil, 0
-- Nearly every reader joins others, of whom it need not know more than one. Should it be one of them already, it writes its
-- own member again; should it have to wait, everything is looked at.
if kind == 'r' and step == 0 and #all.dead == 0 and (not standing or standing.kind == 'r') then
  held = lastReader(lock, token, group, fences)
  granted = held and isOurTurn(held)
end
mayExpire(lock, ARGV[2])
local ends = now + ttl
local score = string.format('%.0f', ends)
if not granted then
  local everybody = holders(lock)
  mine, held = everybody.of[token], without(everybody, token)
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
  for i = 1, #all.live do
    isKnown = isKnown or all.live[i].kind == 'p'
  end
  if isKnown and known ~= 0 and known ~= most then
    return redis.error_reply(string.format('LIMIT this semaphore has %.0f permits, not %.0f', known, most))
  end
  for i = 1, upgrade and mine.step < step and #all.live or 0 do
    if all.live[i].kind == 'u' and all.live[i] ~= standing then
      return { -2, 0, 0, now }
    end
  end
  ends = math.max(ends, mine and mine.ends or 0)
  score = ends == math.huge and '+inf' or string.format('%.0f', ends)
  -- What left the line is taken out only after the first write that memory must allow.
  if mine and (step == 0 or mine.step == step) then
    call('ZADD', lock, score, mine.text)
    mine.ends = ends
    leaves(queue, all, standing)
    keep(lock)
    return { 1, mine.fence, others, now }
  end
  if step > 0 and kind == 'r' then
    -- Writing is given up: there is always room for that, and there must be, also when memory is full.
    locks[lock] = nil
    call('ZREM', lock, mine.text)
    call('ZADD', lock, score, text('r', 1, step, mine.fence, token, mine.group))
    leaves(queue, all, standing)
    keep(lock)
    wakeLater(lock, queue, limit)
    return { 1, mine.fence, others, now }
  end
  granted = held.count == 0
  if not upgrade then
    granted, before = isOurTurn(held, mine)
    if isBehind and granted then
      all, isBehind = line(queue, true), false
      standing = all.of[token] or standing
      granted, before = isOurTurn(held, mine)
    elseif isBehind then
      before = call('ZCOUNT', queue, 0, string.format('(%.0f', asking.ticket))
    end
  end
end

if granted then
  -- Readers of one phase share a fence.
  local minted = fences and kind == 'r' and held.fence or 0
  if fences and minted == 0 then
    -- The fence goes first: when memory is missing, no lock was touched yet.
    minted = mint(fence, 1, lastFence(fence))
  end
  local new = member(text(kind, permits, step, minted, token, group))
  call('ZADD', lock, 'GT', score, new.text)
  if mine then
    call('ZREM', lock, mine.text)
    locks[lock] = nil
  elseif locks[lock] then
    enter(locks[lock], new, ends)
  end
  keep(lock)
  call('ZREMRANGEBYSCORE', lock, '-inf', string.format('%.0f', now))
  if kind == 'p' then
    local last = call('PTTL', lock)
    call('PSETEX', limit, string.format('%.0f', math.max(last, 0) + 3600000), ARGV[8])
    if last < 0 then
      call('PERSIST', limit)
    end
  end
  local passedOver = #all.dead > 0
  leaves(queue, all, standing)
  if kind == 'w' and others > 0 then
    call('ZREMRANGEBYSCORE', queue, '-inf', '(0')
    call('ZADD', queue, string.format('-%.0f', micros), 'phase')
    all.phase = micros
  elseif others == 0 and (standing or passedOver) then
    call('DEL', queue)
    all.phase = 0
  end
  if passedOver then
    wakeLater(lock, queue, limit)
  end
  return { 1, minted, others, now }
end

-- A writer waits for the last holder's end, who wants permits for the first one's.
local left = 0
for _, each in pairs(held.of) do
  if left == 0 or (kind == 'p') == (each.ends - now < left) then
    left = each.ends - now
  end
end
if left == math.huge then
  left = -1
end
if not placed then
  return { 0, left, asking.ticket, now, before, 0 }
end
local patience = tonumber(ARGV[14])
if patience == 0 then
  patience = 2 * math.max(1000, 125 * (before + 1))
end
asking.channel, asking.id = ARGV[11], ARGV[12]
asking.text = string.format('2 %.0f %s %s %.0f %s %s %d ', now + patience, asking.id, asking.kind, permits, prefer, asking.channel, #token)
  .. token
  .. group
if standing and standing.text == asking.text then
  standing.text = nil
end
call('ZADD', queue, string.format('%.0f', asking.ticket), asking.text)
call('PEXPIRE', queue, 600000)
if kind == 'p' and known == 0 then
  call('PSETEX', limit, 3600000, ARGV[8])
end
leaves(queue, all, standing)
if not isBehind then
  stands(all, asking)
end
return { 0, left, asking.ticket, now, before, 0 }
