-- batch-shared: run calls on locks that several may hold, as batch does. One call is a batch of one.
-- INCLUDE acquire-shared extend-shared release-shared count-permits raise-shared free-shared
-- KEYS   key[]   the keys of all calls, one after the other
-- ARGV   part[]  for each call: its script, how many keys and how many arguments it has, in one text, and these arguments
-- REPLY  [for each call how many integers it answers, and they; or -1 and the text of its error]
-- THEN reply dispatch
-- A request behind a release in the same batch has had its reply by now, and need not be notified.
for i = 1, #wakes do
  pcall(wake, wakes[i][1], wakes[i][2], wakes[i][3])
end
return reply
