/**
 * A world of the plain batch: callers of a few processes acquire, renew and release two locks; what a process sends in a tick goes
 * as one batch, which the network loses, delays and repeats. The batch does here what plain.lua does, over the real machine: all is
 * read first, then written without another check; what is not as usual runs as the call that it is by itself.
 */
import { trustedMs } from '../../src/hold/validity';
import { Machine } from '../../src/store/embedded/machine/mutex-machine';
import { Heap, mulberry32 } from './events';

export type BrokenPlain =
  | 'a busy lock is taken'
  | 'a lock is deleted that is no longer ours'
  | 'a late acquire is not refused'
  | 'a token is released first that may still be acquired';

export class BrokenPromise extends Error {}

interface Call {
  readonly verb: 'acquire' | 'renew' | 'release';
  readonly key: string;
  readonly token: string;
  readonly notAfterMs: number;
  /** The least fence that an acquire accepts; 0: any. */
  readonly minFence: number;
  /** True for a release if no acquire of its token may still execute. */
  readonly isConfirmed: boolean;
  readonly answer: (reply: any) => void;
}

interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly work: () => void;
}

const lifetimeMs = 300;
const timeoutMs = 100;
const epochMs = 1_700_000_000_000;
const endMs = 3000;
const keys = ['one', 'two'];

export function simulatePlain(seed: number, broken?: BrokenPlain): { grants: number; batches: number } {
  const world = new World(seed, broken);
  world.run();
  return world;
}

class World {
  grants = 0;
  batches = 0;
  readonly broken: BrokenPlain | undefined;
  readonly random: () => number;
  readonly #machine = new Machine(() => {});
  readonly #events = new Heap<Event>();
  readonly #held = new Map<string, { token: string; untilMs: number }>();
  readonly #fences = new Map<string, number>();
  /** The last notAfter of the acquires of each token, and the tokens that were released after it. */
  readonly #mayExecuteUntilMs = new Map<string, number>();
  readonly #finished = new Set<string>();
  #nowMs = 0;
  #order = 0;

