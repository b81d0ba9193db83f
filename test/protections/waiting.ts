/** H27 to H36: callers wait. */
import type { Protection } from './protection';

export const waiting: readonly Protection[] = [
  {
    hazard: 'H27',
    without: 'an entry is sent before its subscription is confirmed',
    changes: [
      {
        file: 'wait/wake-ups.ts',
        from: '      await opening;\n',
        to: '      opening.catch(() => {});\n',
      },
    ],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H27',
    without: 'a queue whose subscription is never confirmed waits for it without end',
    changes: [
      {
        file: 'wait/wake-ups.ts',
        from: 'const timer = setTimeout(() => setImmediate(() => end(() => failed(undefined))), withinMs);',
        to: 'const timer = setTimeout(() => {}, withinMs);',
      },
    ],
    test: 'contract/lost-wake-ups.test.ts',
  },
  {
    hazard: 'H27',
    without: 'a message that comes before the reply is dropped',
    changes: [
      {
        file: 'wait/queue.ts',
        from: 'if (this.#isRequesting) this.#wakeUp = wakeUp;',
        to: 'if (this.#isRequesting) return true;',
      },
    ],
    test: 'queue.test.ts',
  },
  {
    hazard: 'H28',
    without: 'a queue relies on its wake-ups alone',
    changes: [
      {
        file: 'wait/queue.ts',
        from: 'readonly #onTimer = (): void => this.#request();',
        to: 'readonly #onTimer = (): void => {\n    this.#timer = undefined;\n  };',
      },
    ],
    test: 'contract/lost-wake-ups.test.ts',
  },
  {
    hazard: 'H28',
    without: 'a subscription that was cut is not made again, and nobody polls meanwhile',
    changes: [
      {
        file: 'wait/queue.ts',
        from: 'readonly #onTimer = (): void => this.#request();',
        to: 'readonly #onTimer = (): void => {\n    this.#timer = undefined;\n  };',
      },
      {
        file: 'stores/redis/clients/subscriptions.ts',
        from: '    connection.close();\n    void this.#recover();',
        to: '    connection.close();',
      },
    ],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H28',
    without: 'all that were refused together ask together again',
    changes: [{ file: 'wait/pauses.ts', from: 'const random = pace.random();', to: 'const random = 1;' }],
    test: 'queue.test.ts',
  },
  {
    hazard: 'H29',
    without: 'entries of the dead stay in the queue, and are granted the lock',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: 'if not deadline or deadline < now or deadline > now + mostSilence',
        to: 'if not deadline or deadline > now + mostSilence',
      },
    ],
    test: 'process/queue.test.ts',
  },
  {
    hazard: 'H29',
    without: 'a grant that nobody confirms lasts for its whole lifetime',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: "local ttl = token == mine and lifetime or string.format('%.0f', math.min(tonumber(lifetime), 2000))",
        to: 'local ttl = lifetime',
      },
    ],
    test: 'process/queue.test.ts',
  },
  {
    hazard: 'H29',
    without: 'a caller that gives up leaves its entry in the queue',
    changes: [
      {
        file: 'wait/queue.ts',
        from: '    this.#abandonEntry(position.waiter.commandTimeoutMs);\n',
        to: '    this.#stopTimer();\n',
      },
    ],
    test: 'queue.test.ts',
  },
  {
    hazard: 'H30',
    without: 'each waiter of a process requests the lock from Redis',
    changes: [
      {
        file: 'wait/queue.ts',
        from: 'if (next === undefined || sent === undefined || this.#handOffsLeft === 0) return false;',
        to: 'if (next === undefined || sent === undefined || this.#handOffsLeft >= 0) return false;',
      },
    ],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H30',
    without: 'each channel has a connection of its own',
    changes: [
      {
        file: 'stores/redis/clients/subscriptions.ts',
        from: 'this.#current ??= new Connection(',
        to: 'this.#current = new Connection(',
      },
    ],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H30',
    without: 'a release wakes all that wait, whether there is room for them or not',
    changes: [
      {
        file: 'scripts/wake.lua',
        from: '    if not each or not admits(room, each, most) then\n      break',
        to: '    if not each then\n      break',
      },
    ],
    test: 'process/killed-waiters.test.ts',
  },
  {
    hazard: 'H31',
    without: 'a factory that is closed closes the channel for all',
    changes: [{ file: 'wait/wake-ups.ts', from: '    if (this.#scopes > 0) return;\n', to: '' }],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H32',
    without: 'a newcomer takes a free lock, past all that are queued',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: "attempt('EXISTS', KEYS[1], KEYS[2]) == 0",
        to: "attempt('EXISTS', KEYS[1]) == 0",
      },
      {
        file: 'scripts/acquire.lua',
        from: "if free[i] and call('ZCARD', queue) > 0 then",
        to: "if free[i] and mayQueue and call('ZCARD', queue) > 0 then",
      },
      {
        file: 'scripts/take.lua',
        from: "call('EXISTS', unpack(names, 1, 2 * locks)) > 0",
        to: "call('EXISTS', unpack(names, 1, locks)) > 0",
      },
    ],
    test: 'contract/queue-fairness.test.ts',
  },
  {
    hazard: 'H32',
    without: 'a process hands the lock off to its own newcomers for as long as it likes',
    changes: [
      {
        file: 'wait/queue.ts',
        from: '    this.#handOffsLeft -= 1;\n',
        to: '',
      },
    ],
    test: 'contract/queue-fairness.test.ts',
  },
  {
    hazard: 'H33',
    without: 'each waiter keeps an error, made where it was called',
    changes: [
      {
        file: 'acquire.ts',
        from: '    this.#shared = wanted.mode && new SharedWaiter(wanted.mode);\n',
        to: '    this.#shared = wanted.mode && new SharedWaiter(wanted.mode);\n    this.late = this.#timedOut();\n',
      },
      {
        file: 'acquire.ts',
        from: '  readonly commandTimeoutMs: number;\n',
        to: '  readonly commandTimeoutMs: number;\n  readonly late: LockTimeoutError;\n',
      },
      {
        file: 'acquire.ts',
        from: 'if (!this.#attempts.isPausing) this.giveUp(this.#failure ?? this.#timedOut());',
        to: 'if (!this.#attempts.isPausing) this.giveUp(this.#failure ?? this.late);',
      },
    ],
    test: 'contract/queue-fairness.test.ts',
  },
  {
    hazard: 'H34',
    without: 'a message is split at its spaces',
    changes: [
      {
        file: 'wait/wake-ups.ts',
        from: "const ids = text.slice(0, text.indexOf(' '));\n    const key = text.slice(ids.length + 1);",
        to: "const [ids = '', key = ''] = text.split(' ');",
      },
    ],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H34',
    without: 'a message is one line of text',
    changes: [
      {
        file: 'wait/wake-ups.ts',
        from: "const ids = text.slice(0, text.indexOf(' '));\n    const key = text.slice(ids.length + 1);",
        to: "const [, ids = '', key = ''] = /^(\\S+) (.*)/.exec(text) ?? [];",
      },
    ],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H35',
    without: 'the timer of a timeout stays when the wait is over',
    changes: [{ file: 'acquire.ts', from: '    this.#deadline.clear();\n', to: '' }],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H35',
    without: 'the timer of a subscription keeps the process alive',
    changes: [
      {
        file: 'stores/redis/clients/subscriptions.ts',
        from: 'setInterval(() => onBeat(this), heartbeatMs).unref();',
        to: 'setInterval(() => onBeat(this), heartbeatMs);',
      },
    ],
    test: 'process/queue.test.ts',
  },
  {
    hazard: 'H35',
    without: 'close() waits for holders whose time is over',
    changes: [
      {
        file: 'scope.ts',
        from: '        if (!held.ended) waitMs = Math.min(waitMs, Math.max(held.leftMs(), 0), held.clock.stepMs);\n',
        to: '        if (held.leftMs() > 0) waitMs = Math.min(waitMs, held.leftMs(), held.clock.stepMs);\n',
      },
    ],
    test: 'contract/close.test.ts',
  },
  {
    hazard: 'H36',
    without: 'a signal that was aborted before is not seen',
    changes: [
      {
        file: 'wanted.ts',
        from: '  if (settings.signal?.aborted) return abortReason(settings.signal);\n',
        to: '',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H36',
    without: 'a caller that is aborted stays in the queue',
    changes: [
      {
        file: 'acquire.ts',
        from: '    if (this.#position !== undefined) this.#position.queue.leave(this.#position);\n',
        to: '',
      },
    ],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H36',
    without: 'the grant of an attempt that was given up is not released',
    changes: [
      {
        file: 'wait/attempt.ts',
        from: 'if (this.#isUnderWay && this.#isSent) this.#mayExecute();',
        to: '',
      },
      {
        file: 'wait/attempt.ts',
        from: '    this.#target.store.release(this.#releaseRequest(token)).catch(() => {});\n',
        to: '',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H36',
    without: 'a wait that is over still listens to its signal',
    changes: [
      {
        file: 'acquire.ts',
        from: "    if (this.#onAbort !== undefined) this.awaited.settings.signal?.removeEventListener('abort', this.#onAbort);\n",
        to: '',
      },
    ],
    test: 'redis/unknown-outcome.test.ts',
  },
];
