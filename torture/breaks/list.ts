/** Deliberate breaks of the sources, each of which torture or the simulation must catch within its minute, and by what it says. */

import type { Alteration } from '../../test/support/altered-tree';

export interface Break extends Alteration {
  readonly name: string;
  /** The store to torture, or the simulated world to run. */
  readonly caughtAt: { readonly store: string } | { readonly world: string };
  /** What is said when it is caught for the right reason. */
  readonly says: RegExp;
}

const exclusion = /\(mutex\)|\(fence\)/;
const exclusionOfAnyKind = /\(mutex\)|\(fence\)|\(readers-writer\)|\(semaphore\)/;
const holdIt = /hold it|fence/;

export const breaks: readonly Break[] = [
  {
    name: 'a release does not compare the token',
    file: 'scripts/release.lua',
    from: 'if first == token and length == 0',
    to: 'if first and length == 0',
    caughtAt: { store: 'redis' },
    says: exclusion,
  },
  {
    name: 'a release with a queue does not compare the token',
    file: 'scripts/release.lua',
    from: 'reply[i] = not holder and 0 or holder == token and 1 or -1',
    to: 'reply[i] = not holder and 0 or 1',
    caughtAt: { store: 'redis' },
    says: exclusion,
  },
  {
    name: 'the validity counts from the reply',
    file: 'stores/redis/store.ts',
    from: 'return this.#acquired(reply, request, sent) ?? this.#acquireSlowly(request, true);',
    to: 'return this.#acquired(reply, request, now()) ?? this.#acquireSlowly(request, true);',
    caughtAt: { store: 'redis' },
    says: exclusionOfAnyKind,
  },
  {
    name: 'a lock is valid beyond the lifetime',
    file: 'store.ts',
    from: 'return lifetimeMs * (1 - clockRateShare);',
    to: 'return lifetimeMs * (2 - clockRateShare);',
    caughtAt: { store: 'redis' },
    says: exclusionOfAnyKind,
  },
  {
    name: 'fences do not rise',
    file: 'scripts/mint.lua',
    from: 'local first = math.max(lastFence(fence) + 1, micros, least or 0)',
    to: 'local first = math.max(lastFence(fence), 1, least or 0)',
    caughtAt: { store: 'redis' },
    says: /\(fence\)/,
  },
  {
    name: 'a hand-off within the process keeps the fence',
    file: 'wait/queue.ts',
    from: 'const fence = this.key.fencing ? held.fence + 1 : 0;',
    to: 'const fence = held.fence;',
    caughtAt: { store: 'redis' },
    says: /\(fence\)/,
  },
  {
    name: 'readers of all groups share',
    file: 'scripts/wake.lua',
    from: "return held.count == 0 or (held.kind == 'r' and held.group == each.group)",
    to: "return held.count == 0 or held.kind == 'r'",
    caughtAt: { store: 'redis' },
    says: /\(readers-writer\)/,
  },
  {
    name: 'a semaphore does not count what is requested',
    file: 'scripts/wake.lua',
    from: 'return held.used + each.permits <= limit',
    to: 'return held.used < limit',
    caughtAt: { store: 'redis' },
    says: /\(semaphore\)/,
  },
  {
    name: 'an upgrade does not wait for other readers',
    file: 'scripts/acquire-shared.lua',
    from: 'granted = held.count == 0\n',
    to: 'granted = upgrade or held.count == 0\n',
    caughtAt: { store: 'redis' },
    says: /\(readers-writer\)|\(fence\)/,
  },
  {
    name: 'a slot that is done is run again',
    file: 'scripts/acquire-once.lua',
    from: 'if holder ~= token and done and done >= start',
    to: 'if holder ~= token and done and done > start',
    caughtAt: { store: 'redis' },
    says: /\(once\)/,
  },
  {
    name: 'a quorum is content with less than a majority',
    file: 'stores/quorum/nodes.ts',
    from: 'this.majority = Math.floor(all.length / 2) + 1;',
    to: 'this.majority = Math.floor(all.length / 2);',
    caughtAt: { store: 'quorum' },
    says: exclusion,
  },
  {
    name: 'in shared memory a release does not compare the token',
    file: 'stores/embedded/mutex-machine.ts',
    from: "const result = row.token === token ? 'released' : row.token === undefined ? 'missing' : 'taken';",
    to: "const result = row.token === undefined ? 'missing' : 'released';",
    caughtAt: { store: 'shared-memory' },
    says: exclusion,
  },
  {
    name: 'a queue never requests again by itself',
    file: 'wait/queue.ts',
    from: 'readonly #onTimer = (): void => this.#request();',
    to: 'readonly #onTimer = (): void => {\n    this.#timer = undefined;\n  };',
    caughtAt: { world: 'the network loses, delays and repeats' },
    says: /nothing will ever happen again/,
  },
  {
    name: 'a message counts whatever request it names',
    file: 'wait/queue.ts',
    from: 'if (fence === undefined || nonce !== this.#entry.nonce || answered === undefined)',
    to: 'if (fence === undefined || answered === undefined)',
    caughtAt: { world: 'messages are late, doubled and forged' },
    says: holdIt,
  },
  {
    name: 'a grant by message is not provisional',
    file: 'wait/queue.ts',
    from: 'this.#give(this.#positions.first!, { token, fence, sent: answered, mayExecuteUntilMs, provisionalMs });',
    to: 'this.#give(this.#positions.first!, { token, fence, sent: answered, mayExecuteUntilMs });',
    caughtAt: { world: 'long holds' },
    says: holdIt,
  },
];
