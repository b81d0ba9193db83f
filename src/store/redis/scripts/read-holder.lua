-- read-holder: the holder of a lock, and the value beside it. Changes nothing.
-- KEYS   lock   string: the holder's token
-- KEYS   value  string: the value beside the lock
-- REPLY  [token or nil, ms left (-1 no end, -2 free), text or nil]
return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) }
