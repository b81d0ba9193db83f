// When a lock is renewed, by a clock of the test: at a third of its lifetime, sooner after a failure, and not after its end.
import { channel } from 'node:diagnostics_channel';
import { expect } from 'chai';
import { useFakeTimers } from 'sinon';
import { Keeper } from '../src/hold/keeper';
import { type ExtendReply, type ExtendRequest, now } from '../src/store/contract';
import { libraryTimers } from './contract/outcomes';
import { clock as lockClock } from './support/lossy-store';

const lifetimeMs = 3000;
/** Two renewals are a third of the lifetime apart, less what makes many of them fall together. */
const everyMs = lifetimeMs / 3;
const gridMs = lifetimeMs / 30;

describe('the renewal of a held lock', () => {
  let clock: ReturnType<typeof useFakeTimers>;
  let openTimers: () => number;
  let endMs: number;
  let isHeld: boolean;
  let reply: () => Promise<boolean>;
  const kept = {};
  let asked: { atMs: number; timeoutMs: number }[];
  const warnings: { code: string; message: string; key: string; error: unknown }[] = [];
  const onWarning = (message: unknown): void => void warnings.push(message as (typeof warnings)[number]);
  const warned = channel('redis-exp-lock:warning');

  before(() => warned.subscribe(onWarning));
  after(() => warned.unsubscribe(onWarning));

  beforeEach(() => {
    clock = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
    openTimers = libraryTimers();
    endMs = performance.now() + lifetimeMs;
    isHeld = true;
    asked = [];
    warnings.length = 0;
    reply = async () => {
      endMs = performance.now() + lifetimeMs;
      return true;
    };
  });

  afterEach(() => clock.restore());

  /** @param lease What is kept, until the test is over. */
  function renewal(settings: { maxHoldMs?: number; commandTimeoutMs?: number } = {}, lease: object = kept): Keeper {
    const all = { lifetimeMs, maxHoldMs: Number.POSITIVE_INFINITY, commandTimeoutMs: 1000, ...settings };
    const held = {
      key: 'k',
      keys: 'k',
      mode: undefined,
      context: { store, settings: all, kind: undefined },
      clock: lockClock,
      isConfirmed: true,
      held: () => undefined,
      get ended() {
        return !isHeld;
      },
      check: () => isHeld,
      lose: () => keeper.stop(),
      confirm: () => keeper.moved(),
      leftMs: () => endMs - performance.now(),
    };
    const keeper = new Keeper(held as never);
    keeper.startRenewing(lease);
    return keeper;
  }

  const store = {
    kind: 'memory',
    synchronous: undefined as object | undefined,
    async extend({ commandTimeoutMs }: ExtendRequest): Promise<ExtendReply> {
      asked.push({ atMs: performance.now(), timeoutMs: commandTimeoutMs });
      return (await reply()) ? { outcome: 'extended', sent: now(lockClock) } : { outcome: 'missing' };
    },
  };
  const extendLate = (request: ExtendRequest): ExtendReply => {
    lateMs = lifetimeMs - request.lifetimeMs!;
    return { outcome: 'extended', sent: now(lockClock) };
  };
  let lateMs: number;
  /** The ms since the end of renewing, as a late renewal counts them; Infinity if there is none. */
  const overMs = (one: Keeper): number => {
    lateMs = Number.POSITIVE_INFINITY;
    store.synchronous = { renewed: {}, extend: extendLate };
    one.renewLate();
    store.synchronous = undefined;
    return lateMs;
  };
  const isOn = (one: Keeper): boolean => one.reasonOfEnd() !== 'expired';
  const hasFailed = (one: Keeper): boolean => one.reasonOfEnd() === 'unreachable';

  /** Moves the clock on by `ms`. What is due then has run and been answered. */
  async function pass(ms: number): Promise<void> {
    const untilMs = performance.now() + ms;
    while (performance.now() < untilMs) {
      await clock.tickAsync(Math.min(10, untilMs - performance.now()));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  it('is asked for at a third of the lifetime, with half of what is left as its timeout, and again and again', async () => {
    const one = renewal();
    await pass(4 * everyMs);
    expect(asked.length, 'one renewal in each third of the lifetime').to.be.within(4, 5);
    for (const [n, { atMs, timeoutMs }] of asked.entries()) {
      expect(atMs - (asked[n - 1]?.atMs ?? 0)).to.be.within(everyMs - gridMs - 20, everyMs + 20);
      expect(timeoutMs).to.equal(1000);
    }
    one.stop();
    await pass(2 * everyMs);
    expect(asked.length).to.be.within(4, 5);
    expect(openTimers()).to.equal(0);
  });

  it('a failure is reported, and it is tried again after a twentieth of the lifetime, with less time each time', async () => {
    const one = renewal({ commandTimeoutMs: 10_000 });
    expect(hasFailed(one)).to.equal(false);
    const error = new Error('no reply');
    reply = () => Promise.reject(error);
    await pass(everyMs + 20);
    expect(hasFailed(one)).to.equal(true);
    expect(warnings[0]).to.include({ code: 'renewal-failed', key: 'k', error });
    expect(warnings[0]!.message).to.match(/could not be renewed; it is being tried again/);
    await pass(lifetimeMs / 2);
    expect(asked.length).to.be.within(10, 17);
    for (const [n, { atMs, timeoutMs }] of asked.entries()) {
      expect(timeoutMs).to.equal(Math.floor((endMs - atMs) / 2));
      if (n > 0) expect(atMs - asked[n - 1]!.atMs).to.be.within(lifetimeMs / 20 - gridMs - 20, lifetimeMs / 20 + 20);
    }
    reply = async () => true;
    await pass(200);
    expect(hasFailed(one)).to.equal(false);
    one.stop();
  });

  it('after a failure that ends it, or a reply that it is no longer held, there is no further one', async () => {
    for (const fails of [true, false]) {
      isHeld = true;
      const one = renewal();
      asked = [];
      reply = async () => {
        if (!fails) return false;
        isHeld = false;
        one.stop();
        throw new Error('no reply');
      };
      endMs = performance.now() + lifetimeMs;
      await pass(everyMs + 20);
      expect(openTimers()).to.equal(0);
      await pass(2 * everyMs);
      expect(asked).to.have.length(1);
    }
  });

  it('waits while another extension is under way, and asks for nothing once the lock is not held', async () => {
    const one = renewal();
    let answer = (): void => {};
    reply = () => new Promise((_, reject) => (answer = () => reject(new Error('no reply'))));
    const extending = one.extend(lifetimeMs).catch(() => {});
    asked = [];
    await pass(everyMs + 200);
    expect(asked).to.have.length(0);
    reply = async () => true;
    answer();
    await extending;
    await pass(120);
    expect(asked).to.have.length(1);
    isHeld = false;
    await pass(2 * everyMs);
    expect(asked).to.have.length(1);
    one.stop();
  });

  it('`maxHold` ends it, and says by how much that is past', async () => {
    const one = renewal({ maxHoldMs: 1500 });
    expect(overMs(one)).to.equal(0);
    await pass(2500);
    expect(asked).to.have.length(1);
    expect(isOn(one)).to.equal(false);
    expect(overMs(one)).to.equal(Number.POSITIVE_INFINITY);
    const other = renewal({ maxHoldMs: 100 });
    await pass(150);
    expect(overMs(other)).to.equal(50);
    other.stop();
  });

  it('where less is left than a renewal would give, at a third of that', async () => {
    endMs = performance.now() + 900;
    const one = renewal();
    await pass(340);
    expect(asked).to.have.length(1);
    expect(asked[0]!.atMs).to.be.within(300 - gridMs - 10, 320);
    one.stop();
  });

  it('where more is left, when two thirds of the lifetime are; where just that is left, not at once', async () => {
    endMs = performance.now() + 2 * lifetimeMs;
    const one = renewal();
    await pass(4 * everyMs + 20);
    one.stop();
    expect(
      asked.map(({ atMs }) => atMs),
      'due when two thirds are left',
    ).to.deep.equal([4 * everyMs]);
    asked = [];
    const fromMs = performance.now();
    endMs = fromMs + (2 * lifetimeMs) / 3;
    const other = renewal();
    await pass(700);
    other.stop();
    expect(asked).to.have.length(1);
    expect(asked[0]!.atMs - fromMs).to.be.within(667 - gridMs - 10, 690);
  });

  it('at the very end of `maxHold` there is none', async () => {
    const one = renewal({ maxHoldMs: everyMs });
    await pass(everyMs + 20);
    expect(asked).to.have.length(0);
    expect(isOn(one)).to.equal(false);
  });

  it('a lease that was collected is no longer renewed', async () => {
    const one = renewal({}, {});
    await pass(10);
    globalThis.gc!();
    expect(overMs(one)).to.equal(Number.POSITIVE_INFINITY);
    await pass(everyMs + 20);
    expect(asked).to.have.length(0);
    expect(isOn(one)).to.equal(false);
  });

  it('many that are due together are renewed in turns of the event loop, 128 each, and the next ones at once', async () => {
    const lease = {};
    endMs = performance.now() + lifetimeMs;
    const all = Array.from({ length: 600 }, () => renewal({}, lease));
    expect(openTimers()).to.equal(1);
    reply = async () => false;
    await clock.tickAsync(everyMs - gridMs);
    const inTurns = [];
    // If they are not due, the loop ends all the same.
    for (clock.tick(gridMs); inTurns.at(-1) !== 600 && inTurns.length < 100; await new Promise(setImmediate))
      inTurns.push(asked.length);
    expect(inTurns).to.deep.equal([128, 256, 384, 512, 600]);
    for (const each of all) each.stop();
    asked = [];
    await pass(20);
    endMs = performance.now() + lifetimeMs;
    const one = renewal({}, lease);
    await clock.tickAsync(everyMs - gridMs - 5);
    for (let n = 0; n < gridMs + 10 && asked.length === 0; n++) {
      await clock.tickAsync(1);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(asked[0]!.atMs % gridMs).to.equal(0);
    one.stop();
  });
});
