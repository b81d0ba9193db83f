// When the live page reads: the pauses between its reads, by a clock of the test.
import { expect } from 'chai';
import sinon from 'sinon';
import type { PageSnapshot, Source } from '../../src/tools/page/source';
import { Watch } from '../../src/tools/page/watch';

const head = { actions: false, prefix: '' };
const nothing: PageSnapshot = { isFirst: true, atMs: 0, locks: [], silent: new Set(), losses: [], coverage: '' };

describe('when the live page reads', () => {
  let clock: sinon.SinonFakeTimers;
  let reads = 0;
  let tellNews: () => void;

  const source = {
    look: (onNews: () => void) => {
      tellNews = onNews;
      return () => {};
    },
    pauseMs: (isNews: boolean) => (isNews ? 100 : 10_000),
    read: async () => {
      reads += 1;
      return nothing;
    },
  } as unknown as Source;

  beforeEach(() => {
    clock = sinon.useFakeTimers();
    reads = 0;
  });

  afterEach(() => clock.restore());

  it('soon after a change, also if more changes follow all the time', async () => {
    const viewer = new Watch(source, head).events(undefined);
    await clock.tickAsync(5_000);
    expect(reads).to.equal(1);
    for (let n = 0; n < 40; n += 1) {
      tellNews();
      await clock.tickAsync(50);
    }
    expect(reads).to.be.above(10);
    await viewer.cancel();
    tellNews();
    const before = reads;
    await clock.tickAsync(60_000);
    expect(reads).to.equal(before);
  });
});
