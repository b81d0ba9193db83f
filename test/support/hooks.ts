/**
 * Root hooks: what the support room started is gone after the last test, so that mocha ends by itself and leaves no process.
 * Listed in .mocharc.json under `require`.
 *
 * Invariant: clients and proxies go before the servers they talk to, so that nothing redials a port that others may take.
 */

import type { RootHookObject } from 'mocha';
import { stopCountingTimers } from '../contract/outcomes';
import { stopProxies } from './fault-proxy';
import { killChildren } from './processes';
import { closeAll, stopServers } from './redis';

export const mochaHooks: RootHookObject = {
  afterEach: stopCountingTimers,
  async afterAll() {
    closeAll();
    await stopProxies();
    await stopServers();
    await killChildren();
  },
};
