-- read-value: what is cached beside a lock. Changes nothing.
-- KEYS   value   string: what was stored last
-- REPLY  the text, or nil
return redis.call('GET', KEYS[1])
