// The machine of the embedded stores, command by command, by a clock of the test: what each reply says, what is left in the table, and
// which message goes out. The scripts are compared with this machine; here is what it promises.
import { expect } from 'chai';
import { hashOf, newToken } from '../../src/core/token';
import type { ExtendReply, Mode, QueueEntry } from '../../src/store/contract';
import type {
  AcquireCommand,
  CommandOutcome,
  ExtendCommand,
  ReleaseCommand,
} from '../../src/store/embedded/machine/command';
import { Machine } from '../../src/store/embedded/machine/mutex-machine';
import { type LockRow, MemoryRows } from '../../src/store/embedded/machine/row';
import { freedChannel } from '../../src/store/operator';
import { limits } from '../../src/store/protocol';
import type { Slots } from '../../src/store/slots';

const dayMicros = 86_400_000_000;
const lifetimeMs = 1000;

describe('the machine of the embedded stores', () => {
  let nowMs: number;
  let rows: MemoryRows;
  let machine: Machine;
  let heard: string[];

  beforeEach(build);

  function build(): void {
    [nowMs, heard, rows] = [1_000_000, [], new MemoryRows()];
    machine = new Machine((channel, id, key) => void heard.push(`${channel} ${id} ${key}`), rows);
  }

  /** Between two ms: what counts is the ms that has begun. */
  const micros = (): number => nowMs * 1000 + 900;
  const row = (key = 'k'): LockRow => rows.get(key)!;
  const acquire = (token: string, more: Partial<AcquireCommand> = {}): CommandOutcome =>
    machine.acquire({ keys: ['k'], token, lifetimeMs, notAfterMs: nowMs, fences: 1, ...more }, micros());
  const queueAs = (id: string, ticket = 0): QueueEntry => ({ channel: `of ${id}`, id, ticket });
  /** Is queued, if it is busy. */
  const queue = (token: string, more: Partial<AcquireCommand> = {}): CommandOutcome =>
    acquire(token, { queueAs: queueAs(token), ...more });
  const release = (token: string, more: Partial<ReleaseCommand> = {}): ReturnType<Machine['release']> =>
    machine.release({ keys: ['k'], token, ticket: 0, yieldMs: 0, ...more }, micros());
  const fenceOf = (reply: CommandOutcome | undefined): number => {
    if (reply?.outcome !== 'granted') throw new Error(`it is ${reply?.outcome}`);
    return reply.fence;
  };
  const tokens = (key = 'k'): string[] => row(key).queue.map(({ token }) => token);
  /** The table as text, to show that a command changed nothing. */
  const table = (): string => JSON.stringify([[...rows], rows.fence]);
  const mode = (kind: Mode['kind'], more: Partial<Mode> = {}): Mode => {
    const total = kind === 'counted' ? 3 : 0;
    return { kind, prefer: 'fair', group: '', permits: 1, total, step: 0, ...more };
  };

  describe('acquires', () => {
    it('a free lock until its lifetime is over, with a fence from the clock, and keeps nothing of a queue', () => {
      const reply = acquire('a', { queueAs: queueAs('a') });
      expect(reply).to.deep.equal({ outcome: 'granted', fence: micros(), others: 0 });
      expect(row()).to.include({ token: 'a', endMs: nowMs + lifetimeMs, queueEndMs: 0 });
      expect(acquire('b')).to.deep.equal({ outcome: 'busy', leftMs: lifetimeMs, position: undefined });
      nowMs += lifetimeMs - 1;
      expect(acquire('b')).to.deep.equal({ outcome: 'busy', leftMs: 1, position: undefined });
      nowMs += 1;
      expect(acquire('b')).to.include({ outcome: 'granted' });
    });

    it('fences rise by one within a microsecond, and by the clock after it; reserved ones are given to no other key', () => {
      const first = fenceOf(acquire('a', { fences: 9 }));
      expect(first).to.equal(micros());
      expect(fenceOf(acquire('b', { keys: ['other'] }))).to.equal(first + 9);
      nowMs += 1;
      expect(fenceOf(acquire('c', { keys: ['third'] }))).to.equal(micros());
    });

    it('without fencing: 0, and none is minted', () => {
      expect(acquire('a', { fences: 0 })).to.deep.equal({ outcome: 'granted', fence: 0, others: 0 });
      expect(machine.rows.fence).to.equal(0);
    });

    it('for one of a quorum: no fence below the least', () => {
      const minFence = micros() + 5000;
      expect(fenceOf(acquire('a', { minFence }))).to.equal(minFence);
      expect(fenceOf(acquire('b', { keys: ['other'], minFence }))).to.equal(minFence + 1);
    });

    it('H3: a late request changes nothing; one in its last millisecond is executed', () => {
      expect(acquire('a', { notAfterMs: nowMs - 1 })).to.deep.equal({ outcome: 'late' });
      expect(rows.size).to.equal(0);
      expect(acquire('a', { notAfterMs: nowMs })).to.include({ outcome: 'granted' });
    });

    it('H82: a counter more than a day ahead of the clock is refused, and no lock is taken', () => {
      rows.fence = nowMs * 1000 + dayMicros + 1;
      expect(() => acquire('a')).to.throw(
        'FENCE the fence counter of this table is more than a day ahead of the clock',
      );
      expect([row().token, rows.fence]).to.deep.equal([undefined, nowMs * 1000 + dayMicros + 1]);
      rows.fence = nowMs * 1000 + dayMicros;
      expect(fenceOf(acquire('a'))).to.equal(nowMs * 1000 + dayMicros + 1);
    });

    it('H2 H4: what is ours already is granted again: the same fence, and the end is only ever later', () => {
      const fence = fenceOf(acquire('a', { lifetimeMs: 5000 }));
      queue('b');
      nowMs += 10;
      expect(acquire('a')).to.deep.equal({ outcome: 'granted', fence, others: 0 });
      expect(row().endMs).to.equal(nowMs - 10 + 5000);
      expect(acquire('a', { lifetimeMs: 9000, queueAs: queueAs('a') })).to.include({ outcome: 'granted', fence });
      expect(row().endMs).to.equal(nowMs + 9000);
      expect(tokens()).to.deep.equal(['b']);
      // A table that has lost its counter: no fence of before is known.
      rows.fence = 0;
      expect(fenceOf(acquire('a'))).to.equal(micros());
    });

    it('one that cannot be queued hears of others that are queued only where they are', () => {
      acquire('a');
      expect(acquire('a')).to.include({ others: 0 });
      queue('b');
      queue('c');
      expect(acquire('a')).to.include({ others: 0 });
      expect(acquire('a', { queueAs: queueAs('a') })).to.include({ others: 2 });
    });

    it('several keys: all or none, and the longest of their ends is reported', () => {
      acquire('x', { keys: ['1'], lifetimeMs: 3000 });
      acquire('y', { keys: ['2'], lifetimeMs: 2000 });
      const before = table();
      expect(acquire('a', { keys: ['1', '2', '3'] })).to.include({ outcome: 'busy', leftMs: 3000 });
      rows.delete('3');
      expect(table()).to.equal(before);
      expect(acquire('a', { keys: ['2', '1'] })).to.include({ leftMs: 3000 });
      nowMs += 3000;
      const fence = fenceOf(acquire('a', { keys: ['1', '2', '3'] }));
      for (const key of ['1', '2', '3']) expect(row(key)).to.include({ token: 'a', endMs: nowMs + lifetimeMs });
      // One of them has ended: what is taken again has a fence of its own.
      machine.put('2', undefined, 0);
      expect(fenceOf(acquire('a', { keys: ['1', '2', '3'] }))).to.be.greaterThan(fence);
    });

    it('H79: a key that several hold is no mutex, and one that is held as a mutex is not shared', () => {
      acquire('a', { mode: mode('shared') });
      expect(() => acquire('b')).to.throw(/^WRONGTYPE this key is held by a readers-writer lock or a semaphore$/);
      expect(() => acquire('b', { keys: ['free', 'k'] })).to.throw('WRONGTYPE');
      nowMs += lifetimeMs;
      expect(acquire('b')).to.include({ outcome: 'granted' });
      expect(() => acquire('a', { mode: mode('shared') })).to.throw(/^WRONGTYPE this key is held as a mutex$/);
    });
  });

  describe('queues', () => {
    it('a busy caller where it asks for it, and says where it is; a polling one is not queued', () => {
      acquire('a');
      expect(acquire('p', { pauseMs: 10 })).to.deep.equal({ outcome: 'busy', leftMs: 1000, position: undefined });
      expect([tokens(), row().poll], 'without a queue nobody need yield').to.deep.equal([[], undefined]);
      const { position } = queue('b') as { position: object };
      expect(position).to.deep.equal({ ticket: micros(), before: 0, outside: true });
      expect(queue('c')).to.deep.include({
        outcome: 'busy',
        leftMs: 1000,
        position: { ticket: micros() + 1, before: 1, outside: true },
      });
      acquire('p', { pauseMs: 10 });
      expect(row().poll, 'beside a queue its pause is known').to.include({ pauseMs: 10 });
      expect(row().queue[0]).to.include({ channel: 'of b', id: 'b', lifetimeMs, fences: 1 });
    });

    it('one that is queued leaves no mark of a pause', () => {
      acquire('a');
      queue('b');
      queue('c', { pauseMs: 10 });
      expect(row().poll).to.equal(undefined);
    });

    it('the first of a queue gets the free lock by its own request, for its whole lifetime', () => {
      acquire('a');
      queue('b', { lifetimeMs: 9000, fences: 9 });
      queue('c');
      nowMs += lifetimeMs;
      expect(queue('b', { lifetimeMs: 9000, fences: 9 })).to.deep.equal({
        outcome: 'granted',
        fence: micros(),
        others: 1,
      });
      expect(row()).to.include({ token: 'b', endMs: nowMs + 9000, handOffs: 0 });
      expect([tokens(), heard]).to.deep.equal([['c'], []]);
    });

    it('nobody passes a queue: its first live entry is granted the free lock, for a provisional time, and told by message', () => {
      acquire('a');
      queue('b', { lifetimeMs: 9000, fences: 9 });
      queue('c');
      nowMs += lifetimeMs;
      const reply = queue('d', { pauseMs: 10 });
      expect(reply).to.deep.include({ outcome: 'busy', leftMs: limits.provisionalMs });
      expect(reply).to.have.nested.property('position.before', 1);
      expect(row()).to.include({ token: 'b', endMs: nowMs + limits.provisionalMs });
      expect([tokens(), heard]).to.deep.equal([['c', 'd'], [`of b b=${micros()} k`]]);
      expect([row().poll, machine.rows.fence], 'its block is reserved').to.deep.equal([undefined, micros() + 8]);
    });

    it('a caller that polls finds the lock granted to the queue, and its pause is known to it (H80)', () => {
      acquire('a');
      queue('b', { fences: 0 });
      queue('c');
      nowMs += lifetimeMs;
      expect(acquire('p', { pauseMs: 10 })).to.deep.equal({ outcome: 'busy', leftMs: lifetimeMs, position: undefined });
      expect([row().token, row().poll?.pauseMs, heard]).to.deep.equal(['b', 10, ['of b b=0 k']]);
    });

    it('several keys: none is taken past the queue of one, which is served', () => {
      acquire('a', { keys: ['2'] });
      queue('b', { keys: ['2'] });
      nowMs += lifetimeMs;
      expect(acquire('c', { keys: ['1', '2'] })).to.include({ outcome: 'busy', leftMs: lifetimeMs });
      expect([row('1').token, row('2').token]).to.deep.equal([undefined, 'b']);
    });

    it('while the key yields, callers outside the queue take it, and the queued ones wait for the end of that', () => {
      acquire('a');
      queue('b');
      row().handOffs = limits.handOffs;
      expect(release('a', { yieldMs: 50 }).results).to.deep.equal(['released']);
      expect(row()).to.include({ token: undefined, yieldUntilMs: nowMs + 50 });
      expect(heard, 'the first is told to request').to.deep.equal(['of b b k']);
      expect(queue('b')).to.deep.include({ outcome: 'busy', leftMs: 50 });
      nowMs += 20;
      expect(queue('c')).to.include({ outcome: 'busy', leftMs: 30 });
      expect(acquire('p')).to.include({ outcome: 'granted' });
      nowMs += 30;
      release('p');
      expect([row().token, row().yieldUntilMs], 'at the end of that it is granted').to.deep.equal(['b', 0]);
    });

    it('entries that have expired are skipped, a limited number at once; a caller that is queued behind more requests again', () => {
      acquire('a', { lifetimeMs: 60_000 });
      queue('b');
      const [entry] = row().queue;
      const expiring = { ...entry!, deadlineMs: nowMs + 100 };
      row().queue = Array.from({ length: 2 * limits.maxExpired }, (_, n) => ({ ...expiring, token: `b${n}` }));
      row().queueEndMs = nowMs + 90_000;
      nowMs += 60_000;
      expect(queue('d')).to.deep.include({ outcome: 'busy', leftMs: 0 });
      expect([tokens().length, tokens()[0]]).to.deep.equal([limits.maxExpired + 1, `b${limits.maxExpired}`]);
      expect(queue('d')).to.include({ outcome: 'busy' });
      expect(queue('d')).to.include({ outcome: 'granted' });
    });

    it('a queue whose entries are all dead bars nobody', () => {
      acquire('a');
      queue('b');
      nowMs += 5000;
      expect(row().queueEndMs, 'the queue is not over').to.be.greaterThan(nowMs);
      expect(acquire('p')).to.include({ outcome: 'granted' });
      expect([row().token, tokens()]).to.deep.equal(['p', []]);
      release('p');
      row().handOffs = 1; // all that is left of a queue
      expect(queue('c'), 'nor one that is queued').to.include({ outcome: 'granted' });
    });
  });

  describe('releases', () => {
    it('only what is still the token’s, and says what became of it', () => {
      acquire('a');
      expect(release('b')).to.deep.equal({ results: ['taken'], next: undefined });
      expect(row().token).to.equal('a');
      expect(release('a')).to.deep.equal({ results: ['released'], next: undefined });
      expect(row().token).to.equal(undefined);
      expect(release('a')).to.deep.equal({ results: ['missing'], next: undefined });
    });

    it('early, and the next holder’s time is its own', () => {
      acquire('a', { lifetimeMs: 5000 });
      release('a');
      acquire('b');
      expect(row()).to.include({ token: 'b', endMs: nowMs + lifetimeMs });
    });

    it('each of several keys by itself', () => {
      acquire('a', { keys: ['1'] });
      acquire('b', { keys: ['2'] });
      expect(release('a', { keys: ['1', '2', '3'] }).results).to.deep.equal(['released', 'taken', 'missing']);
      expect([row('1').token, row('2').token]).to.deep.equal([undefined, 'b']);
    });

    it('hands the lock off to the first in the queue, and counts how often in a row', () => {
      acquire('a');
      for (const each of ['b', 'c', 'd']) queue(each);
      release('a');
      expect([row().token, row().handOffs, tokens()]).to.deep.equal(['b', 1, ['c', 'd']]);
      const first = machine.rows.fence;
      release('b');
      expect([row().token, row().handOffs]).to.deep.equal(['c', 2]);
      expect(heard).to.deep.equal([`of b b=${first} k`, `of c c=${first + 1} k`]);
      // It ended by itself: the lock was free, and that is no hand-off.
      nowMs += lifetimeMs;
      expect(release('c').results).to.deep.equal(['missing']);
      expect([row().token, row().handOffs]).to.deep.equal(['d', 0]);
    });

    it('the key yields after a limited number of hand-offs, but not where no yield window is asked for, nor after an end of its own', () => {
      for (const [yieldMs, isHeld, token] of [
        [0, true, 'b'],
        [50, false, 'b'],
        [50, true, undefined],
      ] as const) {
        build();
        acquire('a');
        queue('b');
        row().handOffs = limits.handOffs;
        if (!isHeld) nowMs += lifetimeMs;
        release('a', { yieldMs });
        expect(row().token, `${yieldMs} ${isHeld}`).to.equal(token);
      }
    });

    it('after the yield window the hand-offs are counted anew', () => {
      acquire('a');
      queue('b');
      Object.assign(row(), { handOffs: limits.handOffs, yieldUntilMs: nowMs });
      release('a', { yieldMs: 50 });
      expect(row()).to.include({ token: 'b', handOffs: 1, yieldUntilMs: 0 });
    });

    it('an entry that leaves is taken out, whether its token holds the lock or not; others stay', () => {
      acquire('a');
      queue('b');
      queue('c');
      expect(release('b', { ticket: 0 }).results).to.deep.equal(['taken']);
      expect(tokens(), 'it was never queued, as far as it knows').to.deep.equal(['b', 'c']);
      expect(release('b', { ticket: -1 }).results).to.deep.equal(['taken']);
      expect(tokens()).to.deep.equal(['c']);
      release('c', { ticket: 5 });
      expect([tokens(), row().token]).to.deep.equal([[], 'a']);
    });

    it('and queues the next of its process: busy behind others, granted where it is the first, by no message', () => {
      const next = (token: string) => ({ token, lifetimeMs: 9000, fences: 9, queueAs: queueAs(token) });
      acquire('a');
      queue('b');
      const behind = release('a', { next: next('n') });
      expect(behind.results).to.deep.equal(['released']);
      expect(behind.next).to.deep.include({ outcome: 'busy', leftMs: lifetimeMs });
      expect(behind.next).to.have.nested.property('position.before', 0);
      expect([row().token, tokens(), heard.length]).to.deep.equal(['b', ['n'], 1]);
      // Somebody else's: what is not ours is left alone, and `n` stays queued.
      nowMs += 1;
      const taken = release('a', { next: next('n') });
      expect(taken.next).to.deep.include({ outcome: 'busy', leftMs: lifetimeMs - 1 });
      expect([taken.results, tokens(), row().token]).to.deep.equal([['taken'], ['n'], 'b']);
      const granted = release('b', { next: next('n') });
      expect(granted.next).to.deep.equal({ outcome: 'granted', fence: micros(), others: 0 });
      expect(row()).to.include({ token: 'n', endMs: nowMs + 9000 });
      expect(heard).to.have.lengthOf(1);
      // The key yields: nobody is told, since the caller hears it by the reply.
      row().handOffs = limits.handOffs;
      const yielding = release('n', { yieldMs: 50, next: next('m') });
      expect(yielding.next).to.deep.include({ outcome: 'busy', leftMs: 50 });
      expect([row().token, tokens(), heard.length]).to.deep.equal([undefined, ['m'], 1]);
    });
  });

  describe('extends', () => {
    const extend = (token: string, ms: number, more: Partial<ExtendCommand> = {}) =>
      machine.extend({ keys: ['k'], token, lifetimeMs: ms, exact: false, notAfterMs: nowMs, ...more }, micros());

    it('to a later end only, unless it is exact', () => {
      acquire('a');
      expect(extend('a', 999)).to.equal('extended');
      expect(row().endMs).to.equal(nowMs + 1000);
      expect(extend('a', 2000)).to.equal('extended');
      expect(row().endMs).to.equal(nowMs + 2000);
      expect(extend('a', 500, { exact: true })).to.equal('extended');
      expect(row().endMs).to.equal(nowMs + 500);
    });

    it('H13: a late extension changes nothing; in its last millisecond it is executed', () => {
      acquire('a');
      expect(extend('a', 5000, { notAfterMs: nowMs - 1 })).to.equal('late');
      expect(row().endMs).to.equal(nowMs + 1000);
      expect(extend('a', 5000, { notAfterMs: nowMs })).to.equal('extended');
    });

    it('all of several keys or none: taken where another holds one, missing where one has ended', () => {
      acquire('a', { keys: ['1', '2'] });
      machine.put('2', undefined, 0);
      expect(extend('a', 5000, { keys: ['1', '2'], notAfterMs: 0 })).to.equal('missing');
      acquire('b', { keys: ['3'] });
      expect(extend('a', 5000, { keys: ['1', '2', '3'] })).to.equal('taken');
      expect([row('1').endMs, row('3').endMs]).to.deep.equal([nowMs + 1000, nowMs + 1000]);
      nowMs += 1000;
      expect(extend('a', 5000, { keys: ['1'] })).to.equal('missing');
    });
  });

  describe('raises the counter of fences', () => {
    const raise = (token: string, least: number, keys = ['k'], how?: Mode): boolean =>
      machine.raise(keys, token, least, micros(), how);

    it('while all keys are the token’s, and never lowers it', () => {
      acquire('a', { keys: ['1', '2'] });
      const fence = machine.rows.fence;
      expect([raise('a', fence + 500, ['1', '2']), machine.rows.fence]).to.deep.equal([true, fence + 500]);
      expect([raise('a', fence, ['1']), machine.rows.fence]).to.deep.equal([true, fence + 500]);
      machine.put('2', 'b', nowMs + 1000);
      expect([raise('a', fence + 900, ['1', '2']), machine.rows.fence]).to.deep.equal([false, fence + 500]);
      nowMs += 1000;
      expect(raise('a', fence + 900, ['1'])).to.equal(false);
      expect(() => raise('b', nowMs * 1000 + dayMicros + 1)).to.throw('FENCE');
    });

    it('of what several may hold: while the token is one of them; a writer’s own fence rises with it', () => {
      acquire('w', { mode: mode('exclusive') });
      const fence = machine.rows.fence;
      expect(raise('w', fence + 500, ['k'], mode('exclusive'))).to.equal(true);
      expect(raise('w', fence + 100, ['k'], mode('exclusive'))).to.equal(true);
      expect([machine.holders('k', micros())[0]!.fence, machine.rows.fence]).to.deep.equal([fence + 500, fence + 500]);
      expect(raise('other', fence + 900, ['k'], mode('exclusive'))).to.equal(false);
      machine.release({ keys: ['k'], token: 'w', held: { mode: mode('exclusive') } }, micros());
      acquire('r', { mode: mode('shared') });
      const shared = machine.holders('k', micros())[0]!.fence;
      expect(raise('r', shared + 500, ['k'], mode('shared'))).to.equal(true);
      expect([machine.holders('k', micros())[0]!.fence, machine.rows.fence]).to.deep.equal([shared, shared + 500]);
      nowMs += lifetimeMs;
      expect(raise('r', shared + 900, ['k'], mode('shared'))).to.equal(false);
    });
  });

  describe('serves a job once a slot', () => {
    const slots: Slots = { everyMs: 1000, offsetMs: 0, marks: true };

    it('H85: a slot that is done is granted to nobody else, and the next one is', () => {
      nowMs += 400;
      expect(acquire('a', { slots, lifetimeMs: 5000 })).to.include({ outcome: 'granted' });
      expect(row().slot).to.deep.equal({ startMs: nowMs - 400, endMs: nowMs + 600 });
      expect(acquire('b', { slots })).to.deep.equal({ outcome: 'done' });
      // Its own request again, whose reply was lost.
      expect(acquire('a', { slots, lifetimeMs: 5000 })).to.include({ outcome: 'granted' });
      release('a');
      nowMs += 599;
      expect(acquire('b', { slots })).to.deep.equal({ outcome: 'done' });
      nowMs += 1;
      expect(acquire('b', { slots })).to.include({ outcome: 'granted' });
    });

    it('a lock that is held in a slot that is not done is busy; late is late', () => {
      acquire('x');
      expect(acquire('b', { slots })).to.deep.equal({ outcome: 'busy', leftMs: lifetimeMs, position: undefined });
      expect(row().slot).to.equal(undefined);
      release('x');
      expect(acquire('b', { slots: { ...slots, marks: false } })).to.include({ outcome: 'granted' });
      expect(row().slot, 'a release says so').to.equal(undefined);
      acquire('b', { slots });
      release('b');
      expect(acquire('c', { slots, notAfterMs: nowMs - 1 }), 'before it looks at the slot').to.deep.equal({
        outcome: 'late',
      });
    });

    it('H85: a mark of an earlier slot does not count, nor one that has ended, nor one from the future', () => {
      acquire('a', { keys: ['other'] });
      const began = nowMs;
      for (const [startMs, endMs, outcome] of [
        [began - 1000, began + 1, 'granted'],
        [began, began, 'granted'],
        [began, began + 1, 'done'],
        [began + 1, began + 1001, 'granted'],
        [began + 1000, began + 2000, 'granted'],
      ] as const) {
        acquire('b');
        row().slot = { startMs, endMs };
        release('b');
        expect(acquire('c', { slots: { ...slots, marks: false } }), `${startMs} ${endMs}`).to.include({ outcome });
        release('c');
      }
    });
  });

  describe('what several may hold', () => {
    const permits = (token: string, more: Partial<AcquireCommand> = {}): CommandOutcome =>
      acquire(token, { mode: mode('counted', { total: 1 }), ...more });

    it('has fences of the same counter, each with its own end', () => {
      acquire('x', { keys: ['other'] });
      const fence = machine.rows.fence;
      expect(permits('a', { fences: 9 })).to.deep.equal({ outcome: 'granted', fence: fence + 1, others: 0 });
      expect(machine.rows.fence).to.equal(fence + 9);
      expect(machine.holders('k', micros()).map(({ permits }) => permits)).to.deep.equal([1]);
      expect(acquire('q', { keys: ['quorum'], mode: mode('exclusive'), minFence: fence + 5000 })).to.include({
        fence: fence + 5000,
      });
    });

    it('an entry is alive for as long as it says, or twice as long as its turn to poll takes, never beyond 10 s', () => {
      permits('a', { lifetimeMs: 60_000 });
      const deadline = (token: string, silenceMs?: number): number => {
        permits(token, { queueAs: { ...queueAs(token), silenceMs } });
        return row().shared!.queue.find((each) => each.token === token)!.deadlineMs - nowMs;
      };
      expect([deadline('b'), deadline('c', 700), deadline('d', 60_000), deadline('e', 0)]).to.deep.equal([
        2000, 700, 10_000, 2000,
      ]);
    });

    it('a release wakes those that can be next, in one message for each process, and tells what was lost', () => {
      acquire('w', { mode: mode('exclusive') });
      for (const id of ['1', '2'])
        acquire(`r${id}`, { mode: mode('shared'), queueAs: { channel: 'p', id, ticket: 0 } });
      const drop = (token: string, how: Mode, ticket = 0) =>
        machine.release({ keys: ['k'], token, ticket, held: { mode: how } }, micros());
      expect(drop('v', mode('exclusive'))).to.deep.equal({ results: ['taken'], next: undefined });
      expect(heard).to.deep.equal([]);
      expect(drop('w', mode('exclusive'))).to.deep.equal({ results: ['released'], next: undefined });
      expect(heard).to.deep.equal(['p 1,2 k']);
      acquire('r1', { mode: mode('shared') });
      expect(drop('w', mode('exclusive')).results, 'a writer beside a reader was overtaken').to.deep.equal(['taken']);
      expect(drop('v', mode('shared')).results, 'a reader beside a reader was not').to.deep.equal(['missing']);
    });

    it('is extended by its kind: a writer beside readers has lost it, and one that must write is not content to read', () => {
      const extend = (token: string, ms: number, how: Mode, strictly?: boolean): ExtendReply['outcome'] =>
        machine.extend(
          { keys: ['k'], token, lifetimeMs: ms, exact: false, notAfterMs: nowMs, held: { mode: how }, strictly },
          micros(),
        );
      acquire('r', { mode: mode('shared') });
      expect(extend('r', 5000, mode('shared'))).to.equal('extended');
      expect(machine.holders('k', micros())[0]!.endMs).to.equal(nowMs + 5000);
      expect(extend('x', 5000, mode('exclusive'))).to.equal('taken');
      expect(extend('x', 5000, mode('shared'))).to.equal('missing');
      expect(extend('r', 5000, mode('exclusive'))).to.equal('extended');
      expect(extend('r', 5000, mode('exclusive'), true)).to.equal('missing');
      expect(extend('r', 5000, mode('shared'), true), 'a reader need not be a writer').to.equal('extended');
    });

    it('keeps its holders when a key is asked for again', () => {
      acquire('r', { mode: mode('shared') });
      acquire('s', { mode: mode('shared') });
      expect(machine.holders('k', micros()).map(({ token }) => token)).to.deep.equal(['r', 's']);
    });

    it('answers beside 150,000 waiters, and beside as many holders', () => {
      const many = Array.from({ length: 150_000 }, (_, n) => n);
      permits('a');
      permits('first', { queueAs: queueAs('first') });
      const shared = row().shared!;
      const [entry, holder] = [shared.queue[0]!, shared.holders[0]!];
      shared.queue = many.map((n) => ({ ...entry, token: `waits ${n}`, ticket: micros() + n }));
      const position = { ticket: micros() + many.length, before: many.length, outside: false };
      expect(permits('last', { queueAs: queueAs('last') })).to.deep.include({ outcome: 'busy', position });
      shared.holders = many.map((n) => ({ ...holder, token: `holds ${n}`, endMs: nowMs + 5 + n }));
      expect(permits('last')).to.include({ outcome: 'busy', leftMs: 5 });
    });
  });

  describe('H88: frees a lock for an operator', () => {
    const free = (token: string): boolean => machine.free('k', hashOf(token).slice(0, 8), micros());

    it('from the holder that is meant, which is told, and the next in the queue is served', () => {
      const [a, b] = [newToken(undefined), newToken(undefined)];
      acquire(a);
      queue(b, { queueAs: queueAs('b') });
      Object.assign(row(), { handOffs: limits.handOffs, yieldUntilMs: nowMs + 50 });
      const before = table();
      expect(free(b)).to.equal(false);
      expect([table(), heard]).to.deep.equal([before, []]);
      expect(free(a)).to.equal(true);
      expect(heard).to.deep.equal([`${freedChannel} !${hashOf(a)} k`, `of b b=${machine.rows.fence} k`]);
      expect(row()).to.include({ token: b, handOffs: 1, yieldUntilMs: 0 });
      expect([free(a), row().token]).to.deep.equal([false, b]);
    });

    it('of which nobody holds any: nothing to free', () => {
      expect(free('a')).to.equal(false);
      acquire('a');
      nowMs += lifetimeMs;
      expect(free('a')).to.equal(false);
      expect(heard).to.deep.equal([]);
    });

    it('from one of several holders, which is told; the others keep it, and a waiter is woken', () => {
      for (const token of ['a', 'b']) acquire(token, { mode: mode('counted', { total: 2 }) });
      acquire('c', { mode: mode('counted', { total: 2 }), queueAs: queueAs('c') });
      expect(free('x')).to.equal(false);
      expect(free('a')).to.equal(true);
      expect(machine.holders('k', micros()).map(({ token }) => token)).to.deep.equal(['b']);
      expect(heard).to.deep.equal([`${freedChannel} !${hashOf('a')} k`, 'of c c k']);
    });
  });
});
