-- release: give locks back, each if it is still ours, and let the next in line have it. Also how an entry leaves its line.
-- USES moment
-- KEYS   lock[]   string: the holder's token
-- KEYS   fence[]  string: the last fence minted for the lock in the same place
-- KEYS   queue[]  sorted set: who stands in line for the lock in the same place
-- ARGV   token    the token that acquired them
-- ARGV   ticket   what the token stands in line with: 0 it does not; -1 perhaps, with a ticket that is not known
-- ARGV   rest     ms for which the lock is left free, when it is the turn of callers outside the line
-- ARGV   next[]   who stands in line for the same process from now on (one lock): token, lifetime, fences, channel, id, ticket
-- REPLY  [for each lock 1 released | 0 gone | -1 somebody else's: left alone; then, where somebody stands next, the reply of its acquire]
local token, ticket, locks = ARGV[1], ARGV[2], #KEYS / 3
local first = attempt('GET', KEYS[1])
local length = attempt('ZCARD', KEYS[2 * locks + 1])
-- Nearly every call ends here: one lock, still ours, and nobody in line.
if first == token and length == 0 and locks == 1 and #ARGV == 3 then
  call('DEL', KEYS[1])
  return { 1 }
end

local reply, lined = {}, false
for i = 1, locks do
  local holder = i == 1 and first
  if i > 1 then
    holder = attempt('GET', KEYS[i])
    length = attempt('ZCARD', KEYS[2 * locks + i])
  end
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder
  end
  reply[i] = not holder and 0 or holder == token and 1 or -1
  lined = lined or length ~= 0
end
for i = 1, locks do
  if reply[i] == 1 then
    call('DEL', KEYS[i])
  end
end
if not lined and #ARGV == 3 then
  return reply
end
-- THEN take line

local function passOn(lock, fence, queue, status)
  clock()
  if ticket ~= '0' then
    local mine = entriesOf(queue, token, tonumber(ticket))
    for i = 1, #mine do
      call('ZREM', queue, mine[i])
    end
  end
  local next = #ARGV > 3 and ARGV[4]
  if next then
    checkLifetime(ARGV[5])
    stand(queue, next, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9])
  end
  local whose, value
  if status >= 0 then
    whose, value = grant(lock, fence, queue, next, tonumber(ARGV[3]), status == 1)
  end
  if whose == 'mine' then
    return { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }
  elseif next then
    local left = whose == 'resting' and value - now or whose == 'none' and 0 or nil
    return answer(lock, queue, next, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], left)
  end
end
for i = 1, locks do
  -- What was given back stays given back, whatever is wrong with the line: who stands there asks for himself.
  local ran, answered = pcall(passOn, KEYS[i], KEYS[locks + i], KEYS[2 * locks + i], reply[i])
  if #ARGV > 3 then
    answered = ran and answered or { 0, 0, 0, 0, 0, 0 }
    for n = 1, #answered do
      reply[#reply + 1] = answered[n]
    end
  end
end
return reply
