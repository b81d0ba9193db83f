// The send window of a client: the requests that may be in flight at once (H99).
import { expect } from 'chai';
import sinon from 'sinon';
import { SendWindow } from '../src/store/redis/pipeline/send-window';
import { libraryTimers } from './contract/outcomes';

const timeoutMs = 1_000;

describe('the send window of a client', () => {
  let clock: sinon.SinonFakeTimers;
  let window: SendWindow;
  /** The requests that were given room or rejected, in order. */
  let seen: string[];
  let inFlight: number;

  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: 1_000, toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    window = new SendWindow();
    seen = [];
    inFlight = 0;
    while (window.hasRoom) {
      window.sent();
      inFlight += 1;
    }
  });

  afterEach(() => clock.restore());

  function wait(name: string, { isOfHolder = false, gaveUp = false } = {}): void {
    window.room(name, timeoutMs, isOfHolder).then(
      () => {
        seen.push(name);
        if (!gaveUp) window.sent();
      },
      (error) => seen.push(`${name}: ${error.code}, ${error.unknown ? 'perhaps sent' : 'not sent'}`),
    );
  }

  /** A turn of the event loop, with its microtasks. */
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it('H99: has room for thousands of requests, and for the next one when one is settled', async () => {
    expect(inFlight).to.equal(4096);
    wait('first');
    wait('second');
    await turn();
    expect(seen).to.deep.equal([]);
    window.settled(true);
    await turn();
    expect(seen).to.deep.equal(['first']);
  });

  it('H99: whoever comes while others wait goes behind them', async () => {
    wait('first');
    wait('second');
    window.settled(true);
    expect(window.hasRoom).to.equal(false);
    await turn();
    expect(seen).to.deep.equal(['first']);
    expect(window.hasRoom).to.equal(false);
    for (let n = 0; n < 2; n++) window.settled(true);
    await turn();
    expect(seen).to.deep.equal(['first', 'second']);
    expect(window.hasRoom).to.equal(true);
  });

  it('H99: requests for held locks go first', async () => {
    wait('acquire 1');
    wait('acquire 2');
    wait('renewal', { isOfHolder: true });
    wait('release', { isOfHolder: true });
    for (let n = 1; n <= 3; n++) {
      window.settled(true);
      await turn();
      expect(seen.length).to.equal(n);
    }
    expect(seen).to.deep.equal(['renewal', 'release', 'acquire 1']);
  });

  it('the replies of one batch give room to as many requests', async () => {
    for (let n = 0; n < 300; n++) wait(String(n));
    for (let n = 0; n < 128; n++) window.settled(true);
    await turn();
    await turn();
    expect(seen.length).to.equal(128);
  });

  it('H99: room that a request does not use, because its caller has given up, goes to the next one', async () => {
    for (let n = 0; n < 300; n++) wait(String(n), { gaveUp: true });
    window.settled(true);
    for (let n = 0; n < 300; n++) await turn();
    expect(seen.length).to.equal(300);
  });

  it('H99: a request waits as long as Redis answers others', async () => {
    for (let n = 0; n < 10; n++) wait(String(n));
    for (let n = 1; n <= 10; n++) {
      clock.tick(timeoutMs - 100);
      window.settled(true);
      await turn();
      expect(seen).to.deep.equal(Array.from({ length: n }, (_, each) => String(each)));
    }
  });

  it('H99: once Redis has been silent for its time limit, a request fails, and was surely not sent', async () => {
    const timers = libraryTimers();
    wait('first');
    clock.tick(600);
    wait('second');
    expect(timers()).to.equal(2);
    clock.tick(399);
    await turn();
    expect(seen).to.deep.equal([]);
    clock.tick(1);
    await turn();
    expect(seen).to.deep.equal(['first: ERR_LOCK_BACKEND, not sent']);
    clock.tick(600);
    await turn();
    expect(seen[1]).to.equal('second: ERR_LOCK_BACKEND, not sent');
    expect(timers()).to.equal(0);
  });
});
