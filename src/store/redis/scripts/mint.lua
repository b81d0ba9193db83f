-- PART mint: a free lock becomes the caller's, under a fence. All is checked before the first write.
local function clock()
  if not now then
    local time = call('TIME')
    micros = time[1] * 1000000 + time[2]
    now = math.floor(micros / 1000)
  end
end

-- A lifetime is checked as PEXPIRE will read it: nothing may fail between SETNX and PEXPIRE.
local function checkLifetime(text)
  local ms = tonumber(text)
  if not ms or ms < 1 or ms > 9007199254740991 or not string.find(text, '^%d+$') then
    error('ERR expected a lifetime in whole milliseconds, at least 1', 0)
  end
end

-- For the same reason the right to PEXPIRE is checked before anything is written (since 7.0).
local function mayExpire(lock, ttl)
  if mayCheck and not mayCheck('PEXPIRE', lock, ttl) then
    error('NOPERM this user has no permissions to run PEXPIRE on a lock', 0)
  end
end

-- Checked before anything is written: a damaged counter must not lead to a fence that no later one exceeds.
local function checkFence(fence)
  if not fence or fence > 9007199254740991 or fence > micros + 86400000000 then -- H82e
    error('FENCE the fence counter of this server is no number, or more than a day ahead of the clock', 0)
  end
  return fence
end

-- One counter for all locks of the server, or of the slot in a cluster: each value is larger than every one before.
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

-- Mints so many fences after the last one, none below `least`, and returns the first. The fence is written before the lock: when
-- memory is full or a right is missing, no lock was changed yet.
local function mint(fence, count, least)
  if count == 0 then
    return 0
  end
  local first = math.max(lastFence(fence) + 1, micros, least or 0) -- H59b H61c
  setFence(fence, first + count - 1)
  return first
end

local function setLock(lock, token, ttl)
  call('SETNX', lock, token)
  local set = attempt('PEXPIRE', lock, ttl)
  if type(set) == 'table' then
    -- Only reached on 6.2 by a user without PEXPIRE: a lock without an end must not stay.
    call('DEL', lock)
    error(set.err, 0)
  end
end