  constructor(seed: number, broken: BrokenPlain | undefined) {
    this.random = mulberry32(seed);
    this.broken = broken;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  run(): void {
    for (let n = 0; n < 3; n++) {
      const process = new Process(this);
      for (let m = 0; m < 3; m++) new Caller(this, process, `${n}.${m}`).start();
    }
    this.#outsider(0);
    for (let event = this.#events.pop(); event !== undefined && event.atMs < endMs; event = this.#events.pop()) {
      this.#nowMs = event.atMs;
      event.work();
    }
  }

  after(ms: number, work: () => void): void {
    this.#events.push({ atMs: this.#nowMs + ms, order: this.#order++, work });
  }

  delayMs(): number {
    return this.random() < 0.1 ? this.random() * 400 : this.random() * 3;
  }

  chance(share: number): boolean {
    return this.random() < share;
  }

  believe(key: string, token: string, fence: number, untilMs: number): void {
    const before = this.#held.get(key);
    if (before !== undefined && before.token !== token && before.untilMs > this.#nowMs) {
      throw new BrokenPromise(`${token} and ${before.token} hold ${key}`);
    }
    const isNew = before?.token !== token;
    if (isNew && fence <= (this.#fences.get(key) ?? 0)) throw new BrokenPromise(`fence ${fence} is not the largest`);
    this.#fences.set(key, Math.max(fence, this.#fences.get(key) ?? 0));
    this.#held.set(key, { token, untilMs });
    if (isNew) this.grants += 1;
  }

  ended(key: string, token: string): void {
    if (this.#held.get(key)?.token === token) this.#held.delete(key);
  }

  /** Executes a batch as the server does: as plain.lua where all calls are plain, else one after the other. */
  execute(calls: readonly Call[]): unknown[] {
    this.batches += 1;
    const ordered = this.broken === 'a token is released first that may still be acquired';
    const arePlain =
      calls.length > 1 && calls.every(({ verb, isConfirmed }) => verb !== 'release' || isConfirmed || ordered);
    const replies = new Map<Call, unknown>();
    if (!arePlain) for (const call of calls) replies.set(call, this.#alone(call));
    else this.#plain(calls, replies);
    this.#checkReleased(calls);
    return calls.map((call) => replies.get(call));
  }

  /** Checks that a released lock stays released: at once where no acquire follows, for good once none may execute. */
  #checkReleased(calls: readonly Call[]): void {
    for (const [n, { verb, key, token, notAfterMs }] of calls.entries()) {
      if (verb === 'acquire') this.#mayExecuteUntilMs.set(token, notAfterMs);
      if (verb !== 'release' || calls.slice(n).some((each) => each.token === token && each.verb === 'acquire'))
        continue;
      if (this.#machine.row(key, this.#micros).token === token)
        throw new BrokenPromise(`${token} was released, and holds`);
      if (epochMs + this.#nowMs > (this.#mayExecuteUntilMs.get(token) ?? 0) + 1) this.#finished.add(token);
    }
    for (const key of keys) {
      const holder = this.#machine.row(key, this.#micros).token;
      if (holder !== undefined && this.#finished.has(holder))
        throw new BrokenPromise(`${holder} was released for good, and holds`);
    }
  }

  get #micros(): number {
    return (epochMs + this.#nowMs) * 1000;
  }

  #plain(calls: readonly Call[], replies: Map<Call, unknown>): void {
    const serverMs = Math.floor(this.#micros / 1000);
    const of = (verb: Call['verb']): Call[] => calls.filter((call) => call.verb === verb);
    const isOurs = ({ key, token }: Call): boolean => this.#machine.row(key, this.#micros).token === token;
    const renewals = of('renew').map((call) => ({
      call,
      isUsual: isOurs(call) && serverMs <= call.notAfterMs,
    }));
    const releases = of('release').map((call) => ({
      call,
      isUsual: isOurs(call) || this.broken === 'a lock is deleted that is no longer ours',
    }));
    const acquires = of('acquire');
    const areInTime =
      acquires.every(({ notAfterMs }) => serverMs <= notAfterMs) || this.broken === 'a late acquire is not refused';
    for (const { call, isUsual } of renewals) {
      const holder = this.#machine.row(call.key, this.#micros).token;
      const { remaining } = this.#machine.inspect(call.key, this.#micros);
      if (isUsual && holder !== undefined)
        this.#machine.put(call.key, holder, serverMs + Math.max(remaining, lifetimeMs));
      replies.set(call, isUsual ? 'extended' : this.#alone(call));
    }
    for (const { call, isUsual } of releases) if (isUsual) this.#machine.put(call.key, undefined, 0);
    for (const { call, isUsual } of releases) replies.set(call, isUsual ? 'released' : this.#alone(call));
    for (const call of acquires) {
      const isFree = this.#machine.row(call.key, this.#micros).token === undefined;
      if (!areInTime || (!isFree && this.broken !== 'a busy lock is taken')) {
        replies.set(call, this.#alone(call));
        continue;
      }
      // SET NX PX, with the next fence of the counter.
      this.#machine.put(call.key, undefined, 0);
      replies.set(call, this.#alone({ ...call, notAfterMs: Number.POSITIVE_INFINITY }));
    }
  }

  #alone({ verb, key, token, notAfterMs, minFence }: Call): unknown {
    const [micros, keys] = [this.#micros, [key]];
    if (verb === 'acquire')
      return this.#machine.acquire({ keys, token, lifetimeMs, notAfterMs, fences: 1, minFence }, micros);
    if (verb === 'renew') return this.#machine.extend({ keys, token, lifetimeMs, exact: false, notAfterMs }, micros);
    return this.#machine.release({ keys, token, ticket: 0, yieldMs: 0 }, micros).results[0];
  }

  /** SETNX, PEXPIRE, GET and DEL, by a client that knows nothing of ours. */
  #outsider(n: number): void {
    const key = keys[n % 2]!;
    if (this.#machine.row(key, this.#micros).token === undefined) {
      this.#machine.put(key, `outsider ${n}`, epochMs + Math.floor(this.#nowMs) + lifetimeMs);
      this.believe(key, `outsider ${n}`, Number.POSITIVE_INFINITY, this.#nowMs + trustedMs(lifetimeMs));
      this.#fences.delete(key);
      this.after(this.random() * 10, () => {
        this.ended(key, `outsider ${n}`);
        if (this.#machine.row(key, this.#micros).token === `outsider ${n}`) this.#machine.put(key, undefined, 0);
      });
    }
    this.after(20 + this.random() * 100, () => this.#outsider(n + 1));
  }
}

class Process {
  readonly #world: World;
  #unsent: Call[] = [];

  constructor(world: World) {
    this.#world = world;
  }

  call(call: Call): void {
    if (this.#unsent.push(call) === 1) this.#world.after(this.#world.random() * 2, () => this.#flush());
  }

  #flush(): void {
    const world = this.#world;
    const calls = this.#unsent;
    this.#unsent = [];
    if (world.chance(0.05)) return; // lost
    const isAnswered = world.chance(0.9);
    world.after(world.delayMs(), () => {
      const replies = world.execute(calls);
      world.after(world.delayMs(), () => {
        for (const [n, { answer }] of calls.entries()) if (isAnswered) answer(replies[n]);
      });
    });
    // A client that sends again what was not answered.
    if (!isAnswered) world.after(world.delayMs() + world.random() * 300, () => void world.execute(calls));
  }
}

/** Acquires, renews perhaps, releases; as an acquisition and a held lock do. */
class Caller {
  readonly #world: World;
  readonly #process: Process;
  readonly #name: string;
  readonly #leasts = new Map<string, number>();
  #turns = 0;

  constructor(world: World, process: Process, name: string) {
    this.#world = world;
    this.#process = process;
    this.#name = name;
  }

  start(): void {
    this.#turns += 1;
    const key = keys[this.#world.random() < 0.5 ? 0 : 1]!;
    this.#acquire(key, `${this.#name} ${this.#turns}`, 0);
  }

  #later(ms = this.#world.random() * 20): void {
    this.#world.after(ms, () => this.start());
  }

  #acquire(key: string, token: string, mayExecuteUntilMs: number): void {
    const world = this.#world;
    const sentMs = world.nowMs;
    const onReply = (reply: any): void => {
      if (reply === undefined) {
        const untilMs = world.nowMs + timeoutMs;
        if (world.chance(0.5)) return this.#acquire(key, token, untilMs);
        this.#release(key, token, false);
        world.after(untilMs + 2 - world.nowMs, () => this.#release(key, token, false));
        return this.#later();
      }
      if (reply.outcome !== 'granted') {
        if (mayExecuteUntilMs > world.nowMs) {
          this.#release(key, token, false);
          world.after(mayExecuteUntilMs + 2 - world.nowMs, () => this.#release(key, token, false));
        }
        return this.#later();
      }
      this.#hold(key, token, reply.fence, sentMs, mayExecuteUntilMs);
    };
    const notAfterMs = epochMs + Math.floor(sentMs) + timeoutMs;
    if (!world.chance(0.05)) return this.#send('acquire', key, token, notAfterMs, true, onReply);
    // It is given up in the tick in which it was sent.
    this.#send('acquire', key, token, notAfterMs, true, () => {});
    this.#release(key, token, false);
    world.after(timeoutMs + 2, () => this.#release(key, token, false));
    this.#later();
  }

  #hold(key: string, token: string, fence: number, sentMs: number, mayExecuteUntilMs: number): void {
    const world = this.#world;
    let untilMs = sentMs + trustedMs(lifetimeMs);
    if (untilMs <= world.nowMs) {
      this.#release(key, token, mayExecuteUntilMs <= world.nowMs);
      if (mayExecuteUntilMs > world.nowMs) {
        world.after(mayExecuteUntilMs + 2 - world.nowMs, () => this.#release(key, token, false));
      }
      return this.#later();
    }
    world.believe(key, token, fence, untilMs);
    const renew = (): void => {
      const renewedMs = world.nowMs;
      if (untilMs <= renewedMs) return;
      this.#send('renew', key, token, epochMs + Math.floor(untilMs), true, (reply) => {
        if (reply !== 'extended' || isOver || untilMs <= world.nowMs) return;
        untilMs = Math.max(untilMs, renewedMs + trustedMs(lifetimeMs));
        world.believe(key, token, fence, untilMs);
      });
    };
    let isOver = false;
    if (world.chance(0.4)) world.after(world.random() * 20, renew);
    world.after(world.random() * (world.chance(0.1) ? 800 : 30), () => {
      isOver = true;
      world.ended(key, token);
      this.#release(key, token, mayExecuteUntilMs <= world.nowMs);
      if (mayExecuteUntilMs > world.nowMs) {
        world.after(mayExecuteUntilMs + 2 - world.nowMs, () => this.#release(key, token, false));
      }
      this.#later();
    });
  }

  #release(key: string, token: string, isConfirmed: boolean): void {
    this.#send('release', key, token, 0, isConfirmed, (reply) => {
      if (reply === undefined) this.#release(key, token, isConfirmed);
    });
  }

  /** `reply` is undefined where there was none in time. */
  #send(
    verb: Call['verb'],
    key: string,
    token: string,
    notAfterMs: number,
    isConfirmed: boolean,
    onReply: (reply: any) => void,
  ): void {
    let settled = false;
    const answer = (reply: unknown): void => {
      if (settled) return;
      settled = true;
      onReply(reply);
    };
    this.#world.after(timeoutMs, () => answer(undefined));
    // Half of the tokens have a least fence, as those of a quorum: a little ahead of the clock, or behind it.
    const minMs = epochMs + this.#world.nowMs + 4 * this.#world.random() - 1;
    const minFence = this.#leasts.get(token) ?? (this.#world.chance(0.5) ? Math.floor(1000 * minMs) : 0);
    this.#leasts.set(token, minFence);
    const checked = (reply: any): void => {
      if (reply?.fence < minFence && verb === 'acquire') throw new BrokenPromise(`${reply.fence} < ${minFence}`);
      answer(reply);
    };
    this.#process.call({ verb, key, token, notAfterMs, minFence, isConfirmed, answer: checked });
  }
}
