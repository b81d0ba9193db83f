-- extend: move the end of locks that are still ours, each row for itself. Never makes a key, never touches a stranger's.
-- KEYS   lock[]      string: the holder's token
-- ARGV   token[]     the token that acquired the lock in the same place
-- ARGV   lifetime[]  ms from now until the server frees it; 0: never
-- ARGV   exact[]     1: set this end; 0: only ever a later one (a renewal must not undo an extension)
-- ARGV   notAfter[]  server time in ms at which the holder stops believing in its lock
-- REPLY  [for each row 1 extended | 0 gone | -1 somebody else's | -2 too late; last: server time in ms]
local rows = #KEYS
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply, writes = {}, {}
for i = 1, rows do
  local lifetime = tonumber(ARGV[rows + i])
  if not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then
    return redis.error_reply('ERR expected a lifetime in whole milliseconds, at least 0')
  end
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder
  elseif not holder then
    reply[i] = 0
  elseif holder ~= ARGV[i] then
    reply[i] = -1
  elseif now > tonumber(ARGV[3 * rows + i]) then
    reply[i] = -2
  else
    reply[i] = 1
    local left = redis.call('PTTL', KEYS[i])
    if lifetime == 0 then
      writes[i] = { 'PERSIST', KEYS[i] }
    elseif ARGV[2 * rows + i] == '1' or (left >= 0 and left < lifetime) then
      writes[i] = { 'PEXPIRE', KEYS[i], string.format('%.0f', lifetime) }
    end
  end
end
for i = 1, rows do
  if writes[i] then
    redis.call(unpack(writes[i]))
  end
end
reply[rows + 1] = now
return reply
