// Properties over whatever may be given as options or keys: it is refused by name, or it holds what the rest relies on.
import { expect } from 'chai';
import fc from 'fast-check';
import { companionOf, lockKey, peerKey } from '../src/core/keys';
import { settle } from '../src/core/options';

const names = [
  'lifetime',
  'maxRetries',
  'retryTimeout',
  'retryRatio',
  'maxRetryTimeout',
  'jitter',
  'timeout',
  'maxHold',
];
const others = [
  'autoExtend',
  'owner',
  'prefix',
  'fencing',
  'minReplicas',
  'commandTimeout',
  'signal',
  'expiry',
  '__proto__',
];

function refusedOr<T>(make: () => T, check: (made: T) => void): void {
  let made: T;
  try {
    made = make();
  } catch (error) {
    expect(error).to.satisfy((e: unknown) => e instanceof TypeError || e instanceof RangeError);
    expect(error).to.include({ code: 'ERR_LOCK_OPTION' });
    return;
  }
  check(made);
}

describe('whatever is given', () => {
  it('H12: options are refused by name, or complete and in range', () => {
    const value = fc.oneof(fc.anything(), fc.double(), fc.integer(), fc.nat(5000), fc.boolean());
    const given = fc.dictionary(fc.constantFrom(...names, ...others), value, { maxKeys: 3 });
    const property = fc.property(given, (options) => {
      refusedOr(
        () => settle(options),
        (settings) => {
          const { lifetimeMs } = settings;
          if (lifetimeMs !== null) expect(Number.isSafeInteger(lifetimeMs) && lifetimeMs >= 1).to.equal(true);
          expect(settings.maxRetries).to.be.at.least(0);
          expect(settings.retryTimeoutMs).to.be.at.least(0);
          expect(settings.retryRatio).to.be.at.least(1);
          expect(settings.jitter).to.be.within(0, 1);
          expect(settings.timeoutMs ?? 0).to.be.at.least(0);
          expect(settings.maxHoldMs).to.be.above(0);
          expect(Number.isSafeInteger(settings.commandTimeoutMs)).to.equal(true);
          expect(settings.fencing).to.be.a('boolean');
        },
      );
    });
    fc.assert(property, { numRuns: 3000 });
  });

  for (const [whose, keyOf] of Object.entries({ library: lockKey, shims: peerKey })) checkKeys(whose, keyOf);
});

/** Checks the keys that the library takes, or those of the shims. */
function checkKeys(whose: string, keyOf: typeof lockKey): void {
  it(`${whose}: H12, H57: a key is refused, or shares its cluster slot with companions that are no possible lock keys`, () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom('{', '}', 'a', ':', 'fence') }),
    );
    const property = fc.property(fc.oneof(text, fc.anything()), (key) => {
      refusedOr(
        () => keyOf(key, ''),
        (full) => {
          const companion = companionOf(full, 'queue');
          expect(hashed(companion)).to.equal(hashed(full));
          expect(() => keyOf(companion, '')).to.throw();
        },
      );
    });
    fc.assert(property, { numRuns: 3000 });
  });

  it(`${whose}: two keys never share a companion`, () => {
    const text = fc.string({ unit: fc.constantFrom('{', '}', 'a', 'b', ':', ':queue') });
    const property = fc.property(text, text, (one, other) => {
      fc.pre(one !== other);
      const companions = [one, other].map((key) => {
        try {
          return companionOf(keyOf(key, ''), 'queue');
        } catch {
          return Symbol('refused');
        }
      });
      expect(companions[0]).to.not.equal(companions[1]);
    });
    fc.assert(property, { numRuns: 3000 });
  });
}

/** The part of a key that a cluster hashes, by the cluster specification. */
function hashed(key: string): string {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}
