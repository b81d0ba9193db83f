-- PART clock: the server's time, read once, and what else the calls of a batch have in common.
local KEYS, ARGV, tonumber = KEYS, ARGV, tonumber
local call, attempt, mayCheck = redis.call, redis.pcall, redis.acl_check_cmd
-- `top` is the last fence minted, once it was read.
local micros, now, checked, top
