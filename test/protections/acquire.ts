/** H1 to H12: a lock is acquired. */
import type { Protection } from './protection';

export const acquire: readonly Protection[] = [
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
];
