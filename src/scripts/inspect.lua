-- inspect: what Redis knows of a lock. Changes nothing.
-- KEYS   lock   string: the holder's token; or a sorted set of those who hold it together
-- KEYS   fence  string: the last fence minted for it
-- KEYS   queue  sorted set: who stands in line for it
-- REPLY  [token or nil, ms left (-1 never ends, -2 free), last fence or nil, how many stand in line, m a mutex, or the kind of who holds it: r, w, p]
local holder, kind = redis.pcall('GET', KEYS[1]), 'm'
local left = redis.call('PTTL', KEYS[1])
if type(holder) == 'table' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local members = redis.pcall('ZREVRANGEBYSCORE', KEYS[1], '+inf', string.format('(%.0f', now), 'WITHSCORES', 'LIMIT', 0, 1)
  if members.err then
    return holder
  end
  local length, rest
  if members[1] then
    kind, length, rest = string.match(members[1], '^1 ([rwp]) %d+ %d+ %d+ (%d+) (.*)$')
    if not kind then
      return holder
    end
    holder = string.sub(rest, 1, tonumber(length))
    left = members[2] == 'inf' and -1 or tonumber(members[2]) - now
  else
    holder, left = false, -2
  end
end
return { holder, left, redis.call('GET', KEYS[2]), redis.call('ZCOUNT', KEYS[3], 0, '+inf'), kind }
