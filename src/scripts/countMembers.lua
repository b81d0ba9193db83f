-- countMembers: how many permits of a semaphore are out. Changes nothing.
-- USES moment take holders waiters
-- WITHIN batchMembers
-- KEYS   lock   sorted set: one member for each holder
-- REPLY  [how many]
clock()
return { ourHolders(KEYS[1], true).used }
