import { expect } from 'chai';
import sinon from 'sinon';
import { setImmediate } from '../../src/core/real-timers';
import { withDeadline } from '../../src/store/redis/pipeline/deadlines';

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

  it('leaves no timer of a fake clock behind once all is answered (H35)', async () => {
    const clock = sinon.useFakeTimers();
    const answered = withDeadline(Promise.resolve(), 'k', timeoutMs);
    expect(clock.countTimers()).to.equal(1);
    await answered;
    expect(clock.countTimers()).to.equal(0);
  });

  it('leaves its timer to the next request, and that keeps no process alive (H35)', async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    await undefined; // after this, mocha has set the timer of this test
    const before = timers();
    const answered = withDeadline(Promise.resolve(), 'k', timeoutMs);
    expect(timers()).to.equal(before + 1);
    await answered;
    expect(timers()).to.equal(before);
    const next = failed(withDeadline(silent(), 'k', timeoutMs));
    expect(timers()).to.equal(before + 1);
    expect(await next).to.include(`within ${timeoutMs} ms`);
  });

  it('counts from its own request, not from the one that set the timer', async () => {
    await withDeadline(Promise.resolve(), 'k', timeoutMs);
    await new Promise((resolve) => setTimeout(resolve, timeoutMs / 2));
    const sentMs = performance.now();
    await failed(withDeadline(silent(), 'k', timeoutMs));
    expect(performance.now() - sentMs).to.be.at.least(timeoutMs - 2);
  });

  it('is kept where the fake clock that set its timer was restored before the reply came', async () => {
    const clock = sinon.useFakeTimers();
    let answer = (): void => {};
    const answered = withDeadline(new Promise<void>((resolve) => (answer = resolve)), 'k', timeoutMs);
    clock.restore();
    answer();
    await answered;
    expect(await failed(withDeadline(silent(), 'k', timeoutMs))).to.include(`within ${timeoutMs} ms`);
  });

  it('goes by the timers of a test that replaces them between two requests, and by the real ones after that', async () => {
    await withDeadline(Promise.resolve(), 'k', timeoutMs);
    const clock = sinon.useFakeTimers();
    let faked = '';
    void failed(withDeadline(silent(), 'k', timeoutMs)).then((message) => {
      faked = message;
    });
    await clock.tickAsync(timeoutMs + 1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(faked).to.include(`within ${timeoutMs} ms`);
    await withDeadline(Promise.resolve(), 'k', timeoutMs);
    clock.restore();
    expect(await failed(withDeadline(silent(), 'k', timeoutMs))).to.include(`within ${timeoutMs} ms`);
  });
});
