// Warnings of a deployment that may drop held locks. Each danger is looked for once for each client, at a grant while somebody listens for warnings.
import { noLock, warn, warningsWanted } from '../../core/events';
import type { ScriptClient } from './client';

/** Returns a function to be called at each grant, with the number of replicas that acknowledged it. */
export function deploymentWarnings(client: ScriptClient): (minReplicas: number) => void {
  let isEvictionChecked = false;
  let missesFailovers = client.missesFailovers === true;

  function checkEviction(): void {
    isEvictionChecked = true; // H60b
    client.command('CONFIG', 'GET', 'maxmemory-policy').then(
      (reply) => {
        const policy = /"((?:volatile|allkeys)-.*?)"/.exec(reply)?.[1];
        if (policy === undefined) return; // a service may reply without a policy
        const message = `maxmemory-policy is ${policy}: Redis may evict held locks; use noeviction`;
        warn({ code: 'eviction', message, ...noLock('redis') });
      },
      () => {},
    );
  }

  return (minReplicas) => {
    if ((isEvictionChecked && !missesFailovers) || !warningsWanted()) return;
    if (!isEvictionChecked) checkEviction(); // H60
    if (!missesFailovers || minReplicas > 0) return;
    missesFailovers = false;
    const message =
      'after a failover, this client may stay connected to an old master that comes back, which grants locks that are held ' +
      'at the new one: use failoverDetector: true, or minReplicas';
    warn({ code: 'missed-failover', message, ...noLock('redis') });
  };
}
