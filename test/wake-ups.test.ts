// The subscription by which a process hears that it may go on, without a server.
import { expect } from 'chai';
import { WakeUps } from '../src/queue/wake-ups';

describe('the wake-ups of a process', () => {
  it('H27: a subscription that is never confirmed is not waited for without end', async function () {
    this.timeout(10_000); // what it waits for is due after ten ms
    const nothing = (): void => {};
    const channels = { listen: () => new Promise<never>(nothing), listensAlone: false };
    const wakeUps = new WakeUps(channels, { wake: nothing, freed: nothing, gap: nothing });
    const outcome = await new Promise((resolve) => {
      wakeUps.whenOpen(
        'key',
        10,
        () => resolve('opened'),
        () => resolve('failed'),
      );
    });
    expect(outcome).to.equal('failed');
    expect(wakeUps.isOpen).to.equal(false);
    expect(wakeUps.isAwaited('key')).to.equal(true);
  });
});
