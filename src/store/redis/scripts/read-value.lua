-- read-value: the text at a key: a value beside a lock, or the record of a process. Changes nothing.
-- KEYS   value   string
-- REPLY  the text, or nil
return redis.call('GET', KEYS[1])
