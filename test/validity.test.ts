// How long a lock is valid, by two clocks, when an extension got no reply: it may have set its end, or may still do so.
import { expect } from 'chai';
import { tooLate, Validity, validFrom } from '../src/hold/validity';
import type { Clock } from '../src/store/contract';

/** The difference by which one clock may be behind the other. */
const clockStepMs = 2;
/** Both clocks at once: the wall clock began 5,000 ms earlier. */
const at = (ms: number) => ({ monoMs: ms, wallMs: ms + 5_000 });
const leftAt = (validity: Validity, monoMs: number, wallMs = monoMs + 5_000): number =>
  validity.leftMs({ nowMs: () => monoMs, wallMs: () => wallMs } as Clock);
const granted = new Validity(at(1_000), 10_000);

describe('validity', () => {
  it('counts from the sending, less a thousandth, and is over when either clock says so (H6, H18)', () => {
    expect(leftAt(granted, 1_000)).to.equal(9_990);
    expect(leftAt(granted, 4_000)).to.equal(6_990);
    expect(leftAt(granted, 4_000, 14_000)).to.equal(1_990);
    expect(leftAt(granted, 10_000, 9_000)).to.equal(990);
  });

  it('a grant by message counts from its request, for as long as it is provisional (H83)', () => {
    const provisional = Validity.provisional(at(1_000), 2_000);
    expect(provisional.sent).to.deep.equal(at(1_000));
    expect(leftAt(provisional, 1_500)).to.equal(1_498);
    expect(leftAt(provisional, 1_500, 7_500)).to.equal(498);
    expect(leftAt(provisional.confirmed(at(1_600), 10_000, false), 1_600)).to.equal(9_990);
  });

  it('H63: a grant that took too long says which key, how long, and of what; by the clock that says so first', () => {
    const clocks = (monoMs: number, wallMs: number) => ({ nowMs: () => monoMs, wallMs: () => wallMs });
    const error = tooLate(['a', 'b'], at(1_000), 10, clocks(1_012.6, 6_012))!;
    expect(error).to.include({ code: 'ERR_LOCK_BACKEND' });
    expect(error.message).to.equal('the grant of "a", "b" took 13 ms, its lifetime is 10 ms');
    expect(error.key).to.deep.equal(['a', 'b']);
    expect(tooLate('a', at(1_000), 10, clocks(1_001, 6_010))?.message).to.include('took 10 ms');
    expect(tooLate('a', at(1_000), 10, clocks(1_009.9, 6_009.9))).to.equal(undefined);
    expect(tooLate('a', at(1_000), null, clocks(9_999, 9_999))).to.equal(undefined);
  });

  it('a renewal never makes the end sooner, an exact extension may', () => {
    expect(leftAt(granted.confirmed(at(2_000), 1_000, false), 2_000)).to.equal(8_990);
    expect(leftAt(granted.confirmed(at(2_000), 1_000, true), 2_000)).to.equal(999);
  });

  it('an end that one renewal kept is kept by the next', () => {
    const kept = granted.confirmed(at(2_000), 1_000, false).confirmed(at(3_000), 1_000, false);
    expect(leftAt(kept, 3_000)).to.equal(7_990);
  });

  it('what was granted together, on the same terms, has the same validity, and nothing else has', () => {
    const [sent, later] = [at(1_000), at(2_000)];
    const grant = { token: 'a', fence: 1, sent };
    expect(leftAt(validFrom(grant, 10_000), 1_000)).to.equal(9_990);
    expect(validFrom(grant, 10_000)).to.equal(validFrom(grant, 10_000));
    expect(leftAt(validFrom(grant, 1_000), 1_000)).to.equal(999);
    expect(leftAt(validFrom(grant, 10_000), 1_000)).to.equal(9_990);
    expect(leftAt(validFrom({ ...grant, sent: later }, 10_000), 2_000)).to.equal(9_990);
    expect(leftAt(validFrom({ ...grant, provisionalMs: 2_000 }, 10_000), 1_000)).to.equal(1_998);
  });

  describe('after an extension without a reply (H14)', () => {
    const uncertain = granted.uncertain(at(2_000), 3_000, 2_500);
    const until = 2_500 + clockStepMs;

    it('nothing is certain until it is too late to be executed, and not at that very moment', () => {
      expect(granted.isCertain).to.equal(true);
      expect(granted.isCertainBy(0)).to.equal(true);
      expect(uncertain.isCertain).to.equal(false);
      expect(uncertain.isCertainBy(until - 1)).to.equal(false);
      expect(uncertain.isCertainBy(until)).to.equal(false);
      expect(uncertain.isCertainBy(until + 1)).to.equal(true);
    });

    it('it changes nothing by itself: Redis has not said that it ran', () => {
      expect(leftAt(uncertain, 2_000)).to.equal(8_990);
    });

    it('what is confirmed meanwhile ends with it at the latest, by both clocks', () => {
      const next = uncertain.confirmed(at(until), 10_000, true);
      expect(leftAt(next, 2_000)).to.equal(3_000);
      expect(leftAt(next, 2_000, 9_000)).to.equal(1_000);
      expect(next.isCertain).to.equal(false);
    });

    it('what was sent when it was too late counts in full, and all is certain again', () => {
      const next = uncertain.confirmed(at(until + 1), 10_000, true);
      expect(leftAt(next, until + 1)).to.equal(9_990);
      expect(next.isCertain).to.equal(true);
    });

    it('of two, the sooner end and the later moment count', () => {
      const two = uncertain.uncertain(at(2_100), 1_000, 2_400);
      expect(two.isCertainBy(until)).to.equal(false);
      expect(two.isCertainBy(until + 1)).to.equal(true);
      expect(leftAt(two.confirmed(at(2_200), 10_000, true), 2_100)).to.equal(1_000);
      const later = uncertain.uncertain(at(2_100), 9_000, 2_600);
      expect(later.isCertainBy(until + 1)).to.equal(false);
      expect(leftAt(later.confirmed(at(2_200), 10_000, true), 2_000)).to.equal(3_000);
    });
  });
});
