import { expect } from 'chai';
import fc from 'fast-check';
import { defaults, settle, settleFor } from '../src/core/options';

/** The settings that the options give, or the error. */
function outcome(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    const { name, message, code } = error as Error & { code: string };
    return { name, message, code };
  }
}

const name = fc.constantFrom('lifetime', 'timeout', 'maxRetries', 'owner', 'prefix', 'fencing', 'bogus', 'toString');
const value = fc.constantFrom<unknown>(undefined, null, 0, 1, 1000, '', 'a', true, Object.prototype.toString, ['a']);
const change = fc.oneof(
  fc.record({ how: fc.constantFrom('set', 'hide', 'getter', 'delete'), name, value }),
  fc.record({ how: fc.constantFrom('new', 'copy', 'bare', 'heir') }),
);

type Change = { how: string; name?: string; value?: unknown };

function changed(options: Record<string, unknown>, { how, name, value }: Change): Record<string, unknown> {
  const define = (descriptor: PropertyDescriptor): object =>
    Object.defineProperty(options, name!, { configurable: true, ...descriptor });
  switch (how) {
    case 'set':
      return define({ value, enumerable: true, writable: true }) as Record<string, unknown>;
    case 'hide':
      return define({ value, enumerable: false, writable: true }) as Record<string, unknown>;
    case 'getter':
      return define({ get: () => value, enumerable: true }) as Record<string, unknown>;
    case 'delete':
      delete options[name!];
      return options;
    case 'copy':
      return { ...options };
    case 'bare':
      return Object.assign(Object.create(null), options);
    case 'heir':
      return Object.create(options);
    default:
      return {};
  }
}

describe('the options of the last call', () => {
  it('make the settings that they would make by themselves, whatever was changed between two calls', () => {
    const changes = fc.array(change as fc.Arbitrary<Change>, { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(changes, (all) => {
        const base = settle({ lifetime: 7, prefix: 'p:' });
        const settleCall = settleFor(base);
        let options: Record<string, unknown> = {};
        for (const each of all) {
          options = changed(options, each);
          const expected = outcome(() => settle(options, base));
          expect(outcome(() => settleCall(options))).to.deep.equal(expected);
          expect(outcome(() => settleCall(options))).to.deep.equal(expected);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('make one and the same settings for equal values, which nothing can change', () => {
    const settleCall = settleFor(defaults);
    const settings = settleCall({ lifetime: 5, timeout: 7 });
    expect(settleCall({ lifetime: 5, timeout: 7 })).to.equal(settings).and.to.be.frozen;
    expect(settleCall({ lifetime: 5, timeout: 8 })).to.include({ lifetimeMs: 5, timeoutMs: 8 });
    expect(settleCall(undefined)).to.equal(defaults);
  });

  it('are read once each', () => {
    let reads = 0;
    const options = {
      get lifetime() {
        reads += 1;
        return reads;
      },
    };
    const settleCall = settleFor(defaults);
    expect(settleCall(options).lifetimeMs).to.equal(1);
    expect(reads).to.equal(1);
  });

  it('are not kept where a client or a signal is among them (H77)', () => {
    const settleCall = settleFor(defaults);
    const { signal } = new AbortController();
    expect(settleCall({ signal })).to.not.equal(settleCall({ signal }));
    const redis = [{ kind: 'a', close: () => {} }];
    const settings = settleCall({ redis });
    redis.push({ kind: 'b', close: () => {} });
    expect(settleCall({ redis }).redis).to.have.length(2);
    expect(settings.redis).to.have.length(1);
  });
});
