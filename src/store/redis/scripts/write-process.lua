-- write-process: write the record of a process, which others can list: its held locks and its waits.
-- KEYS   process  string: the record, as JSON
-- ARGV   text     the record; '': the process neither holds nor waits; '=': unchanged
-- ARGV   ttl      ms after which the record expires
-- REPLY  [1 done | 0 there was no record that could stay unchanged]
if ARGV[1] == '=' then
  return { redis.call('PEXPIRE', KEYS[1], ARGV[2]) }
elseif ARGV[1] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return { 1 }
