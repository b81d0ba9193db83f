// How long readers of one lock object join each other, by a clock that the test sets.
import { expect } from 'chai';
import type { Granted } from '../src/member';
import type { Grant, Mode } from '../src/store';
import type { Fetch, Fetcher, SharePosition, ShareWaiter } from '../src/wait/place';
import { mostJoins, Readers, windowMs } from '../src/wait/readers';

describe('readers that join', () => {
  const fetch: Fetch = { giveUp: () => {} };
  let nowMs: number;

  beforeEach(() => {
    nowMs = 1000;
  });

  function make(prefer: Mode['prefer']): { readers: Readers; join(): void; grant(): void; granted: Granted[] } {
    const mode: Mode = { kind: 'shared', prefer, group: '', permits: 1, most: 1, step: 0 };
    const terms = { key: 'k', lifetimeMs: 10_000, fencing: true, owner: undefined, mode };
    const never = (): never => expect.fail('nothing is sent');
    const readers = new Readers(terms, { nowMs: () => nowMs, acquire: never, extend: never, abandon: never });
    const granted: Granted[] = [];
    const waiter = {
      granted: (grant: Granted) => granted.push(grant),
      fetch: () => fetch,
    } as unknown as ShareWaiter;
    const join = (): void => {
      const position: SharePosition = { queue: readers, waiter, hasWaited: false, before: undefined, after: undefined };
      readers.join(position);
    };
    const grant = (): void => {
      const { monoMs, wallMs } = { monoMs: nowMs, wallMs: nowMs };
      const first: Grant = { token: 'first', fence: 7, sent: { monoMs, wallMs }, mayExecuteUntilMs: 0 };
      const others = 1; // a writer of another process
      (readers as Fetcher).granted(fetch, first, others);
    };
    return { readers, join, grant, granted };
  }

  for (const prefer of ['writer', 'fair', 'reader'] as const) {
    it(`'${prefer}': for ${windowMs} ms after the grant, ${mostJoins} at most, also where a writer of another process waits`, () => {
      const { readers, join, grant, granted } = make(prefer);
      join();
      grant();
      nowMs += windowMs - 0.1;
      for (let n = 0; n < mostJoins; n += 1) {
        expect(readers.accepts(), `${n}`).to.equal(true);
        join();
      }
      expect(readers.accepts()).to.equal(false);
      expect(granted.map(({ fence }) => fence)).to.deep.equal(Array(1 + mostJoins).fill(7));
      expect(new Set(granted.map(({ token }) => token)).size).to.equal(1 + mostJoins);
    });

    it(`'${prefer}': not after that, and not once they are closed for a writer of the same lock object`, () => {
      const late = make(prefer);
      late.join();
      late.grant();
      nowMs += windowMs;
      expect(late.readers.accepts()).to.equal(false);
      const closed = make(prefer);
      closed.join();
      closed.readers.close();
      closed.grant();
      expect(closed.readers.accepts()).to.equal(false);
    });
  }
});
