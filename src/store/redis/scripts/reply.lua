-- PART reply: the reply of a script that runs several calls: for each call its number of integers, then these integers; or -1 and its error.
local reply, size = {}, 0

local function append(ran, answer)
  if type(answer) == 'number' then
    answer = { answer }
  end
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
