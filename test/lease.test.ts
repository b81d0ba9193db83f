// The caller's lease of a held lock: a function that releases it, with all that can be read and done meanwhile. By a clock of the test.
import { format, inspect } from 'node:util';
import { expect } from 'chai';
import { stub, useFakeTimers } from 'sinon';
import { acquire } from '../src/acquire/acquisition';
import { specFor } from '../src/acquire/spec';
import type { HeldLock } from '../src/hold/held-lock';
import { type Lease, leaseOf } from '../src/hold/lease';
import { Scope } from '../src/hold/scope';
import { published } from './contract/outcomes';
import { lifetimeMs, settled } from './support/acquisitions';
import { type LossyStore, lossyStore } from './support/lossy-store';

const turn = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));

describe('a lease', () => {
  let timers: ReturnType<typeof useFakeTimers>;
  let store: LossyStore;
  let held: HeldLock;
  let lease: Lease;

  beforeEach(async () => {
    timers = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
    timers.tick(1000);
    store = lossyStore();
    held = await granted('k');
    lease = leaseOf(held, false, undefined);
  });

  afterEach(() => timers.restore());

  function granted(key: string | string[]): Promise<HeldLock> {
    const scope = new Scope();
    scope.store = () => store;
    return acquire(specFor(key, settled({}), scope, {}), (each) => each);
  }

  it('is a function; to call it, `release` and the end of `await using` are one release, with one answer', async () => {
    expect([await lease(), await lease.release(), store.releases.length]).to.deep.equal([true, true, 1]);
    await lease[Symbol.asyncDispose]();
    expect([store.releases.length, held.ended]).to.deep.equal([1, true]);
    const other = leaseOf(await granted('other'), false, undefined);
    expect(await other[Symbol.asyncDispose]()).to.equal(undefined);
    expect(store.releases).to.have.lengthOf(2);
  });

  it('H68: tells a callback later, on a stack of its own: released, or why that is not known', async () => {
    const said: unknown[][] = [];
    const tell = (...each: unknown[]): void => void said.push(each);
    store.fates.release.push('refused');
    expect(lease(tell)).to.equal(undefined);
    expect(said).to.deep.equal([]);
    await turn();
    const [[error]] = said as [[Error]];
    expect([said.length, said[0]!.length, error.message]).to.deep.equal([1, 1, 'refused']);
    lease(tell);
    await turn();
    expect(said[1]).to.deep.equal([null, true]);
  });

  it('H11: is logged as its key, its fence and what remains of it; the token is not in the log', () => {
    timers.tick(100);
    const text = `Lease { key: 'k', fence: ${lease.fence}, remaining: ${lease.remaining()} }`;
    expect(lease.remaining()).to.be.within(1, lifetimeMs - 100);
    expect(inspect(lease)).to.equal(text);
    expect(format(lease), 'as console.log does').to.equal(text);
    expect(inspect({ lease }, { depth: 0 })).to.equal('{ lease: [Lease] }');
    for (const options of [{ showHidden: true, depth: 9 }, { getters: true }]) {
      expect(inspect(lease, options)).to.not.contain(lease.token);
    }
    expect(inspect(Object.getPrototypeOf(lease)), 'not a lease').to.equal('[Lease]');
    timers.tick(lifetimeMs);
    expect(inspect(lease)).to.contain('remaining: 0');
  });

  it('a first argument that is no function is ignored', async () => {
    const call = lease as unknown as (argument: unknown) => Promise<boolean>;
    expect(await call('later')).to.equal(true);
  });

  it('shows what is held; its token is not listed, and its list of keys is the caller’s own', async () => {
    const { key, token, fence, retries, signal } = lease;
    expect([key, token, fence, retries, signal]).to.deep.equal(['k', held.token, held.fence, 0, held.signal]);
    expect([lease.keys, Object.keys(lease), signal.aborted]).to.deep.equal([['k'], [], false]);
    const two = leaseOf(await granted(['1', '2']), false, undefined);
    (two.keys as string[]).push('3');
    expect(two.keys).to.deep.equal(['1', '2']);
    await timers.tickAsync(100);
    expect(lease.remaining()).to.equal(held.leftMs());
  });

  it('is extended by what is asked for, or by its lifetime; what is no lifetime is an error of the call', async () => {
    await timers.tickAsync(1000);
    expect(await lease.extend()).to.equal(true);
    expect(store.extensions[0]).to.include({ lifetimeMs, exact: true });
    expect(await lease.extend(500)).to.equal(true);
    expect(store.extensions[1]).to.include({ lifetimeMs: 500 });
    const error = await lease.extend(0).catch((reason) => reason);
    expect(error).to.be.instanceOf(RangeError).and.include({ code: 'ERR_LOCK_OPTION' });
    expect(error.message).to.match(/^lifetime: /);
    expect(store.extensions).to.have.lengthOf(2);
  });

  it('is renewed while it is kept, if that was wanted', async () => {
    await timers.tickAsync(lifetimeMs / 2);
    expect(store.extensions).to.have.lengthOf(0);
    const renewed = leaseOf(await granted('other'), true, undefined);
    await timers.tickAsync(lifetimeMs / 2);
    expect(store.extensions.map(({ keys }) => keys)).to.deep.equal(['other']);
    await renewed();
  });

  it('H69: was never released: a warning that says where it was taken, if that is wanted', async () => {
    const takenAt = new Error('taken here');
    const warnings = await published('redis-exp-lock:warning', async () => {
      const released = leaseOf(await granted('released'), false, takenAt);
      leaseOf(await granted('forgotten'), false, takenAt);
      await released();
      await timers.tickAsync(2 * lifetimeMs);
    });
    expect(warnings).to.have.lengthOf(1);
    const message = '"forgotten" was never released: its lifetime has freed it';
    expect(warnings[0]).to.include({
      code: 'never-released',
      key: 'forgotten',
      message,
      kind: 'mutex',
      error: takenAt,
    });
  });

  it('is detached as plain JSON, and goes on in the store', async () => {
    const detached = lease.detach();
    const until = Math.floor(Date.now() + lifetimeMs * 0.999);
    expect(detached).to.deep.equal({ key: 'k', token: held.token, fence: held.fence, until });
    expect([await lease(), store.releases.length]).to.deep.equal([false, 0]);
    expect(await store.inspect('k', 1000)).to.include({ locked: true });
  });

  it('has methods that a test may replace', () => {
    const remaining = stub(lease, 'remaining').returns(7);
    expect(lease.remaining()).to.equal(7);
    remaining.restore();
    lease.remaining = () => 8;
    expect([lease.remaining(), held.remaining()]).to.deep.equal([8, held.leftMs()]);
  });
});
