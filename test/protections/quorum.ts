/** H62 to H67: a quorum. */
import type { Protection } from './protection';

export const quorum: readonly Protection[] = [
  {
    hazard: 'H62',
    without: 'a question of which no node can be asked never ends',
    changes: [{ file: 'stores/quorum/nodes.ts', from: '      if (asked.length === 0) return settle();\n', to: '' }],
    test: 'redis/quorum-nodes.test.ts',
  },
  {
    hazard: 'H62',
    without: 'a release of which no node can be asked never ends',
    changes: [{ file: 'stores/quorum/release.ts', from: '    if (open === 0) decide();\n', to: '' }],
    test: 'redis/quorum-nodes.test.ts',
  },
  {
    hazard: 'H62',
    without: 'the votes of a minority are left to their lifetime',
    changes: [
      {
        file: 'stores/quorum/round.ts',
        from: "        this.#phase = 'failed';\n        this.#releaseAll();\n",
        to: "        this.#phase = 'failed';\n",
      },
      {
        file: 'stores/quorum/round.ts',
        from: "if (this.#phase === 'over' || this.#phase === 'failed') this.#releaseLate(node);",
        to: "if (this.#phase === 'over' && this.#releases !== undefined) this.#releaseLate(node);",
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H62',
    without: 'callers whose votes were split pause equally long',
    changes: [
      {
        file: 'wait/attempt.ts',
        from: 'pauses(store.isQuorum ? { ...settings, jitter: 1 } : settings)',
        to: 'pauses(settings)',
      },
      {
        file: 'wait/attempt.ts',
        from: 'const { store, settings } = this.#target;\n    // Those',
        to: 'const { settings } = this.#target;\n    // Those',
      },
    ],
    test: 'attempts.test.ts',
  },
  {
    hazard: 'H62',
    without: 'a caller uses the token again whose votes are being released',
    changes: [{ file: 'wait/attempt.ts', from: '    if (store.isQuorum) this.#request = undefined;\n', to: '' }],
    test: 'attempts.test.ts',
  },
  {
    hazard: 'H62',
    without: 'the entry of a caller that has given up stays in the queues',
    changes: [
      {
        file: 'wait/attempt.ts',
        from: '    if (this.#queuedAs !== undefined) void store.abandon(this.#releaseRequest(this.#queuedAs), this.mayExecuteUntilMs);\n',
        to: '',
      },
    ],
    test: 'attempts.test.ts',
  },
  {
    hazard: 'H63',
    without: 'a reader that stands for others counts although it took longer than the validity',
    changes: [
      {
        file: 'acquire.ts',
        from: 'if (fetcher !== undefined && tookMs < trustedMs(settings.lifetimeMs!)) {',
        to: 'if (fetcher !== undefined) {',
      },
    ],
    test: 'acquire-shared.test.ts',
  },
  {
    hazard: 'H63',
    without: 'a majority counts although it took longer than the validity',
    changes: [{ file: 'acquire.ts', from: 'if (held.remaining() > 0) return', to: 'if (held !== undefined) return' }],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H63',
    without: 'a server whose reply was lost is not released',
    changes: [
      {
        file: 'stores/quorum/round.ts',
        from: '    this.#holders.set(node, this.#mayExecuteUntilMs);\n',
        to: '',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H64',
    without: 'it is renewed where any server has renewed it',
    changes: [
      {
        file: 'stores/quorum/extension.ts',
        from: 'if (count.extended >= nodes.majority)',
        to: 'if (count.extended > 0 && open === 0)',
      },
      {
        file: 'stores/quorum/extension.ts',
        from: 'if (nodes.isMinority(count.missing + count.taken))',
        to: 'if (count.missing + count.taken === nodes.size)',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H64',
    without: 'what a minority has renewed stays there',
    changes: [
      {
        file: 'stores/quorum/store.ts',
        from: '      void this.abandon({ keys, token, commandTimeoutMs: request.commandTimeoutMs, held }, sent.monoMs);\n',
        to: '',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H65',
    without: 'the largest fence is granted, and not written back',
    changes: [
      {
        file: 'stores/quorum/round.ts',
        from: 'if (!this.#fences.isKnownTo(this.#nodes.majority)) {',
        to: 'if (!this.#fences.isKnownTo(1)) {',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H65',
    without: 'the fence is that of the first server to reply',
    changes: [
      {
        file: 'stores/quorum/fence-votes.ts',
        from: 'this.#fence ??= Math.max(...this.#fences.values());',
        to: 'this.#fence ??= this.#fences.values()[0]!;',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H65',
    without: 'a server counts that has lost the lock before the fence was written back',
    changes: [
      {
        file: 'stores/quorum/round.ts',
        from: 'if (isOurs) this.#fences.set(node, fence);\n      else this.#fences.delete(node);',
        to: 'this.#fences.set(node, fence);',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H65',
    without: 'the fence of an upgrade is not written back',
    changes: [
      {
        file: 'stores/quorum/change.ts',
        from: "  if (request.mode.kind === 'exclusive' && request.fencing) await writeBack(nodes, request, votes);\n",
        to: '',
      },
    ],
    test: 'redis/quorum-holders.test.ts',
  },
  {
    hazard: 'H66',
    without: 'one server under two names has two votes',
    changes: [
      {
        file: 'stores/quorum/nodes.ts',
        from: 'return this.#duplicate && this.#isDuplicate(this.#duplicate, key);',
        to: 'return this.#duplicate === undefined ? undefined : (this.#isDuplicate(this.#duplicate, key), undefined);',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H66',
    without: 'a list may name a client twice',
    changes: [
      {
        file: 'options.ts',
        from: 'possible: (value) => !Array.isArray(value) || new Set(value).size === value.length,',
        to: 'possible: () => true,',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H66',
    without: 'a server may take as long as a whole call',
    changes: [
      {
        file: 'stores/quorum/store.ts',
        from: 'return Math.min(commandTimeoutMs, Math.max(leastTimeoutMs, Math.floor(lifetimeMs * timeoutShare)));',
        to: 'return Math.max(commandTimeoutMs, Math.min(leastTimeoutMs, lifetimeMs));',
      },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H66',
    without: 'a silent server is asked each time',
    changes: [
      {
        file: 'stores/quorum/nodes.ts',
        from: 'return responsive.length >= this.majority ? responsive : [...this.all];',
        to: 'return responsive.length > this.size ? responsive : [...this.all];',
      },
      { file: 'stores/quorum/nodes.ts', from: '    ordered.sort((a, b) => lateness(a) - lateness(b));\n', to: '' },
    ],
    test: 'redis/quorum.test.ts',
  },
  {
    hazard: 'H67',
    without: 'each server counts the permits that it has given',
    changes: [
      {
        file: 'stores/quorum/store.ts',
        from: "if (mode.kind !== 'counted') return this.#round(request, lifetimeMs);",
        to: "if (mode.kind !== 'counted' || mode.permits > 0) return this.#round(request, lifetimeMs);",
      },
    ],
    test: 'redis/quorum-holders.test.ts',
  },
  {
    hazard: 'H67',
    without: 'a place may have several holders',
    changes: [
      {
        file: 'stores/quorum/places.ts',
        from: '    .filter(({ count }) => !nodes.isMinority(count))\n',
        to: '',
      },
      {
        file: 'scripts/acquire-shared.lua',
        from: "not (kind == 'p' and sharesPlace(held, group)) and isTurnOf",
        to: 'isTurnOf',
      },
    ],
    test: 'redis/quorum-holders.test.ts',
  },
];
