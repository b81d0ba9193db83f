-- read-process: the record of a process. Changes nothing.
-- KEYS   process  string: the record, as JSON
-- REPLY  [the text, or nil]
return redis.call('GET', KEYS[1])
