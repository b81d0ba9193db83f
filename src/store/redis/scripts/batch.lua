-- batch: run several calls in the order given, each on its own keys, arguments and fate.
-- INCLUDE acquire extend release raise-fence write-value
-- KEYS   key[]   the keys of all calls, one after the other
-- ARGV   part[]  for each call: its script, its number of keys and its number of arguments, in one text; then its arguments
-- REPLY  [for each call its number of integers, then these integers; or -1 and the text of its error]
-- THEN reply dispatch
return reply
