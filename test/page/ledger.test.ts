// The rows that the ledger makes of its snapshots: which rows have which badges, and which come first.
import { expect } from 'chai';
import { foreignHolders, type HolderState } from '../../src/core/lock-state';
import type { SeenLock } from '../../src/inspect/snapshot';
import { Ledger, maxRows } from '../../src/tools/page/ledger';
import type { PageSnapshot } from '../../src/tools/page/source';

const second = 1000;
const startMs = 1_700_000_000_000;

interface Scene {
  /** The time for which each holder has held; undefined if nobody knows. */
  readonly held?: readonly (number | undefined)[];
  readonly waited?: readonly number[];
  readonly isForeign?: boolean;
  readonly remaining?: number;
}

/** A lock as it was read now. */
function lock(key: string, scene: Scene): SeenLock {
  const { held = [], waited = [], isForeign = false, remaining = 10 * second } = scene;
  const facts = { owner: 'o', kind: 'exclusive', permits: 1 } as const;
  const holders = held.map((_, n): HolderState => {
    const holder = { id: `0000000${n}`, ...facts, remaining };
    if (isForeign) foreignHolders.add(holder);
    return holder;
  });
  const holds = held.flatMap((heldMs, n) => {
    return heldMs === undefined
      ? []
      : { key, process: 'p', id: `0000000${n}`, ...facts, since: readMs - heldMs, fence: 1, until: null };
  });
  const queue = waited.map((waitingMs) => ({ owner: 'w', kind: 'exclusive' as const, waitingMs }));
  const mode = held.length === 0 ? null : 'exclusive';
  const state = {
    locked: held.length > 0,
    owner: 'o',
    remaining,
    waiters: queue.length,
    fence: 1,
    mode,
    holders,
    queue,
  };
  return { lock: { key, ...state } as SeenLock['lock'], holds, atMs: readMs };
}

/** The time of each read by the store's clock, which is far from that of this process. */
const readMs = 5_000_000;
const seen = (...locks: SeenLock[]): PageSnapshot => ({
  isFirst: false,
  atMs: readMs,
  locks,
  silent: new Set(),
  losses: [],
  coverage: '',
});
const first = (...locks: SeenLock[]): PageSnapshot => ({ ...seen(...locks), isFirst: true });

describe('the ledger of the live page', () => {
  /** The badges of a lock that is first seen like this. */
  function badges(scene: Scene): readonly string[] {
    const ledger = new Ledger();
    ledger.update(first(lock('k', scene)), startMs);
    return ledger.rows()[0]!.badges;
  }

  it('a process that waits for 30 s, while nobody else was granted the lock: `long wait`', () => {
    expect(badges({ held: [3600 * second], waited: [31 * second, 2 * second] })).to.deep.equal(['long wait']);
    expect(badges({ held: [3600 * second], waited: [29 * second] })).to.deep.equal([]);
    expect(badges({ held: [3600 * second] })).to.deep.equal([]);
  });

  it('a queue that moves is only busy, however long each process waits in it', () => {
    expect(badges({ held: [2 * second], waited: [600 * second] })).to.deep.equal([]);
    expect(badges({ held: [3600 * second, 2 * second], waited: [600 * second] })).to.deep.equal([]);
  });

  it('a holder that came before the page was opened may have held it for long', () => {
    expect(badges({ held: [undefined], waited: [31 * second] })).to.deep.equal(['long wait']);
    const ledger = new Ledger();
    ledger.update(first(), startMs);
    ledger.update(seen(lock('k', { held: [undefined], waited: [31 * second] })), startMs + second);
    expect(ledger.rows()[0]!.badges).to.deep.equal([]);
    const later = lock('k', { held: [undefined], waited: [61 * second] });
    expect(ledger.update(seen(later), startMs + 31 * second).rows[0]!.badges).to.deep.equal(['long wait']);
  });

  it('a free lock is stuck, but nobody hangs', () => {
    const ledger = new Ledger();
    ledger.update(first(lock('k', { waited: [60 * second] })), startMs);
    ledger.update(seen(lock('k', { waited: [64 * second] })), startMs + 4 * second);
    expect(ledger.rows()[0]!.badges).to.deep.equal(['queue stuck']);
  });

  it('of more rows than are shown, a hung holder comes first, then the other badges in their order', () => {
    const locks = [
      ...Array.from({ length: maxRows }, (_, n) => lock(`plain-${n}`, { held: [n], waited: [n] })),
      lock('foreign', { held: [undefined], isForeign: true }),
      lock('endless', { held: [1], remaining: Number.POSITIVE_INFINITY }),
      lock('silent', { held: [1] }),
      lock('stuck', { held: [1], waited: [1], isForeign: true, remaining: Number.POSITIVE_INFINITY }),
      lock('hung', { held: [3600 * second], waited: [31 * second] }),
    ];
    const ledger = new Ledger();
    ledger.update({ ...first(...locks), silent: new Set(['silent']) }, startMs);
    const shown = ledger.rows();
    expect(shown).to.have.length(maxRows);
    expect(shown.slice(0, 5).map(({ key }) => key)).to.deep.equal(['hung', 'stuck', 'silent', 'endless', 'foreign']);
    expect(shown[5]!.key).to.equal(`plain-${maxRows - 1}`);
  });
});
