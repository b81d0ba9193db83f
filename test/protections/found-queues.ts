/** H80 to H84: found in use and under attack: queues, messages and what readers share. */
import type { Protection } from './protection';

export const foundQueues: readonly Protection[] = [
  {
    hazard: 'H80',
    without: 'the key yields after 64 hand-offs alone, however long callers have polled in vain',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: '(handOffs >= 64 or (pause > 0 and now - since >= 8 * yield))',
        to: 'handOffs >= 64',
      },
      {
        file: 'stores/embedded/mutex-queue.ts',
        from: 'const inVain = poll !== undefined && nowMs - poll.sinceMs >= most.pollsInVain * yieldMs;',
        to: 'const inVain = false;',
      },
    ],
    test: 'redis/queue-model.test.ts',
  },
  {
    hazard: 'H80',
    without: 'the key yields for the pause of its holder, not for that of those that poll',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: 'local yield = math.max(math.min(window, mostYield), pause > 0 and pause + 20 or 0)',
        to: 'local yield = math.min(window, mostYield)',
      },
      {
        file: 'stores/embedded/mutex-queue.ts',
        from: 'const yieldMs = Math.max(Math.min(windowMs, mostYieldMs), poll === undefined ? 0 : poll.pauseMs + pollLatenessMs);',
        to: 'const yieldMs = Math.min(windowMs, mostYieldMs);',
      },
    ],
    test: 'redis/queue-model.test.ts',
  },
  {
    hazard: 'H80',
    without: 'callers that poll leave no mark',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: 'local pause = #ARGV == 6 and tonumber(ARGV[6]) or 0',
        to: 'local pause = 0',
      },
      {
        file: 'stores/embedded/mutex-queue.ts',
        from: 'if (pauseMs === undefined) return;',
        to: 'if (pauseMs !== undefined || nowMs > 0) return;',
      },
    ],
    test: 'simulation/simulation.test.ts',
  },
  {
    hazard: 'H81',
    without: 'each call reads the whole queue',
    changes: [{ file: 'scripts/holders.lua', from: 'local chunk = 16', to: 'local chunk = 1000000' }],
    test: 'redis/queue-front.test.ts',
  },
  {
    hazard: 'H82',
    without: 'the deadline of an entry may be any time from now',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: 'if not deadline or deadline < now or deadline > now + mostSilence or fences > 1024 then',
        to: 'if not deadline or deadline < now or fences > 1024 then',
      },
    ],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'an entry is granted as many fences as it says',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: 'deadline > now + mostSilence or fences > 1024 then',
        to: 'deadline > now + mostSilence then',
      },
    ],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'the key yields for as long as a mark in its queue says',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: 'till = handOffs == 0 and -score <= now + 2 * mostYield and -score or 0',
        to: 'till = handOffs == 0 and -score <= 9007199254740991 and -score or 0',
      },
    ],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'a queue of another version without an end stays',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: `    if call('PTTL', queue) < 0 then
      call('PEXPIRE', queue, mostSilence)
    end
    error('VERSION`,
        to: `    error('VERSION`,
      },
    ],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'the deadline of an entry of readers and writers may be any time from now',
    changes: [
      {
        file: 'scripts/waiters.lua',
        from: 'if not deadline or deadline < now or deadline > now + mostSilence or length < 1',
        to: 'if not deadline or deadline < now or length < 1',
      },
    ],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'a counter of fences far ahead of the clock is as good as any',
    changes: [
      {
        file: 'scripts/mint.lua',
        from: 'if not fence or fence > 9007199254740991 or fence > micros + 86400000000 then',
        to: 'if not fence or fence > 9007199254740991 then',
      },
    ],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H82',
    without: 'a cached value must be JSON',
    changes: [
      {
        file: 'cached.ts',
        from: `  try {
    return { value: JSON.parse(text), text };
  } catch {
    return undefined;
  }`,
        to: '  return { value: JSON.parse(text), text };',
      },
    ],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a message grants whatever nonce it names',
    changes: [
      {
        file: 'wait/queue.ts',
        from: 'if (fence === undefined || nonce !== this.#entry.nonce || answered === undefined) return this.#request();',
        to: 'if (fence === undefined || answered === undefined) return this.#request();',
      },
    ],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H83',
    without: 'all requests of an entry have one nonce',
    changes: [
      {
        file: 'wait/queue.ts',
        from: 'this.#entry.nonce = this.#port.newNonce();',
        to: 'this.#entry.nonce ||= this.#port.newNonce();',
      },
    ],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a message grants however late it comes',
    changes: [
      { file: 'wait/queue.ts', from: 'if (ageMs > provisionalMs / 2) return this.#request();', to: 'void ageMs;' },
    ],
    test: 'queue.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a message grants for the whole lifetime',
    changes: [
      {
        file: 'wait/queue.ts',
        from: '{ token, fence, sent: answered, mayExecuteUntilMs, provisionalMs });',
        to: '{ token, fence, sent: answered, mayExecuteUntilMs });',
      },
    ],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a lock is handed off before its grant was confirmed',
    changes: [
      {
        file: 'held-lock.ts',
        from: 'const isSure = isCertain && !this.#upkeep?.isExtending && !this.#mayExecute();',
        to: 'const isSure = isCertain && !this.#mayExecute();',
      },
      {
        file: 'held-lock.ts',
        from: 'return isSure && lifetimeMs === this.context.settings.lifetimeMs && !this.isLost ? sent : undefined;',
        to: 'return isSure && !this.isLost ? sent : undefined;',
      },
    ],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a grant to an entry that has left stays',
    changes: [
      {
        file: 'wait/queues.ts',
        from: 'if (request !== undefined) this.#store.release(request).catch(() => {});',
        to: 'void request;',
      },
    ],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H84',
    without: 'the first reader that leaves releases what it shares',
    changes: [
      {
        file: 'wait/readers.ts',
        from: "for (const other of this.#holders) if (other.check()) return wasHeld ? 'released' : 'missing';",
        to: "if (!wasHeld) return 'missing';",
      },
    ],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'each reader that joins lets others join for longer',
    changes: [
      {
        file: 'wait/readers.ts',
        from: `  join(position: SharePosition): void {
    this.#joinsLeft -= 1;
    this.give(position);
  }`,
        to: `  join(position: SharePosition): void {
    this.#joinsLeft -= 1;
    this.give(position);
    this.open(turnMs);
  }`,
      },
    ],
    test: 'readers.test.ts',
  },
  {
    hazard: 'H84',
    without: 'readers of another owner, group or lifetime join as well',
    changes: [
      {
        file: 'wait/sharing.ts',
        from: 'return isSameMode && one.lifetimeMs === lifetimeMs && one.fencing === fencing && one.owner === owner;',
        to: 'return isSameMode && one.fencing === fencing;',
      },
    ],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'the validity of a reader that joins counts from then on',
    changes: [
      {
        file: 'wait/readers.ts',
        from: 'const grant = { token, fence: this.fence, sent: this.#sent, mayExecuteUntilMs: 0, member: this };',
        to: `const laterMs = this.#port.nowMs() - this.#sent.monoMs;
    const sent = { monoMs: this.#sent.monoMs + laterMs, wallMs: this.#sent.wallMs + laterMs };
    const grant = { token, fence: this.fence, sent, mayExecuteUntilMs: 0, member: this };`,
      },
    ],
    test: 'simulation/sharing.test.ts',
  },
  {
    hazard: 'H84',
    without: 'a reader joins what is being released',
    changes: [
      {
        file: 'wait/readers.ts',
        from: `    this.#isClosed = true;
    return send();`,
        to: '    return send();',
      },
    ],
    test: 'readers.test.ts',
  },
  {
    hazard: 'H84',
    without: 'a reader joins what was lost',
    changes: [{ file: 'wait/readers.ts', from: 'this.#isClosed ||= this.#holders.size === 0;', to: '' }],
    test: 'readers.test.ts',
  },
  {
    hazard: 'H84',
    without: 'the loss of what readers share is that of one of them',
    changes: [
      {
        file: 'wait/readers.ts',
        from: 'for (const held of [...this.#holders]) if (held.check()) held.lose(reason);',
        to: 'for (const held of [...this.#holders].slice(0, 1)) if (held.check()) held.lose(reason);',
      },
    ],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'an extension by another lifetime is one of all that share',
    changes: [
      {
        file: 'upkeep.ts',
        from: 'if (held.member !== undefined && lifetimeMs !== held.context.settings.lifetimeMs) await part(held);',
        to: '',
      },
    ],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'an upgrade takes what others share with it along',
    changes: [{ file: 'upgrade.ts', from: 'if (held.member !== undefined) await held.upkeep.part();', to: '' }],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'a permit is handed off with its fence',
    changes: [
      {
        file: 'wait/permits.ts',
        from: 'const fence = this.fence === 0 ? 0 : held.fence + 1;',
        to: 'const fence = held.fence;',
      },
    ],
    test: 'contract/shared-members.test.ts',
  },
];
