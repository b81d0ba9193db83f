/** H13 to H26: a lock is held, renewed, lost and released. */
import type { Protection } from './protection';

export const held: readonly Protection[] = [
  {
    hazard: 'H13',
    without: 'an extension brings a missing key back',
    changes: [
      {
        file: 'scripts/extend.lua',
        from: '    result = math.min(result, 0)',
        to: "    redis.call('SET', KEYS[i], ARGV[1])\n    later[i] = true",
      },
    ],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H13',
    without: 'an extension does not look whose the key is',
    changes: [{ file: 'scripts/extend.lua', from: 'elseif holder ~= ARGV[1] then', to: "elseif ARGV[1] == '' then" }],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H13',
    without: 'an extension is sent after the local end',
    changes: [
      { file: 'upkeep.ts', from: '    if (!held.check()) return false;\n', to: '' },
      {
        file: 'upkeep.ts',
        from: 'const begin = (): boolean => this.#held.check();',
        to: 'const begin = (): boolean => true;',
      },
    ],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H13',
    without: 'Redis runs an extension whenever it gets it',
    changes: [
      {
        file: 'scripts/extend.lua',
        from: 'if result == 1 and now > tonumber(ARGV[4]) then',
        to: 'if result == 1 and tonumber(ARGV[4]) < 0 then',
      },
    ],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H13',
    without: 'an extension to any number is sent',
    changes: [
      {
        file: 'lease.ts',
        from: "  if (lifetime !== undefined) checkValue('lifetime', lifetimeRule, lifetime);\n",
        to: '',
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H13',
    without: 'an extension that is confirmed after the loss keeps the key alive for nobody',
    changes: [
      {
        file: 'upkeep.ts',
        from: "      if (reply.outcome === 'extended' && this.#held.isLost) void this.#held.releaseQuietly();\n",
        to: '',
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H13',
    without: 'renewals of one tick do not look whose the keys are',
    changes: [
      { file: 'scripts/plain.lua', from: 'mayRenew and held[i] == words[7 + i] and', to: 'mayRenew and held[i] and' },
    ],
    test: 'redis/plain.test.ts',
  },
  {
    hazard: 'H13',
    without: 'renewals of one tick run however late it is',
    changes: [
      {
        file: 'scripts/plain.lua',
        from: 'held[i] == words[7 + i] and now <= tonumber(words[t + i])',
        to: 'held[i] == words[7 + i]',
      },
    ],
    test: 'redis/plain.test.ts',
  },
  {
    hazard: 'H13',
    without: 'a table in memory runs an extension however late it is',
    changes: [
      { file: 'stores/embedded/mutex-machine.ts', from: "    if (nowMs > notAfterMs) return 'late';\n", to: '' },
    ],
    test: 'embedded/mutex-machine.test.ts',
  },
  {
    hazard: 'H14',
    without: 'a renewal that failed is not repeated',
    changes: [
      {
        file: 'renewal.ts',
        from: '    if (this.isOn) this.schedule(Math.max(shortestMs, this.#lifetimeMs / 20));\n',
        to: '',
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H14',
    without: 'a renewal that failed is a loss, although there is time left',
    changes: [
      {
        file: 'upkeep.ts',
        from: '      throw forKey(error, key);\n    });\n    if (!this.#held.check()) {',
        to: "      if (!exact) this.#held.lose('unreachable');\n      throw forKey(error, key);\n    });\n    if (!this.#held.check()) {",
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H14',
    without: 'a lock that is renewed has no deadline of its own: it is lost when Redis says so',
    changes: [
      {
        file: 'held-lock.ts',
        from: 'const isOver = this.#ending === undefined && this.leftMs() <= 0;',
        to: 'const isOver = this.#ending === undefined && this.leftMs() <= 0 && !this.#upkeep?.isEndless;',
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H15',
    without: 'a renewal is due two seconds before the end, however short the lifetime is',
    changes: [
      {
        file: 'renewal.ts',
        from: 'const spareMs = leftMs - (this.#lifetimeMs * 2) / 3;',
        to: 'const spareMs = leftMs - 2000;',
      },
      { file: 'renewal.ts', from: 'return spareMs > 0 ? spareMs : leftMs / 3;', to: 'return Math.max(spareMs, 0);' },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H15',
    without: 'where less is left than a renewal gives, the next is due at once',
    changes: [
      { file: 'renewal.ts', from: 'return spareMs > 0 ? spareMs : leftMs / 3;', to: 'return Math.max(spareMs, 0);' },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H15',
    without: 'a pause shorter than a step of the grid is none',
    changes: [
      { file: 'renewal.ts', from: 'Math.max(dueMs - nowMs, pauseMs / 2, 1)', to: 'Math.max(dueMs - nowMs, 1)' },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H16',
    without: 'the answer to a renewal starts the next timer, whatever has become of the lock',
    changes: [{ file: 'renewal.ts', from: 'if (extended && this.isOn) this.schedule();', to: 'this.schedule();' }],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H16',
    without: 'the timer of the next renewal runs on after the release',
    changes: [
      {
        file: 'renewal.ts',
        from: '    this.isOn = false;\n    clearTimeout(this.#timer);',
        to: '    this.isOn = false;',
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H16',
    without: 'the watch over the end runs on after the release',
    changes: [
      {
        file: 'upkeep.ts',
        from: '    clearTimeout(this.#watch);\n    this.#watch = undefined;',
        to: '    this.#watch = undefined;',
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H17',
    without: 'a renewal may take as long as any command',
    changes: [
      {
        file: 'renewal.ts',
        from: 'this.#extender.renew(Math.min(this.#commandTimeoutMs, halfMs)).then(',
        to: 'this.#extender.renew(this.#commandTimeoutMs).then(',
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H17',
    without: 'the deadline of a command is left to the client',
    changes: [
      {
        file: 'stores/redis/deadlines.ts',
        from: '    if (this.#timer === undefined) this.#arm(request);\n    else if (request.keepsAlive',
        to: '    if (this.#timer !== undefined && request.keepsAlive',
      },
    ],
    test: 'redis/client-states.test.ts',
  },
  {
    hazard: 'H18',
    without: 'the monotonic clock alone counts',
    changes: [
      {
        file: 'validity.ts',
        from: 'return Math.min(monoMs + validMs - clock.nowMs(), wallMs + validMs - clock.wallMs());',
        to: 'return monoMs + validMs - clock.nowMs();',
      },
    ],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H18',
    without: 'the wall clock counts only when the monotonic one is over',
    changes: [
      {
        file: 'upkeep.ts',
        from: 'timerMs(Math.min(leftMs, wallCheckMs))).unref();',
        to: 'timerMs(leftMs)).unref();',
      },
    ],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H18',
    without: 'a holder asks what its timers have noticed',
    changes: [
      {
        file: 'lease.ts',
        from: 'remaining: method((held) => (held.check() ? held.remaining() : 0)),',
        to: 'remaining: method((held) => held.remaining()),',
      },
      {
        file: 'held-lock.ts',
        from: '    this.check();\n    return this.upkeep.signal;',
        to: '    return this.upkeep.signal;',
      },
    ],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H19',
    without: 'what the server’s clock was known to be, it is for ever',
    changes: [
      {
        file: 'stores/redis/store.ts',
        from: "if (extended.outcome !== 'late' || resent || now().monoMs >= validUntilMs) return extended;",
        to: 'return extended;',
      },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H19',
    without: 'the client’s wall clock says until when a request is good',
    changes: [
      {
        file: 'stores/redis/server-clock.ts',
        from: '    return monoMs + this.offsetMs;',
        to: '    return monoMs + Date.now() - performance.now();',
      },
    ],
    test: 'process/late-request.test.ts',
  },
  {
    hazard: 'H20',
    without: 'a release whose failure nobody awaits is an unhandled rejection',
    changes: [{ file: 'held-lock.ts', from: '        releasing.catch(() => {});\n', to: '' }],
    test: 'process/stalls.test.ts',
  },
  {
    hazard: 'H20',
    without: 'a renewal that failed is an unhandled rejection',
    changes: [
      {
        file: 'renewal.ts',
        from: '      (error) => this.#onFailure(error),\n',
        to: '      (error) => {\n        this.#onFailure(error);\n        throw error;\n      },\n',
      },
    ],
    test: 'process/stalls.test.ts',
  },
  {
    hazard: 'H20',
    without: 'a late grant whose release fails is an unhandled rejection',
    changes: [
      {
        file: 'wait/attempt.ts',
        from: 'this.#target.store.release(this.#releaseRequest(token)).catch(() => {});',
        to: 'void this.#target.store.release(this.#releaseRequest(token));',
      },
    ],
    test: 'attempts.test.ts',
  },
  {
    hazard: 'H21',
    without: 'a job is renewed for as long as it runs',
    changes: [
      { file: 'renewal.ts', from: 'this.#held.clock.nowMs() >= this.endsMs || this.#lease', to: 'this.#lease' },
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H22',
    without: 'each release is a request',
    changes: [
      {
        file: 'held-lock.ts',
        from: '    if (this.#ending?.releasing !== undefined) return this.#ending.releasing;\n',
        to: '',
      },
    ],
    test: 'contract/release.test.ts',
  },
  {
    hazard: 'H22',
    without: 'an extension that is confirmed after the release counts',
    changes: [
      {
        file: 'upkeep.ts',
        from: '    if (!this.#held.check()) {\n      // It was lost',
        to: '    if (this.#held.isLost) {\n      // It was lost',
      },
    ],
    test: 'contract/release.test.ts',
  },
  {
    hazard: 'H23',
    without: 'what our own release may have freed is a loss',
    changes: [
      {
        file: 'held-lock.ts',
        from: 'if (!released && ending.loss === undefined && !ending.isUncertain) noteLoss',
        to: 'if (!released && ending.loss === undefined) noteLoss',
      },
    ],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H24',
    without: 'the error of the release comes before the function’s own',
    changes: [
      {
        file: 'run.ts',
        from: '    await held.releaseQuietly();\n    throw error;',
        to: '    await held.release();\n    throw error;',
      },
    ],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H24',
    without: 'the error of the release comes before the result',
    changes: [
      {
        file: 'run.ts',
        from: '  await held.releaseQuietly();\n  const loss',
        to: '  await held.release();\n  const loss',
      },
    ],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H24',
    without: 'a release that failed is over',
    changes: [{ file: 'held-lock.ts', from: '        this.#ending!.releasing = undefined;\n', to: '' }],
    test: 'contract/release.test.ts',
  },
  {
    hazard: 'H24',
    without: 'a release that failed, and that no caller can repeat, is left to the lifetime',
    changes: [
      {
        file: 'held-lock.ts',
        from: '      this.#abandon(this.clock.nowMs() + this.context.settings.commandTimeoutMs);\n',
        to: '',
      },
    ],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H25',
    without: 'a release deletes the key, whose ever it is',
    changes: [
      {
        file: 'scripts/release.lua',
        from: 'reply[i] = not holder and 0 or holder == token and 1 or -1',
        to: 'reply[i] = not holder and 0 or 1',
      },
    ],
    test: 'contract/release.test.ts',
  },
  {
    hazard: 'H25',
    without: 'releases of one tick delete the keys, whose ever they are',
    changes: [
      { file: 'scripts/plain.lua', from: 'if held[i] == words[t + i] and (queued', to: 'if held[i] and (queued' },
    ],
    test: 'redis/plain.test.ts',
  },
  {
    hazard: 'H26',
    without: 'all callers on the same terms have one token',
    changes: [
      {
        file: 'wait/attempt.ts',
        from: "import { pauses } from './backoff';",
        to: "import { pauses } from './backoff';\n\nconst tokens = new WeakMap<Settings, string>();\nfunction tokenOf(settings: Settings): string {\n  const token = tokens.get(settings) ?? newToken(settings.owner);\n  tokens.set(settings, token);\n  return token;\n}",
      },
      {
        file: 'wait/attempt.ts',
        from: 'const token = change?.token ?? newToken(owner);',
        to: 'const token = change?.token ?? tokenOf(settings);',
      },
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H26',
    without: 'a lock object has one identity: what its callers ask is about its last lock',
    changes: [
      { file: 'lock.ts', from: 'const taken = takenHere(this) ?? this.#taken;', to: 'const taken = this.#taken;' },
      { file: 'lock.ts', from: 'return (takenHere(this) ?? this.#taken)?.lease;', to: 'return this.#taken?.lease;' },
    ],
    test: 'contract/lock.test.ts',
  },
];
