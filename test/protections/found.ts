/** H73 to H79: found in use and under attack: shared memory, factories, secrets, foreign keys. */
import type { Protection } from './protection';

export const found: readonly Protection[] = [
  {
    hazard: 'H73',
    without: 'each attempt at a write waits for as long as SQLite would',
    changes: [
      { file: 'stores/embedded/sqlite.ts', from: 'PRAGMA busy_timeout = 0;', to: 'PRAGMA busy_timeout = 5000;' },
    ],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H73',
    without: 'a caller that waited in vain gets no error that says that another writes',
    changes: [
      {
        file: 'stores/embedded/sqlite.ts',
        from: 'if (nowMs() >= untilMs) throw busyError(file, error);',
        to: 'if (nowMs() >= untilMs) throw error;',
      },
    ],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H74',
    without: 'a command is no transaction',
    changes: [
      {
        file: 'stores/embedded/sqlite.ts',
        from: "this.#engine.prepare('BEGIN IMMEDIATE'),",
        to: "this.#engine.prepare('SELECT 1'),",
      },
      {
        file: 'stores/embedded/sqlite.ts',
        from: "this.#engine.prepare('COMMIT'),",
        to: "this.#engine.prepare('SELECT 1'),",
      },
      {
        file: 'stores/embedded/sqlite.ts',
        from: "this.#engine.prepare('ROLLBACK'),",
        to: "this.#engine.prepare('SELECT 1'),",
      },
    ],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H74',
    without: 'the errors of SQLite are thrown as they are',
    changes: [
      {
        file: 'stores/embedded/sqlite.ts',
        from: 'if (!isBusy(error)) throw backendError(file, error);',
        to: 'throw error;',
      },
    ],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H75',
    without: 'the loads of one factory are shared by key alone, whatever their store',
    changes: [
      {
        file: 'cached.ts',
        from: `  const byStore = flights.get(scope) ?? new WeakMap<Store, Flights>();
  flights.set(scope, byStore);
  const ours: Flights = byStore.get(store) ?? new Map();
  byStore.set(store, ours);`,
        to: `  const ours: any = flights.get(scope) ?? new Map();
  flights.set(scope, ours);`,
      },
    ],
    test: 'contract/cached.test.ts',
  },
  {
    hazard: 'H75',
    without: 'a value is loaded and kept by key alone, whatever its prefix',
    changes: [
      {
        file: 'cached.ts',
        from: 'const full = lockKey(key, store.keyPrefix + settings.prefix);',
        to: 'const full = lockKey(key, store.keyPrefix);',
      },
    ],
    test: 'contract/cached.test.ts',
  },
  {
    hazard: 'H75',
    without: 'stores of one kind have their queues in common',
    changes: [
      {
        file: 'wait/queues.ts',
        from: 'const queuesOfStores = new WeakMap<Store, Queues>();',
        to: 'const queuesOfStores = new Map<string, Queues>();',
      },
      {
        file: 'wait/queues.ts',
        from: 'let queues = queuesOfStores.get(store);',
        to: 'let queues = queuesOfStores.get(store.kind);',
      },
      {
        file: 'wait/queues.ts',
        from: 'queuesOfStores.set(store, queues);',
        to: 'queuesOfStores.set(store.kind, queues);',
      },
    ],
    test: 'embedded/many-stores.test.ts',
  },
  {
    hazard: 'H75',
    without: 'a queue has callers of every owner',
    changes: [
      {
        file: 'wait/queues.ts',
        from: 'one.lifetimeMs === lifetimeMs && one.fencing === fencing && one.owner === owner;',
        to: 'one.lifetimeMs === lifetimeMs && one.fencing === fencing;',
      },
      {
        file: 'wait/queues.ts',
        from: `\${lifetimeMs} \${fencing} \${owner?.length} \${owner} \${key}`,
        to: `\${lifetimeMs} \${fencing} \${key}`,
      },
    ],
    test: 'embedded/many-stores.test.ts',
  },
  {
    hazard: 'H76',
    without: 'an answer counts although the lock was lost meanwhile',
    changes: [
      { file: 'upgrade.ts', from: 'if (held.check()) return undefined;', to: 'if (!held.ended) return undefined;' },
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H76',
    without: 'what became of a change of a lost lock stays in Redis',
    changes: [
      {
        file: 'upgrade.ts',
        from: `      abandon(held, mode, mayExecuteUntilMs);
      return gone(held, 'was released meanwhile');`,
        to: `      return gone(held, 'was released meanwhile');`,
      },
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H76',
    without: 'a change that was given up of a lost lock stays in Redis',
    changes: [
      {
        file: 'upgrade.ts',
        from: 'if (held.loss !== undefined) abandon(held, mode, mayExecuteUntilMs);',
        to: '',
      },
    ],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H77',
    without: 'a factory keeps its stores',
    changes: [
      {
        file: 'weak-list.ts',
        from: 'this.#refs.push(new WeakRef(thing));',
        to: 'this.#refs.push({ deref: () => thing } as WeakRef<T>);',
      },
    ],
    test: 'redis/many-clients.test.ts',
  },
  {
    hazard: 'H77',
    without: 'a factory keeps the last options, a client and a signal among them',
    changes: [
      {
        file: 'last-options.ts',
        from: 'if (!names.some((name) => isReference(values[name]))) {',
        to: 'if (names.length > 0) {',
      },
    ],
    test: 'last-options.test.ts',
  },
  {
    hazard: 'H77',
    without: 'a connection of ours goes on dialling when its client was closed',
    changes: [
      {
        file: 'stores/redis/clients/node-redis.ts',
        from: "connection.on('reconnecting', () => client.isOpen === false && destroy(connection));",
        to: '',
      },
    ],
    test: 'redis/clients.test.ts',
  },
  {
    hazard: 'H78',
    without: 'the errors of clients are kept as the cause',
    changes: [
      {
        file: 'clean-error.ts',
        from: 'if (!(error instanceof Error)) return cleanText(textOf(error));',
        to: 'return error;',
      },
    ],
    test: 'redis/secrets.test.ts',
  },
  {
    hazard: 'H78',
    without: 'whatever hangs on an error of a client is kept',
    changes: [
      {
        file: 'clean-error.ts',
        from: "return typeof value === 'number' || typeof value === 'boolean' ? value : undefined;",
        to: 'return value;',
      },
    ],
    test: 'redis/secrets.test.ts',
  },
  {
    hazard: 'H78',
    without: 'the texts of errors are kept as they are',
    changes: [
      {
        file: 'clean-error.ts',
        from: "return text.replace(listed, '$1 …').replace(token, '<token>');",
        to: 'return text;',
      },
    ],
    test: 'redis/secrets.test.ts',
  },
  {
    hazard: 'H78',
    without: 'events name the token',
    changes: [
      {
        file: 'observation.ts',
        from: 'const event: ReleaseEvent = { ...eventOf(held), heldMs: heldMs(held), released, fence };',
        to: 'const event = { ...eventOf(held), heldMs: heldMs(held), released, fence, token: (held as any).token };',
      },
    ],
    test: 'redis/secrets.test.ts',
  },
  {
    hazard: 'H79',
    without: 'a foreign member is no error',
    changes: [
      {
        file: 'scripts/holders.lua',
        from: `  if held.isForeign or check(lock).isForeign then
    refuseForeign()
  end
  return held
end

-- For a new reader`,
        to: `  return held
end

-- For a new reader`,
      },
    ],
    test: 'redis/foreign-members.test.ts',
  },
  {
    hazard: 'H79',
    without: 'a foreign member beside a reader is no error for the next reader',
    changes: [
      {
        file: 'scripts/holders.lua',
        from: `  if check(lock).isForeign then
    refuseForeign()
  end
  local held = nobody()`,
        to: '  local held = nobody()',
      },
    ],
    test: 'redis/foreign-members.test.ts',
  },
  {
    hazard: 'H79',
    without: 'all members that seem to have ended are purged',
    changes: [
      {
        file: 'scripts/holders.lua',
        from: 'elseif seen.isForeign or #seen.expired == chunk then',
        to: 'elseif #seen.expired == chunk then',
      },
    ],
    test: 'redis/foreign-members.test.ts',
  },
  {
    hazard: 'H79',
    without: 'the set of another library expires with our last member',
    changes: [
      {
        file: 'scripts/holders.lua',
        from: "if not check(lock).isForeign or call('PTTL', lock) < ms then",
        to: 'if true then',
      },
    ],
    test: 'redis/foreign-members.test.ts',
  },
  {
    hazard: 'H79',
    without: 'in memory, a key that several hold is free for one alone',
    changes: [
      {
        file: 'stores/embedded/mutex-machine.ts',
        from: 'for (const { shared } of rows) if (shared !== undefined && isHeld(shared, nowMs)) throw new Error(notMutex);',
        to: '',
      },
    ],
    test: 'embedded/mutex-machine.test.ts',
  },
];
