-- release: give locks back, each if it is still ours.
-- KEYS   lock[]   string: the holder's token
-- ARGV   token    the token that acquired them
-- REPLY  [for each lock 1 released | 0 gone | -1 somebody else's: left alone]
local reply = {}
for i = 1, #KEYS do
  local holder = redis.pcall('GET', KEYS[i])
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder
  end
  reply[i] = not holder and 0 or holder == ARGV[1] and 1 or -1
end
for i = 1, #KEYS do
  if reply[i] == 1 then
    redis.call('DEL', KEYS[i])
  end
end
return reply
