/** H68 to H72: what people expect. */
import type { Protection } from './protection';

export const people: readonly Protection[] = [
  {
    hazard: 'H68',
    without: 'the callback runs within the promise of the lock, which swallows what it throws',
    changes: [
      {
        file: 'with-lock.ts',
        from: '(lease) => nextTick(deliver, lease, callback),\n      (error) => nextTick(callback, error),',
        to: '(lease) => deliver(lease, callback),\n      (error) => callback(error),',
      },
    ],
    test: 'contract/callback.test.ts',
  },
  {
    hazard: 'H68',
    without: 'a callback that throws is called again, with its own error',
    changes: [
      {
        file: 'with-lock.ts',
        from: '.then(\n      (lease) => nextTick(deliver, lease, callback),\n      (error) => nextTick(callback, error),\n    );',
        to: '.then((lease) => deliver(lease, callback)).catch((error) => nextTick(callback, error));',
      },
    ],
    test: 'contract/callback.test.ts',
  },
  {
    hazard: 'H68',
    without: 'the callback of done runs within the promise of the release',
    changes: [
      {
        file: 'lease.ts',
        from: '(value) => nextTick(callback as (err: null, released: boolean) => void, null, value),\n    (error) => nextTick(callback as (err: Error) => void, error),',
        to: '(value) => callback(null, value),\n    (error) => callback(error),',
      },
    ],
    test: 'contract/callback.test.ts',
  },
  {
    hazard: 'H69',
    without: 'the key is set without its lifetime',
    changes: [{ file: 'scripts/acquire.lua', from: "    call('PEXPIRE', KEYS[1], ttl)\n", to: '' }],
    test: 'contract/callback.test.ts',
  },
  {
    hazard: 'H69',
    without: 'nobody is warned',
    changes: [
      {
        file: 'lease.ts',
        from: '  if (takenAt !== undefined) warnIfForgotten(held, takenAt);\n',
        to: '',
      },
    ],
    test: 'lease.test.ts',
  },
  {
    hazard: 'H69',
    without: 'the warning does not say where the lock was taken',
    changes: [
      {
        file: 'lease.ts',
        from: "code: 'never-released', message, error: takenAt",
        to: "code: 'never-released', message",
      },
    ],
    test: 'lease.test.ts',
  },
  {
    hazard: 'H70',
    without: 'a function that holds the lock waits for it without end',
    changes: [
      {
        file: 'acquire.ts',
        from: '    if (own?.isEndless) return this.#fail(deadlock(key, own));\n',
        to: '',
      },
    ],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H70',
    without: 'the error does not say who holds the lock',
    changes: [
      {
        file: 'wanted.ts',
        from: 'new LockTimeoutError(message + ownFault(wanted), { key })',
        to: 'new LockTimeoutError(message, { key })',
      },
    ],
    test: 'contract/self-wait.test.ts',
  },
  {
    hazard: 'H70',
    without: 'a wait that would end by itself counts as a deadlock',
    changes: [{ file: 'acquire.ts', from: 'if (own?.isEndless) return', to: 'if (own !== undefined) return' }],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H71',
    without: 'of several keys those that are free are taken, and kept while it waits for the others',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: '  if mayQueue then\n    return answer(',
        to: [
          '  for i = 1, locks > 1 and locks or 0 do',
          '    if free[i] then',
          '      setLock(KEYS[i], token, ttl)',
          '    end',
          '  end',
          '  if mayQueue then',
          '    return answer(',
        ].join('\n'),
      },
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H72',
    without: 'a wait that ends while Redis is down says that the lock is held by somebody else',
    changes: [
      {
        file: 'acquire.ts',
        from: 'return this.#fail(this.#failure ?? tooMany(this.awaited.key, count));',
        to: 'return this.#fail(tooMany(this.awaited.key, count));',
      },
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H72',
    without: 'a timeout while Redis refuses says that the lock was not free',
    changes: [
      {
        file: 'acquire.ts',
        from: 'return this.#fail(this.#failure ?? this.#timedOut());',
        to: 'return this.#fail(this.#timedOut());',
      },
      {
        file: 'acquire.ts',
        from: 'this.giveUp(this.#failure ?? this.#timedOut());',
        to: 'this.giveUp(this.#timedOut());',
      },
    ],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H72',
    without: 'tryLock says null whatever went wrong',
    changes: [
      {
        file: 'run.ts',
        from: '    if (error instanceof TooManyLockAttemptsError) return null;\n    throw error;\n',
        to: '    return null;\n',
      },
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H72',
    without: 'inspect says free of a Redis that does not answer',
    changes: [
      {
        file: 'with-lock.ts',
        from: '      throw forKey(error, key);\n',
        to: '      return { locked: false, owner: null, remaining: 0, waiters: 0, fence: 0, mode: null, holders: [], queue: [] };\n',
      },
    ],
    test: 'contract/inspect.test.ts',
  },
  {
    hazard: 'H72',
    without: 'keyLocked says false of a Redis that does not answer',
    changes: [
      {
        file: 'lock.ts',
        from: "(await this.#inspect('')).some",
        to: "(await this.#inspect('').catch(() => [])).some",
      },
    ],
    test: 'contract/lock.test.ts',
  },
];
