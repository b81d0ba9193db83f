-- batch-shared: run calls with a mode, as batch does. A single call is a batch of one.
-- USES clock mint holders waiters wake
-- INCLUDE acquire-shared extend-shared release-shared count-permits raise-fence-shared free-shared
-- KEYS   key[]   the keys of all calls, one after the other
-- ARGV   part[]  for each call: its script, its number of keys and its number of arguments, in one text; then its arguments
-- REPLY  [for each call its number of integers, then these integers; or -1 and the text of its error]
-- THEN reply dispatch
-- A request behind a release in the same batch has had its reply by now, and needs no notification.
for i = 1, #wakes do
  local each = wakes[i]
  pcall(wake, each[1], each[2], each[3], each[4], each.isFresh)
end
return reply
