// Readers that share a member and permits that are handed off, among processes: nobody is beside whom it must not be; and 64 readers of
// one member that are killed together delay a writer for the lifetime of that one, and no longer.
import { join } from 'node:path';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { kill9, type NodeChild, startChild } from '../support/processes';
import { type Client, type RedisServer, startRedis, uniqueKey } from '../support/redis';

const { RWLock } = redisExpLock;

describe('shared members among processes', () => {
  let server: RedisServer;
  let client: Client;
  let children: NodeChild[];
  const key = uniqueKey('sharing');

  before(async () => {
    server = await startRedis();
    client = await server.connect();
    children = [0, 1].map(() => startChild(join(__dirname, 'children', 'sharing.ts'), [server.url, key]));
    for (const child of children) expect(await child.receive()).to.equal('ready');
  });

  after(async () => {
    await Promise.all(children.map(kill9));
    client.destroy();
    await server.discard();
  });

  it('H84: no writer beside a reader or another writer, and never more permits than there are', async () => {
    for (const child of children) child.send('work');
    for (const child of children) expect(await child.receive(), 'violations').to.equal(0);
    expect(await client.exists([key, `${key}:permits`])).to.equal(0);
  });

  it('H84, H38: 64 readers of one member are killed (kill -9): a writer is in within their lifetime', async () => {
    const child = children.pop()!;
    child.send('hold');
    expect(await child.receive()).to.equal('held');
    expect(await client.zCard(key)).to.equal(1);
    const startMs = performance.now();
    const writing = new RWLock(key, { redis: client, timeout: 30_000 }).acquireWrite();
    await kill9(child);
    const writer = await writing;
    // Their lifetime, and what the machine takes; one lifetime after the other would be three minutes.
    expect(performance.now() - startMs).to.be.below(3_000 + 20_000);
    expect(await writer.release()).to.equal(true);
  });
});
