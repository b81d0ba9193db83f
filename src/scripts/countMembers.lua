-- countMembers: how many permits of a semaphore are out. Changes nothing.
-- USES common members
-- KEYS   lock   sorted set: one member for each holder
-- REPLY  [how many]
clock()
return { holders(KEYS[1], nil).used }
