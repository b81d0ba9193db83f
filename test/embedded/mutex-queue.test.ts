// The queue of a row, by itself: where an entry is put, when the key yields, and for how long. The scripts are compared with this.
import { expect } from 'chai';
import { enqueue, front, hasQueue, limits, markPoll, mustYield } from '../../src/stores/embedded/mutex-queue';
import { type Entry, newRow, type Row } from '../../src/stores/embedded/row';

const nowMs = 1_000_000;
const claim = (token: string) => ({ token, lifetimeMs: 1000, fences: 1 });
const entry = (ticket: number) => ({ channel: 'c', id: 'i', ticket });

describe('the queue of a row', () => {
  let row: Row;

  beforeEach(() => {
    row = newRow('k');
  });

  const put = (token: string, ticket: number) => enqueue(row, claim(token), entry(ticket), nowMs * 1000, limits);
  const tokens = (): string[] => row.queue.map(({ token }) => token);

  it('a ticket says where an entry is, whenever it comes back', () => {
    expect([put('a', 0), put('b', 0), put('c', 0)].map(({ before }) => before)).to.deep.equal([0, 1, 2]);
    const [first, second] = row.queue.map(({ ticket }) => ticket) as [number, number];
    expect(put('b', 0)).to.include({ ticket: second, before: 1 });
    row.queue.shift();
    expect(put('a', first)).to.include({ ticket: first, before: 0 });
    expect(tokens()).to.deep.equal(['a', 'b', 'c']);
  });

  it('an entry that has expired is taken out with those in front of it, one that expires this moment is not', () => {
    put('a', 0);
    put('b', 0);
    const [a, b] = row.queue as [Entry, Entry];
    row.queue = [
      { ...a, deadlineMs: nowMs - 1 },
      { ...b, deadlineMs: nowMs },
    ];
    expect(front(row, nowMs, limits)?.token).to.equal('b');
    expect(tokens()).to.deep.equal(['b']);
    expect(front(row, nowMs + 1, limits)).to.equal(undefined);
    expect(hasQueue(row)).to.equal(false);
  });

  it('a mark is forgotten when its caller has given no sign in time', () => {
    put('a', 0);
    markPoll([row], 10, nowMs);
    const { untilMs } = row.poll!;
    expect(untilMs).to.equal(nowMs + 120);
    front(row, untilMs, limits);
    expect(row.poll).to.include({ pauseMs: 10 });
    front(row, untilMs + 1, limits);
    expect(row.poll).to.equal(undefined);
  });

  it('yields after so many hand-offs, for the longest pause of those that poll and 20 ms, a second at most', () => {
    expect(mustYield(row, limits.handOffs - 1, 50, nowMs, limits)).to.equal(false);
    expect(row.yieldUntilMs).to.equal(0);
    row.handOffs = limits.handOffs;
    expect(mustYield(row, limits.handOffs, 50, nowMs, limits)).to.equal(true);
    expect(row).to.include({ yieldUntilMs: nowMs + 50, handOffs: 0, poll: undefined });
    row.poll = { pauseMs: 100, sinceMs: nowMs, untilMs: nowMs + 300 };
    expect(mustYield(row, limits.handOffs, 50, nowMs, limits)).to.equal(true);
    expect(row.yieldUntilMs).to.equal(nowMs + 120);
    expect(mustYield(row, limits.handOffs, 5000, nowMs, limits)).to.equal(true);
    expect(row.yieldUntilMs).to.equal(nowMs + 1000);
  });

  it('yields once callers have polled in vain for eight of those times, and not before', () => {
    const sinceMs = nowMs - limits.pollsInVain * 120;
    row.poll = { pauseMs: 100, sinceMs: sinceMs + 1, untilMs: nowMs + 300 };
    expect(mustYield(row, 1, 50, nowMs, limits)).to.equal(false);
    row.poll = { pauseMs: 100, sinceMs, untilMs: nowMs + 300 };
    expect(mustYield(row, 1, 50, nowMs, limits)).to.equal(true);
  });

  it('the longest pause counts while its caller gives signs, and none beyond a second', () => {
    put('a', 0);
    markPoll([row], 40, nowMs);
    markPoll([row], 10, nowMs + 1);
    expect(row.poll).to.include({ pauseMs: 40, sinceMs: nowMs });
    markPoll([row], 50, nowMs + 2);
    expect(row.poll).to.include({ pauseMs: 50, sinceMs: nowMs });
    markPoll([row], 1001, nowMs + 3);
    expect(row.poll).to.include({ pauseMs: 50 });
    const lateMs = row.poll!.untilMs + 1;
    markPoll([row], 10, lateMs);
    expect(row.poll).to.include({ pauseMs: 10, sinceMs: lateMs });
  });
});
