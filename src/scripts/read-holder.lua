-- read-holder: who holds a lock, and what is kept beside it. Changes nothing.
-- KEYS   lock   string: the holder's token
-- KEYS   value  string: what was written beside it last
-- REPLY  [token or nil, ms left (-1 never ends, -2 free), text or nil]
return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) }
