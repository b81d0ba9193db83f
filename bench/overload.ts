// Trials of more than a process should ask for at once: all of it has to be served, in its time, and what is held has to stay held.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Figures } from './measure';
import type { Ground, TrialSeen } from './trials';

const timeoutMs = 60_000;
const replicationMs = 10_000;

/** Callers of one key, all in one tick. */
export async function waits({ callers }: { callers: number }, ground: Ground): Promise<TrialSeen> {
  const withLock = ground.lib({ redis: await ground.connect() });
  await withLock.run('bench:warm', async () => {});
  let inside = 0;
  let violations = 0;
  const start = performance.now();
  const failures = await countRejected(callers, () =>
    withLock.run('bench:overload', { timeout: timeoutMs }, async () => {
      if (++inside > 1) violations++;
      await null;
      inside--;
    }),
  );
  return { servedMs: performance.now() - start, failures, violations };
}

/** Keys of their own, all in one tick, renewed once and then given back. */
export async function keys(
  { locks, lifetimeMs }: { locks: number; lifetimeMs: number },
  ground: Ground,
): Promise<Figures> {
  const redis = await ground.connect();
  const withLock = ground.lib({ redis, lifetime: lifetimeMs, timeout: timeoutMs, autoExtend: true });
  await (await withLock.promise('bench:warm')).release();
  const leases: import('../src/index').Lease[] = [];
  const start = performance.now();
  const rejected = await countRejected(locks, async (n) => {
    leases.push(await withLock.promise(`bench:overload:${n}`));
  });
  const servedMs = performance.now() - start;
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await sleep(lifetimeMs + lifetimeMs / 6); // beyond the first lifetime: what is held then was renewed
  delay.disable();
  const lost = leases.filter((lease) => lease.remaining() === 0).length;
  const unreleased = await countRejected(leases.length, (n) => leases[n]!.release());
  return { servedMs, failures: rejected + lost + unreleased, lagMs: delay.max / 1e6 };
}

/** Locks of different keys, all in one tick, each confirmed by `minReplicas` of two replicas. */
export async function replicated(
  { locks, minReplicas }: { locks: number; minReplicas: number },
  { nodes: [master, ...replicas], lib }: Ground,
): Promise<Figures> {
  const { port } = new URL(master.options.url);
  await Promise.all(replicas.map((replica) => replica.sendCommand(['REPLICAOF', '127.0.0.1', port])));
  const online = async (): Promise<number> => (await master.info('replication')).match(/state=online/g)?.length ?? 0;
  const endMs = performance.now() + replicationMs;
  while ((await online()) < replicas.length && performance.now() < endMs) await sleep(20);
  const withLock = lib({ redis: master, minReplicas, lifetime: timeoutMs });
  await (await withLock.promise('bench:warm')).release();
  const start = performance.now();
  const failures = await countRejected(locks, (n) => withLock.promise(`bench:replicated:${n}`));
  const servedMs = performance.now() - start;
  await Promise.all(replicas.map((replica) => replica.sendCommand(['REPLICAOF', 'NO', 'ONE'])));
  return { servedMs, failures };
}

/** Starts `work` `times` times at once. @returns The number of calls that rejected. */
async function countRejected(times: number, work: (n: number) => Promise<unknown>): Promise<number> {
  const all = await Promise.allSettled(Array.from({ length: times }, (_, n) => work(n)));
  const rejected = all.filter((each) => each.status === 'rejected');
  if (rejected.length > 0) console.error(rejected[0]!.reason);
  return rejected.length;
}
