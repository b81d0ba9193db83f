/** The models of the torture run: histories that each must refuse, and ones that it must accept. */
import { expect } from 'chai';
import { excerpt } from '../../torture/excerpt';
import { accountOf, type Event, type Written } from '../../torture/history';
import {
  cached,
  fences,
  idle,
  mutex,
  once,
  promised,
  readersWriter,
  semaphore,
  settles,
  type Violation,
  type World,
} from '../../torture/models';

type Some = Partial<Extract<Event, { e: 'hold' }>>;

/** The events that one or two processes wrote, in the order of time. */
class History {
  readonly events: Written[] = [];

  write(t: number, p: string, event: object): this {
    this.events.push({ t, p, ...event } as Written);
    return this;
  }

  asks(t: number, id: string, { keys = ['k'], boundMs = 1000, queued = true } = {}): this {
    return this.write(t, id[0]!, { e: 'ask', id, job: 'job', keys, boundMs, queued });
  }

  holds(t: number, id: string, until: number, { kind = 'mutex', fence = 0, group = '', permits = 0 }: Some = {}): this {
    return this.write(t, id[0]!, { e: 'hold', id, until, kind, fence, group, permits });
  }

  checks(t: number, id: string, until: number): this {
    return this.write(t, id[0]!, { e: 'check', id, until });
  }

  ends(t: number, id: string): this {
    return this.write(t, id[0]!, { e: 'end', id });
  }

  done(t: number, id: string, outcome = 'released'): this {
    return this.write(t, id[0]!, { e: 'done', id, outcome });
  }

  get account() {
    return accountOf(this.events);
  }
}

/** Asks and holds at once. */
function held(history: History, id: string, from: number, until: number, some: Some = {}, keys = ['k']): History {
  return history.asks(from - 1, id, { keys }).holds(from, id, until, some);
}

const messages = (violations: readonly Violation[]): string[] => violations.map(({ message }) => message);

