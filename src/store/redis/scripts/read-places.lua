-- read-places: the places of a semaphore on a quorum that are taken at this node. Changes nothing.
-- USES clock mint holders
-- KEYS   lock   sorted set: one member for each holder
-- REPLY  [for each holder its places: ",0,3,"]
clock()
local places = {}
for text in pairs(ourHolders(KEYS[1], true).of) do
  places[#places + 1] = member(text).group
end
return places
