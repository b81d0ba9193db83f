-- plain: release locks, then acquire locks, each by itself and all on equal terms, as nearly all calls of a tick are.
-- INCLUDE acquire release
-- KEYS   key[]     the locks to release, then their queues; the locks to acquire, then their queues
-- KEYS   fence     string: the last fence minted for any lock
-- ARGV   releases  how many locks to release
-- ARGV   window    ms for which they yield, when it is the turn of callers outside the queue
-- ARGV   lifetime  ms until the server frees the acquired locks by itself
-- ARGV   notAfter  server time in ms after which the acquires must change nothing
-- ARGV   fences    1: mint a fence for each; 0: none
-- ARGV   token[]   of the locks to release, none of which an acquire here may ask for; then of those to acquire
-- REPLY  [how many calls went as usual, first fence of the acquires or 0, server time in ms or 0; for each other call its number, then how many integers it answers, and they; or -1 and the text of its error]
-- THEN reply
-- All is read first; what is written then cannot be refused for a right that is missing. A call with a queue, a busy lock, a lock that
-- is no longer ours, or a counter that is damaged, runs as the script that it would be by itself, in its turn.
local names, words = KEYS, ARGV
local releases, window, ttl, notAfter, count = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local acquires, fence = (#KEYS - 1) / 2 - releases, KEYS[#KEYS]
local a = 2 * releases
local ours, queued, usual, n = {}, 0, {}, 0
if releases > 0 then
  local held = call('MGET', unpack(names, 1, releases))
  queued = call('EXISTS', unpack(names, releases + 1, a))
  for i = 1, releases do
    if held[i] == words[5 + i] and (queued == 0 or call('EXISTS', names[releases + i]) == 0) then
      n = n + 1
      ours[n], usual[i] = names[i], true
    end
  end
end
local ms, first, areUsual = tonumber(ttl), 0, false
if acquires > 0 then
  clock()
  queued = call('EXISTS', unpack(names, a + acquires + 1, a + 2 * acquires))
  local last = count == 1 and call('GET', fence) or '0'
  areUsual = now <= tonumber(notAfter) and string.find(ttl, '^%d+$') and ms >= 1 and ms <= 9007199254740991
  areUsual = areUsual and string.find(last, '^%d+$') and tonumber(last) <= micros + 86400000000
  -- The counter before the locks: when memory is missing, nothing was written yet.
  if areUsual and count == 1 then
    first = math.max(last + 1, micros)
    areUsual = not attempt('SET', fence, string.format('%.0f', first + acquires - 1)).err
  end
end
reply, size = { releases + acquires, first, now or 0 }, 3

local function runAlone(n, script, lock, queue, ...)
  KEYS, ARGV = { lock, queue, fence }, { ... }
  reply[1], reply[size + 1] = reply[1] - 1, n
  size = size + 1
  append(pcall(scripts[script], 0, 0, 3, #ARGV))
end

local function acquireAll()
  for i = 1, acquires do
    local lock, queue, token = names[a + i], names[a + acquires + i], words[5 + releases + i]
    local isFree = areUsual and (queued == 0 or call('EXISTS', queue) == 0)
    if not isFree or not call('SET', lock, token, 'NX', 'PX', ttl) then
      runAlone(releases + i, 'acquire', lock, queue, token, ttl, notAfter, words[5])
    end
  end
end

-- After a write that a full memory permits, it permits all: what must be refused is refused before.
if not areUsual then
  acquireAll()
end
local deleted = n > 0 and attempt('DEL', unpack(ours))
for i = 1, releases do
  if type(deleted) == 'table' or not usual[i] then
    runAlone(i, 'release', names[i], names[releases + i], words[5 + i], '0', window)
  end
end
if areUsual then
  acquireAll()
end
return reply
