/** H37 to H47: readers and writers. */
import { drop, operand, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const sharing: readonly Protection[] = [
  {
    hazard: 'H37',
    without: 'the preference for readers is compared with a number',
    changes: [operand('H37', 2, false)],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H38',
    without: 'the holders of a key have no end',
    changes: [piece('H38', /'PEXPIRE', (\w+),.*\)/, "'PERSIST', $1)")],
    test: 'redis/ends-of-holders.test.ts',
  },
  {
    hazard: 'H38',
    without: 'a reader whose end has passed is released as if it still read',
    changes: [when('H38b', false)],
    test: 'redis/ends-of-holders.test.ts',
  },
  {
    hazard: 'H39',
    without: 'the release of a reader that is gone removes another holder',
    changes: [write('H39', '  local _, found = next(held.of)')],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H40',
    without: 'a reader that joins sets the end of all',
    changes: [
      piece(
        'H40',
        /^/,
        `  for _, each in ipairs(call('ZRANGE', lock, 0, -1)) do
    call('ZADD', lock, score, each)
  end
`,
      ),
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H40',
    without: 'the first reader sets the end of the key',
    changes: [when('H40b', "call('PTTL', lock) < 0")],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H41',
    without: 'all readers have one token',
    changes: [
      piece('H41', 'newToken(owner)', "(mode?.kind === 'shared' ? 'reader' : newToken(owner))"),
      when('H41b', true),
    ],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H42',
    without: 'readers of all groups share',
    changes: [piece('H42', / and [^()]*(?=\))/, ''), operand('H42b', 3, false)],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H43',
    without: 'a writer that gives up leaves its entry in the queue',
    changes: [operand('H43', 2, false)],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H43',
    without: 'a writer that is granted deletes the queue',
    changes: [piece('H43b', /'Z.*\)/, "'DEL', queue)")],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H44',
    without: 'all calls with the same options have one token',
    changes: [
      piece(
        'H44',
        'newToken(owner)',
        '((all) => all.get(settings) ?? all.set(settings, newToken(owner)).get(settings))(((newToken as any).all ??= new WeakMap()))',
      ),
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H45',
    without: 'the result of a renewal is ignored',
    changes: [write('H45', '  held.confirm(asked, lifetimeMs, exact);'), value('H45b', 'true')],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H46',
    without: 'two readers that upgrade wait for each other',
    changes: [drop('H46')],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H47',
    without: 'the key ends with the lifetime of the last caller',
    changes: [piece('H47', 'setEnd(lock)', "call('PEXPIRE', lock, ARGV[2])")],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H47',
    without: 'a holder counts for as long as the key lasts',
    changes: [when('H47b', true)],
    test: 'contract/semaphore.test.ts',
  },
];
