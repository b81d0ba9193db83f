// Warnings of a deployment that may drop held locks. Each danger is looked for once for each client, at a grant while somebody listens for warnings.
import { noLock, warn, warningsWanted } from '../../core/events';
import type { ScriptClient } from './client';

export class DeploymentWarnings {
  readonly #client: ScriptClient;
  #isEvictionChecked = false;
  #missesFailovers: boolean;

  constructor(client: ScriptClient) {
    this.#client = client;
    this.#missesFailovers = client.missesFailovers === true;
  }

  /** @param minReplicas Replicas that acknowledged the grant. */
  onGrant(minReplicas: number): void {
    if ((this.#isEvictionChecked && !this.#missesFailovers) || !warningsWanted()) return;
    if (!this.#isEvictionChecked) this.#checkEviction(); // H60
    if (this.#missesFailovers && minReplicas === 0) this.#warnOfFailovers();
  }

  #checkEviction(): void {
    this.#isEvictionChecked = true; // H60b
    this.#client.evictionPolicy().then(
      (policy) => {
        if (!/^(volatile|allkeys)-/.test(policy)) return; // a service may reply without a policy
        const message = `maxmemory-policy is ${policy}: Redis may evict held locks; use noeviction`;
        warn({ code: 'eviction', message, ...noLock('redis') });
      },
      () => {},
    );
  }

  #warnOfFailovers(): void {
    this.#missesFailovers = false;
    const message =
      'after a failover, this client may stay connected to an old master that comes back, which grants locks that are held ' +
      'at the new one: use failoverDetector: true, or minReplicas';
    warn({ code: 'missed-failover', message, ...noLock('redis') });
  }
}
