// The smallest implementation of the wire, level 1: `npm run wire -- --level 1 node wire/smallest.mjs`.
import { createInterface } from 'node:readline';
import { createClient } from 'redis';

const scripts = {
  acquire: `local holder = redis.call('GET', KEYS[1])
    if holder and holder ~= ARGV[1] then return 0 end
    local left = redis.call('PTTL', KEYS[1])
    redis.call('SETNX', KEYS[1], ARGV[1])
    redis.call('PEXPIRE', KEYS[1], math.max(left, tonumber(ARGV[2])))
    return 1`,
  extend: `local holder = redis.call('GET', KEYS[1])
    if not holder then return 0 elseif holder ~= ARGV[1] then return -1 end
    if ARGV[3] == 'true' or redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    return 1`,
  release: `local holder = redis.call('GET', KEYS[1])
    if not holder then return 0 elseif holder ~= ARGV[1] then return -1 end
    return redis.call('DEL', KEYS[1])`,
};
const client = await createClient({ url: process.env.REDIS_URL }).connect();

for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line);
  const args = [call.token, String(call.lifetime), String(call.exact)];
  const reply = await client.eval(scripts[call.do], { keys: call.keys, arguments: args }).then(
    (status) => replyTo(call.do, status),
    (error) => ({ error: error.message.split(' ')[0] }),
  );
  console.log(JSON.stringify(reply));
}

function replyTo(verb, status) {
  if (verb === 'acquire') return status === 1 ? { granted: true, fence: 0 } : { granted: false };
  return { result: status === 0 ? 'missing' : status < 0 ? 'taken' : `${verb}${verb.endsWith('e') ? 'd' : 'ed'}` };
}
