-- PART holders: the holders of a lock with a mode (a readers-writer lock or a semaphore).
-- The lock is a sorted set with one member for each holder. The score is the holder's own end (server time in ms): past its end
-- a holder holds nothing, whatever the others do. A member is "1 kind permits step fence length token group". The kind is r for
-- a reader, w for a writer, p for permits; step counts changes in place; length is the length of the token in bytes. Any other
-- member is foreign: it is never removed, and no request is granted beside it.
-- No call reads more holders of a readers-writer lock than its decision needs, so its cost does not grow with their number.
-- Permits are summed over all holders. The members read by the calls of a batch are cached, and each write of those calls
-- updates the cache.
local locks, checked = {}, {}
local chunk = 16 -- H81 S8

local function isOurs(text)
  return string.find(text, '^1 [rwp] %d+ %d+ %d+ %d+ .') ~= nil
end

local function refuseForeign()
  error('FOREIGN this sorted set has a member that is not of redis-exp-lock, or of another version of it', 0)
end

local function member(text)
  local kind, permits, step, fence, length, rest = string.match(text, '^1 ([rwp]) (%d+) (%d+) (%d+) (%d+) (.+)$')
  if not kind then
    return nil
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

-- The number of permits of a member; nil if it is of another kind. Their sum needs nothing else of it.
local function permitsOf(text)
  return tonumber(string.match(text, '^1 p (%d+) %d+ %d+ %d+ .'))
end

