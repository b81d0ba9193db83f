// `Election`: one leader at a time, whose function is waited for, and who can be seen.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { connect, sharedRedis, uniqueKey } from '../support/redis';
import { failure, published } from './outcomes';
import { describeEach } from './places';

const { Election } = redisExpLock;

/** Resolves when its signal aborts. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve());
  });
}

/** A busy machine may hold up a reply for seconds. */
const patient = { lifetime: 10_000, commandTimeout: 10_000 };

describeEach(
  'Election',
  (here) => {
    let name: string;
    let one: redisExpLock.Election;
    let two: redisExpLock.Election;
    const elections: redisExpLock.Election[] = [];

    const newElection = (options: Partial<redisExpLock.ElectionOptions> = {}): redisExpLock.Election => {
      const election = new Election(name, { redis: here.redis, ...patient, ...options });
      elections.push(election);
      return election;
    };

    beforeEach(() => {
      name = uniqueKey();
      one = newElection({ id: 'one', value: 'http://one' });
      two = newElection({ id: 'two', redis: here.elsewhere });
    });

    afterEach(async () => {
      await Promise.all(elections.splice(0).map((election) => election.close({ drain: false })));
    });

    it('runs fn while it leads, resigns when fn returns, and resolves with its value', async () => {
      const before = Date.now();
      const value = await one.lead(async (term) => {
        expect(term).to.include({ id: 'one' });
        expect(term.fence).to.be.greaterThan(0);
        expect(term.since).to.be.within(before, Date.now());
        expect(term.signal.aborted).to.equal(false);
        expect(await here.holder(name)).to.be.a('string');
        const leader = await waitFor(() => two.leader());
        expect(leader).to.include({ id: 'one', value: 'http://one', term: term.fence, since: term.since });
        expect(leader!.remaining).to.be.within(1, 10_000);
        return 'value';
      });
      expect(value).to.equal('value');
      expect(await here.holder(name)).to.equal(null);
      expect(await two.leader()).to.equal(null);
    });

    it('fn throws, at once or later: resigns, and rejects with that', async () => {
      const mine = new Error('mine');
      expect(await failure(one.lead(() => Promise.reject(mine)))).to.equal(mine);
      const now = (): never => {
        throw mine;
      };
      expect(await failure(one.lead(now))).to.equal(mine);
      expect(await here.holder(name)).to.equal(null);
    });

    it('one leads at a time; the next one begins when the first has ended, with a larger fence', async () => {
      let leading = 0;
      const fences: number[] = [];
      const fn = async (term: redisExpLock.Term): Promise<void> => {
        leading += 1;
        expect(leading).to.equal(1);
        fences.push(term.fence);
        await sleep(20);
        leading -= 1;
      };
      for (let round = 0; round < 3; round += 1) await Promise.all([one.lead(fn), two.lead(fn)]);
      expect(fences).to.have.length(6);
      expect(fences).to.deep.equal([...new Set(fences)].sort((a, b) => a - b));
    });

    it('H86: the leadership is lost: the signal says so, fn is waited for, and then it campaigns again', async () => {
      let running = 0;
      let terms = 0;
      const seen: unknown[] = [];
      const leading = one.lead(async (term) => {
        running += 1;
        terms += 1;
        expect(running, 'two fn at once').to.equal(1);
        try {
          if (terms === 2) return 'second';
          await here.seize(name, 300);
          await waitFor(() => term.signal.aborted, { what: 'its signal' });
          seen.push(term.signal.reason);
          expect((await failure(term.proclaim('late'))).code).to.equal('ERR_LOCK_LOST');
          await sleep(600); // the stranger's lease is over by now, and yet it does not campaign
          expect(terms).to.equal(1);
          throw new Error('told as a warning');
        } finally {
          running -= 1;
        }
      });
      let result: unknown;
      const warnings = await published('redis-exp-lock:warning', async () => {
        result = await leading;
      });
      expect(result).to.equal('second');
      expect(seen, 'what the signals of lost terms said').to.have.length(1);
      expect(seen[0]).to.include({ code: 'ERR_LOCK_LOST' });
      const failed = warnings.filter(({ code }) => code === 'lead-failed');
      expect(failed.map(({ error, key }) => [error.message, key])).to.deep.equal([['told as a warning', name]]);
    });

    it('a second lead() meanwhile: AlreadyAcquiredLockError, campaigning or leading', async () => {
      const begun: string[] = [];
      let end!: () => void;
      const first = one.lead(async () => {
        begun.push('first');
        await new Promise<void>((resolve) => {
          end = resolve;
        });
      });
      await waitFor(() => begun.length === 1);
      const second = two.lead(() => begun.push('second'));
      expect((await failure(two.lead(() => {}))).code).to.equal('ERR_LOCK_ALREADY_ACQUIRED');
      expect((await failure(one.lead(() => {}))).code).to.equal('ERR_LOCK_ALREADY_ACQUIRED');
      end();
      await Promise.all([first, second]);
      expect(begun).to.deep.equal(['first', 'second']);
      expect(await one.lead(() => 'again')).to.equal('again');
    });

    it('signal, while campaigning: rejects with its reason, and leaves the queue', async () => {
      await here.seize(name);
      const controller = new AbortController();
      const campaign = one.lead(() => expect.fail('it led'), { signal: controller.signal });
      const reason = new Error('no more');
      setTimeout(() => controller.abort(reason), 50);
      expect(await failure(campaign)).to.equal(reason);
      expect(await failure(one.lead(() => {}, { signal: AbortSignal.abort(reason) }))).to.equal(reason);
    });

    it('H86: signal, while leading: renewed until fn settles, then released; resolves or rejects as fn does', async () => {
      const renewed = (): Promise<unknown> => {
        let minMs = Number.POSITIVE_INFINITY;
        const isRenewed = async (): Promise<boolean> => {
          const leftMs = await here.leftMs(name);
          minMs = Math.min(minMs, leftMs);
          return leftMs > minMs + 500;
        };
        return waitFor(isRenewed, { what: 'a renewal' });
      };
      for (const how of ['resolves', 'rejects'] as const) {
        const election = newElection({ lifetime: 6000 });
        const controller = new AbortController();
        const reason = new Error('shut down');
        const mine = new Error('mine');
        const leading = election.lead(
          async (term) => {
            setTimeout(() => controller.abort(reason), 20);
            await aborted(term.signal);
            expect(term.signal.reason).to.equal(reason);
            globalThis.gc!(); // collects the lease, if nothing keeps it
            if (how === 'resolves') await renewed();
            expect(await here.holder(name)).to.be.a('string');
            await term.proclaim('still');
            expect(await two.leader()).to.include({ value: 'still' });
            if (how === 'rejects') throw mine;
            return 'stopped';
          },
          { signal: controller.signal },
        );
        if (how === 'resolves') expect(await leading).to.equal('stopped');
        else expect(await failure(leading)).to.equal(mine);
        expect(await here.holder(name)).to.equal(null);
      }
    });

    describe('resign()', () => {
      it('while leading: quietly; resolves once the lock is released, and not before fn has settled', async () => {
        let settled = false;
        let begun = false;
        const leading = one.lead(async (term) => {
          begun = true;
          await aborted(term.signal);
          await sleep(100);
          settled = true;
          return 'resigned';
        });
        await waitFor(() => begun);
        await one.resign();
        expect(settled).to.equal(true);
        expect(await here.holder(name)).to.equal(null);
        expect(await leading).to.equal('resigned');
      });

      it('called by fn itself: resolves at once, also after the loss', async () => {
        const value = await one.lead(async (term) => {
          await one.resign();
          expect(term.signal.aborted).to.equal(true);
          await here.remove(name);
          await here.seize(name, 100);
          await one.resign();
          return 'by itself';
        });
        expect(value).to.equal('by itself');
        let terms = 0;
        const lost = await two.lead(async (term) => {
          terms += 1;
          await here.seize(name, 100);
          await aborted(term.signal);
          await two.resign();
          return terms;
        });
        expect(lost).to.equal(1);
      });

      it('while campaigning: lead resolves to undefined; with nothing to resign: nothing', async () => {
        await one.resign();
        await here.seize(name);
        const campaign = one.lead(() => expect.fail('it led'));
        await sleep(50);
        await one.resign();
        expect(await campaign).to.equal(undefined);
      });

      it('hands over to the next in the queue', async () => {
        let begun = false;
        const first = one.lead(async (term) => {
          begun = true;
          await aborted(term.signal);
        });
        await waitFor(() => begun);
        const second = two.lead((term) => term.id);
        await sleep(100);
        await one.resign();
        expect(await second).to.equal('two');
        await first;
      });
    });

    describe('proclaim', () => {
      it('changes the value that others see; at most 4 KiB of text, in bytes', async () => {
        await one.lead(async (term) => {
          await term.proclaim('ü'.repeat(2048));
          expect((await two.leader())!.value).to.equal('ü'.repeat(2048));
          for (const value of ['ü'.repeat(2049), '\ud800', 5, undefined]) {
            expect((await failure(term.proclaim(value as string))).code).to.equal('ERR_LOCK_OPTION');
          }
          await term.proclaim('');
          expect((await two.leader())!.value).to.equal('');
        });
      });

      it('after the end of the term: LockLostError, and the next leader’s value stays', async () => {
        let old!: redisExpLock.Term;
        await one.lead((term) => {
          old = term;
        });
        await two.lead(async (term) => {
          await term.proclaim('mine');
          expect((await failure(old.proclaim('late'))).code).to.equal('ERR_LOCK_LOST');
          expect(await one.leader()).to.include({ id: 'two', value: 'mine' });
        });
      });
    });

    describe('observe', () => {
      const brief = (leader: redisExpLock.Leader | null): unknown => leader && [leader.id, leader.value];

      const heard = here.place.polls ? it.skip : it; // it has no messages to give
      heard('the present leader or null at once, then each change, never two equal ones in a row', async () => {
        const controller = new AbortController();
        const seen: unknown[] = [];
        const observing = (async () => {
          for await (const leader of two.observe({ signal: controller.signal })) seen.push(brief(leader));
        })();
        await waitFor(() => seen.length === 1, { what: 'null at once' });
        await one.lead(async (term) => {
          await waitFor(() => seen.length === 2, { what: 'the leader' });
          await term.proclaim('changed');
          await waitFor(() => seen.length === 3, { what: 'its new value' });
          await term.proclaim('changed');
          await sleep(300);
        });
        await waitFor(() => seen.length === 4, { what: 'its end' });
        expect(seen).to.deep.equal([null, ['one', 'http://one'], ['one', 'changed'], null]);
        controller.abort();
        await observing;
      });

      it('a slow observer sees the latest only', async () => {
        await one.lead(async (term) => {
          await term.proclaim('first');
          const values: string[] = [];
          for await (const leader of two.observe()) {
            values.push(leader!.value);
            if (values.length === 2) break;
            for (const value of ['second', 'third', 'fourth']) await term.proclaim(value);
          }
          expect(values).to.deep.equal(['first', 'fourth']);
        });
      });

      it('ends with its signal, at once also while nothing happens, and with close()', async () => {
        for (const end of ['signal', 'close'] as const) {
          const controller = new AbortController();
          const election = newElection();
          const observer = election.observe({ signal: controller.signal })[Symbol.asyncIterator]();
          expect(await observer.next()).to.deep.equal({ value: null, done: false });
          const next = observer.next();
          await sleep(20);
          if (end === 'signal') controller.abort();
          else await election.close();
          expect(await next).to.deep.equal({ value: undefined, done: true });
        }
      });

      it('H98: ended by return() while a next() is pending: both settle', async () => {
        const observer = newElection().observe()[Symbol.asyncIterator]();
        expect(await observer.next()).to.deep.equal({ value: null, done: false });
        const next = observer.next();
        const ended = observer.return!();
        expect(await next).to.deep.equal({ value: undefined, done: true });
        expect(await ended).to.deep.equal({ value: undefined, done: true });
        expect(await observer.next()).to.deep.equal({ value: undefined, done: true });
      });

      it('H86: a leader that was lost without a word is missed when its lease ends', async () => {
        const lifetime = 3_000; // renewed each second: a busy machine may stop for two
        const election = newElection({ lifetime });
        await election.lead(async () => {
          await waitFor(() => election.leader());
          const seen: unknown[] = [];
          for await (const leader of newElection({ redis: here.elsewhere, lifetime }).observe()) {
            seen.push(brief(leader));
            if (seen.length === 2) break;
            await sleep(200); // the message that says that messages can be heard is over
            await here.remove(name);
          }
          await election.resign(); // it would campaign again
          expect(seen).to.deep.equal([[election.id, ''], null]);
        });
      });
    });

    it('its id is <host>:<pid>:<8 hex digits>, another for each', () => {
      const ids = [1, 2].map(() => newElection().id);
      for (const id of ids) expect(id).to.match(new RegExp(`^.+:${process.pid}:[0-9a-f]{8}$`));
      expect(ids[0]).to.not.equal(ids[1]);
    });

    it('close(): a campaign rejects, a leader is asked to stop and waited for, and every later call is refused', async () => {
      let begun = false;
      const leading = one.lead(async (term) => {
        begun = true;
        await aborted(term.signal);
        await sleep(50);
        return term.signal.reason.code;
      });
      await waitFor(() => begun);
      const campaign = failure(two.lead(() => expect.fail('it led')));
      await sleep(50);
      await two.close();
      expect((await campaign).code).to.equal('ERR_LOCK_CLOSED');
      await one.close();
      expect(await leading).to.equal('ERR_LOCK_CLOSED');
      expect(await here.holder(name)).to.equal(null);
      for (const call of [one.lead(() => {}), one.leader(), one.observe()[Symbol.asyncIterator]().next()]) {
        expect((await failure(call)).code).to.equal('ERR_LOCK_CLOSED');
      }
    });

    it('`timeout`: how long it campaigns', async () => {
      await here.seize(name);
      const impatient = newElection({ timeout: 50 });
      expect((await failure(impatient.lead(() => {}))).code).to.equal('ERR_LOCK_TIMEOUT');
    });

    it('H12: impossible arguments are refused before any I/O', async () => {
      const connection = await here.connection();
      const make = (options: object, of: unknown = name) => new Election(of as string, options as any);
      const { redis } = connection;
      for (const options of [
        {},
        { redis, id: '' },
        { redis, id: 5 },
        { redis, value: 'x'.repeat(4097) },
        { redis, value: 5 },
        { redis, lifetime: null },
        { redis, fencing: false },
        { redis, lifetme: 5 },
        { redis, lifetime: 0 },
      ]) {
        expect(() => make(options), JSON.stringify(Object.keys(options)))
          .to.throw()
          .with.property('code', 'ERR_LOCK_OPTION');
      }
      for (const of of ['', 5, [name], `${name}:queue`]) {
        expect(() => make({ redis }, of))
          .to.throw()
          .with.property('code', 'ERR_LOCK_OPTION');
      }
      const election = make({ redis }) as any;
      for (const args of [[], [5], [() => {}, { signal: 5 }], [() => {}, { timeout: 5 }], [() => {}, 5]]) {
        expect((await failure(election.lead(...args))).code).to.equal('ERR_LOCK_OPTION');
      }
      expect(() => election.observe({ signal: 5 }))
        .to.throw()
        .with.property('code', 'ERR_LOCK_OPTION');
      expect(await connection.calls()).to.equal(0);
    });
  },
  ({ isQuorum }) => !isQuorum,
);

describe('Election, on a quorum', () => {
  it('is refused by name before any I/O: it keeps nothing beside a lock', async () => {
    const { url } = await sharedRedis();
    const redis = await Promise.all([1, 2, 3].map(() => connect(url)));
    const election = new Election(uniqueKey(), { redis });
    for (const call of [
      election.lead(() => {}),
      election.leader(),
      election.observe()[Symbol.asyncIterator]().next(),
    ]) {
      expect(await failure(call)).to.include({ code: 'ERR_LOCK_BACKEND', retryable: false });
    }
  });
});
