-- inspect: what Redis knows of a lock. Changes nothing.
-- KEYS   lock   string: the holder's token; or a sorted set of its holders
-- KEYS   fence  string: the last fence minted for any lock
-- KEYS   queue  sorted set: its queue
-- REPLY  [token or nil, ms left (-1 never ends, -2 free), last fence or nil, how many are queued, m a mutex, or the kind of its holder: r, w, p]
local holder, kind = redis.pcall('GET', KEYS[1]), 'm'
local left = redis.call('PTTL', KEYS[1])
if type(holder) == 'table' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local first = redis.pcall('ZRANGE', KEYS[1], 0, 15)
  if first.err then
    return holder
  end
  -- The one that ends last.
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
  first[#first + 1] = last[1]
  for i = 1, #first do
    if not string.find(first[i], '^1 [rwp] %d+ %d+ %d+ %d+ .') then
      return redis.error_reply('FOREIGN this sorted set has a member that is not of redis-exp-lock')
    end
  end
  local length, rest
  kind, length, rest = string.match(last[1], '^1 ([rwp]) %d+ %d+ %d+ (%d+) (.*)$')
  holder, left = false, -2
  if tonumber(last[2]) > now then
    holder = string.sub(rest, 1, tonumber(length))
    left = last[2] == 'inf' and -1 or tonumber(last[2]) - now
  end
end
return { holder, left, redis.call('GET', KEYS[2]), redis.call('ZCOUNT', KEYS[3], 0, '+inf'), kind }
