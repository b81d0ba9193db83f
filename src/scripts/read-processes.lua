-- read-processes: what processes have written down. Changes nothing.
-- KEYS   process[]  string: what it holds and waits for, as JSON
-- REPLY  [for each the text, or nil]
return redis.call('MGET', unpack(KEYS))
