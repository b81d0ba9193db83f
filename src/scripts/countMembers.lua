-- countMembers: how many permits of a semaphore are out. Changes nothing.
-- USES moment take members
-- WITHIN batchMembers
-- KEYS   lock   sorted set: one member for each holder
-- REPLY  [how many]
clock()
return { holders(KEYS[1]).used }