describe('torture: the models', () => {
  describe('a mutex with expiry', () => {
    const check = (history: History) => messages(mutex(history.account.holds));

    it('refuses two valid holders at the same time', () => {
      const history = held(held(new History(), 'a1', 10, 100), 'b1', 99, 150);
      expect(check(history)).to.deep.equal(['a1 and b1 hold k at the same time, for 1.000 ms']);
    });

    it('refuses a third beside a long first, behind a short second of another key', () => {
      const history = held(held(held(new History(), 'a1', 10, 500), 'b1', 20, 30, {}, ['other']), 'b2', 40, 60);
      expect(check(history)).to.have.length(1);
    });

    it('refuses one of several keys that another has', () => {
      const history = held(held(new History(), 'a1', 10, 100, {}, ['x', 'y']), 'b1', 50, 90, {}, ['y', 'z']);
      expect(check(history)).to.deep.equal(['a1 and b1 hold y at the same time, for 40.000 ms']);
    });

    it('refuses one that was lengthened beyond the grant of another', () => {
      const history = held(new History(), 'a1', 10, 50).checks(40, 'a1', 90);
      expect(check(held(history, 'b1', 60, 80))).to.have.length(1);
    });

    it('accepts one after the release, the loss, the end, a step of the clock, or the last word of the other', () => {
      const begun = () => held(new History(), 'a1', 10, 100);
      expect(check(held(begun().ends(20, 'a1'), 'b1', 21, 30))).to.deep.equal([]);
      expect(check(held(begun().write(20, 'a', { e: 'lost', id: 'a1', reason: 'taken' }), 'b1', 21, 30))).to.deep.equal(
        [],
      );
      expect(check(held(begun(), 'b1', 100, 130))).to.deep.equal([]);
      expect(check(held(begun().write(20, 'a', { e: 'clock', ms: 60_000 }), 'b1', 21, 30))).to.deep.equal([]);
      expect(check(held(begun().checks(20, 'a1', 25), 'b1', 26, 30))).to.deep.equal([]);
    });

    it('a lock that is no longer valid may have ended when it was last checked', () => {
      const history = held(new History(), 'a1', 10, 100).checks(20, 'a1', 100).checks(60, 'a1', 0);
      expect(check(held(history, 'b1', 61, 90))).to.deep.equal([]);
      const overlapping = held(new History(), 'a1', 10, 100).checks(20, 'a1', 100);
      const events = held(overlapping, 'b1', 15, 90).checks(92, 'a1', 0);
      expect(check(events)).to.have.length(1);
    });

    it('the clock of one process ends no belief of another', () => {
      const history = held(new History(), 'a1', 10, 100).write(20, 'b', { e: 'clock', ms: 60_000 });
      expect(check(held(history, 'b1', 30, 40))).to.have.length(1);
    });

    it('a grant that was over when it was reported excludes no other', () => {
      const history = held(held(new History(), 'a1', 10, 100), 'b1', 50, 40);
      expect(check(history)).to.deep.equal([]);
    });
  });

  describe('fences', () => {
    const check = (history: History) => messages(fences(history.account.holds));

    it('refuses one that falls, and one that is given again', () => {
      const falls = held(held(new History(), 'a1', 10, 20, { fence: 7 }), 'b1', 30, 40, { fence: 6 });
      expect(check(falls)).to.deep.equal(['the fence of k is 6 (b1) after 7 (a1)']);
      const again = held(held(new History(), 'a1', 10, 20, { fence: 7 }), 'b1', 30, 40, { fence: 7 });
      expect(check(again)).to.have.length(1);
      const before = held(
        held(held(new History(), 'a1', 10, 20, { fence: 9 }), 'b1', 30, 40, { fence: 10 }),
        'a2',
        50,
        60,
        {
          fence: 9,
        },
      );
      expect(check(before)).to.have.length(1);
    });

    it('accepts those that rise, other keys, and locks without', () => {
      const history = held(held(new History(), 'a1', 10, 20, { fence: 7 }), 'b1', 30, 40, { fence: 8 });
      held(held(history, 'a2', 50, 60, { fence: 5 }, ['other']), 'b2', 70, 80, { fence: 0 });
      expect(check(history)).to.deep.equal([]);
    });

    it('readers of one phase share theirs; a writer has its own', () => {
      const read = (history: History, id: string, from: number, fence: number, group = '') =>
        held(history, id, from, from + 30, { kind: 'read', fence, group });
      expect(check(read(read(new History(), 'a1', 10, 7), 'b1', 20, 7))).to.deep.equal([]);
      expect(check(read(read(new History(), 'a1', 10, 7), 'b1', 50, 7, 'other'))).to.have.length(1);
      const writes = (fence: number) => held(read(new History(), 'a1', 10, 7), 'b1', 50, 60, { kind: 'write', fence });
      expect(check(writes(8))).to.deep.equal([]);
      expect(check(writes(7))).to.have.length(1);
      expect(check(read(writes(8), 'a2', 70, 8))).to.have.length(1);
      expect(check(read(writes(9), 'a2', 70, 8))).to.have.length(1);
    });

    it('on a quorum readers of one phase may have different ones, and a writer still exceeds them', () => {
      const falls = held(held(new History(), 'a1', 10, 90, { kind: 'read', fence: 7 }), 'b1', 20, 90, {
        kind: 'read',
        fence: 6,
      });
      expect(check(falls)).to.have.length(1);
      expect(fences(falls.account.holds, true)).to.deep.equal([]);
      const writes = held(falls, 'b2', 100, 110, { kind: 'write', fence: 7 });
      expect(fences(writes.account.holds, true)).to.have.length(1);
    });

    it('a writer that downgrades keeps its fence, and readers may join it', () => {
      const history = held(new History(), 'a1', 10, 100, { kind: 'write', fence: 7 }).ends(20, 'a1');
      history.holds(22, 'a1', 100, { kind: 'read', fence: 7 });
      held(history, 'b1', 30, 60, { kind: 'read', fence: 7 });
      expect(check(history)).to.deep.equal([]);
      // Also where the downgraded lock was not valid for long.
      const brief = held(new History(), 'a1', 10, 100, { kind: 'write', fence: 7 }).ends(20, 'a1');
      brief.holds(22, 'a1', 100, { kind: 'read', fence: 7 }).checks(25, 'a1', 0);
      expect(check(held(brief, 'b1', 24, 60, { kind: 'read', fence: 7 }))).to.deep.equal([]);
      expect(check(held(history, 'b2', 200, 210, { kind: 'write', fence: 7 }))).to.not.deep.equal([]);
      // Its reply was lost: it has never been sure of being a reader.
      const lost = held(new History(), 'a1', 10, 100, { kind: 'write', fence: 7 }).ends(20, 'a1');
      expect(check(held(lost, 'b1', 24, 60, { kind: 'read', fence: 7 }))).to.not.deep.equal([]);
      const asked = held(new History(), 'a1', 10, 100, { kind: 'write', fence: 7 }).ends(20, 'a1');
      asked.holds(21, 'a1', 0, { kind: 'read', fence: 7 });
      expect(check(held(asked, 'b1', 24, 60, { kind: 'read', fence: 7 }))).to.deep.equal([]);
    });

    it('permits have each their own, in any order', () => {
      const permit = (history: History, id: string, from: number, fence: number) =>
        held(history, id, from, from + 30, { kind: 'permits', permits: 1, fence });
      expect(check(permit(permit(new History(), 'a1', 10, 8), 'b1', 20, 7))).to.deep.equal([]);
      expect(check(permit(permit(new History(), 'a1', 10, 8), 'b1', 20, 8))).to.have.length(1);
    });

    it('an adopted lock keeps its fence, and nobody else has it', () => {
      const history = held(new History(), 'a1', 10, 100, { fence: 7 })
        .ends(20, 'a1')
        .holds(22, 'a1', 100, { fence: 7 });
      expect(check(history)).to.deep.equal([]);
      expect(check(held(history, 'b1', 110, 120, { fence: 7 }))).to.not.deep.equal([]);
    });
  });

  describe('readers and a writer', () => {
    const check = (history: History) => messages(readersWriter(history.account.holds));
    const beside = (one: Some, other: Some) => held(held(new History(), 'a1', 10, 100, one), 'b1', 50, 90, other);

    it('accepts readers of one group', () => {
      expect(check(beside({ kind: 'read' }, { kind: 'read' }))).to.deep.equal([]);
    });

    it('refuses a writer beside a reader, a reader beside a writer, two writers, and readers of two groups', () => {
      expect(check(beside({ kind: 'read' }, { kind: 'write' }))).to.have.length(1);
      expect(check(beside({ kind: 'write' }, { kind: 'read' }))).to.have.length(1);
      expect(check(beside({ kind: 'write' }, { kind: 'write' }))).to.have.length(1);
      expect(check(beside({ kind: 'read' }, { kind: 'read', group: 'b' }))).to.have.length(1);
    });

    it('refuses an upgrade beside another reader, and accepts it alone', () => {
      const upgraded = (history: History) => history.holds(40, 'a1', 100, { kind: 'write' });
      const alone = () => held(new History(), 'a1', 10, 100, { kind: 'read' });
      expect(check(upgraded(alone()))).to.deep.equal([]);
      expect(check(upgraded(held(alone(), 'b1', 20, 90, { kind: 'read' })))).to.have.length(1);
    });
  });

  describe('permits', () => {
    const check = (history: History) => messages(semaphore(history.account.holds, 5));
    const take = (history: History, id: string, from: number, until: number, permits: number) =>
      held(history, id, from, until, { kind: 'permits', permits });

    it('refuses more than there are, and accepts as many', () => {
      const full = () => take(take(new History(), 'a1', 10, 100, 2), 'b1', 20, 100, 3);
      expect(check(full())).to.deep.equal([]);
      expect(check(take(full(), 'a2', 50, 60, 1))).to.deep.equal(['6 permits of 5 are out at k']);
      expect(check(take(full(), 'a2', 100, 160, 5))).to.deep.equal([]);
    });
  });

  describe('calls', () => {
    const world: World = {
      outcomes: /^(released|busy)$/,
      slackMs: 100,
      endOf: (p) => (p === 'k' ? undefined : 5000),
      isFinished: (p) => p === 'a',
      pausedMs: (_from, _to, p) => (p === 's' ? 2000 : 0),
    };
    const check = (history: History) => messages(settles(history.account.operations, world));

    it('refuses one that never settles, is late, or has an answer that is none', () => {
      expect(check(new History().asks(4500, 'a1'))).to.deep.equal(['job a1 never settled']);
      expect(check(new History().asks(10, 'b1'))).to.have.length(1);
      expect(check(new History().asks(10, 'b1').done(1200, 'b1'))).to.have.length(1);
      expect(check(new History().asks(10, 'b1').done(20, 'b1', 'TypeError'))).to.have.length(1);
    });

    it('accepts one in time, one whose process was paused, and one that was killed', () => {
      expect(check(new History().asks(10, 'b1').done(1100, 'b1', 'busy'))).to.deep.equal([]);
      expect(check(new History().asks(10, 's1').done(3000, 's1'))).to.deep.equal([]);
      expect(check(new History().asks(10, 'k1'))).to.deep.equal([]);
    });
  });

  describe('waiting', () => {
    const world = { pausedMs: () => 0 } as unknown as World;
    const check = (history: History) => {
      return messages(idle(history.account, { fromMs: 1000, toMs: 5000 }, 500, world).violations);
    };

    it('refuses a lock that nobody holds while a caller is queued for it', () => {
      const history = held(new History(), 'a1', 900, 1100).asks(1050, 'b1').holds(2000, 'b1', 2100);
      expect(check(history)).to.deep.equal(['k was held by nobody for 900 ms while b1 was queued']);
      expect(check(new History().asks(1050, 'b1').done(3000, 'b1', 'busy'))).to.have.length(1);
    });

    it('accepts one that is held, handed off soon, polled for, or idle before the faults have ended', () => {
      const waits = (history: History, until: number, queued = true) =>
        history.asks(1050, 'b1', { queued }).holds(until, 'b1', until + 50);
      expect(check(waits(held(new History(), 'a1', 900, 3000), 3000))).to.deep.equal([]);
      expect(check(waits(held(new History(), 'a1', 900, 1100), 1500))).to.deep.equal([]);
      expect(check(waits(held(new History(), 'a1', 900, 1100), 2000, false))).to.deep.equal([]);
      expect(check(new History().asks(10, 'b1').holds(1200, 'b1', 1300))).to.deep.equal([]);
      const uncertain = held(new History(), 'a1', 900, 3000).checks(1000, 'a1', 3000).checks(2900, 'a1', 0);
      expect(check(waits(uncertain, 3000))).to.deep.equal([]);
    });
  });

  describe('jobs of slots', () => {
    const begins = (history: History, t: number, id: string, mode: string, slot: number, done = false) =>
      history.write(t, id[0]!, { e: 'slot', id, mode, slot, done });

    it('refuses a second beginning of a marked slot, and one after it was done', () => {
      const twice = begins(begins(new History(), 10, 'a1', 'at-most-once', 7), 20, 'b1', 'at-most-once', 7);
      expect(once(twice.events)).to.have.length(1);
      const first = begins(begins(new History(), 10, 'a1', 'until-success', 7), 20, 'a1', 'until-success', 7, true);
      expect(once(begins(first, 30, 'b1', 'until-success', 7).events)).to.have.length(1);
    });

    it('accepts a late beginning only if the lock had ended before the other job was done', () => {
      const done = () =>
        begins(begins(new History(), 10, 'a1', 'until-success', 7), 20, 'a1', 'until-success', 7, true);
      const late = (until: number) => held(begins(done(), 30, 'b1', 'until-success', 7), 'b1', 31, until);
      expect(once(late(0).events)).to.deep.equal([]);
      expect(once(late(50).events)).to.have.length(1);
      const marked = begins(begins(new History(), 10, 'a1', 'at-most-once', 7), 20, 'b1', 'at-most-once', 7);
      expect(once(held(marked, 'b1', 21, 0).events)).to.have.length(1);
    });

    it('accepts other slots, and a second one where the first did not succeed', () => {
      const slots = begins(begins(new History(), 10, 'a1', 'at-most-once', 7), 20, 'b1', 'at-most-once', 8);
      expect(once(slots.events)).to.deep.equal([]);
      const again = begins(begins(new History(), 10, 'a1', 'until-success', 7), 20, 'b1', 'until-success', 7);
      expect(once(begins(again, 30, 'b1', 'until-success', 7, true).events)).to.deep.equal([]);
    });
  });

  describe('cached values', () => {
    const value = (history: History, t: number, id: string, what: string, loaded: boolean) =>
      history.write(t, id[0]!, { e: 'value', id, value: what, loaded });
    const check = ({ events, account }: History) => messages(cached(events, account.operations, 100));

    it('refuses one that nobody loaded, and one that is too old', () => {
      expect(check(value(new History().asks(10, 'a1'), 20, 'a1', 'v', false))).to.have.length(1);
      const old = value(new History().asks(10, 'a1'), 20, 'a1', 'v', true).asks(200, 'b1');
      expect(check(value(old, 210, 'b1', 'v', false))).to.have.length(1);
    });

    it('accepts a fresh one', () => {
      const fresh = value(new History().asks(10, 'a1'), 20, 'a1', 'v', true).asks(50, 'b1');
      expect(check(value(fresh, 60, 'b1', 'v', false))).to.deep.equal([]);
    });
  });

  it('what a failover explains is left out, and nothing else', () => {
    const [violation] = mutex(held(held(new History(), 'a1', 10, 100), 'b1', 50, 90).account.holds);
    expect(promised([violation!], [{ fromMs: 20, toMs: 40 }])).to.deep.equal([]);
    expect(promised([violation!], [{ fromMs: 60, toMs: 80 }])).to.have.length(1);
    expect(promised([violation!], [])).to.have.length(1);
  });

  it('an excerpt shows what the two did, what was done to them, and no others', () => {
    const history = held(held(new History(), 'a1', 10, 100), 'c1', 20, 30, {}, ['other']);
    history.write(40, 'faults', { e: 'fault', what: 'server killed' });
    held(history, 'b1', 50, 90);
    const [violation] = mutex(history.account.holds);
    const shown = excerpt(history.events, violation!);
    expect(shown).to.match(/a1 +ask.*\n.*a1 +hold until 91\.0.*\n.*server killed\n.*b1 +ask.*\n.*b1 +hold/);
    expect(shown).to.not.contain('c1');
  });
});
