// Each example runs by itself, ends by itself, and shows what it says, with a Redis and without. (examples/fence.ts has a test
// of its own, with a Redis.)
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect } from 'chai';
import { nodeWithSqlite } from '../../scripts/runtimes.cjs';
import { needed, noSqlite } from '../support/missing';
import { exited, startChild, waitFor } from '../support/processes';
import { sharedRedis } from '../support/redis';

const shows: Record<string, RegExp> = {
  transfer: /alice 80, bob 120, together 200/,
  config: /version 2; up to \d+ read at once, none of them half a configuration/,
  'at-most-three': /20 calls, at most [123] at once; 3 permits are free again/,
  cache: /100 callers were served 42, loaded 1 time/,
  cron: /it ran 1 time\n/,
  nightly: /^(?!.*done here.*done here).*T03:00:00.000Z, fence true.*done here.*two timers each/s,
  leader: /(?:(?:ann|bob|eve) leads\n){3}20 changes were read, each once, in their order/,
  'leader-sigterm': /leads\nis asked to stop: SIGTERM\ntidied up\nthe next one leads at once/,
};
const withoutRedis = { ...shows, fence: /slow writes, fence \d+\n {2}file: refused\nfile: quick\n/ };

describe('examples', () => {
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-examples-'));

  after(() => rmSync(folder, { recursive: true, force: true }));

  async function runs(name: string, url: string, expected: RegExp): Promise<string> {
    const env = { REDIS_URL: url, XDG_RUNTIME_DIR: folder };
    const execPath = url === '' ? needed(nodeWithSqlite(), noSqlite) : process.execPath;
    const example = startChild(resolve(__dirname, `../../examples/${name}.ts`), [], { env, execPath });
    expect((await exited(example)).code).to.equal(0, example.output());
    await waitFor(() => expected.test(example.output()), { what: example.output() });
    return example.output();
  }

  for (const [name, expected] of Object.entries(shows)) {
    it(name, async () => {
      expect(await runs(name, (await sharedRedis()).url, expected)).to.not.contain('without a Redis');
    });
  }

  // Each in a test of its own, one after another: their locks last a second, and a busy machine would stop some of them for longer.
  for (const [name, expected] of Object.entries(withoutRedis)) {
    it(`${name}, without a Redis`, async () => {
      const said = await runs(name, '', expected);
      expect(said).to.match(/^without a Redis .*: the locks are in shared memory of this host\n/);
    });
  }
});
