// One round of one contender in a fresh process: `tsx bench/round.ts <url> <contender> <milliseconds>`. Warms up, runs
// sequential pairs for the time given, and prints what it saw as one line of JSON.
import { createClient, type RedisClientType } from 'redis';
import { contenders } from './contenders';

export interface Round {
  pairs: number;
  wallMicros: number;
  cpuMicros: number;
  commands: number;
}

const warmUpPairs = 2000;

async function main(url: string, name: string, milliseconds: number): Promise<Round> {
  const entry = contenders[name]!;
  const client = createClient({ url });
  await client.connect();
  const contender = await entry.make(client as RedisClientType);
  const key = `bench:${name}`;
  for (let pair = 0; pair < warmUpPairs; pair++) await contender.pair(key);
  const before = await calls(client as RedisClientType, entry.commands);
  const cpu = process.cpuUsage();
  const start = performance.now();
  let pairs = 0;
  while (performance.now() - start < milliseconds) {
    for (let some = 0; some < 50; some++) await contender.pair(key);
    pairs += 50;
  }
  const wallMicros = (performance.now() - start) * 1000;
  const { user, system } = process.cpuUsage(cpu);
  const after = await calls(client as RedisClientType, entry.commands);
  await contender.close();
  await client.close();
  return { pairs, wallMicros, cpuMicros: user + system, commands: after - before };
}

async function calls(client: RedisClientType, commands: readonly string[]): Promise<number> {
  const stats = await client.info('commandstats');
  return commands.reduce((sum, name) => {
    const [, count] = new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats) ?? [];
    return sum + Number(count ?? 0);
  }, 0);
}

const [, , url, name, milliseconds] = process.argv;
main(url!, name!, Number(milliseconds)).then((round) => console.log(JSON.stringify(round)));
