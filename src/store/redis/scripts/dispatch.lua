-- PART dispatch: runs the scripts that a batch includes, each call on its own keys, arguments and fate.
local shapes = {}
local keysDone, argsDone = 0, 0
while argsDone < #ARGV do
  local text = ARGV[argsDone + 1]
  local shape = shapes[text]
  if not shape then
    local name, keys, args = string.match(text, '^(%a+) (%d+) (%d+)$')
    shape = { scripts[name], tonumber(keys), tonumber(args) }
    shapes[text] = shape
  end
  append(pcall(shape[1], keysDone, argsDone + 1, shape[2], shape[3]))
  keysDone, argsDone = keysDone + shape[2], argsDone + 1 + shape[3]
end
