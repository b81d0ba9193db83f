// The command line on a cluster of three masters: what it finds on each of them, and what it does there.

import { expect } from 'chai';
import { createCluster } from 'redis';
import { stub } from 'sinon';
import redisExpLock from '../../src/index';
import { perform } from '../../src/tools/cli/main';
import { startCluster, type TestCluster } from '../support/cluster';
import { type ShardEndpoint, startEndpoint } from '../support/endpoint';
import { waitFor } from '../support/processes';
import { connect, uniqueKey } from '../support/redis';

/** Runs the tool in this process. @returns Its exit code, and the rows of JSON that it printed. */
async function typedAt(url: string, ...args: string[]): Promise<{ code: number; rows: any[] }> {
  let out = '';
  const written = stub(process.stdout, 'write').callsFake(((text: unknown, onWritten?: () => void) => {
    out += String(text);
    onWritten?.();
    return true;
  }) as never);
  try {
    const own = args.indexOf('--');
    const options = ['-q', '--url', url];
    const code = await perform(
      own < 0 ? [...args, ...options] : [...args.slice(0, own), ...options, ...args.slice(own)],
    );
    const lines = out.split('\n').filter((line) => line.startsWith('{'));
    return { code, rows: lines.map((line) => JSON.parse(line)) };
  } finally {
    written.restore();
  }
}

describe('the command line on a cluster', () => {
  let cluster: TestCluster;
  let redis: any;

  before(async () => {
    cluster = await startCluster();
    redis = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${cluster.nodes[0]!.port}` }] });
    redis.on('error', () => {});
    await redis.connect();
  });

  after(async () => {
    redis.destroy();
    await cluster.stop();
  });

  const typed = (...args: string[]) => typedAt(cluster.nodes[1]!.url, ...args);

  it('doctor: what all masters have in common once, and the rest with the port of its master', async () => {
    const [, odd] = cluster.nodes;
    await odd!.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    const { code, rows } = await typed('doctor', '--json');
    await odd!.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    expect(code, JSON.stringify(rows)).to.equal(1);
    const of = (check: string): any[] => rows.filter((row) => row.check === check);
    expect(of('version')).to.have.length(1);
    expect(of('cluster slots')).to.deep.equal([
      { check: 'cluster slots', status: 'ok', remedy: 'all 16384 are served' },
    ]);
    const policies = of('eviction policy');
    expect(policies.map(({ status }) => status).sort()).to.deep.equal(['ok', 'ok', 'warn']);
    const ports = policies.map(({ remedy }) => Number(/^at port (\d+): /.exec(remedy)?.[1]));
    expect(ports.sort()).to.deep.equal(cluster.nodes.map(({ port }) => port).sort());
    expect(policies.find(({ status }) => status === 'warn').remedy).to.contain(`at port ${odd!.port}: allkeys-lru`);
  });

  it('ls, show and release: locks on every master, one of them released by its id', async () => {
    const prefix = uniqueKey('cli');
    const withLock = redisExpLock({ redis, lifetime: 60_000, prefix, register: true });
    const keys = Array.from({ length: 40 }, (_, n) => `:${n}`);
    const nodes = new Set(await Promise.all(keys.map((key) => cluster.nodeOf(prefix + key))));
    expect(nodes.size).to.equal(3);
    const leases = await Promise.all(keys.map((key) => withLock.promise(key)));
    const expected = keys.map((key) => prefix + key).sort();
    const listed = async (...more: string[]): Promise<string[]> => {
      const { rows } = await typed('ls', prefix, '--json', ...more);
      return rows.flatMap(({ key }) => key ?? []).sort();
    };
    expect(await listed('--scan')).to.deep.equal(expected);
    await waitFor(async () => (await listed()).length === keys.length, { what: 'what is registered' });
    expect(await listed()).to.deep.equal(expected);
    const { rows } = await typed('show', expected[0]!, '--json');
    const [{ key, id, holders }] = rows;
    expect([key, holders.length]).to.deep.equal([expected[0], 1]);
    const freed = await typed('release', key, '--id', id, '--yes');
    expect(freed).to.deep.equal({ code: 0, rows: [{ key, id, released: true }] });
    const again = await typed('release', key, '--id', id, '--yes');
    expect(again).to.deep.equal({ code: 1, rows: [{ key, id, released: false }] });
    const released = await Promise.all(leases.map((lease) => lease.release()));
    expect(released.filter((each) => each)).to.have.length(keys.length - 1);
    await withLock.close();
  });
});

describe('the command line at shards behind one endpoint (H96)', () => {
  let endpoint: ShardEndpoint;

  before(async () => {
    endpoint = await startEndpoint();
  });
  after(() => endpoint.discard());

  it('run, ls with a scan, show and release; doctor finds a server that is no cluster', async () => {
    const redis = await connect(endpoint.url);
    const prefix = uniqueKey('cli');
    // The endpoint is in this process: a stall of it holds up the replies as well.
    const withLock = redisExpLock({ redis, lifetime: 60_000, commandTimeout: 30_000, prefix });
    const keys = Array.from({ length: 20 }, (_, n) => `:${n}`);
    const leases = await Promise.all(keys.map((key) => withLock.promise(key)));
    const at = (...args: string[]) => typedAt(endpoint.url, ...args);
    const { rows } = await at('ls', prefix, '--scan', '--json');
    expect(rows.flatMap(({ key }) => key ?? [])).to.have.members(keys.map((key) => prefix + key));
    const [{ id }] = (await at('show', `${prefix}:0`, '--json')).rows;
    expect((await at('release', `${prefix}:0`, '--id', id, '--yes')).code).to.equal(0);
    expect(await Promise.all(leases.map((lease) => lease.release()))).to.deep.equal(keys.map((_, n) => n > 0));
    expect((await at('run', `${prefix}:0`, '--', process.execPath, '-e', '')).code).to.equal(0);
    const doctor = await at('doctor', '--json', '--prefix', prefix);
    expect(doctor.rows.filter(({ status }) => status === 'fail')).to.deep.equal([]);
    expect(doctor.rows).to.deep.include({ check: 'cluster slots', status: 'ok', remedy: 'not a cluster' });
    expect(endpoint.redirected).to.equal(0);
  });
});
