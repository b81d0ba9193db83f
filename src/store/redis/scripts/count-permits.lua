-- count-permits: how many permits of a semaphore are held. Changes nothing.
-- USES clock mint holders waiters wake
-- WITHIN batch-shared
-- KEYS   lock   sorted set: one member for each holder
-- REPLY  [how many]
clock()
return { ourHolders(KEYS[1], true).used }
