// Each example runs by itself, ends by itself, and shows what it says. (examples/fence.ts has a test of its own.)
import { resolve } from 'node:path';
import { expect } from 'chai';
import { exited, startChild, waitFor } from '../support/processes';
import { sharedRedis } from '../support/redis';

const shows: Record<string, RegExp> = {
  transfer: /alice 80, bob 120, together 200/,
  config: /version 2; up to \d+ read at once, none of them half a configuration/,
  'at-most-three': /20 calls, at most [123] at once; 3 permits are free again/,
  cache: /100 callers were served 42, loaded 1 time/,
  cron: /it ran 1 time\n/,
};

describe('examples', function () {
  this.timeout(30_000);

  for (const [name, expected] of Object.entries(shows)) {
    it(name, async () => {
      const { url } = await sharedRedis();
      const example = startChild(resolve(__dirname, `../../examples/${name}.ts`), [], { env: { REDIS_URL: url } });
      expect((await exited(example)).code).to.equal(0, example.output());
      await waitFor(() => expected.test(example.output()), { timeoutMs: 2_000, what: example.output() });
    });
  }
});