local function text(kind, permits, step, fence, token, group)
  return string.format('1 %s %.0f %.0f %.0f %d ', kind, permits, step, fence, #token) .. token .. group
end

-- Counts an entry as admitted, so that later entries find less room.
local function admit(held, each)
  held.kind, held.group = each.kind, each.group
  held.count, held.used = held.count + 1, held.used + each.permits
end

local function enter(held, each, ends)
  held.of[each.text] = ends
  held.fence = math.max(held.fence, each.fence)
  admit(held, each)
end

local function nobody()
  return { of = {}, count = 0, used = 0, fence = 0, whole = true }
end

-- Checks for foreign members. The first members are checked, because only those are ever purged. In a large set, members at a
-- position that moves with the clock are checked too. Members that decide a request are checked when they are read.
local function check(lock)
  local seen = checked[lock]
  if not seen then
    local found = call('ZRANGE', lock, 0, chunk - 1, 'WITHSCORES')
    seen = { found = found, permits = {}, expired = {}, isFull = #found == 2 * chunk, isForeign = false }
    for i = 1, #found, 2 do
      seen.permits[i] = permitsOf(found[i])
      if not seen.permits[i] and not isOurs(found[i]) then
        seen.isForeign = true
      elseif tonumber(found[i + 1]) <= now then
        seen.expired[#seen.expired + 1] = found[i]
      end
    end
    if seen.isFull then
      local at = micros % call('ZCARD', lock)
      local some = call('ZRANGE', lock, at, at + chunk - 1)
      for i = 1, #some do
        seen.isForeign = seen.isForeign or not isOurs(some[i])
      end
    end
    checked[lock] = seen
  end
  return seen
end

-- Removes our own ended holders among those that were read. This is a write that Redis permits when memory is full, and after
-- it Redis permits others. `kept` is the member of a holder that is renewed: it stays.
local function purge(lock, kept)
  local seen = check(lock)
  if seen.isPurged then
    return
  elseif seen.isForeign or #seen.expired == chunk then -- H79c
    local gone = { '1 r 1 0 0 0 ' }
    for i = 1, #seen.expired do
      gone[i + 1] = seen.expired[i] ~= kept and seen.expired[i] or gone[1]
    end
    call('ZREM', lock, unpack(gone))
  else
    call('ZREMRANGEBYSCORE', lock, '-inf', string.format('%.0f', now))
  end
  seen.isPurged = true
end

-- The ends of the holders by their members, and their sums. In a large set of readers only the last ones are read, unless `all` is set.
-- `seen` is a check that is not older than the last write.
local function holders(lock, all, seen)
  local held = locks[lock]
  if held and (held.whole or not all) then
    return held
  end
  held = nobody()
  local from = string.format('(%.0f', now)
  -- The first check reads all of a small set. One that was made for an earlier call may be older than a write.
  seen = seen or (not checked[lock] and check(lock))
  local found = seen and not seen.isFull and seen.found
    or call('ZRANGEBYSCORE', lock, from, '+inf', 'WITHSCORES', 'LIMIT', 0, chunk)
  if #found == 2 * chunk and (all or string.sub(found[1], 1, 3) == '1 p') then
    found = call('ZRANGEBYSCORE', lock, from, '+inf', 'WITHSCORES')
  elseif #found == 2 * chunk then
    held.whole = false
    found = call('ZRANGE', lock, '+inf', from, 'BYSCORE', 'REV', 'LIMIT', 0, chunk, 'WITHSCORES')
  end
  local known = seen and found == seen.found and seen.permits or {}
  for i = 1, #found, 2 do
    local ends, permits = tonumber(found[i + 1]), known[i] or permitsOf(found[i])
    local each = not permits and member(found[i])
    if not permits and not each then
      held.isForeign = true
    elseif ends > now then -- H47b
      if permits then
        held.of[found[i]], held.kind = ends, 'p'
        held.count, held.used = held.count + 1, held.used + permits
      else
        enter(held, each, ends)
      end
    end
  end
  locks[lock] = held
  return held
end

-- The holders; throws if there is a foreign member.
local function ourHolders(lock, all, seen)
  local held = holders(lock, all, seen)
  if held.isForeign or check(lock).isForeign then -- H79
    refuseForeign()
  end
  return held
end

-- The holder that ends last: it is enough for a new reader or writer. Nil if it is not, as a reader of another group. Also returns
-- the check, if it was made here.
local function lastHolder(lock, token, group, fenced)
  if locks[lock] then
    return nil
  end
  local seen = not checked[lock] and check(lock) or nil
  local found = seen and not seen.isFull and seen.found or call('ZRANGE', lock, -1, -1, 'WITHSCORES')
  local ends = tonumber(found[#found])
  local last = ends and ends > now and member(found[#found - 1])
  if not last or last.kind == 'p' or last.group ~= group or last.token == token or (fenced and last.fence == 0) then -- H42b
    return nil, seen
  end
  if check(lock).isForeign then -- H79b
    refuseForeign()
  end
  local held = nobody()
  enter(held, last, ends)
  return held
end

local function holderOf(held, token)
  for found, ends in pairs(held.of) do
    local each = string.find(found, token, 1, true) and member(found)
    if each and each.token == token then
      each.ends = ends
      return each
    end
  end
end

local function without(held, mine)
  if not mine then
    return held
  end
  local others = nobody()
  others.whole, others.isForeign = held.whole, held.isForeign
  for found, ends in pairs(held.of) do
    if found ~= mine.text then
      enter(others, member(found), ends)
    end
  end
  return others
end

-- True if one of these places is taken. On a quorum, permits are numbered places with one holder each.
local function sharesPlace(held, places)
  for place in string.gmatch(places, '%d+') do
    for found in pairs(held.of) do
      if string.find(member(found).group, ',' .. place .. ',', 1, true) then
        return true
      end
    end
  end
  return false
end

-- Removes from the cache a holder that is gone. If only some holders were read, the cache is dropped.
local function forget(lock, token)
  local held = locks[lock]
  locks[lock] = held and held.whole and without(held, holderOf(held, token)) or nil
end

-- Makes the set expire with its last member, so that nothing stays if no call cleans up. Foreign members end as they would.
-- Returns the ms until then, if it is known.
local function setEnd(lock)
  local last = call('ZRANGE', lock, -1, -1, 'WITHSCORES')
  if not last[1] or not isOurs(last[1]) then
    return
  end
  if last[2] == 'inf' then
    call('PERSIST', lock)
  else
    local ms = math.max(tonumber(last[2]) - now, 1)
    if not check(lock).isForeign or call('PTTL', lock) < ms then -- H40b H79d
      call('PEXPIRE', lock, string.format('%.0f', ms)) -- H38
      return ms
    end
  end
end

