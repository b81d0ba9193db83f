/** H1 to H12: a lock is acquired. */
import type { Protection } from './protection';

export const acquire: readonly Protection[] = [
  {
    hazard: 'H1',
    without: 'the script takes any lifetime: the key is set, and its time to live fails',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: "  if not ms or ms < 1 or ms > 9007199254740991 or not string.find(ttl, '^%d+$') then",
        to: '  if ms and ms < 1 then',
      },
    ],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H1',
    without: 'an extension may be to a fraction, or to less than nothing',
    changes: [
      {
        file: 'scripts/extend.lua',
        from: 'if not lifetime or lifetime % 1 ~= 0 or lifetime < 0 or lifetime > 9007199254740991 then',
        to: 'if not lifetime or lifetime ~= lifetime then',
      },
    ],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H1',
    without: 'a lifetime is any number, and sent as it is',
    changes: [
      {
        file: 'options.ts',
        from: 'possible: (value) => value === null || lifetimeRule.possible(value),',
        to: 'possible: always,',
      },
    ],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H2',
    without: 'the repeated request has a token of its own, and waits for what the first one got',
    changes: [
      {
        file: 'wait/attempt.ts',
        from: 'if (store.isQuorum) this.#request = undefined;',
        to: 'this.#request = undefined;',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H2',
    without: 'a lock that has the caller’s own token is busy',
    changes: [{ file: 'scripts/acquire.lua', from: 'if holder ~= token then', to: 'if holder then' }],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H2',
    without: 'the repeated request mints another fence',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: 'local first = next(free) == nil and count > 0 and last > 0 and last - count + 1 or mint(fence, count, least)',
        to: 'local first = mint(fence, count, least)',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H2',
    without: 'a lock without an end has none before its caller has heard of it',
    changes: [
      {
        file: 'stores/redis/commands.ts',
        from: 'export const probationMs = 10_000;',
        to: 'export const probationMs = Number.MAX_SAFE_INTEGER;',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'the script does not look at its last moment',
    changes: [{ file: 'scripts/acquire.lua', from: 'if now > notAfter then', to: 'if notAfter < 0 then' }],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'a request is good for ever',
    changes: [
      {
        file: 'stores/redis/commands.ts',
        from: 'notAfter: Math.ceil(notAfter),',
        to: 'notAfter: Number.MAX_SAFE_INTEGER,',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'what a client cannot send now is left to its offline queue',
    changes: [
      {
        file: 'stores/redis/transport.ts',
        from: "return this.#client.readiness() === 'ready';",
        to: "return this.#client.readiness() !== 'closed';",
      },
    ],
    test: 'redis/clients.test.ts',
  },
  {
    hazard: 'H3',
    without: 'acquires of one tick do not look at their last moment',
    changes: [
      {
        file: 'scripts/plain.lua',
        from: 'areUsual = now <= tonumber(notAfter) and isLifetime(ttl)',
        to: 'areUsual = isLifetime(ttl)',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'the short way of the shims does not look at its last moment',
    changes: [
      {
        file: 'scripts/take.lua',
        from: 'if tonumber(fence) > tonumber(ARGV[3]) then',
        to: 'if tonumber(ARGV[3]) < 0 then',
      },
    ],
    test: 'redis/direct.test.ts',
  },
  {
    hazard: 'H3',
    without: 'the server’s clock is taken for what it was when the request was sent, however long that was under way',
    changes: [
      {
        file: 'stores/redis/server-clock.ts',
        from: 'if (!this.#isKnown || this.offsetMs > most) this.#offsetMs = least;\n    else this.#offsetMs = Math.max(this.offsetMs, least);',
        to: 'this.#offsetMs = Math.max(most, least);',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'a table in memory does not look at the last moment of a request',
    changes: [
      {
        file: 'stores/embedded/mutex-machine.ts',
        from: "slots: command.slots }, micros);\n    const nowMs = Math.floor(micros / 1000);\n    if (nowMs > command.notAfterMs) return { outcome: 'late' };",
        to: 'slots: command.slots }, micros);\n    const nowMs = Math.floor(micros / 1000);',
      },
    ],
    test: 'embedded/mutex-machine.test.ts',
  },
  {
    hazard: 'H4',
    without: 'what Redis runs twice mints two fences',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: 'local first = next(free) == nil and count > 0 and last > 0 and last - count + 1 or mint(fence, count, least)',
        to: 'local first = mint(fence, count, least)',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H4',
    without: 'what Redis runs twice sets the end anew, even if it is sooner',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: 'ours[i] = math.max(ms, tonumber(ttl))',
        to: 'ours[i] = tonumber(ttl)',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H5',
    without: 'any list is read as numbers',
    changes: [
      {
        file: 'stores/redis/replies.ts',
        from: 'if (Array.isArray(reply) && reply.length === length && reply.every(Number.isSafeInteger)) return reply;',
        to: 'if (Array.isArray(reply)) return reply.map(Number);',
      },
    ],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H5',
    without: 'any number but 0 is a grant',
    changes: [
      {
        file: 'stores/redis/commands.ts',
        from: 'return Number.isSafeInteger(only) && (only as number) > leastMicros ? (only as number) : undefined;',
        to: 'return Number(only) > 0 ? Number(only) : undefined;',
      },
    ],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H5',
    without: 'an unknown reply counts as “busy”: what it may have granted is not released',
    changes: [
      {
        file: 'stores/redis/replies.ts',
        from: 'return new LockBackendError(message, { key, unknown: true });',
        to: 'return new LockBackendError(message, { key });',
      },
    ],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H5',
    without: 'any reply but 0 says that a lock was released',
    changes: [
      {
        file: 'stores/redis/commands.ts',
        from: "if (reply === 1 && typeof keys === 'string') return 'released';",
        to: "if (Number(reply) !== 0) return 'released';",
      },
    ],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H6',
    without: 'the validity counts from the reply',
    changes: [
      {
        file: 'stores/redis/store.ts',
        from: 'return this.#acquired(reply, request, sent) ?? this.#acquireSlowly(request, true);',
        to: 'return this.#acquired(reply, request, now()) ?? this.#acquireSlowly(request, true);',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H6',
    without: 'a grant that came too late is given out all the same',
    changes: [{ file: 'acquire.ts', from: 'if (held.remaining() > 0) return', to: 'if (held) return' }],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H6',
    without: 'a grant that came too late is refused, and not released',
    changes: [
      {
        file: 'acquire.ts',
        from: 'this.troubled(tooLate(key, tookMs, settings.lifetimeMs));\n    this.#abandon();',
        to: 'this.troubled(tooLate(key, tookMs, settings.lifetimeMs));',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H7',
    without: 'user code runs under a grant that was valid when its reply was read',
    changes: [{ file: 'run.ts', from: 'if (loss === undefined) return lease;', to: 'return lease;' }],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H7',
    without: 'a grant that is over before user code runs is refused, and not released',
    changes: [{ file: 'run.ts', from: '  void heldLockOf(lease).releaseQuietly();\n', to: '' }],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H8',
    without: 'a caller that gives up forgets the attempt that is under way',
    changes: [
      {
        file: 'acquire.ts',
        from: '    this.#attempts.giveUp();\n    this.#fail(error);',
        to: '    this.#fail(error);',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H8',
    without: 'what was given up is released once, whether that was heard or not',
    changes: [
      {
        file: 'stores/redis/abandoned.ts',
        from: 'if (isReleased && leftMs <= 0) return;',
        to: 'if (isReleased || leftMs > 0) return;',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H8',
    without: 'a request that nobody waits for any more is still sent',
    changes: [{ file: 'wait/attempt.ts', from: 'return !this.#caller.isSettled;', to: 'return true;' }],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H9',
    without: 'listeners are called as those of an EventEmitter',
    changes: [
      {
        file: 'observation.ts',
        from: 'lostChannel.publish(event);',
        to: 'for (const listener of (lostChannel as any)._subscribers) listener(event);',
      },
    ],
    test: 'redis/diagnostics.test.ts',
  },
  {
    hazard: 'H9',
    without: 'what a listener of `error` throws reaches the code that emits the event',
    changes: [
      {
        file: 'compat/attempts.ts',
        from: "    try {\n      this.emit('error', error);\n    } catch (thrown) {\n      process.nextTick(() => {\n        throw thrown;\n      });\n    }",
        to: "    this.emit('error', error);",
      },
    ],
    test: 'shims/redlock.test.ts',
  },
  {
    hazard: 'H10',
    without: 'a key of another type is busy',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: "  local holder = call('GET', KEYS[i])",
        to: "  local holder = attempt('GET', KEYS[i])",
      },
    ],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H10',
    without: 'every error of Redis is waited out',
    changes: [
      {
        file: 'stores/redis/replies.ts',
        from: 'const retryable = temporary.has(redisCode) || /max number of clients/i.test(text);',
        to: 'const retryable = true;',
      },
    ],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H10',
    without: '`inspect` takes a string without an end for one that has ended',
    changes: [
      {
        file: 'stores/redis/inspection.ts',
        from: 'const remaining = token === undefined ? 0 : leftMs < 0 ? Number.POSITIVE_INFINITY : leftMs;',
        to: 'const remaining = Math.max(leftMs, 0);',
      },
    ],
    test: 'contract/inspect.test.ts',
  },
  {
    hazard: 'H11',
    without: 'tokens are made of Math.random()',
    changes: [
      {
        file: 'token.ts',
        from: '  randomFillSync(pool);',
        to: '  for (let i = 0; i < pool.length; i += 1) pool[i] = Math.floor(Math.random() * 256);',
      },
    ],
    test: 'token.test.ts',
  },
  {
    hazard: 'H11',
    without: 'a release is published with its token',
    changes: [
      {
        file: 'observation.ts',
        from: 'const event: ReleaseEvent = { ...eventOf(held), heldMs: heldMs(held), released, fence };',
        to: 'const event: any = { ...eventOf(held), heldMs: heldMs(held), released, fence, token: (held as any).token };',
      },
    ],
    test: 'redis/diagnostics.test.ts',
  },
  {
    hazard: 'H11',
    without: 'the token is an enumerable property of the lease',
    changes: [
      {
        file: 'lease.ts',
        from: '  if (autoExtend) held.upkeep.startRenewing(lease);',
        to: "  Object.defineProperty(lease, 'token', { value: held.token, enumerable: true });\n  if (autoExtend) held.upkeep.startRenewing(lease);",
      },
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H12',
    without: 'a string is the list of its letters',
    changes: [
      {
        file: 'keys.ts',
        from: "  if (typeof key === 'string') return lockKey(key, prefix);\n  if (!Array.isArray(key)) throw optionError('key', 'a string, or an array of strings', key);",
        to: '  key = Array.from(key);',
      },
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H12',
    without: 'numbers may be fractions, and infinite',
    changes: [
      {
        file: 'options.ts',
        from: 'possible: (value) => Number.isSafeInteger(value) && value >= least && value <= most,',
        to: 'possible: (value) => value >= least,',
      },
    ],
    test: 'contract/options.test.ts',
  },
  {
    hazard: 'H12',
    without: 'an option is known when the rules have it, or inherit it',
    changes: [
      {
        file: 'options.ts',
        from: 'if (!known.includes(name)) throw',
        to: 'if (!known.includes(name) && !(name in rules)) throw',
      },
    ],
    test: 'contract/options.test.ts',
  },
  {
    hazard: 'H12',
    without: 'a key may have lone surrogates',
    changes: [{ file: 'keys.ts', from: 'if (!full.isWellFormed()) {', to: 'if (full.length === 0) {' }],
    test: 'contract/options.test.ts',
  },
  {
    hazard: 'H12',
    without: 'a key may be of any length',
    changes: [
      {
        file: 'keys.ts',
        from: 'if (full.length > surelyShort && Buffer.byteLength(full) > maxKeyBytes) {',
        to: 'if (full.length === 0) {',
      },
    ],
    test: 'contract/options.test.ts',
  },
];
