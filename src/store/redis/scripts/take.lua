-- take: take locks that are all free, with nobody queued, at once; of anything else `acquire` has to be asked.
-- KEYS   lock[]    string: the holder's token
-- KEYS   queue[]   sorted set: the queue of the lock in the same place
-- KEYS   fence     string: the last fence minted for any lock
-- ARGV   token     the caller's
-- ARGV   lifetime  ms until the server frees the locks by itself
-- ARGV   notAfter  server time in us after which this request must change nothing
-- REPLY  the fence, which is the server's time in us | 0 somebody else holds one | -1 nothing was changed: ask `acquire`
local call, names = redis.call, KEYS
local locks = (#KEYS - 1) / 2
if call('EXISTS', unpack(names, 1, 2 * locks)) > 0 then -- H32c
  for i = 1, locks do
    local holder = call('GET', KEYS[i])
    if holder and holder ~= ARGV[1] then
      return 0
    end
  end
  return -1
end
local time = call('TIME')
local fence = string.format('%d%06d', time[1], time[2])
if tonumber(fence) > tonumber(ARGV[3]) then -- H3e
  return -1
end
-- Written first: when memory or a right is missing, no lock was touched yet.
local before = call('SET', KEYS[#KEYS], fence, 'GET')
if before and (#before ~= 16 or string.find(before, '%D') or before >= fence) then
  call('SET', KEYS[#KEYS], before)
  return -1
end
for i = 1, locks do
  call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return tonumber(fence)
