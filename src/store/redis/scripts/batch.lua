-- batch: run several calls in the order given, each on its own keys, arguments and fate.
-- INCLUDE acquire acquire-once extend mark-slot proclaim release raise
-- KEYS   key[]   the keys of all calls, one after the other
-- ARGV   part[]  for each call: its script, how many keys and how many arguments it has, in one text, and these arguments
-- REPLY  [for each call how many integers it answers, and they; or -1 and the text of its error]
-- THEN reply dispatch
return reply
