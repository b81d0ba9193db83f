// Acquisitions over a store whose answers are the test's, with its clock and its channel for wake-ups: what they request, and what
// becomes of them.
import { tracingChannel } from 'node:diagnostics_channel';
import { useFakeTimers } from 'sinon';
import { acquire } from '../../src/acquire/acquisition';
import { type AcquireVariant, specFor } from '../../src/acquire/spec';
import { LockBackendError } from '../../src/core/errors';
import { defaults, type Settings } from '../../src/core/options';
import type { HeldLock } from '../../src/hold/held-lock';
import { Scope } from '../../src/hold/scope';
import {
  type AcquireReply,
  type AcquireRequest,
  type Mode,
  type Moment,
  now,
  type Store,
} from '../../src/store/contract';
import { libraryTimers } from '../contract/outcomes';
import { clock, type LossyStore, lossyStore } from './lossy-store';

export const lifetimeMs = 3000;
export const commandTimeoutMs = 300;
export const forever = Number.POSITIVE_INFINITY;
export const writer: Mode = { kind: 'exclusive', prefer: 'fair', group: '', permits: 1, total: 0, step: 0 };
export const reader: Mode = { ...writer, kind: 'shared' };
export const permit: Mode = { ...writer, kind: 'counted', total: 1 };

export const settled = (more: Partial<Settings>): Settings => ({ ...defaults, lifetimeMs, commandTimeoutMs, ...more });
export const inQueue = (timeoutMs = 60_000): Partial<Settings> => ({ timeoutMs, maxRetries: forever, queued: true });

export interface Asked {
  readonly request: AcquireRequest;
  /** When it was sent, by the clock of the test. */
  readonly sent: Moment;
  resolve(reply: AcquireReply): void;
  reject(error: unknown): void;
}

/** The outcome of an acquisition so far. */
export interface Outcome {
  held: HeldLock | undefined;
  error: any;
}

export function outcomeOf(promise: Promise<HeldLock>): Outcome {
  const outcome: Outcome = { held: undefined, error: undefined };
  promise.then(
    (held) => Object.assign(outcome, { held }),
    (error) => Object.assign(outcome, { error }),
  );
  return outcome;
}

/** The ends of the acquires that `work` makes, in order. */
export async function traced(work: () => Promise<void>): Promise<any[]> {
  const events: any[] = [];
  const ends = tracingChannel('redis-exp-lock:acquire').asyncEnd;
  const hear = (event: unknown): void => void events.push(event);
  ends.subscribe(hear);
  try {
    await work();
  } finally {
    ends.unsubscribe(hear);
  }
  return events;
}

/** The parts of a test: made anew by `begin`, and with another store by `build`. */
export class Acquisitions {
  timers!: ReturnType<typeof useFakeTimers>;
  /** The number of timers that the library has set and that were neither undone nor fired. */
  openTimers!: () => number;
  store!: LossyStore;
  scope!: Scope;
  /** The requests that were sent. */
  asked: Asked[] = [];
  /** The channel for wake-ups: the calls that open it, and those by which it hears. */
  channel!: { open(): void; fail(error: Error): void; hear(text: string): void; gap(): void };
  /** The number of channels that were opened. */
  channels = 0;
  readonly #waiting = new Set<unknown>();

  /** The channels of a store that has wake-ups. */
  readonly listening: Pick<Store, 'channels'> = {
    channels: {
      listensAlone: false,
      listen: (name, onMessage, onGap) =>
        new Promise((resolve, reject) => {
          if (!/^redis-exp-lock:1:[0-9a-f-]{36}$/.test(name)) return; // for operators
          this.channels += 1;
          this.channel = { open: () => resolve({ close() {} }), fail: reject, hear: onMessage, gap: onGap };
        }),
    },
  };

  readonly begin = (): void => {
    this.timers = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
    this.timers.tick(1000);
    this.openTimers = libraryTimers();
    this.build();
  };

  readonly end = (): void => this.timers.restore();

  readonly build = (more: Partial<Store> = {}): void => {
    this.asked = [];
    this.channels = 0;
    this.#waiting.clear();
    const acquire: Store['acquire'] = (request) =>
      new Promise((resolve, reject) => {
        if (request.begin()) this.asked.push({ request, sent: now(clock), resolve, reject });
      });
    const store = lossyStore({ acquire, ...more });
    const scope = new Scope();
    const { beginWait, endWait } = scope;
    Object.assign(scope, {
      store: () => store,
      beginWait: (wait: Parameters<typeof beginWait>[0]) => {
        this.#waiting.add(wait);
        beginWait.call(scope, wait);
      },
      endWait: (wait: Parameters<typeof endWait>[0]) => {
        this.#waiting.delete(wait);
        endWait.call(scope, wait);
      },
    });
    Object.assign(this, { store, scope });
  };

  /** The number of waits in the scope. */
  get waits(): number {
    return this.#waiting.size;
  }

  readonly start = (
    settings: Partial<Settings> = {},
    variant: AcquireVariant = {},
    key: string | string[] = 'k',
  ): Outcome => outcomeOf(acquire(specFor(key, settled(settings), this.scope, variant), (held) => held));

  /** Resolves when all that can be answered without a timer has been answered. */
  readonly answered = (): Promise<unknown> => this.timers.tickAsync(0);
  readonly pass = (ms: number): Promise<unknown> => this.timers.tickAsync(ms);

  /** The last request. */
  readonly last = (): Asked => this.asked.at(-1)!;

  /** The last request is granted the lock. */
  readonly grant = (fence = 1, more: object = {}): Promise<unknown> => {
    const { resolve, sent } = this.last();
    resolve({ granted: true, fence, sent, ...more });
    return this.answered();
  };

  readonly busy = (more: object = {}): Promise<unknown> => {
    const { resolve, sent } = this.last();
    resolve({ granted: false, leftMs: 5000, sent, ...more });
    return this.answered();
  };

  readonly fail = async (
    more: { unknown?: boolean; retryable?: boolean } = { unknown: true },
  ): Promise<LockBackendError> => {
    const error = new LockBackendError('silence', more);
    this.last().reject(error);
    await this.answered();
    return error;
  };

  readonly openChannel = (): Promise<unknown> => {
    this.channel.open();
    return this.answered();
  };

  readonly abandonedTokens = (): string[] => this.store.abandoned.map(({ request }) => request.token);
}
