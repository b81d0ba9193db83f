/**
 * The case that no lock can prevent and a fence makes harmless, with real processes: a holder is stopped for longer than its lock lives,
 * another one writes, the first wakes up and writes. The same writes without the fence show that the danger is real.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect } from 'chai';
import { readVersion, updateUnlessStale, writeFile, writeRow } from '../../examples/fence';
import { cont, exited, kill9, startChild, stop, waitFor } from '../support/processes';
import { type Client, connect, sharedRedis, uniqueKey } from '../support/redis';

const writer = join(__dirname, 'children', 'writer.ts');

describe('a holder that is stopped for longer than its lifetime, and then writes', () => {
  const key = uniqueKey('fence');
  let url: string;
  let direct: Client;
  let folder: string;
  let stale: any;
  let fresh: any;

  before('stopped, overtaken, woken up', async () => {
    ({ url } = await sharedRedis());
    direct = await connect(url);
    folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-fence-'));
    const first = startChild(writer, [url, key, folder, '600']);
    const { fence: firstFence } = await first.receive();
    await stop(first);
    first.send('first'); // it is about to write, and cannot

    const second = startChild(writer, [url, key, folder, '30000']);
    const { fence: secondFence } = await second.receive();
    second.send('second');
    fresh = { fence: secondFence, ...(await second.receive()) };

    await cont(first);
    stale = { fence: firstFence, ...(await first.receive()) };
    await Promise.all([first, second].map(exited));
  });

  after(() => rmSync(folder, { recursive: true }));

  it('its successor held the lock and wrote everywhere', () => {
    expect(fresh).to.deep.include({ released: true, reason: null, aborted: false });
    expect(fresh.written).to.deep.equal({ row: true, file: true });
  });

  it('without the fence, its stale write overwrites the newer one: the danger is real', async () => {
    expect(await direct.get(`${key}:bare`)).to.equal('first');
    expect(readFileSync(join(folder, 'bare'), 'utf8')).to.equal('first');
  });

  it('with the fence, the Redis row refuses it and nothing changes', async () => {
    expect(stale.written.row).to.equal(false);
    expect({ ...(await direct.hGetAll(`${key}:row`)) }).to.deep.equal({ fence: String(fresh.fence), value: 'second' });
  });

  it('with the fence, the file refuses it and nothing changes', async () => {
    expect(stale.written.file).to.equal(false);
    expect(await readVersion(join(folder, 'fenced.json'))).to.deep.equal({ fence: fresh.fence, value: 'second' });
    expect(readdirSync(folder).sort()).to.deep.equal(['bare', 'fenced.json']);
  });

  it('H18: the first thing it could see was that it had lost', () => {
    expect(stale).to.include({ remaining: 0, aborted: true, reason: 'stalled', released: false });
    expect(stale.fence).to.be.below(fresh.fence);
  });
});

describe('examples/fence', () => {
  let direct: Client;
  let folder: string;

  before(async () => {
    direct = await connect((await sharedRedis()).url);
    folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-fence-'));
  });

  after(() => rmSync(folder, { recursive: true }));

  it('one holder writes a row more than once, a newer one too, an older one never again', async () => {
    const row = uniqueKey('row');
    const writes: [number, string][] = [
      [5, 'a'],
      [5, 'b'],
      [7, 'c'],
      [6, 'd'],
      [7, 'e'],
    ];
    const written: boolean[] = [];
    for (const [fence, value] of writes) written.push(await writeRow(direct, row, fence, value));
    expect(written).to.deep.equal([true, true, true, false, true]);
    expect(await direct.hGet(row, 'value')).to.equal('e');
    await direct.del(row);
  });

  it('twenty writers of one file at once: each is written or refused, and the largest fence is what stays', async () => {
    const file = join(folder, 'contended.json');
    const fences = Array.from({ length: 20 }, (_, i) => ((i * 7) % 20) + 1);
    const written = await Promise.all(fences.map((fence) => writeFile(file, fence, `by ${fence}`)));
    expect(await readVersion(file)).to.deep.equal({ fence: 20, value: 'by 20' });
    expect(written[fences.indexOf(20)]).to.equal(true);
    expect(await writeFile(file, 19, 'late')).to.equal(false);
    expect(readdirSync(folder)).to.deep.equal(['contended.json']);
  });

  it('the SQL recipe compares and writes in one statement', () => {
    expect(updateUnlessStale).to.match(/^\s*UPDATE .* SET .*fence = :fence\s+WHERE .* fence <= :fence$/s);
  });

  it('runs by itself, and says what was refused', async () => {
    const { url } = await sharedRedis();
    const example = startChild(resolve(__dirname, '../../examples/fence.ts'), [], { env: { REDIS_URL: url } });
    expect((await exited(example)).code).to.equal(0, example.output());
    await waitFor(() => example.output().includes('file: quick'));
    expect(example.output()).to.match(
      /quick writes.*row: written.*file: written.*slow writes.*row: refused.*file: refused/s,
    );
    await kill9(example);
  });
});
