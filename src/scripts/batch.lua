-- batch: run several calls in the order given, each on its own keys, arguments and fate.
-- INCLUDE acquire extend release
-- KEYS   key[]   the keys of all calls, one after the other
-- ARGV   part[]  for each call: its script, how many keys, how many arguments, and these arguments
-- REPLY  [for each call how many integers it answers, and they; or -1 and the text of its error]
local reply, keysDone, argsDone = {}, 0, 0
while argsDone < #ARGV do
  local run, keys, args = scripts[ARGV[argsDone + 1]], {}, {}
  local keyCount, argCount = tonumber(ARGV[argsDone + 2]), tonumber(ARGV[argsDone + 3])
  argsDone = argsDone + 3
  for i = 1, keyCount do
    keys[i] = KEYS[keysDone + i]
  end
  for i = 1, argCount do
    args[i] = ARGV[argsDone + i]
  end
  keysDone, argsDone = keysDone + keyCount, argsDone + argCount
  local ran, answer = pcall(run, keys, args)
  local n = #reply
  if ran and not answer.err then
    reply[n + 1] = #answer
    for i = 1, #answer do
      reply[n + 1 + i] = answer[i]
    end
  else
    reply[n + 1] = -1
    reply[n + 2] = type(answer) == 'table' and answer.err or answer
  end
end
return reply
