/** H85 to H89: found in use and under attack: jobs, leaders, commands, operators, and the clock of a table. */
import type { Protection } from './protection';

export const foundCallers: readonly Protection[] = [
  {
    hazard: 'H85',
    without: 'the mark of a later slot does not count',
    changes: [
      {
        file: 'stores/embedded/mutex-machine.ts',
        from: 'row.slot.endMs > nowMs && row.slot.startMs >= slot.start;',
        to: 'row.slot.endMs > nowMs && row.slot.startMs === slot.start;',
      },
    ],
    test: 'embedded/mutex-machine.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a slot that is done is run once more',
    changes: [
      {
        file: 'scripts/acquire-once.lua',
        from: 'if holder ~= token and done and done >= start and done <= now + 86400000 then',
        to: 'if holder and holder ~= token and done and done >= start and done <= now + 86400000 then',
      },
    ],
    test: 'process/slots.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a process tells its slot by its own clock',
    changes: [
      {
        file: 'stores/redis/commands.ts',
        from: 'const slot = slots && slotAt(serverMs, slots);',
        to: 'const slot = slots && slotAt(Date.now(), slots);',
      },
    ],
    test: 'process/slots.test.ts',
  },
  {
    hazard: 'H85',
    without: 'the lock of a job is not renewed',
    changes: [
      {
        file: 'once.ts',
        from: "{ autoExtend: true, once: { slots, onSlot }, kind: 'once' }",
        to: "{ autoExtend: false, once: { slots, onSlot }, kind: 'once' }",
      },
    ],
    test: 'contract/once.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a slot is done once its job is, also where it may run at most once',
    changes: [{ file: 'once.ts', from: "marks: mode === 'at-most-once' };", to: 'marks: false };' }],
    test: 'process/slots.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a job that has lost its lock marks its slot as done',
    changes: [
      {
        file: 'scripts/mark-slot.lua',
        from: "if not left or left <= now or call('GET', KEYS[1]) ~= ARGV[1] then",
        to: "if not left or left <= now or (call('GET', KEYS[1]) or ARGV[1]) == '' then",
      },
    ],
    test: 'contract/once.test.ts',
  },
  {
    hazard: 'H86',
    without: 'what is proclaimed is written without a look at the lock',
    changes: [
      {
        file: 'scripts/proclaim.lua',
        from: "if redis.call('GET', KEYS[1]) ~= ARGV[1] then",
        to: "if not redis.call('GET', KEYS[1]) or ARGV[1] == '' then",
      },
    ],
    test: 'redis/proclaim.test.ts',
  },
  {
    hazard: 'H86',
    without: 'a candidate that lost its lock campaigns while its function still runs',
    changes: [
      {
        file: 'candidacy.ts',
        from: `    const outcome: Outcome<T> = await won
      .run(() => fn(won.term))
      .then(
        (value) => ({ value }),
        (error) => ({ error }),
      );`,
        to: `    const over = new Promise<Outcome<T>>((resolve) =>
      lost.addEventListener('abort', () => resolve({ error: lost.reason })),
    );
    const ran = won
      .run(() => fn(won.term))
      .then(
        (value) => ({ value }),
        (error) => ({ error }),
      );
    const outcome: Outcome<T> = await Promise.race([ran, over]);`,
      },
    ],
    test: 'contract/election.test.ts',
  },
  {
    hazard: 'H86',
    without: 'a leader that is asked to stop releases its lock at once',
    changes: [
      {
        file: 'candidacy.ts',
        from: 'const onStop = (): void => won.abort(stopped.reason);',
        to: `const onStop = (): void => {
      won.abort(stopped.reason);
      void won.release();
    };`,
      },
    ],
    test: 'contract/election.test.ts',
  },
  {
    hazard: 'H86',
    without: 'the loss of the lock is no end of the term',
    changes: [
      {
        file: 'candidacy.ts',
        from: "lost.addEventListener('abort', onLost);",
        to: 'void onLost;',
      },
    ],
    test: 'contract/election.test.ts',
  },
  {
    hazard: 'H87',
    without: 'signals go to the command alone',
    changes: [
      {
        file: 'cli/child.ts',
        from: 'return process.kill(this.#isOurs ? -this.#pid : this.#pid, signal);',
        to: 'return process.kill(this.#pid, signal);',
      },
    ],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H87',
    without: 'the lock is free once the command has ended, whatever it left behind',
    changes: [
      {
        file: 'cli/child.ts',
        from: 'if (isEnding || lost.aborted) await group.end(killAfterMs);',
        to: 'if (isEnding || lost.aborted) void group.end(killAfterMs);',
      },
    ],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H87',
    without: 'what ignores TERM is never killed',
    changes: [{ file: 'cli/child.ts', from: "this.#send('SIGKILL');", to: '' }],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H87',
    without: 'a command sees the key of an outer lock',
    changes: [
      {
        file: 'cli/child.ts',
        from: 'env: { ...process.env, ...env } });',
        to: 'env: { ...env, ...process.env } });',
      },
    ],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H87',
    without: 'a command goes on when its lock was lost',
    changes: [
      {
        file: 'cli/child.ts',
        from: "else lost.addEventListener('abort', onLost, { once: true });",
        to: '',
      },
    ],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H88',
    without: 'a lock is taken from its present holder, not from the one that was named',
    changes: [
      {
        file: 'scripts/free.lua',
        from: 'if not hash or string.sub(hash, 1, #ARGV[1]) ~= ARGV[1] then',
        to: 'if not hash or #ARGV[1] > #hash then',
      },
    ],
    test: 'contract/operating.test.ts',
  },
  {
    hazard: 'H88',
    without: 'a lock that was taken away is free, with callers in its queue',
    changes: [
      {
        file: 'scripts/free.lua',
        from: `pcall(handOff)
`,
        to: '',
      },
    ],
    test: 'contract/operating.test.ts',
  },
  {
    hazard: 'H88',
    without: 'the holder does not hear that its lock was taken away',
    changes: [
      {
        file: 'wait/wake-ups.ts',
        from: "if (ids.startsWith('!')) return this.#others.freed(key, ids.slice(1));",
        to: "if (ids.startsWith('!')) return;",
      },
    ],
    test: 'contract/operating.test.ts',
  },
  {
    hazard: 'H88',
    without: 'a page from elsewhere may free a lock',
    changes: [
      { file: 'page/answers.ts', from: 'if (!isSameOrigin(request)) return plain(403);', to: 'void isSameOrigin;' },
    ],
    test: 'page/answers.test.ts',
  },
  {
    hazard: 'H89',
    without: 'each process counts from its own start',
    changes: [
      {
        file: 'stores/embedded/clock.ts',
        from: "shared: () => Number.parseFloat(readFileSync('/proc/uptime', 'latin1')) * 1000,",
        to: 'shared: performance.now.bind(performance),',
      },
    ],
    test: 'embedded/clock.test.ts',
  },
  {
    hazard: 'H89',
    without: 'the clock of a process runs ahead of that of the host',
    changes: [
      {
        file: 'stores/embedded/clock.ts',
        from: 'return Math.floor((fineMs + this.#leastMs) * 1000);',
        to: 'return Math.floor((fineMs + this.#mostMs) * 1000);',
      },
    ],
    test: 'embedded/clock.test.ts',
  },
  {
    hazard: 'H89',
    without: 'a process knows nothing of how far its clock lags behind',
    changes: [{ file: 'stores/embedded/clock.ts', from: 'return this.#mostMs - this.#leastMs;', to: 'return 0;' }],
    test: 'embedded/clock.test.ts',
  },
];
