-- PART clock: the server's time, which is read once, and other values that the calls of a batch share.
local KEYS, ARGV, tonumber = KEYS, ARGV, tonumber
local call, attempt, mayCheck = redis.call, redis.pcall, redis.acl_check_cmd
-- `top` is the last minted fence, if it has been read.
local micros, now, checked, top
