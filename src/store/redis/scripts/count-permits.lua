-- count-permits: the number of permits of a semaphore that are held. Changes nothing.
-- WITHIN batch-shared
-- KEYS   lock   sorted set: one member for each holder
-- REPLY  [the number]
clock()
return { ourHolders(KEYS[1], true).used }
