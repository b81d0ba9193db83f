// The queue of a row, by itself: where an entry is put, when the key yields, and for how long. The scripts are compared with this.
import { expect } from 'chai';
import { newToken } from '../../src/core/token';
import {
  enqueue,
  forgetQueue,
  front,
  hasQueue,
  markPoll,
  mustYield,
} from '../../src/store/embedded/machine/mutex-queue';
import { type LockRow, newRow, type QueuedRow } from '../../src/store/embedded/machine/row';
import { limits, pollEveryMs } from '../../src/store/protocol';

const nowMs = 1_000_000;
const claim = (token: string) => ({ token, lifetimeMs: 1000, fences: 1 });
const entry = (ticket: number) => ({ channel: 'c', id: 'i', ticket });

describe('the queue of a row', () => {
  let row: LockRow;

  beforeEach(() => {
    row = newRow('k');
  });

  const put = (token: string, ticket: number) => enqueue(row, claim(token), entry(ticket), nowMs * 1000);
  const tokens = (): string[] => row.queue.map(({ token }) => token);

  it('a ticket says where an entry is, whenever it comes back', () => {
    expect([put('a', 0), put('b', 0), put('c', 0)].map(({ before }) => before)).to.deep.equal([0, 1, 2]);
    const [first, second] = row.queue.map(({ ticket }) => ticket) as [number, number];
    expect(put('b', 0)).to.include({ ticket: second, before: 1 });
    row.queue.shift();
    expect(put('a', first)).to.include({ ticket: first, before: 0 });
    expect(tokens()).to.deep.equal(['a', 'b', 'c']);
  });

  it('those far back poll more rarely, and expire later; none is silent for longer than 10 s', () => {
    expect([0, 7, 8, 11, 15, 1000].map((before) => pollEveryMs(before))).to.deep.equal([
      1000, 1000, 1125, 1500, 2000, 2000,
    ]);
    for (let n = 0; n < 13; n++) put(`t${n}`, 0);
    const deadlines = row.queue.map(({ deadlineMs }) => deadlineMs - nowMs);
    expect([deadlines[0], deadlines[7], deadlines[11], deadlines[12]]).to.deep.equal([2000, 2000, 3000, 3250]);
    const silent = (ms: number) => {
      const position = { ...entry(0), silenceMs: ms };
      enqueue(row, claim('s'), position, nowMs * 1000 + 900);
      return row.queue.find(({ token }) => token === 's')!.deadlineMs - nowMs;
    };
    expect([100, 5000, 60_000].map(silent)).to.deep.equal([3500, 5000, 10_000]);
    expect(row.queueEndMs).to.equal(nowMs + 10_000);
  });

  it('a first ticket is the time, or one more than the last; a holder whose release wakes no waiter is reported', () => {
    expect(put('a', 0)).to.deep.equal({ ticket: nowMs * 1000, before: 0, outside: false });
    expect(put('b', 0)).to.deep.equal({ ticket: nowMs * 1000 + 1, before: 1, outside: false });
    row.token = 'of another client';
    expect(put('b', 0)).to.include({ outside: true });
    row.token = newToken(undefined);
    expect(put('b', 0)).to.include({ outside: false });
    expect(row.queue[0]).to.include({ channel: 'c', id: 'i', token: 'a', lifetimeMs: 1000, fences: 1 });
  });

  it('only a limited number of expired entries is taken out at once', () => {
    put('t', 0);
    const [entry] = row.queue as [QueuedRow];
    const before = 2 * limits.maxExpired;
    row.queue = Array.from({ length: before + 1 }, (_, n) => ({ ...entry, token: `t${n}` }));
    row.queue[before] = { ...row.queue[before]!, deadlineMs: nowMs + 90_000 };
    row.handOffs = 3;
    expect(front(row, nowMs + 60_000)).to.equal(undefined);
    expect([row.queue.length, tokens()[0]]).to.deep.equal([limits.maxExpired + 1, `t${limits.maxExpired}`]);
    expect(front(row, nowMs + 60_000)).to.equal(undefined);
    expect(front(row, nowMs + 60_000)?.token).to.equal(`t${before}`);
    expect(row.handOffs).to.equal(3);
    // With the last of them, all that is known of the queue goes.
    expect(front(row, nowMs + 100_000)).to.equal(undefined);
    expect(hasQueue(row)).to.equal(false);
  });

  it('is forgotten as a whole, and each part of it counts', () => {
    expect(hasQueue(row)).to.equal(false);
    const parts: (() => void)[] = [
      () => put('a', 0),
      () => Object.assign(row, { handOffs: 1 }),
      () => Object.assign(row, { yieldUntilMs: 1 }),
      () => Object.assign(row, { poll: { pauseMs: 1, sinceMs: 1, untilMs: 1 } }),
    ];
    for (const part of parts) {
      part();
      expect(hasQueue(row)).to.equal(true);
      forgetQueue(row);
      expect(hasQueue(row)).to.equal(false);
    }
  });

  it('an entry that has expired is taken out with those in front of it, one that expires this moment is not', () => {
    put('a', 0);
    put('b', 0);
    const [a, b] = row.queue as [QueuedRow, QueuedRow];
    row.queue = [
      { ...a, deadlineMs: nowMs - 1 },
      { ...b, deadlineMs: nowMs },
    ];
    expect(front(row, nowMs)?.token).to.equal('b');
    expect(tokens()).to.deep.equal(['b']);
    expect(front(row, nowMs + 1)).to.equal(undefined);
    expect(hasQueue(row)).to.equal(false);
  });

  it('a mark is forgotten when its caller has given no sign in time', () => {
    put('a', 0);
    markPoll([row], 10, nowMs);
    const { untilMs } = row.poll!;
    expect(untilMs).to.equal(nowMs + 120);
    front(row, untilMs);
    expect(row.poll).to.include({ pauseMs: 10 });
    front(row, untilMs + 1);
    expect(row.poll).to.equal(undefined);
  });

  it('yields after a limited number of hand-offs, for the longest pause of those that poll and 20 ms, a second at most', () => {
    expect(mustYield(row, limits.handOffs - 1, 50, nowMs)).to.equal(false);
    expect(row.yieldUntilMs).to.equal(0);
    row.handOffs = limits.handOffs;
    expect(mustYield(row, limits.handOffs, 50, nowMs)).to.equal(true);
    expect(row).to.include({ yieldUntilMs: nowMs + 50, handOffs: 0, poll: undefined });
    row.poll = { pauseMs: 100, sinceMs: nowMs, untilMs: nowMs + 300 };
    expect(mustYield(row, limits.handOffs, 50, nowMs)).to.equal(true);
    expect(row.yieldUntilMs).to.equal(nowMs + 120);
    expect(mustYield(row, limits.handOffs, 5000, nowMs)).to.equal(true);
    expect(row.yieldUntilMs).to.equal(nowMs + 1000);
  });

  it('yields once callers have polled in vain for eight of those times, and not before', () => {
    const sinceMs = nowMs - limits.pollsInVain * 120;
    row.poll = { pauseMs: 100, sinceMs: sinceMs + 1, untilMs: nowMs + 300 };
    expect(mustYield(row, 1, 50, nowMs)).to.equal(false);
    row.poll = { pauseMs: 100, sinceMs, untilMs: nowMs + 300 };
    expect(mustYield(row, 1, 50, nowMs)).to.equal(true);
  });

  it('the longest pause counts while its caller gives signs, and none beyond a second', () => {
    put('a', 0);
    markPoll([row], 40, nowMs);
    markPoll([row], 10, nowMs + 1);
    expect(row.poll).to.include({ pauseMs: 40, sinceMs: nowMs });
    markPoll([row], 50, nowMs + 2);
    expect(row.poll).to.include({ pauseMs: 50, sinceMs: nowMs });
    markPoll([row], undefined, nowMs + 3);
    markPoll([row], 1001, nowMs + 3);
    expect(row.poll).to.include({ pauseMs: 50 });
    markPoll([row], 50, nowMs + 4);
    expect(row.poll, 'the same pause again').to.include({ sinceMs: nowMs, untilMs: nowMs + 204 });
    markPoll([row], 10, nowMs + 204);
    expect(row.poll, 'at its very end').to.include({ pauseMs: 50 });
    const lateMs = row.poll!.untilMs + 1;
    markPoll([row], 10, lateMs);
    expect(row.poll).to.include({ pauseMs: 10, sinceMs: lateMs });
    const other = newRow('other');
    markPoll([other], 10, nowMs);
    expect(other.poll, 'without a queue').to.equal(undefined);
    other.handOffs = 1;
    markPoll([row, other], 1000, lateMs);
    expect(other.poll).to.deep.equal({ pauseMs: 1000, sinceMs: lateMs, untilMs: lateMs + 2100 });
    markPoll([other], 0, lateMs + 3000);
    expect(other.poll).to.include({ pauseMs: 1 });
  });
});
