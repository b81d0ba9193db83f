-- PART common: the clock, and a lifetime read so that Redis surely takes it.
local call = redis.call
local micros, now
local function clock()
  if not now then
    local time = call('TIME')
    micros = time[1] * 1000000 + time[2]
    now = math.floor(micros / 1000)
  end
end

-- A lifetime as PEXPIRE surely takes it: nothing may fail between SETNX and PEXPIRE.
local function milliseconds(text)
  local ms = tonumber(text)
  if not ms or ms % 1 ~= 0 or ms < 1 or ms > 9007199254740991 then
    error('ERR expected a lifetime in whole milliseconds, at least 1', 0)
  end
  return string.format('%.0f', ms)
end
