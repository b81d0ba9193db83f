// The timers of a clock, which are shared by what is due at about the same time.
import { expect } from 'chai';
import sinon from 'sinon';
import { type Alarm, Clock, clearAlarm } from '../src/core/clock';

describe('shared timers', () => {
  let clock: sinon.SinonFakeTimers;
  let timers: Clock;
  let called: [name: string, atMs: number][];

  beforeEach(() => {
    clock = sinon.useFakeTimers({ now: 1_000, toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const nowMs = (): number => performance.now();
    timers = new Clock(nowMs, nowMs);
    called = [];
  });

  afterEach(() => clock.restore());

  const call = (name: string) => () => void called.push([name, performance.now()]);

  it('what is due soon is called when it is due', () => {
    for (const ms of [5, 1, 100, 0, 5]) timers.setAlarm(call(String(ms)), ms);
    clock.tick(200);
    expect(called).to.deep.equal([
      ['0', 0],
      ['1', 1],
      ['5', 5],
      ['5', 5],
      ['100', 100],
    ]);
  });

  it('what is due later is called with others, never late, and by one timer for a twentieth of a second', () => {
    for (let ms = 800; ms < 1_000; ms++) timers.setAlarm(call(String(ms)), ms, 50);
    expect(clock.countTimers()).to.equal(4);
    clock.tick(1_000);
    expect(called.length).to.equal(200);
    for (const [ms, atMs] of called) expect(Number(ms) - atMs).to.be.within(0, 49);
    expect(clock.countTimers()).to.equal(0);
  });

  it('what is cleared is not called, not even by what is called before it; no timer is left of it', () => {
    const second = { alarm: undefined as Alarm | undefined };
    timers.setAlarm(() => clearAlarm(second.alarm), 810, 50);
    second.alarm = timers.setAlarm(call('second'), 820, 50);
    clearAlarm(timers.setAlarm(call('alone'), 5_000, 50));
    expect(clock.countTimers()).to.equal(1);
    clock.tick(10_000);
    clearAlarm(second.alarm);
    expect(called).to.deep.equal([]);
  });

  it('H93: what is due once the process has stood still is called at once, by a timer that is not set in the past', () => {
    let nowMs = 0;
    const read = (): number => (nowMs += 1_000);
    const stalling = new Clock(read, read);
    const { setTimeout } = globalThis;
    const delays: number[] = [];
    globalThis.setTimeout = ((work: () => void, ms: number) => {
      delays.push(ms);
      return setTimeout(work, ms);
    }) as typeof setTimeout;
    stalling.setAlarm(call('overdue'), 300);
    globalThis.setTimeout = setTimeout;
    expect(delays).to.deep.equal([0]);
    clock.tick(0);
    expect(called).to.deep.equal([['overdue', 0]]);
  });

  it('what is set while others are called waits for its own time', () => {
    timers.setAlarm(() => timers.setAlarm(call('again'), 0), 800, 50);
    clock.tick(800);
    expect(called).to.deep.equal([]);
    clock.tick(1);
    expect(called).to.deep.equal([['again', 801]]);
  });
});
