// One signal, given to many calls.
import { getEventListeners } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import { onAbort } from '../src/core/on-abort';
import redisExpLock from '../src/index';
import { waitFor } from './support/processes';

const { memoryStore, RWLock, Semaphore, Election } = redisExpLock;

describe('what is to be done when a signal aborts', () => {
  let controller: AbortController;
  let done: string[];

  beforeEach(() => {
    controller = new AbortController();
    done = [];
  });

  const listeners = (): number => getEventListeners(controller.signal, 'abort').length;
  const work = (name: string) => () => void done.push(name);

  it('is done once, in order, by one listener', () => {
    for (const name of ['first', 'second']) onAbort(controller.signal, work(name));
    expect(listeners()).to.equal(1);
    controller.abort();
    expect(done).to.deep.equal(['first', 'second']);
  });

  it('is not done after it was stopped, not even by what is done before it', () => {
    onAbort(controller.signal, () => stopSecond());
    const stopSecond = onAbort(controller.signal, work('second'));
    controller.abort();
    expect(done).to.deep.equal([]);
  });

  it('the same function is as good as two; each is stopped for itself', () => {
    const same = work('same');
    const stop = onAbort(controller.signal, same);
    onAbort(controller.signal, same);
    stop();
    stop();
    controller.abort();
    expect(done).to.deep.equal(['same']);
  });

  it('the listener leaves with the last, and comes back with the next', () => {
    const stops = ['first', 'second'].map((name) => onAbort(controller.signal, work(name)));
    for (const stop of stops) stop();
    expect(listeners()).to.equal(0);
    onAbort(controller.signal, work('third'));
    for (const stop of stops) stop();
    controller.abort();
    expect(done).to.deep.equal(['third']);
  });
});

describe('one signal for many calls', () => {
  let controller: AbortController;
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);

  beforeEach(() => {
    controller = new AbortController();
    warnings.length = 0;
    process.on('warning', onWarning);
  });

  afterEach(() => {
    process.off('warning', onWarning);
  });

  const listeners = (): number => getEventListeners(controller.signal, 'abort').length;

  it('H98: twenty of each kind: one listener, no warning, and each ends when it aborts', async () => {
    const redis = memoryStore();
    const { signal } = controller;
    const withLock = redisExpLock({ redis, lifetime: 60_000 });
    const rw = new RWLock('rw', { redis, lifetime: 60_000 });
    const semaphore = new Semaphore('permits', 1, { redis, lifetime: 60_000 });
    await Promise.all([withLock.promise('key'), withLock.promise('cached'), rw.acquireWrite(), semaphore.acquire()]);
    void new Election('leader', { redis }).lead(() => new Promise(() => {}));
    await waitFor(() => new Election('leader', { redis }).leader());
    const kinds: (() => Promise<unknown>)[] = [
      () => withLock.promise('key', { signal, timeout: 60_000 }),
      () => withLock.promise('key', { signal, maxRetries: 1_000, retryTimeout: 60_000 }),
      () => withLock.run('key', { signal, timeout: 60_000 }, () => {}),
      () => withLock.cached('cached', { signal, ttl: 1_000 }, () => 1),
      () => rw.acquireRead({ signal, timeout: 60_000 }),
      () => semaphore.acquire(1, { signal, timeout: 60_000 }),
      () => new Election('leader', { redis }).lead(() => {}, { signal }),
      async () => {
        for await (const leader of new Election('leader', { redis }).observe({ signal })) void leader;
        throw signal.reason;
      },
    ];
    const calls = kinds.flatMap((kind) => Array.from({ length: 20 }, kind));
    const outcomes = Promise.allSettled(calls);
    await turn();
    expect(listeners()).to.equal(1);
    controller.abort();
    for (const outcome of await outcomes) expect(outcome).to.deep.equal({ status: 'rejected', reason: signal.reason });
    await turn();
    expect(warnings).to.deep.equal([]);
    expect(listeners()).to.equal(0);
  });

  it('H98: thousands of waits: one listener is added, and one removed', async () => {
    const withLock = redisExpLock({ redis: memoryStore(), lifetime: 60_000 });
    const { signal } = controller;
    await withLock.promise('key');
    const calls: string[] = [];
    for (const name of ['addEventListener', 'removeEventListener'] as const) {
      const given = signal[name].bind(signal);
      signal[name] = (...args: [any, any]) => {
        calls.push(name);
        given(...args);
      };
    }
    const waits = Array.from({ length: 4_000 }, () => withLock.promise('key', { signal, timeout: 60_000 }));
    const outcomes = Promise.allSettled(waits);
    controller.abort();
    for (const { status } of await outcomes) expect(status).to.equal('rejected');
    expect(calls).to.deep.equal(['addEventListener', 'removeEventListener']);
  });
});
