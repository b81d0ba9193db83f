/** A caller that polls beside the queue of two busy processes: it has a turn within the bound that docs/waiting.md states. */
import { join } from 'node:path';
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import redisExpLock from '../../src/index';
import { ownServer } from '../support/own-server';
import { kill9, startChild, waitFor } from '../support/processes';
import { type Client, commandStats, type RedisServer, uniqueKey } from '../support/redis';

describe('polling beside a busy queue', () => {
  let server: RedisServer;
  let client: Client;

  ownServer((own) => {
    ({ server, client } = own);
  });

  // Each user that is granted the lock sends one INCR.
  const grantsToOthers = async (): Promise<number> => (await commandStats(client)).incr ?? 0;

  it('H80: with pauses of 100 ms, a turn before some hundred others, three times over', async () => {
    const children = [1, 2].map(() => startChild(join(__dirname, 'children', 'queuer.ts'), [server.url]));
    try {
      for (const each of children) expect(await each.receive()).to.equal('ready');
      const key = uniqueKey('hot');
      // More users than a process hands off to locally, and few enough that a busy machine starts them soon.
      for (const each of children) each.send({ key, users: 200, turns: 20, holdMs: 5 });
      await waitFor(async () => (await client.zCount(companionOf(key, 'queue'), 0, '+inf')) === 1);
      const polling = redisExpLock({ redis: client, maxRetries: 10_000, retryTimeout: 100 });
      for (let turn = 0; turn < 3; turn++) {
        const before = await grantsToOthers();
        const lease = await polling.promise(key);
        // Eight pauses in vain and the pause for which the key yields, in holds of 5 ms, and those that a process hands off locally; twice that.
        expect((await grantsToOthers()) - before, `before turn ${turn}`).to.be.below(2 * ((9 * 120) / 5 + 65));
        expect(await lease.release()).to.equal(true);
      }
    } finally {
      await Promise.all(children.map(kill9));
    }
  });
});
