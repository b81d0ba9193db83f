/** H37 to H47: readers and writers. */
import type { Protection } from './protection';

export const sharing: readonly Protection[] = [
  {
    hazard: 'H37',
    without: 'the preference for readers is compared with a number',
    changes: [
      {
        file: 'scripts/waiters.lua',
        from: "if kind == 'u' or (kind == 'r' and prefer == 'r') then",
        to: "if kind == 'u' or (kind == 'r' and prefer == 1) then",
      },
    ],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H38',
    without: 'the holders of a key have no end',
    changes: [
      {
        file: 'scripts/holders.lua',
        from: "call('PEXPIRE', lock, string.format('%.0f', ms))",
        to: "call('PERSIST', lock)",
      },
    ],
    test: 'redis/ends-of-holders.test.ts',
  },
  {
    hazard: 'H38',
    without: 'a reader whose end has passed is released as if it still read',
    changes: [{ file: 'scripts/release-shared.lua', from: 'elseif ends <= now then\n  reply = 0\n', to: '' }],
    test: 'redis/ends-of-holders.test.ts',
  },
  {
    hazard: 'H39',
    without: 'the release of a reader that is gone removes another holder',
    changes: [
      {
        file: 'scripts/release-shared.lua',
        from: '  local found = held.of[ARGV[1]]\n',
        to: '  local _, found = next(held.of)\n',
      },
    ],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H40',
    without: 'a reader that joins sets the end of all',
    changes: [
      {
        file: 'scripts/acquire-shared.lua',
        from: "  call('ZADD', lock, 'GT', score, new.text)\n",
        to: "  call('ZADD', lock, 'GT', score, new.text)\n  for _, each in ipairs(call('ZRANGE', lock, 0, -1)) do\n    call('ZADD', lock, score, each)\n  end\n",
      },
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H40',
    without: 'the first reader sets the end of the key',
    changes: [
      {
        file: 'scripts/holders.lua',
        from: "if not check(lock).isForeign or call('PTTL', lock) < ms then",
        to: "if call('PTTL', lock) < 0 then",
      },
    ],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H41',
    without: 'all readers have one token',
    changes: [
      {
        file: 'wait/attempt.ts',
        from: 'const token = change?.token ?? newToken(owner);',
        to: "const token = change?.token ?? (mode?.kind === 'shared' ? 'reader' : newToken(owner));",
      },
      {
        file: 'wait/readers.ts',
        from: 'const token = this.#holders.size === 0 ? this.token : newToken(this.#terms.owner);',
        to: 'const { token } = this;',
      },
    ],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H42',
    without: 'readers of all groups share',
    changes: [
      {
        file: 'scripts/wake.lua',
        from: "return held.count == 0 or (held.kind == 'r' and held.group == each.group)",
        to: "return held.count == 0 or held.kind == 'r'",
      },
      { file: 'scripts/holders.lua', from: ' or last.group ~= group or', to: ' or' },
    ],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H43',
    without: 'a writer that gives up leaves its entry in the queue',
    changes: [
      {
        file: 'acquire.ts',
        from: 'if (this.#attempts.mayExecuteUntilMs > 0 || this.#shared?.isQueued) this.#abandon();',
        to: 'if (this.#attempts.mayExecuteUntilMs > 0) this.#abandon();',
      },
    ],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H43',
    without: 'a writer that is granted deletes the queue',
    changes: [
      {
        file: 'scripts/acquire-shared.lua',
        from: "  if kind == 'w' and others > 0 then\n    call('ZREMRANGEBYSCORE', queue, '-inf', '(0')\n",
        to: "  if kind == 'w' and others > 0 then\n    call('DEL', queue)\n",
      },
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H44',
    without: 'all calls with the same options have one token',
    changes: [
      {
        file: 'wait/attempt.ts',
        from: '    const token = change?.token ?? newToken(owner);\n',
        to: '    const last = tokens.get(settings) ?? newToken(owner);\n    tokens.set(settings, last);\n    const token = change?.token ?? last;\n',
      },
      {
        file: 'wait/attempt.ts',
        from: '/** What the attempts are for. */\n',
        to: 'const tokens = new WeakMap<Settings, string>();\n/** What the attempts are for. */\n',
      },
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H45',
    without: 'the result of a renewal is ignored',
    changes: [
      {
        file: 'upkeep.ts',
        from: "    if (reply.outcome === 'extended') this.#held.confirm(reply.sent, lifetimeMs, exact);\n    else this.#held.lose(reply.outcome);\n    const extended = reply.outcome === 'extended';\n",
        to: '    this.#held.confirm(asked, lifetimeMs, exact);\n    const extended = true;\n',
      },
    ],
    test: 'redis/go-original.test.ts',
  },
  {
    hazard: 'H46',
    without: 'two readers that upgrade wait for each other',
    changes: [
      {
        file: 'scripts/acquire-shared.lua',
        from: "  if first and first.kind == 'u' and first.token ~= token then\n    return { -2, 0, 0, now }\n  end\n",
        to: '',
      },
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H47',
    without: 'the key ends with the lifetime of the last caller',
    changes: [
      {
        file: 'scripts/acquire-shared.lua',
        from: '    enter(locks[lock], new, ends)\n  end\n  setEnd(lock)\n',
        to: "    enter(locks[lock], new, ends)\n  end\n  call('PEXPIRE', lock, ARGV[2])\n",
      },
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H47',
    without: 'a holder counts for as long as the key lasts',
    changes: [
      { file: 'scripts/holders.lua', from: "local from = string.format('(%.0f', now)", to: "local from = '-inf'" },
    ],
    test: 'contract/semaphore.test.ts',
  },
];
