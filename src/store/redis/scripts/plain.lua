-- plain: renew locks, release locks, then acquire locks, each by itself and all on equal terms, as nearly all calls of a tick are.
-- INCLUDE acquire extend release
-- KEYS   key[]     the locks to renew; the locks to release, then their queues; the locks to acquire, then their queues
-- KEYS   fence     string: the last fence minted for any lock
-- ARGV   renewals  the number of locks to renew
-- ARGV   releases  the number of locks to release
-- ARGV   later     ms from now until the server frees the renewed locks; a lock that lasts longer already stays as it is
-- ARGV   window    ms for which the released locks yield, when it is the turn of callers outside the queue
-- ARGV   lifetime  ms until the server frees the acquired locks by itself
-- ARGV   notAfter  server time in ms after which the acquires must change nothing
-- ARGV   fences    1: mint a fence for each; 0: none
-- ARGV   token[]   the tokens of the locks to renew, then the notAfter of each; the tokens of the locks to release, none of which is also acquired here; the tokens of the locks to acquire, then optionally the minimum fence of each
-- REPLY  [number of calls that went as usual, first fence of the acquires or 0, server time in ms or 0; for each other call its position, then its number of integers and these integers, or -1 and the text of its error]
-- THEN reply
-- All reads come first, so that no write is refused because a right is missing. A call with a queue, a busy lock, a lock that
-- is no longer ours, or a damaged counter runs its own script instead, in its turn.
local names, words = KEYS, ARGV
local renewals, releases, later, window = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local ttl, notAfter, count = ARGV[5], ARGV[6], tonumber(ARGV[7])
local known, fence, t = renewals + releases, KEYS[#KEYS], 7 + renewals
local acquires, a = (#KEYS - 1 - known - releases) / 2, known + releases
local minFences = #words > t + known + acquires and t + known + acquires
local ours, queued, usual, n = {}, 0, {}, 0

local held = known > 0 and call('MGET', unpack(names, 1, known))
if acquires + renewals > 0 then
  clock()
end
-- Before 7.0 PEXPIRE has no GT: each call then checks the end itself.
local mayRenew = mayCheck and renewals > 0 and isLifetime(later)
for i = 1, renewals do
  usual[i] = mayRenew and held[i] == words[7 + i] and now <= tonumber(words[t + i]) -- H13h
end
if releases > 0 then
  queued = call('EXISTS', unpack(names, known + 1, a))
  for i = renewals + 1, known do
    if held[i] == words[t + i] and (queued == 0 or call('EXISTS', names[releases + i]) == 0) then -- H25b
      n = n + 1
      ours[n], usual[i] = names[i], true
    end
  end
end
local first, areUsual = 0, false
if acquires > 0 then
  queued = call('EXISTS', unpack(names, a + acquires + 1, a + 2 * acquires))
  local last = count == 1 and call('GET', fence) or '0'
  areUsual = now <= tonumber(notAfter) and isLifetime(ttl) -- H3d
  areUsual = areUsual and string.find(last, '^%d+$') and tonumber(last) <= micros + protocol.maxAheadMicros
  -- The counter is written before the locks: if memory is full, nothing was written yet.
  if areUsual and count == 1 then
    first = math.max(last + 1, micros)
    last = first + acquires - 1
    -- Each fence is the one before it plus one, or its own minimum if that is larger.
    for i = 1, minFences and acquires or 0 do
      local minFence = tonumber(words[minFences + i])
      areUsual = areUsual and minFence and minFence <= micros + protocol.maxAheadMicros
      last = math.max(i == 1 and first or last + 1, minFence or 0)
      first = i == 1 and last or first
    end
    areUsual = areUsual and not attempt('SET', fence, string.format('%.0f', last)).err -- H55b
  end
end
reply, size = { known + acquires, first, now or 0 }, 3

local function runAlone(n, script, keys, ...)
  KEYS, ARGV = keys, { ... }
  reply[1], reply[size + 1] = reply[1] - 1, n
  size = size + 1
  append(pcall(scripts[script], 0, 0, #KEYS, #ARGV))
end

local function acquireAll() -- H55c
  for i = 1, acquires do
    local lock, queue, token = names[a + i], names[a + acquires + i], words[t + known + i]
    local isFree = areUsual and (queued == 0 or call('EXISTS', queue) == 0)
    if not isFree or not call('SET', lock, token, 'NX', 'PX', ttl) then
      local minFence = minFences and words[minFences + i] or nil
      runAlone(known + i, 'acquire', { lock, queue, fence }, token, ttl, notAfter, words[7], minFence)
    end
  end
end

-- Once a write that Redis permits when memory is full has run, Redis permits all others too: so refusals are decided before it.
if not areUsual then
  acquireAll()
end
for i = 1, renewals do
  if not usual[i] or type(attempt('PEXPIRE', names[i], later, 'GT')) == 'table' then
    runAlone(i, 'extend', { names[i] }, words[7 + i], later, '0', words[t + i])
  end
end
local deleted = n > 0 and attempt('DEL', unpack(ours))
for i = renewals + 1, known do
  if type(deleted) == 'table' or not usual[i] then
    runAlone(i, 'release', { names[i], names[releases + i], fence }, words[t + i], '0', window)
  end
end
if areUsual then
  acquireAll()
end
return reply
