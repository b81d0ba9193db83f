// The subscription by which a process hears that it may go on, without a server.
import { expect } from 'chai';
import { WakeUps } from '../src/queue/wake-ups';
import { freedChannel } from '../src/store/operator';

describe('the wake-ups of a process', () => {
  it('H27: a subscription that is never confirmed is not waited for without end', async function () {
    this.timeout(10_000); // what it waits for is due after ten ms
    const nothing = (): void => {};
    const channels = { listen: () => new Promise<never>(nothing), listensAlone: false };
    const wakeUps = new WakeUps(channels, nothing);
    const outcome = await wakeUps.whenOpen('key', 10).then(
      () => 'opened',
      () => 'failed',
    );
    expect(outcome).to.equal('failed');
    expect(wakeUps.isOpen).to.equal(false);
    expect(wakeUps.isAwaited('key')).to.equal(true);
  });

  it('the channel of operators is closed if our own cannot be opened', async () => {
    const nothing = (): void => {};
    let open = 0;
    const freed = {
      close: () => {
        open -= 1;
      },
    };
    const listen = async (channel: string): Promise<typeof freed> => {
      if (channel !== freedChannel) throw new Error('NOPERM');
      open += 1;
      return freed;
    };
    const wakeUps = new WakeUps({ listen, listensAlone: false }, nothing);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const error = await wakeUps.open('key').catch((refused: unknown) => refused);
      expect(error).to.be.an('error');
      expect(open).to.equal(0);
    }
  });
});
