/**
 * The memory store as over a network that loses, delays and refuses: a test says of each request what becomes of it. What is not said is
 * served. Its clock is the process's own, so that fake timers own it.
 */

import { Clock } from '../../src/core/clock';
import { LockBackendError } from '../../src/core/errors';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  ReleaseReply,
  ReleaseRequest,
  Store,
} from '../../src/store/contract';
import { memoryStore } from '../../src/store/embedded/memory';
import { storeOf } from '../../src/store/open';

/** `held`: it is executed, and its reply comes when the test says so. `late`: an extension that came too late. */
export type Fate = 'request lost' | 'reply lost' | 'refused' | 'held' | 'not sent' | 'late';
type Verb = 'acquire' | 'extend' | 'release';

export const clock = new Clock(
  () => performance.now(),
  () => Date.now(),
);

export interface LossyStore extends Store {
  /** The fates of the next requests of a verb, in order. */
  readonly fates: Record<Verb, Fate[]>;
  /** The requests that came, in order. */
  readonly acquires: AcquireRequest[];
  readonly extensions: ExtendRequest[];
  readonly releases: ReleaseRequest[];
  readonly abandoned: { readonly request: ReleaseRequest; readonly untilMs: number }[];
  /** Lets the replies that are held come. */
  reply(): void;
}

export function lossyStore(more: Partial<Store> = {}): LossyStore {
  const inner = storeOf(memoryStore({ now: () => performance.now() }));
  const fates: LossyStore['fates'] = { acquire: [], extend: [], release: [] };
  const held: (() => void)[] = [];
  async function serve<T extends AcquireReply | ExtendReply | ReleaseReply>(
    verb: Verb,
    execute: () => Promise<T>,
  ): Promise<T> {
    const fate = fates[verb].shift();
    if (fate === 'not sent') return new Promise(() => {});
    if (fate === 'refused') throw new LockBackendError('refused', { redisCode: 'NOPERM' });
    if (fate === 'request lost') throw new LockBackendError('silence', { unknown: true });
    if (fate === 'late') return { outcome: 'late' } as T;
    const reply = await execute();
    if (fate === 'reply lost') throw new LockBackendError('silence', { unknown: true });
    if (fate === 'held') await new Promise<void>((resolve) => held.push(resolve));
    return reply;
  }
  const acquires: AcquireRequest[] = [];
  const extensions: ExtendRequest[] = [];
  const releases: ReleaseRequest[] = [];
  const abandoned: { request: ReleaseRequest; untilMs: number }[] = [];
  const store: Partial<LossyStore> = {
    kind: 'redis',
    keyPrefix: '',
    clock,
    fates,
    acquires,
    extensions,
    releases,
    abandoned,
    reply() {
      for (const each of held.splice(0)) each();
    },
    acquire(request): Promise<AcquireReply> {
      acquires.push(request);
      return serve('acquire', () => inner.acquire(request));
    },
    extend(request): Promise<ExtendReply> {
      extensions.push(request);
      return serve('extend', () => inner.extend(request));
    },
    release(request): Promise<ReleaseReply> {
      releases.push(request);
      return serve('release', () => inner.release(request));
    },
    async abandon(request, late): Promise<void> {
      abandoned.push({ request, untilMs: late?.untilMs ?? 0 });
      await inner.abandon(request, late);
    },
    inspect: (key, commandTimeoutMs, token) => inner.inspect(key, commandTimeoutMs, token),
    join() {},
    leave: async () => {},
  };
  return { ...store, ...more } as LossyStore;
}
