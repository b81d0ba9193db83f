-- register: write down what a process holds and waits for, so that others can list it.
-- KEYS   process  string: what it holds and waits for, as JSON
-- ARGV   text     that; '': it does neither any more; '=': the same as before
-- ARGV   ttl      ms after which it expires
-- REPLY  [1 done | 0 there was nothing that could stay as before]
if ARGV[1] == '=' then
  return { redis.call('PEXPIRE', KEYS[1], ARGV[2]) }
elseif ARGV[1] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return { 1 }
