/** H68 to H72: what people expect. */
import { drop, piece, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const people: readonly Protection[] = [
  {
    hazard: 'H68',
    without: 'the callback runs within the promise of the lock, which swallows what it throws',
    changes: [piece('H68', /nextTick\((\w+), (.*)\)/, '$1($2)'), piece('H68b', /nextTick\((\w+), (.*)\)/, '$1($2)')],
    test: 'contract/callback.test.ts',
  },
  {
    hazard: 'H68',
    without: 'a callback that throws is called again, with its own error',
    changes: [piece('H68', /nextTick\((\w+), (.*)\),$/, '$1($2)).catch(')],
    test: 'contract/callback.test.ts',
  },
  {
    hazard: 'H68',
    without: 'the callback of done runs within the promise of the release',
    changes: [piece('H68c', /nextTick\((\w+), (.*)\)/, '$1($2)'), piece('H68d', /nextTick\((\w+), (.*)\)/, '$1($2)')],
    test: 'contract/callback.test.ts',
  },
  {
    hazard: 'H69',
    without: 'the key is set without its lifetime',
    changes: [drop('H69')],
    test: 'contract/callback.test.ts',
  },
  {
    hazard: 'H69',
    without: 'nobody is warned',
    changes: [drop('H69b')],
    test: 'lease.test.ts',
  },
  {
    hazard: 'H69',
    without: 'the warning does not say where the lock was taken',
    changes: [piece('H69c', ', error: takenAt', '')],
    test: 'lease.test.ts',
  },
  {
    hazard: 'H70',
    without: 'a function that holds the lock waits for it without end',
    changes: [when('H70', true)],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H70',
    without: 'the error does not say who holds the lock',
    changes: [piece('H70b', 'heldByCaller(spec) ?? heldNearby(spec) + ', '')],
    test: 'contract/self-wait.test.ts',
  },
  {
    hazard: 'H70',
    without: 'the caller’s own locks are not known when its wait ends',
    changes: [piece('H70c', 'present()', 'undefined')],
    test: 'contract/self-wait.test.ts',
  },
  {
    hazard: 'H70',
    without: 'listeners of a signal run in the context of another caller',
    changes: [piece('H70d', 'AsyncLocalStorage.bind((loss) => aborter.abort(loss))', '(loss) => aborter.abort(loss)')],
    test: 'held-lock.test.ts',
  },
  {
    hazard: 'H70',
    without: 'code that outlives its function joins the lock that another function has joined',
    changes: [drop('H70e')],
    test: 'contract/reentrant.test.ts',
  },
  {
    hazard: 'H70',
    without: 'the lock is released while a function that joined it still runs',
    changes: [drop('H70f')],
    test: 'contract/reentrant.test.ts',
  },
  {
    hazard: 'H70',
    without: 'a wait that would end by itself counts as a deadlock',
    changes: [when('H70', 'own === undefined')],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H71',
    without: 'of several keys those that are free are taken, and kept while it waits for the others',
    changes: [
      piece(
        'H71',
        /^/,
        `  for i = 1, locks > 1 and locks or 0 do
    if free[i] then
      setLock(KEYS[i], token, ttl)
    end
  end
`,
      ),
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H72',
    without: 'a wait that ends while Redis is down says that the lock is held by somebody else',
    changes: [piece('H72', 'failure ?? ', '')],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H72',
    without: 'a timeout while Redis refuses says that the lock was not free',
    changes: [piece('H72b', 'failure ?? ', ''), piece('H72c', 'this.#failure ?? ', '')],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H72',
    without: 'tryLock says null whatever went wrong',
    changes: [when('H72d', false)],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H72',
    without: 'inspect says free of a Redis that does not answer',
    changes: [
      write(
        'H72e',
        '      return { locked: false, owner: null, remaining: 0, waiters: 0, fence: 0, mode: null, holders: [], queue: [] };',
      ),
    ],
    test: 'contract/inspect.test.ts',
  },
  {
    hazard: 'H72',
    without: 'keyLocked says false of a Redis that does not answer',
    changes: [piece('H72f', "('')", "('').catch(() => [])")],
    test: 'contract/lock.test.ts',
  },
];
