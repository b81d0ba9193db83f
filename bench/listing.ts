// `npm run bench:listing`: 100,000 locks of several processes, listed by the registry and by a scan: how long it takes, what it
// costs the command and the server, and how long any command of it held the server up: beside PINGs, since a busy machine
// interrupts the server in the middle of any command.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import redisExpLock from '../src/index';
import { type Client, connect, startRedis, stopServers } from '../test/support/redis';

const locks = 100_000;
const holders = 4;
const cli = join(__dirname, '../lib/tools/cli.js');
const settledMs = 5000;
const pingMs = 5;

async function main(): Promise<void> {
  const server = await startRedis();
  const clients = await Promise.all(Array.from({ length: holders }, () => connect(server.url)));
  const observer = await connect(server.url);
  await observer.configSet('latency-tracking-info-percentiles', '50 99 100');
  const factories = clients.map((redis) =>
    redisExpLock({ redis, lifetime: 3_600_000, register: true, owner: 'bench', commandTimeout: 30_000 }),
  );
  for (const [n, withLock] of factories.entries()) {
    for (let from = 0; from < locks / holders; from += 1000) {
      await Promise.all(Array.from({ length: 1000 }, (_, i) => withLock.promise(`lock:${n}:${from + i}`)));
    }
  }
  await new Promise((resolve) => setTimeout(resolve, settledMs));
  for (const args of ['ls', 'ls --json', 'ls lock:2:24 --json', 'ls --scan --json', 'ls lock:2:24 --scan --json']) {
    await measure(observer, args.split(' '), server.url);
  }
  await measure(observer, [], server.url); // the registry alone, as it is kept
  await Promise.all(factories.map((withLock) => withLock.close({ drain: false })));
  for (const client of [...clients, observer]) client.destroy();
  await stopServers();
}

/** Without arguments: while nobody lists anything. */
async function measure(observer: Client, args: readonly string[], url: string): Promise<void> {
  await observer.configResetStat();
  const before = await usage(observer);
  const startMs = performance.now();
  const pings = setInterval(() => void observer.ping().catch(() => {}), pingMs);
  const { lines, cpu } = args.length === 0 ? await nothing() : await run([...args, '--url', url]);
  clearInterval(pings);
  const tookMs = performance.now() - startMs;
  const after = await usage(observer);
  const share = (micros: number): string => `${(micros / 10 / tookMs).toFixed(2)} %`;
  const calls = [...after.calls].map(([name, count]) => [name, count - (before.calls.get(name) ?? 0)] as const);
  console.log(
    `${args.join(' ') || 'nobody lists'}: ${lines} lines, ${tookMs.toFixed(0)} ms, CPU of the command ${cpu} s`,
  );
  console.log(
    `  server: commands ${share(after.micros - before.micros)}, CPU ${share(after.cpu - before.cpu)} of the time`,
  );
  console.log(`  ${calls.flatMap(([name, count]) => (count > 0 ? `${name} ${count}` : [])).join(', ')}`);
  console.log(`  µs a command, 50 % 99 % most: ${await percentiles(observer)}`);
}

async function percentiles(observer: Client): Promise<string> {
  const stats = await observer.info('latencystats');
  const rows = [
    ...stats.matchAll(/^latency_percentiles_usec_(scan|evalsha|get|info|ping):p50=(.*),p99=(.*),p100=(.*)$/gm),
  ];
  return rows
    .map(([, name, ...micros]) => `${name} ${micros.map((each) => Math.round(Number(each))).join(' ')}`)
    .join(', ');
}

async function nothing(): Promise<{ lines: number; cpu: string }> {
  await new Promise((resolve) => setTimeout(resolve, settledMs));
  return { lines: 0, cpu: '0' };
}

interface Usage {
  readonly calls: ReadonlyMap<string, number>;
  /** The time that commands took; those within scripts count with their scripts. */
  readonly micros: number;
  readonly cpu: number;
}

async function usage(observer: Client): Promise<Usage> {
  const stats = await observer.info('commandstats');
  const rows = [...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm)].map(
    ([, name, calls, micros]) => [name!, Number(calls), Number(micros)] as const,
  );
  const outer = /^(?:eval|evalsha|scan|info|get|set)$/;
  const micros = rows.reduce((sum, [name, , each]) => (outer.test(name) ? sum + each : sum), 0);
  const cpu = [...(await observer.info('cpu')).matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)];
  return {
    calls: new Map(rows.map(([name, calls]) => [name, calls])),
    micros,
    cpu: cpu.reduce((sum, [, seconds]) => sum + Number(seconds) * 1e6, 0),
  };
}

function run(args: readonly string[]): Promise<{ lines: number; cpu: string }> {
  return new Promise((resolve) => {
    const script = 'TIMEFORMAT="%U + %S"; time "$0" "$@"';
    const child = spawn('bash', ['-c', script, process.execPath, cli, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let lines = 0;
    let said = '';
    child.stdout.on('data', (text: Buffer) => {
      for (const byte of text) if (byte === 10) lines += 1;
    });
    child.stderr.on('data', (text) => {
      said += text;
    });
    child.once('close', () => resolve({ lines, cpu: said.trim() }));
  });
}

void main();
