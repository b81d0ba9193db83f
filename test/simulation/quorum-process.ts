/**
 * One process of a simulated world, with a clock and a quorum of its own: it takes the lock, holds it, renews it, changes it in
 * place, and releases it, as `src/acquire/acquisition.ts`, `src/acquire/change.ts` and `src/hold/keeper.ts` do.
 */
import { type Alarm, type Clock, now } from '../../src/core/clock';
import { LockBackendError } from '../../src/core/errors';
import { trustedMs } from '../../src/hold/validity';
import type {
  AcquireReply,
  AcquireRequest,
  HeldMode,
  Mode,
  Moment,
  QueueEntry,
  ReleaseRequest,
} from '../../src/store/contract';
import { LateRequest } from '../../src/store/late-request';
import type { Quorum } from '../../src/store/quorum/store';
import { commandTimeoutMs, type Holder, key, maxDrift, type WorldOfProcesses } from './quorum';

/** One wish of a process: how it wants the lock, and what it is queued as while it does not get it. */
interface Turn {
  readonly mode: Mode | undefined;
  readonly queueAs: QueueEntry | undefined;
}

const maxChanges = 8;

export class Process {
  /** Explicit extensions that no node has replied to, and until when each may execute, by this process's clock. */
  readonly pendingExact = new Set<{ readonly untilMs: number }>();
  /** True if the process reads and asks to write. */
  upgrades = false;
  readonly name: string;
  readonly clock: Clock;
  readonly #world: WorldOfProcesses;
  readonly #quorum: Quorum;
  readonly #rate: number;
  #turn: Turn;
  #turns = 0;
  #tokens = 0;

  constructor(world: WorldOfProcesses, name: string, open: (process: Process) => Quorum) {
    this.name = name;
    this.#world = world;
    this.#rate = 1 + (world.random() * 2 - 1) * maxDrift;
    const startMs = world.random() * 1e6;
    this.clock = {
      nowMs: () => startMs + world.nowMs * this.#rate,
      wallMs: () => 0,
      setIdleAlarm: alarmsOf(world, this.#rate),
    } as unknown as Clock;
    this.#quorum = open(this);
    this.#quorum.join();
    this.#turn = this.#newTurn();
  }

  start(): void {
    this.#world.unfinished += 1;
    this.#world.after(this.#world.random() * 10, () => this.#attempt());
  }

  #next(): void {
    this.#turns += 1;
    this.#turn = this.#newTurn();
    if (this.#turns < this.#world.rules.turnsEach) this.#world.after(this.#world.random() * 20, () => this.#attempt());
    else this.#world.unfinished -= 1;
  }

  #newTurn(): Turn {
    const { lock = 'mutex', retryMs } = this.#world.rules;
    const { random } = this.#world;
    if (lock === 'mutex') return { mode: undefined, queueAs: undefined };
    const isPermits = 'permits' in lock;
    const mode: Mode = {
      kind: isPermits ? 'counted' : random() < lock.readers ? 'shared' : 'exclusive',
      prefer: isPermits ? 'fair' : (['writer', 'reader', 'fair'] as const)[Math.floor(random() * 3)]!,
      group: '',
      permits: isPermits ? 1 + Math.floor(random() * Math.min(lock.permits, 2)) : 1,
      total: isPermits ? lock.permits : 0,
      step: 0,
    };
    const token = `${this.name} waits ${this.#turns}`;
    const queueAs = { channel: '-', id: '0', ticket: 0, silenceMs: 2 * retryMs + 100, token };
    return { mode, queueAs: random() < 0.8 ? queueAs : undefined };
  }

