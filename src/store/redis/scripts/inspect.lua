-- inspect: the state of locks in Redis. Changes nothing.
-- KEYS   lock[]   string: the holder's token; or a sorted set of its holders
-- KEYS   queue[]  sorted set: the queue of the lock in the same place
-- KEYS   fence    string: the last fence minted for any lock
-- ARGV   maxListed the maximum number of holders, and of queue entries, of each lock that are listed individually
-- REPLY  [server time in µs, last fence or nil, then, for each of the first locks (for all of them if they are not very long), the text of an error, or a list: token or nil, ms left (-1 no end, -2 free), number of queued entries, m for a mutex or the kind of its holders r, w, p, [holder, its end, …], [queue entry, its score, …]]
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)

local function shared(lock)
  local first = redis.pcall('ZRANGE', lock, 0, 15)
  if first.err then
    return nil, first.err
  end
  -- The holder that ends last.
  local last = redis.call('ZRANGE', lock, -1, -1, 'WITHSCORES')
  first[#first + 1] = last[1]
  for i = 1, #first do
    if not string.find(first[i], '^1 [rwp] %d+ %d+ %d+ %d+ .') then
      return nil, 'FOREIGN this sorted set has a member that is not of redis-exp-lock'
    end
  end
  local kind, length, rest = string.match(last[1], '^1 ([rwp]) %d+ %d+ %d+ (%d+) (.*)$')
  if tonumber(last[2]) <= now then
    return { false, -2, 0, kind, {} }
  end
  local held = redis.call('ZRANGEBYSCORE', lock, string.format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
  local left = last[2] == 'inf' and -1 or tonumber(last[2]) - now
  return { string.sub(rest, 1, tonumber(length)), left, 0, kind, held }
end

local locks = (#KEYS - 1) / 2
local reply = { micros, redis.call('GET', KEYS[#KEYS]) }
local shown = 0
for i = 1, locks do
  -- A foreign string may have megabytes. GETRANGE may be forbidden, and its reply is empty if the key does not exist.
  local holder = redis.pcall('GETRANGE', KEYS[i], 0, 4095)
  local left = redis.call('PTTL', KEYS[i])
  if type(holder) == 'table' then
    holder = redis.pcall('GET', KEYS[i])
  elseif left == -2 then
    holder = false
  end
  local state, refusal
  if type(holder) == 'table' then
    state, refusal = shared(KEYS[i])
    refusal = refusal and (string.find(refusal, '^FOREIGN') and refusal or holder.err)
  else
    state = { holder, left, 0, 'm', {} }
  end
  if state then
    state[3] = redis.call('ZCOUNT', KEYS[locks + i], 0, '+inf')
    state[6] = state[3] == 0 and {}
      or redis.call('ZRANGEBYSCORE', KEYS[locks + i], 0, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
  end
  reply[i + 2] = state or refusal
  shown = shown + (state and #state[5] + #state[6] or 0)
  if shown > 4096 then
    break
  end
end
return reply
