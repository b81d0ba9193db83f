-- acquire: take every lock or none, for one lifetime, under one fence.
-- KEYS   lock[]    string: the holder's token
-- KEYS   fence[]   string: the last fence minted for the lock in the same place; none where fencing is off
-- ARGV   token     who asks; a lock that holds it already is ours, and this is a resend
-- ARGV   lifetime  ms until the server frees the locks by itself
-- ARGV   notAfter  server time in ms after which nobody waits for this request any more
-- ARGV   locks     how many of the KEYS are locks
-- REPLY  [1 granted | 0 busy | -1 too late, fence, ms that others have left (-1: they never end), server time in ms]
local token, lifetime, notAfter, locks = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if token == '' or not lifetime or lifetime % 1 ~= 0 or lifetime < 1 or lifetime > 9007199254740991 then
  return redis.error_reply('ERR expected a token and a lifetime in whole milliseconds, at least 1')
end
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
if now > notAfter then
  return { -1, 0, 0, now }
end

local free, ours, left, busy = {}, {}, 0, false
for i = 1, locks do
  local holder = redis.call('GET', KEYS[i])
  if not holder then
    free[#free + 1] = KEYS[i]
  else
    local ms = redis.call('PTTL', KEYS[i])
    if holder ~= token then
      busy = true
      left = (ms < 0 or left < 0) and -1 or math.max(left, ms)
    elseif ms >= 0 then
      ours[#ours + 1] = { KEYS[i], math.max(ms, lifetime) }
    end
  end
end
if busy then
  return { 0, 0, left, now }
end
local fence = 0
for i = locks + 1, #KEYS do
  local last = tonumber(redis.call('GET', KEYS[i]) or 0)
  if not last then
    return redis.error_reply('WRONGTYPE the fence of this lock is not a number')
  end
  fence = math.max(fence, last)
end
local ttl = string.format('%.0f', lifetime)
for _, key in ipairs(free) do
  -- Nothing may fail between SETNX and PEXPIRE, so the right to the second is looked at before the first (since 7.0).
  if redis.acl_check_cmd and not redis.acl_check_cmd('PEXPIRE', key, ttl) then
    return redis.error_reply('NOPERM this user has no permissions to run PEXPIRE on a lock')
  end
end

-- From here on only writes. The fence goes first: when memory or a right is missing, no lock has been touched yet.
if #KEYS > locks and (#free > 0 or fence == 0) then
  local keep = '3600000'
  if fence < micros then
    fence = micros
  else
    fence = fence + 1
    keep = string.format('%.0f', math.max(math.floor(fence / 1000) - now, 0) + 3600000)
  end
  local text = string.format('%.0f', fence)
  for i = locks + 1, #KEYS do
    redis.call('SET', KEYS[i], text, 'PX', keep)
  end
end
for _, key in ipairs(free) do
  redis.call('SETNX', key, token)
  local set = redis.pcall('PEXPIRE', key, ttl)
  if type(set) == 'table' then
    -- Only an ACL without PEXPIRE gets here, on 6.2: a lock that nothing would ever free must not stay.
    redis.call('DEL', key)
    return set
  end
end
-- Written even where nothing changes: WAIT after it then speaks of this very connection.
for _, own in ipairs(ours) do
  redis.call('PEXPIRE', own[1], string.format('%.0f', own[2]))
end
return { 1, fence, 0, now }
