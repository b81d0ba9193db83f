-- read-places: which places of a semaphore on a quorum are taken at this node. Changes nothing.
-- USES clock mint holders
-- KEYS   lock   sorted set: one member for each holder
-- REPLY  [of each holder, the places that it has: ",0,3,"]
clock()
local places = {}
for _, each in pairs(ourHolders(KEYS[1], true).of) do
  places[#places + 1] = each.group
end
return places
