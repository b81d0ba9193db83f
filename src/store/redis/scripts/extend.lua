-- extend: move the end of locks that are still ours. Never makes a key, never touches the lock of another token.
-- KEYS   lock[]    string: the holder's token
-- ARGV   token     the token that acquired the locks
-- ARGV   lifetime  ms from now until the server frees the locks; 0: no end
-- ARGV   exact     1: set this end; 0: only move the end later (a renewal must not undo an extension)
-- ARGV   notAfter  server time in ms at which the locks end for the holder
-- REPLY  [1 extended | 0 gone | -1 held by another token | -2 too late: nothing was changed, server time in ms]
local lifetime, exact = tonumber(ARGV[2]), ARGV[3] == '1'
if not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > protocol.maxInteger then -- H1b
  return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local result, later = 1, {}
for i = 1, #KEYS do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder
  elseif not holder then
    result = math.min(result, 0) -- H13 H61
  elseif holder ~= ARGV[1] then -- H13b
    result = -1
  else
    local left = redis.call('PTTL', KEYS[i])
    later[i] = exact or (left >= 0 and (lifetime == 0 or left < lifetime))
  end
end
if result == 1 and now > tonumber(ARGV[4]) then -- H13e
  result = -2
end
if result == 1 then
  for i = 1, #KEYS do
    if later[i] and lifetime == 0 then
      redis.call('PERSIST', KEYS[i])
    elseif later[i] then
      redis.call('PEXPIRE', KEYS[i], string.format('%.0f', lifetime)) -- H55
    end
  end
end
return { result, now }
