// `npm run bench:listing`: 100,000 locks, listed by the registry and by a scan: how long it takes, and what it costs the server.
import { execFileSync, spawn } from 'node:child_process';
import { join } from 'node:path';
import redisExpLock from '../src/index';
import { commandStats, connect, diffCommandStats, startRedis, stopServers } from '../test/support/redis';

const locks = 100_000;
const holders = 4;
const cli = join(__dirname, '../lib/cli.js');

async function main(): Promise<void> {
  const server = await startRedis();
  const clients = await Promise.all(Array.from({ length: holders }, () => connect(server.url)));
  const observer = await connect(server.url);
  const factories = clients.map((redis) =>
    redisExpLock({ redis, lifetime: 3_600_000, register: true, owner: 'bench', commandTimeout: 30_000 }),
  );
  for (const [n, withLock] of factories.entries()) {
    const count = locks / holders;
    for (let from = 0; from < count; from += 1000) {
      await Promise.all(Array.from({ length: 1000 }, (_, i) => withLock.promise(`lock:${n}:${from + i}`)));
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 5000));
  await observer.sendCommand(['CONFIG', 'SET', 'slowlog-log-slower-than', '5000']);
  for (const args of [
    ['ls', '--json'],
    ['ls', '--scan', '--json'],
    ['ls', 'lock:2:24', '--scan', '--json'],
  ]) {
    await observer.sendCommand(['SLOWLOG', 'RESET']);
    const before = await commandStats(observer);
    const startMs = performance.now();
    const lines = await run(args, server.url);
    const tookMs = performance.now() - startMs;
    const after = await commandStats(observer);
    const slow = (await observer.sendCommand(['SLOWLOG', 'GET', '10'])) as unknown as [
      number,
      number,
      number,
      string[],
    ][];
    const info = await observer.info('commandstats');
    console.log(args.join(' '), `${lines} lines, ${tookMs.toFixed(0)} ms`);
    console.log('  calls', diffCommandStats(before, after));
    console.log(
      '  µs',
      usec(info) - (usecBefore ?? 0),
      `share ${(((usec(info) - (usecBefore ?? 0)) / 1000 / tookMs) * 100).toFixed(2)} %`,
    );
    usecBefore = usec(info);
    console.log(
      '  slow',
      slow.map(
        ([, , micros, words]) =>
          `${micros} µs ${words
            .map((word) => word.slice(0, 30))
            .slice(0, 4)
            .join(' ')}`,
      ),
    );
  }
  console.log(execFileSync('redis-cli', ['-p', String(server.port), 'info', 'commandstats'], { encoding: 'utf8' }));
  await Promise.all(factories.map((withLock) => withLock.close({ drain: false })));
  for (const client of [...clients, observer]) client.destroy();
  await stopServers();
}

let usecBefore: number | undefined = 0;

/** What all commands have taken; of scripts, what is in them counts once. */
function usec(info: string): number {
  let sum = 0;
  for (const [, name, micros] of info.matchAll(/^cmdstat_([^:]+):calls=\d+,usec=(\d+)/gm)) {
    if (/^(evalsha|eval|scan)$/.test(name!)) sum += Number(micros);
  }
  return sum;
}

function run(args: readonly string[], url: string): Promise<number> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [cli, ...args, '--url', url], { stdio: ['ignore', 'pipe', 'inherit'] });
    let lines = 0;
    child.stdout.on('data', (text: Buffer) => {
      for (const byte of text) if (byte === 10) lines += 1;
    });
    child.once('close', () => resolve(lines));
  });
}

void main();
