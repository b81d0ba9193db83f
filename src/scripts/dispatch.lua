-- PART calls: runs the scripts that a batch includes, each call on its own keys, arguments and fate.
local shapes = {}
local reply, size, keysDone, argsDone = {}, 0, 0, 0
while argsDone < #ARGV do
  local text = ARGV[argsDone + 1]
  local shape = shapes[text]
  if not shape then
    local name, keys, args = string.match(text, '^(%a+) (%d+) (%d+)$')
    shape = { scripts[name], tonumber(keys), tonumber(args) }
    shapes[text] = shape
  end
  local ran, answer = pcall(shape[1], keysDone, argsDone + 1, shape[2], shape[3])
  keysDone, argsDone = keysDone + shape[2], argsDone + 1 + shape[3]
  if ran and not answer.err then
    local count = #answer
    reply[size + 1] = count
    for i = 1, count do
      reply[size + 1 + i] = answer[i]
    end
    size = size + 1 + count
  else
    reply[size + 1] = -1
    reply[size + 2] = type(answer) == 'table' and answer.err or answer
    size = size + 2
  end
end