  #again(): void {
    this.#world.after(this.#world.random() * this.#world.rules.retryMs, () => this.#attempt());
  }

  /** Gives the lock up: takes out the entries that are queued for this process, and begins anew. */
  #giveUp(token: string): void {
    const late = new LateRequest(this.clock.nowMs(), commandTimeoutMs);
    const { mode, queueAs } = this.#turn;
    for (const each of [token, queueAs?.token]) {
      if (each !== undefined) void this.#quorum.abandon(this.#release(each, mode, -1), late);
    }
    this.#turn = this.#newTurn();
  }

  #attempt(): void {
    const { giveUp, broken } = this.#world.rules;
    if (broken !== 'one token for all attempts' || this.#tokens === this.#turns) this.#tokens += 1;
    const token = `${this.name}.${this.#tokens}`;
    const { mode, queueAs } = this.#turn;
    let isOver = false;
    if (this.#world.chance(giveUp)) {
      this.#world.after(this.#world.random() * 5, () => {
        if (isOver) return;
        isOver = true;
        this.#giveUp(token);
        this.#again();
      });
    }
    const request = this.#request(token, mode, queueAs, () => !isOver);
    this.#quorum.acquire(request).then(
      (reply) => {
        if (isOver) {
          if (reply.granted) this.#quorum.release(this.#release(token, mode)).catch(() => {});
          return;
        }
        isOver = true;
        if (!reply.granted) return this.#again();
        const sent = broken === 'validity from the reply' ? now(this.clock) : reply.sent;
        if (this.#leftMs(sent) > 0) return this.#hold(token, reply.mode ?? mode, reply.fence, sent);
        void this.#quorum.abandon(this.#release(token, mode));
        this.#again();
      },
      (error) => {
        if (isOver) return;
        isOver = true;
        if (!(error instanceof LockBackendError)) this.#world.note(() => `${this.name}: ${(error as Error).stack}`);
        this.#again();
      },
    );
  }

  #hold(token: string, mode: Mode | undefined, fence: number, sent: Moment): void {
    const world = this.#world;
    const { holdMs, lifetimeMs, leave, stall, lock } = world.rules;
    const holder: Holder = { name: token, mode, fence, untilMs: this.#untilMs(sent), ended: false };
    world.note(() => `${token} ${mode?.kind ?? ''} holds it under ${fence} until ${holder.untilMs.toFixed(1)}`);
    world.holds(holder, fence);
    if (world.chance(leave)) return this.#next();
    if (world.chance(stall)) return void world.after(world.random() * 2 * lifetimeMs, () => this.#end(holder));
    let leftMs = world.random() * 2 * holdMs;
    const renew = (): void => {
      const pauseMs = world.random() < 0.2 ? world.random() * 5 : lifetimeMs / 3;
      if (holder.ended) return;
      if (leftMs <= pauseMs) return void world.after(leftMs, () => this.#end(holder));
      leftMs -= pauseMs;
      world.after(pauseMs, () => this.#extend(holder, goOn));
    };
    const upgrades = mode?.kind === 'shared' && typeof lock === 'object' && 'readers' in lock ? lock.upgrade : 0;
    let willUpgrade = upgrades > 0 && world.random() < upgrades;
    // At once, or after renewals, which bring the token to nodes that have forgotten it.
    const goOn = (): void => {
      if (!willUpgrade || world.random() < 0.5) return renew();
      willUpgrade = false;
      world.after(world.random() * 5, () => this.#upgrade(holder, renew));
    };
    goOn();
  }

  #end(holder: Holder): void {
    const { name, mode } = holder;
    const ticket = (mode?.step ?? 0) > 0 ? -1 : 0;
    if (holder.ended) return;
    holder.ended = true;
    this.#quorum.release(this.#release(name, mode, ticket)).then(
      () => this.#next(),
      () => {
        void this.#quorum.abandon(this.#release(name, mode, -1), new LateRequest(this.clock.nowMs(), commandTimeoutMs));
        this.#next();
      },
    );
  }

  #lost(holder: Holder): void {
    if (holder.ended) return;
    holder.ended = true;
    void this.#quorum.abandon(this.#release(holder.name, holder.mode, -1));
    this.#next();
  }

  #isHeld(holder: Holder): boolean {
    return !holder.ended && holder.untilMs > this.#world.nowMs;
  }

  /** Asks for a while, and then goes on reading; or writes, and perhaps reads again. */
  #upgrade(holder: Holder, then: () => void, attempts = 1, step = holder.mode!.step + 1): void {
    const world = this.#world;
    const mode: Mode = { ...holder.mode!, kind: 'exclusive', step };
    this.#change(holder, mode, (reply) => {
      if (reply?.granted) {
        world.note(() => `${holder.name} writes now, under ${reply.fence}`);
        world.holds(holder, reply.fence);
        if (world.random() < 0.5) return void world.after(world.random() * 5, () => this.#downgrade(holder, then));
        return then();
      }
      const isRefused = reply?.impossible !== undefined;
      if (reply?.impossible === 'gone') return this.#lost(holder);
      if (isRefused || attempts === maxChanges) return this.#downgrade(holder, then);
      world.after(world.random() * world.rules.retryMs, () => this.#upgrade(holder, then, attempts + 1, step));
    });
  }

  /** Ends the writes of this process, whether the loss is known already or not. */
  #downgrade(holder: Holder, then: () => void, step = holder.mode!.step + 2): void {
    const mode: Mode = { ...holder.mode!, kind: 'shared', step };
    holder.mode = mode;
    this.#change(holder, mode, (reply) => {
      if (reply === undefined) this.#world.after(20, () => this.#downgrade(holder, then, step));
      else if (reply.granted) then();
      else this.#lost(holder);
    });
  }

  /** @param answered Is told undefined where there was no answer; nothing once the holder lost what it had. */
  #change(holder: Holder, mode: Mode, answered: (reply: AcquireReply | undefined) => void): void {
    const isHeld = (): boolean => this.#isHeld(holder);
    if (!isHeld()) return this.#lost(holder);
    this.upgrades = mode.kind === 'exclusive';
    const queueAs = { channel: '-', id: '0', ticket: -1, silenceMs: 2 * this.#world.rules.retryMs + 100 };
    this.#quorum.acquire(this.#request(holder.name, mode, queueAs, isHeld)).then(
      (reply) => {
        this.upgrades = false;
        if (!isHeld()) return this.#lost(holder);
        if (reply.granted) {
          holder.mode = mode;
          holder.untilMs = Math.max(holder.untilMs, this.#untilMs(reply.sent));
        }
        answered(reply);
      },
      () => {
        this.upgrades = false;
        if (isHeld()) answered(undefined);
        else this.#lost(holder);
      },
    );
  }

  /** Extends as a held lock does: one extension at a time, and none after the end. */
  #extend(holder: Holder, then: () => void): void {
    const world = this.#world;
    const isHeld = (): boolean => this.#isHeld(holder);
    const lost = (): void => this.#lost(holder);
    if (!isHeld()) return lost();
    const { lifetimeMs } = world.rules;
    const exact = world.random() < 0.3;
    const leftMs = (holder.untilMs - world.nowMs) * this.#rate;
    const validUntilMs = this.clock.nowMs() + (exact ? Math.min(leftMs, commandTimeoutMs) : leftMs);
    const held: HeldMode | undefined = holder.mode && { mode: holder.mode };
    const token = holder.name;
    const request = { keys: key, token, lifetimeMs, exact, validUntilMs, commandTimeoutMs, begin: isHeld, held };
    this.pendingExact.clear();
    this.#quorum.extend(request).then(
      (reply) => {
        if (exact && reply.outcome === 'extended') this.#checkExact();
        if (!isHeld() || reply.outcome !== 'extended') return lost();
        holder.untilMs = exact ? this.#untilMs(reply.sent) : Math.max(holder.untilMs, this.#untilMs(reply.sent));
        world.note(() => `${token} holds it until ${holder.untilMs.toFixed(1)}`);
        world.holds(holder, undefined);
        then();
      },
      () => (isHeld() ? world.after(20, () => this.#extend(holder, then)) : lost()),
    );
  }

  /** True if no node still has an end that was set by hand, behind a renewal that another majority confirms. */
  #checkExact(): void {
    const nowMs = this.clock.nowMs();
    for (const { untilMs } of this.pendingExact) {
      if (untilMs > nowMs + 1) this.#world.broken(`an end may still be set for ${(untilMs - nowMs).toFixed(1)} ms`);
    }
    this.pendingExact.clear();
  }

  #request(
    token: string,
    mode: Mode | undefined,
    queueAs: QueueEntry | undefined,
    begin: () => boolean,
  ): AcquireRequest {
    const { lifetimeMs } = this.#world.rules;
    return { keys: key, token, lifetimeMs, fences: 1, minReplicas: 0, commandTimeoutMs, begin, mode, queueAs };
  }

  #release(token: string, mode: Mode | undefined, ticket = 0): ReleaseRequest {
    return { keys: key, token, commandTimeoutMs, ticket, held: mode && { mode } };
  }

  #leftMs({ monoMs }: Moment): number {
    return monoMs + trustedMs(this.#world.rules.lifetimeMs) - this.clock.nowMs();
  }

  /** The end of the validity, in the world's time. */
  #untilMs(sent: Moment): number {
    return this.#world.nowMs + this.#leftMs(sent) / this.#rate;
  }
}

/** The alarms of a clock that runs at this rate, as far as a quorum sets any. */
function alarmsOf(world: WorldOfProcesses, rate: number): Clock['setIdleAlarm'] {
  return (work, ms) => {
    const event = world.after(ms / rate, work);
    const clear = (): void => {
      event.gone = true;
    };
    return { timer: { clear } } as unknown as Alarm;
  };
}
