// The leader, as it is written beside the lock of an election, and how observers learn of it: by message, and by asking when the
// lease would end.
//
// Invariant: what is written down counts only while the lock is held with the token that it was written under.
import { createHash } from 'node:crypto';
import { LockError } from '../core/errors';
import { onAbort } from '../core/on-abort';
import { maxTimerMs } from '../core/options';
import { startTimer } from '../core/timers';
import type { HolderText, Store } from '../store/contract';

/** The present leader. */
export interface Leader {
  /** Which candidate. */
  readonly id: string;
  /** What it proclaimed last. */
  readonly value: string;
  /** The number of its term: its fence. */
  readonly term: number;
  /** When the term began: ms of the epoch, by the leader's own clock. */
  readonly since: number;
  /** Ms for which it surely leads on, as Redis says. */
  readonly remaining: number;
}

/** @internal How long what is written down is kept beyond the lifetime of a lock that is no longer renewed. */
export const keptMs = 3_600_000;

/** @internal The channel of an election, which every observer of it hears. */
export function channelOf(key: string): string {
  return `redis-exp-lock:1:election:${key}`;
}

/** @internal What is written down. No token: those that may read it could end the term. */
export function textOf(leader: Omit<Leader, 'remaining'>, token: string): string {
  const { id, value, term, since } = leader;
  return JSON.stringify({ holder: nameOf(token), id, value, term, since });
}

/** @internal The leader, by what is written beside the lock; null: none, or not yet. */
export function leaderOf(holder: HolderText | null): Leader | null {
  if (holder === null || holder.text === null) return null;
  const written = parsed(holder.text);
  if (written?.holder !== nameOf(holder.token)) return null;
  const { id, value, term, since } = written as Leader & { holder: string };
  return { id, value, term, since, remaining: holder.leftMs };
}

/** @internal */
export interface LeaderWatch {
  readonly store: Store;
  readonly key: string;
  /** Where nobody leads it is asked again after this. */
  readonly lifetimeMs: number;
  /** Ends the observation. */
  readonly signal: AbortSignal;
  ask(): Promise<Leader | null>;
}

/** @internal The present leader at once, then each change: always the latest, and never two equal ones in a row. */
export async function* changes({
  store,
  key,
  lifetimeMs,
  signal,
  ask,
}: LeaderWatch): AsyncGenerator<Leader | null, void> {
  const bell = new Bell();
  const stop = hear(store, key, bell);
  const stopListening = onAbort(signal, () => bell.ring());
  let last: Leader | null | undefined;
  try {
    while (!signal.aborted) {
      bell.isRung = false;
      const leader = await ask().catch((error) => {
        // Redis may be back before the next lease ends.
        if (signal.aborted || (LockError.is(error) && error.retryable)) return undefined;
        throw error;
      });
      if (signal.aborted) return;
      if (leader !== undefined && (last === undefined || !isSame(last, leader))) {
        last = leader;
        yield leader;
      }
      await bell.wait(leader === undefined ? lifetimeMs / 3 : pauseMs(store, leader, lifetimeMs));
    }
  } finally {
    stopListening();
    stop();
  }
}

/** Rings at each message, and once when messages can be heard: one before that may have been missed. */
function hear(store: Store, key: string, bell: Bell): () => void {
  if (store.listen === undefined || store.listensAlone) return () => {};
  const ring = (): void => bell.ring();
  const listening = store.listen(channelOf(key), ring, ring);
  listening.then(ring, () => {});
  return () => {
    listening.then(
      (each) => each.close(),
      () => {},
    );
  };
}

/** Just behind the renewal after which the lease that was seen would end: so an observer asks once a lifetime. */
function pauseMs(store: Store, leader: Leader | null, lifetimeMs: number): number {
  const endsMs = leader === null ? lifetimeMs : leader.remaining + Math.min(leader.remaining / 20, 100) + 5;
  // In shared memory an observer hears nothing; asking costs it some microseconds.
  return store.listensAlone ? Math.min(endsMs, Math.max(lifetimeMs / 30, 10), 250) : endsMs;
}

function isSame(one: Leader | null, other: Leader | null): boolean {
  if (one === null || other === null) return one === other;
  return one.id === other.id && one.value === other.value && one.term === other.term;
}

/** Which token, for those that may not know it. */
function nameOf(token: string): string {
  return createHash('sha1').update(token).digest('hex').slice(0, 8);
}

function parsed(text: string): { readonly holder?: unknown } | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Something to wait for, or a time, whichever comes first. Rung while nobody waits, it ends the next wait at once. */
class Bell {
  isRung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.isRung = true;
    this.#wake?.();
  }

  async wait(ms: number): Promise<void> {
    if (this.isRung) return;
    await new Promise<void>((resolve) => {
      const timer = startTimer(resolve, Math.min(ms, maxTimerMs));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}
