/**
 * Every short cut of the scripts and the client: a second way to the same reply, which is there to be faster. Each is taken out as
 * text. What is then left must answer the same.
 */
import type { Alteration } from '../support/altered-tree';

export interface ShortCut extends Alteration {
  readonly name: string;
}

export const shortCuts: readonly ShortCut[] = [
  {
    name: 'acquire: one free lock without a queue',
    file: 'scripts/acquire.lua',
    from: "if #KEYS == 3 and count <= 1 and mayCheck and attempt('EXISTS', KEYS[1], KEYS[2]) == 0 then",
    to: 'if false then',
  },
  {
    name: 'release: one lock without a queue',
    file: 'scripts/release.lua',
    from: 'if first == token and length == 0 and locks == 1 and #ARGV == 3 then',
    to: 'if false then',
  },
  {
    name: 'release: locks without a queue',
    file: 'scripts/release.lua',
    from: 'if not hasQueue and #ARGV == 3 then',
    to: 'if false then',
  },
  {
    name: 'acquire-shared: a reader that joins readers',
    file: 'scripts/acquire-shared.lua',
    from: "if kind == 'r' and not isChanged and #all.expired == 0 and (not queued or queued.kind == 'r') then",
    to: 'if false then',
  },
  {
    name: 'release-shared: the member that the holder knows',
    file: 'scripts/release-shared.lua',
    from: "local ends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil",
    to: 'local ends = nil',
  },
  {
    name: 'release-shared: a reader of many',
    file: 'scripts/release-shared.lua',
    from: "elseif reply == 1 and string.find(mine, '^1 r') and call('ZCOUNT', lock, string.format('(%.0f', now), '+inf') > 1 then",
    to: 'elseif false then',
  },
  {
    name: 'extend-shared: the member that the holder knows',
    file: 'scripts/extend-shared.lua',
    from: "ends = mine ~= '' and tonumber(call('ZSCORE', lock, mine)) or nil",
    to: 'ends = nil',
  },
  {
    name: 'keys that several may hold: only the front is read',
    file: 'scripts/holders.lua',
    from: 'local chunk = 16',
    to: 'local chunk = 1000000',
  },
  {
    name: 'the plain batch',
    file: 'stores/redis/batch.ts',
    from: 'if (together.length === 1 || this.#isPlainRefused || !arePlain(together)) return',
    to: 'if (together.length > 0 || this.#isPlainRefused || !arePlain(together)) return',
  },
  {
    name: 'batches',
    file: 'stores/redis/transport.ts',
    from: 'const mostInBatch = 128;',
    to: 'const mostInBatch = 1;',
  },
  {
    name: 'batches of keys that several may hold',
    file: 'stores/redis/transport.ts',
    from: 'const mostSharedInBatch = 64;',
    to: 'const mostSharedInBatch = 1;',
  },
  {
    name: 'a plain acquire goes straight',
    file: 'stores/redis/store.ts',
    from: 'const isPlain = request.minReplicas === 0 && request.lifetimeMs !== null;',
    to: 'const isPlain = request.minReplicas < 0;',
  },
  {
    name: 'scripts by their SHA',
    file: 'stores/redis/sender.ts',
    from: 'if (!this.#known.has(script.sha)) return',
    to: "if (script.sha !== '') return",
  },
  {
    name: 'hand-offs within a process, among others',
    file: 'wait/queue.ts',
    from: 'export const handOffsAmongOthers = 8;',
    to: 'export const handOffsAmongOthers = 0;',
  },
  {
    name: 'hand-offs within a process, alone',
    file: 'wait/queue.ts',
    from: 'export const handOffsAlone = 64;',
    to: 'export const handOffsAlone = 0;',
  },
  {
    name: 'a message grants',
    file: 'wait/queue.ts',
    from: 'if (fence === undefined || nonce !== this.#entry.nonce || answered === undefined)',
    to: 'if (fence === undefined || nonce !== this.#entry.nonce || answered !== undefined || answered === undefined)',
  },
  {
    name: 'the last queue',
    file: 'wait/queues.ts',
    from: 'if (this.#last !== undefined && isSame(this.#last.key, key)) return this.#last;',
    to: 'if (this.#last !== undefined && false && isSame(this.#last.key, key)) return this.#last;',
  },
  {
    name: 'acquireNow',
    file: 'wait/attempt.ts',
    from: 'if (store.acquireNow !== undefined && settings.signal === undefined) return',
    to: 'if (store.acquireNow !== undefined && settings === undefined) return',
  },
  {
    name: 'releaseNow',
    file: 'scope.ts',
    from: 'return this.#store.releaseNow?.(request) ?? this.#store.release(request);',
    to: 'return this.#store.release(request);',
  },
  {
    name: 'the lifetime that was checked last',
    file: 'scripts/acquire.lua',
    from: 'if ttl ~= checked then',
    to: 'if true then',
  },
  {
    name: 'the fence counter, read once',
    file: 'scripts/mint.lua',
    from: 'if not top then',
    to: 'if true then',
  },
  {
    name: 'one timer for all requests of one timeout',
    file: 'stores/redis/deadlines.ts',
    from: 'let group = groups.get(timeoutMs);',
    to: 'let group: TimeoutGroup | undefined;',
  },
  {
    name: 'node-redis is sent words',
    file: 'stores/redis/clients/node-redis.ts',
    from: "const isNamed = kind === 'pool' || !client.sendCommand || client.options?.legacyMode;",
    to: 'const isNamed = true;',
  },
  {
    name: 'one moment for all that leave together',
    file: 'stores/redis/batch.ts',
    from: 'this.#sentAt ??= now();\n    return this.#sentAt;',
    to: 'return now();',
  },
  {
    name: 'a release and the next request in one command',
    file: 'wait/queue.ts',
    from: 'if (next === undefined || this.#isRequesting) return this.#port.release(held, answer);',
    to: 'this.#port.release(held, answer);\n    if (next !== undefined && !this.#isRequesting) this.#request();\n    return;',
  },
  {
    name: 'one timer for many queues',
    file: 'wait/shared-timers.ts',
    from: 'const dueMs = ms < soonMs ? Math.ceil(exactMs) : Math.floor(exactMs / gridMs) * gridMs;',
    to: 'const dueMs = exactMs;',
  },
  {
    name: 'readers of a process share a member, before its grant and after',
    file: 'wait/readers.ts',
    from: 'export const mostJoins = 64;',
    to: 'export const mostJoins = 0;',
  },
  {
    name: 'permits are handed off within a process',
    file: 'wait/permits.ts',
    from: 'if (!mayGo || !this.#permits.isAwaited) return false;',
    to: 'if (mayGo || !this.#permits.isAwaited || !mayGo) return false;',
  },
  {
    name: 'random bytes for many tokens',
    file: 'token.ts',
    from: 'const pool = Buffer.alloc(4096);',
    to: 'const pool = Buffer.alloc(16);',
  },
  {
    name: 'the settings of the last call',
    file: 'last-options.ts',
    from: 'if (this.#isLast(options, names)) return this.#settings;',
    to: '',
  },
  {
    name: 'ioredis commands are made without flattening',
    file: 'stores/redis/clients/ioredis.ts',
    from: 'if (Command === undefined) return',
    to: 'if (true) return',
  },
];
