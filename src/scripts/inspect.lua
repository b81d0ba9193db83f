-- inspect: what Redis knows of a lock. Changes nothing.
-- KEYS   lock   string: the holder's token
-- KEYS   fence  string: the last fence minted for it
-- KEYS   queue  sorted set: who stands in line for it
-- REPLY  [token or nil, ms left (-1 never ends, -2 free), last fence or nil, how many stand in line]
local holder = redis.call('GET', KEYS[1])
return { holder, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), redis.call('ZCOUNT', KEYS[3], 0, '+inf') }
