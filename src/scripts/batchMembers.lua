-- batchMembers: run several calls on locks that many may hold in the order given, each on its own keys, arguments and fate.
-- INCLUDE acquireMember extendMember releaseMember
-- KEYS   key[]   the keys of all calls, one after the other
-- ARGV   part[]  for each call: its script, how many keys, how many arguments, and these arguments
-- REPLY  [for each call how many integers it answers, and they; or -1 and the text of its error]
local reply, size, keysDone, argsDone, keyCount, argCount = {}, 0, 0, 0, 0, 0
while argsDone < #ARGV do
  keyCount, argCount = tonumber(ARGV[argsDone + 2]), tonumber(ARGV[argsDone + 3])
  local ran, answer = pcall(scripts[ARGV[argsDone + 1]], keysDone, argsDone + 3, keyCount, argCount)
  keysDone, argsDone = keysDone + keyCount, argsDone + 3 + argCount
  if ran and not answer.err then
    reply[size + 1] = #answer
    for i = 1, #answer do
      reply[size + 1 + i] = answer[i]
    end
    size = size + 1 + #answer
  else
    reply[size + 1] = -1
    reply[size + 2] = type(answer) == 'table' and answer.err or answer
    size = size + 2
  end
end
return reply
