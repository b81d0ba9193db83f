-- PART mint: making a free lock the caller's, under a fence, and checks. All checks come before the first write.
local function clock()
  if not now then
    local time = call('TIME')
    micros = time[1] * 1000000 + time[2]
    now = math.floor(micros / 1000)
  end
end

-- True for a lifetime as PEXPIRE will read it: nothing may fail between SETNX and PEXPIRE.
local function isLifetime(text)
  local ms = tonumber(text)
  return ms and ms >= 1 and ms <= protocol.maxInteger and string.find(text, '^%d+$')
end

local function checkLifetime(text)
  if not isLifetime(text) then
    error('ERR expected a lifetime in whole milliseconds, at least 1', 0)
  end
end

-- Checks the right to PEXPIRE (since 7.0), for the same reason before anything is written.
local function mayExpire(lock, ttl)
  if mayCheck and not mayCheck('PEXPIRE', lock, ttl) then
    error('NOPERM this user has no permissions to run PEXPIRE on a lock', 0)
  end
end

-- Checks a fence before anything is written: a damaged counter must not lead to a fence that no later one exceeds.
local function checkFence(fence)
  if not fence or fence > protocol.maxInteger or fence > micros + protocol.maxAheadMicros then -- H82e
    error('FENCE the fence counter of this server is no number, or more than a day ahead of the clock', 0)
  end
  return fence
end

-- The last minted fence. The server, or in a cluster the slot, has one counter for all locks: each value is larger than every
-- one before.
local function lastFence(fence)
  if not top then -- S21
    local last = call('GET', fence)
    top = last and checkFence(string.find(last, '^%d+$') and tonumber(last)) or 0
  end
  return top
end

local function setFence(fence, last)
  call('SET', fence, string.format('%.0f', last))
  top = last
end

-- Mints `count` fences after the last one, none below `minFence`, and returns the first. The fence is written before the lock: if
-- memory is full or a right is missing, no lock was changed yet.
local function mint(fence, count, minFence)
  if count == 0 then
    return 0
  end
  local first = math.max(lastFence(fence) + 1, micros, minFence or 0) -- H59b H61c
  setFence(fence, first + count - 1)
  return first
end

local function setLock(lock, token, ttl)
  call('SETNX', lock, token)
  local set = attempt('PEXPIRE', lock, ttl)
  if type(set) == 'table' then
    -- Reached only on 6.2, by a user without PEXPIRE: a lock without an end must not stay.
    call('DEL', lock)
    error(set.err, 0)
  end
end

-- Checks the version of a queue entry; returns nil for a member that is no entry. An entry of another version is an error, for as
-- long as its queue lasts.
local function checkVersion(queue, member, known)
  local version = string.match(member, '^(%d+) ')
  if version and version ~= known then
    if call('PTTL', queue) < 0 then -- H82c
      call('PEXPIRE', queue, protocol.maxSilenceMs)
    end
    error('VERSION the queue of this lock was written by another version of redis-exp-lock', 0)
  end
  return version
end
