-- release: release locks, each if it is still ours, and hand each off to its queue. Also removes an entry from its queue.
-- USES clock
-- KEYS   lock[]   string: the holder's token
-- KEYS   queue[]  sorted set: the queue of the lock in the same place
-- KEYS   fence    string: the last fence minted for any lock
-- ARGV   token    the token that acquired the locks
-- ARGV   ticket   the ticket of the token in the queue: 0 not queued; -1 perhaps queued, with an unknown ticket
-- ARGV   window   ms for which the lock yields, when it is the turn of callers outside the queue
-- ARGV   next[]   the next queue entry of the same process (one lock): token, lifetime, fences, channel, id, ticket (minus a server time in µs: not queued before), and optionally the ms of silence after which the entry expires (default: by its position)
-- REPLY  1 one lock was released, and nobody is queued | [for each lock 1 released | 0 gone | -1 held by another token: left alone; then, with next, the reply of its acquire]
local token, ticket, locks = ARGV[1], ARGV[2], (#KEYS - 1) / 2
local first = attempt('GET', KEYS[1])
local length = attempt('ZCARD', KEYS[locks + 1])
-- Nearly every call ends here: one lock, still ours, without a queue.
if first == token and length == 0 and locks == 1 and #ARGV == 3 then -- B1 S2
  call('DEL', KEYS[1])
  return 1
end

local reply, hasQueue = {}, false
for i = 1, locks do
  local holder = i == 1 and first
  if i > 1 then
    holder = attempt('GET', KEYS[i])
    length = attempt('ZCARD', KEYS[locks + i])
  end
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder
  end
  reply[i] = not holder and 0 or holder == token and 1 or -1 -- H25
  hasQueue = hasQueue or length ~= 0
end
for i = 1, locks do
  if reply[i] == 1 then
    call('DEL', KEYS[i])
  end
end
if not hasQueue and #ARGV == 3 then -- S3
  return reply
end
-- THEN mint queue

local function handOff(lock, queue, status)
  clock()
  if ticket ~= '0' then
    local mine = entriesOf(queue, token, tonumber(ticket))
    for i = 1, #mine do
      call('ZREM', queue, mine[i])
    end
  end
  local next = #ARGV > 3 and ARGV[4]
  local silence = #ARGV > 9 and tonumber(ARGV[10]) or 0
  if next then
    checkLifetime(ARGV[5])
    ticket = enqueue(queue, next, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], silence)
  end
  local whose, value
  if status >= 0 then
    whose, value = grant(lock, KEYS[#KEYS], queue, next, tonumber(ARGV[3]), status == 1)
  end
  if whose == 'mine' then
    return { 1, value, call('ZCOUNT', queue, 0, '+inf'), now }
  elseif next then
    return answer(value or call('PTTL', lock), not whose and first, ticket, positionOf(queue, ticket))
  end
end
for i = 1, locks do
  -- The release counts even if the queue is damaged: its processes poll by themselves.
  local ran, answered = pcall(handOff, KEYS[i], KEYS[locks + i], reply[i])
  if #ARGV > 3 then
    answered = ran and answered or { 0, 0, 0, 0, 0, 0 }
    for n = 1, #answered do
      reply[#reply + 1] = answered[n]
    end
  end
end
return reply
