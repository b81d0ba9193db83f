import { expect } from 'chai';
import sinon from 'sinon';
import { withDeadline } from '../../src/stores/redis/deadlines';

const silent = (): Promise<never> => new Promise(() => {});
const timeoutMs = 211; // of no other request in this process

const failed = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'answered',
    (error) => error.message,
  );

describe('the deadline of a request', () => {
  afterEach(() => sinon.restore());

  it('is kept by each of several requests, one after the other', async () => {
    await withDeadline(Promise.resolve(), 'k', timeoutMs);
    const first = failed(withDeadline(silent(), 'k', timeoutMs));
    expect(await first).to.include(`within ${timeoutMs} ms`);
    expect(await failed(withDeadline(silent(), 'k', timeoutMs))).to.include(`within ${timeoutMs} ms`);
  });

  it('leaves no timer behind once all is answered (H35)', async () => {
    const clock = sinon.useFakeTimers();
    const answered = withDeadline(Promise.resolve(), 'k', timeoutMs);
    expect(clock.countTimers()).to.equal(1);
    await answered;
    expect(clock.countTimers()).to.equal(0);
  });

  it('goes by the timers of a test that replaces them between two requests, and by the real ones after that', async () => {
    await withDeadline(Promise.resolve(), 'k', timeoutMs);
    const clock = sinon.useFakeTimers();
    const faked = failed(withDeadline(silent(), 'k', timeoutMs));
    await clock.tickAsync(timeoutMs + 1);
    expect(await faked).to.include(`within ${timeoutMs} ms`);
    await withDeadline(Promise.resolve(), 'k', timeoutMs);
    clock.restore();
    expect(await failed(withDeadline(silent(), 'k', timeoutMs))).to.include(`within ${timeoutMs} ms`);
  });
});
