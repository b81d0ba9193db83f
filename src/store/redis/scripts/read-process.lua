-- read-process: what a process has written down. Changes nothing.
-- KEYS   process  string: what it holds and waits for, as JSON
-- REPLY  [the text, or nil]
return redis.call('GET', KEYS[1])
