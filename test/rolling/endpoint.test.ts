// Old and new at shards behind one endpoint (H96, H97). An old process locks there by a cluster client alone; a new one by a plain
// client too. They share the counter of each slot.
import { expect } from 'chai';
import { createCluster } from 'redis';
import { type ShardEndpoint, startEndpoint } from '../support/endpoint';
import { waitFor } from '../support/processes';
import { connect, uniqueKey } from '../support/redis';
import { bothVersions, type Versions } from './versions';

const lifetime = 10_000;

describe('old and new at shards behind one endpoint', () => {
  let versions: Versions;
  let endpoint: ShardEndpoint;
  let cluster: any;

  bothVersions((both) => {
    versions = both;
  });
  before(async () => {
    endpoint = await startEndpoint();
    cluster = createCluster({ rootNodes: endpoint.nodes.map(({ url }) => ({ url })) });
    cluster.on('error', () => {});
    await cluster.connect();
  });
  after(async () => {
    cluster.destroy();
    await endpoint.discard();
  });

  it('an old cluster client and a new plain one hand over to each other, and fences rise (H96, H97)', async () => {
    const old = versions.old.library({ redis: cluster, lifetime });
    const plain = versions.new.library({ redis: (await connect(endpoint.url)) as never, lifetime });
    for (let n = 0; n < 6; n += 1) {
      const key = uniqueKey();
      let last = 0;
      for (const [one, other] of [
        [old, plain],
        [plain, old],
      ] as const) {
        const lease = await one.promise(key, { timeout: lifetime });
        expect(await other.tryLock(key)).to.equal(null);
        const waiting = other.promise(key, { timeout: lifetime });
        await waitFor(async () => (await one.inspect(key)).waiters === 1, { what: 'a waiter' });
        expect(await lease()).to.equal(true);
        const next = await waiting;
        expect([lease.fence > last, next.fence > lease.fence]).to.deep.equal([true, true]);
        last = next.fence;
        expect(await next()).to.equal(true);
      }
    }
  });

  it('an old plain client is refused as before, and leaves nothing (H96, H97)', async () => {
    const key = uniqueKey();
    const old = versions.old.library({ redis: (await connect(endpoint.url)) as never, lifetime });
    const refused = await old.promise(key).catch(({ redisCode }) => redisCode);
    expect(refused).to.equal('CROSSSLOT');
    expect(await endpoint.command('EXISTS', key)).to.equal(0);
  });
});
