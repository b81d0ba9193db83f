/**
 * Without any short cut of the scripts and the client, the replies are the same: random commands, several in a tick, to the
 * library as it is and to itself without. `npm run test:slow-paths` runs the whole contract suite without short cuts.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import type { Store } from '../../src/store/contract';
import { storeOf } from '../../src/store/open';
import { type Command, keysOf, RisingFences, Run, worlds } from '../redis/any-commands';
import { altered, fileOf, filesByMarker } from '../support/alteration';
import { startRedis, uniqueKey } from '../support/redis';
import { withoutShortCuts } from './short-cuts';
import { withoutAnyShortCut } from './slow-sources';

/** Commands that leave together: they are about different keys. */
function ticksOf(commands: readonly Command[]): Command[][] {
  const ticks: Command[][] = [];
  for (const each of commands) {
    const last = ticks.at(-1);
    const taken = last?.flatMap(keysOf) ?? [];
    if (last !== undefined && !keysOf(each).some((key) => taken.includes(key))) last.push(each);
    else ticks.push([each]);
  }
  return ticks;
}

describe('without short cuts', function () {
  this.timeout(120_000); // a copy of the tree, and a run in it
  const stores: Store[] = [];
  const closing: (() => unknown)[] = [];

  before(async () => {
    const slow = await withoutAnyShortCut('store/open.ts');
    for (const open of [storeOf, slow.storeOf]) {
      const server = await startRedis(); // fences are one counter for each server
      const client = await server.connect();
      closing.push(
        () => client.destroy(),
        () => server.discard(),
      );
      stores.push(open(client));
    }
  });

  after(async () => {
    for (const close of closing) await close();
  });

  for (const [what, commands] of worlds) {
    it(`${what}: the same replies`, () =>
      fc.assert(
        fc.asyncProperty(fc.array(commands, { minLength: 1, maxLength: 60, size: 'max' }), async (some) => {
          const channel = uniqueKey('channel');
          const runs = stores.map((store) => new Run(store, channel, RisingFences));
          for (const [n, tick] of ticksOf(some).entries()) {
            const [fast, slow] = await Promise.all(
              runs.map((run) => Promise.all(tick.map((each) => run.answer(each)))),
            );
            expect(slow, `tick ${n}: ${JSON.stringify(tick)}`).to.deep.equal(fast);
          }
        }),
        { numRuns: 20 },
      ));
  }

  it('each short cut is there, once', () => {
    const src = join(__dirname, '../../src');
    const byMarker = filesByMarker(src);
    for (const file of withoutShortCuts.map((each) => fileOf(each, byMarker)))
      altered(file, readFileSync(join(src, file), 'utf8'), withoutShortCuts);
  });
});
