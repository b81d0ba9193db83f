-- read-value: the value cached beside a lock. Changes nothing.
-- KEYS   value   string: the last value
-- REPLY  the text, or nil
return redis.call('GET', KEYS[1])
