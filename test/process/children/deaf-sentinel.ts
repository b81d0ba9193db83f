// A process whose master is killed while it waits for a lock, and that closes its client for sentinels, just before or later, and then
// its factory. argv: package of node-redis, 'before' or 'later', process of the master, ports of the sentinels. It says 'closed' when it
// has nothing more to do.
import { setTimeout as sleep } from 'node:timers/promises';
import redisExpLock from '../../../src/index';

const [packageName, when, master, ...ports] = process.argv.slice(2) as [string, string, string, ...string[]];
const client = require(packageName).createSentinel({
  name: 'gone',
  sentinelRootNodes: ports.map((port) => ({ host: '127.0.0.1', port: Number(port) })),
});
client.on('error', () => {});
const withLock = redisExpLock({ redis: client, lifetime: 60_000, timeout: 30_000 });

async function main(): Promise<void> {
  await client.connect();
  await withLock.promise('key');
  withLock.promise('key').catch(() => {});
  // In the queue, it is subscribed.
  while (((await withLock.inspect('key').catch(() => undefined))?.waiters ?? 0) === 0);
  const destroyed = when === 'before' && client.destroy();
  process.kill(Number(master), 'SIGKILL');
  // Time to notice it, and to try to subscribe again.
  if (when === 'later') await sleep(500);
  await (destroyed || client.destroy());
  await withLock.close({ drain: false });
  process.send!('closed', () => process.disconnect());
}

void main();
