/**
 * A world in which the quorum is run to be broken: the real quorum of several processes, the real machine as each of its nodes,
 * and between them a network that delays, loses and repeats, nodes that restart empty or stand still, clocks that differ and
 * run at different rates, and processes that stall, die and change their mind. Time is virtual and every choice comes from one
 * seed.
 *
 * Invariant: nothing in here waits or rolls dice by itself; a world is a function of its seed and its rules.
 */
import { LockBackendError } from '../../src/errors';
import {
  type AcquireReply,
  type AcquireRequest,
  type ExtendReply,
  type ExtendRequest,
  type Identity,
  type LockState,
  type Moment,
  type Node,
  type RaiseRequest,
  type ReleaseReply,
  type ReleaseRequest,
  trustedMs,
} from '../../src/store';
import { Machine } from '../../src/stores/embedded/mutex-machine';
import type { Clock } from '../../src/stores/quorum/node';
import { Quorum } from '../../src/stores/quorum/store';
import { Heap, mulberry32, type Timed } from './events';

export interface Rules {
  readonly nodes: number;
  readonly processes: number;
  readonly turnsEach: number;
  readonly lifetimeMs: number;
  readonly holdMs: number;
  readonly retryMs: number;
  /** Chances, 0 to 1, while faults last. */
  readonly lose: number;
  readonly repeat: number;
  /** Of a node, every 100 ms: to be restarted, empty; to stand still. */
  readonly restart: number;
  readonly freeze: number;
  /** Of a process, in a turn: to stand still while it holds; to leave without a release; to give up an attempt. */
  readonly stall: number;
  readonly leave: number;
  readonly giveUp: number;
  /** How far the nodes' clocks may be apart, in ms. */
  readonly skewMs: number;
  /** Whether nodes mint the fence that is proposed to them; else each its own. */
  readonly proposals: boolean;
  /** Deliberate faults. */
  readonly broken?: Broken | undefined;
}

export type Broken = 'no write-back' | 'no restart guard' | 'validity from the reply' | 'one token for all attempts';

export class BrokenPromise extends Error {}

const faultsEndMs = 1_500;
const patienceMs = 60_000;
const commandTimeoutMs = 300;
/** Two clocks may run at rates that differ by less than a thousandth. */
const mostDrift = 0.0004;
const epochMs = 1_700_000_000_000;
const key = 'the lock';

/** One world, run to its end. Throws a BrokenPromise; `noting` one that tells the end of its history, which takes longer. */
export async function simulate(seed: number, rules: Rules, noting = false): Promise<World> {
  const world = new World(seed, rules, noting);
  try {
    await world.run();
  } catch (error) {
    if (!noting && error instanceof BrokenPromise) return simulate(seed, rules, true);
    throw error;
  }
  return world;
}

interface Event extends Timed {
  readonly work: () => void;
  gone: boolean;
}

/** A process counts the lock as its own. */
interface Holder {
  readonly name: string;
  untilMs: number;
  ended: boolean;
}

export class World {
  readonly rules: Rules;
  readonly history: string[] = [];
  readonly servers: Server[] = [];
  nowMs = 0;
  grants = 0;
  wroteBack = 0;
  unfinished = 0;
  readonly random: () => number;
  readonly #events = new Heap<Event>();
  readonly #holders: Holder[] = [];
  #order = 0;
  #lastFence = 0;
  /** What somebody noticed who has nobody to throw at. */
  #failure: BrokenPromise | undefined;
  readonly #noting: boolean;

  constructor(seed: number, rules: Rules, noting: boolean) {
    this.rules = rules;
    this.#noting = noting;
    this.random = mulberry32(seed);
  }

  async run(): Promise<void> {
    const { nodes, processes } = this.rules;
    for (let n = 0; n < nodes; n++) this.servers.push(new Server(this, n));
    for (let n = 0; n < processes; n++) new Process(this, `p${n}`).start();
    for (let event = this.#events.pop(); event !== undefined; event = this.#events.pop()) {
      if (event.gone) continue;
      this.nowMs = event.atMs;
      if (this.nowMs > faultsEndMs + patienceMs) this.broken(`${this.unfinished} still wait`);
      event.work();
      // Runs when everything that this event has resolved was heard.
      await new Promise<void>((resolve) => process.nextTick(resolve));
      if (this.#failure !== undefined) throw this.#failure;
      if (this.unfinished === 0) return;
    }
    this.broken(`nothing will ever happen again, and ${this.unfinished} are unfinished`);
    throw this.#failure;
  }

  chance(share: number): boolean {
    return share > 0 && this.nowMs < faultsEndMs && this.random() < share;
  }

  after(ms: number, work: () => void): Event {
    const event = { atMs: this.nowMs + ms, order: this.#order++, work, gone: false };
    this.#events.push(event);
    return event;
  }

  /** Mostly short; now and then as long as a timeout. */
  delayMs(): number {
    return this.chance(0.02) ? this.random() * 200 : 0.1 + this.random() * 2;
  }

  note(what: () => string): void {
    if (this.#noting) this.history.push(`${this.nowMs.toFixed(3)} ${what()}`);
  }

  broken(promise: string): void {
    this.#failure ??= new BrokenPromise(`${promise}\n${this.history.slice(-80).join('\n')}`);
  }

  holds(holder: Holder, fence: number | undefined): void {
    const other = this.#holders.find((each) => each !== holder && !each.ended && each.untilMs > this.nowMs);
    if (other !== undefined) this.broken(`${holder.name} and ${other.name} hold it`);
    if (fence === undefined) return;
    this.grants += 1;
    if (fence <= this.#lastFence) this.broken(`fence ${fence} after ${this.#lastFence}`);
    this.#lastFence = fence;
    this.#holders.push(holder);
  }
}

/** One server: its memory, its own clock, and how often it was started. */
class Server {
  readonly name: string;
  readonly rate: number;
  machine = new Machine(() => {});
  runs = 0;
  startedMs: number;
  frozenUntilMs = 0;
  readonly #world: World;
  readonly #skewMs: number;

  constructor(world: World, number: number) {
    const { restart, freeze, skewMs } = world.rules;
    this.#world = world;
    this.name = `node${number}`;
    this.rate = 1 + (world.random() * 2 - 1) * mostDrift;
    this.#skewMs = (world.random() * 2 - 1) * skewMs;
    this.startedMs = this.clockMs() - 1_000_000;
    const look = (): void => {
      if (world.chance(restart)) this.#restart();
      if (world.chance(freeze)) this.frozenUntilMs = world.nowMs + world.random() * 500;
      if (world.nowMs < faultsEndMs) world.after(100, look);
    };
    if (restart + freeze > 0) world.after(world.random() * 100, look);
  }

  clockMs(): number {
    return epochMs + this.#skewMs + this.#world.nowMs * this.rate;
  }

  get micros(): number {
    return Math.floor(this.clockMs() * 1000);
  }

  #restart(): void {
    this.#world.note(() => `${this.name} is started again, empty`);
    this.machine = new Machine(() => {});
    this.runs += 1;
    this.startedMs = this.clockMs();
  }
}

/** A server as one process reaches it. */
class Connection implements Node {
  readonly keyPrefix = '';
  readonly listen = undefined;
  readonly #world: World;
  readonly #server: Server;
  readonly #process: Process;
  #arrivesMs = 0;
  #answeredMs = 0;

  constructor(world: World, server: Server, process: Process) {
    this.#world = world;
    this.#server = server;
    this.#process = process;
  }

  generation = (): number => this.#server.runs;

  get serverOffsetMs(): number {
    return this.#server.clockMs() - this.#process.clock.now().monoMs - 1.5;
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { token, lifetimeMs, fencing, leastFence } = request;
    if (!request.begin()) throw new LockBackendError('nobody waits');
    const sent = this.#process.clock.now();
    const command = {
      keys: [key],
      token,
      // A key ends a millisecond later in Redis than in the machine.
      lifetimeMs: lifetimeMs! + 1,
      notAfterMs: sent.monoMs + this.serverOffsetMs + request.commandTimeoutMs,
      fences: fencing ? 1 : 0,
      leastFence: this.#world.rules.proposals ? leastFence : undefined,
    };
    const reply = await this.#call(request.commandTimeoutMs, `acquires with ${token}`, ({ machine, micros }) =>
      machine.acquire(command, micros),
    );
    if (reply.outcome === 'late') throw new LockBackendError('too late');
    if (reply.outcome === 'busy') return { granted: false, leftMs: reply.leftMs };
    if (reply.outcome !== 'granted') throw new Error(`a lock of one holder is never ${reply.outcome}`);
    return { granted: true, fence: reply.fence, sent, others: 0 };
  }

  async extend({ token, lifetimeMs, exact, begin, ...request }: ExtendRequest): Promise<ExtendReply> {
    if (!begin()) return { outcome: 'late' };
    const sent = this.#process.clock.now();
    const notAfterMs = request.validUntilMs + this.serverOffsetMs;
    const outcome = await this.#call(request.commandTimeoutMs, `extends ${token}`, ({ machine, micros }) =>
      machine.extend([key], token, lifetimeMs! + 1, exact, notAfterMs, micros),
    );
    return outcome === 'extended' ? { outcome, sent } : { outcome };
  }

  async release({ token, commandTimeoutMs }: ReleaseRequest): Promise<ReleaseReply> {
    const command = { keys: [key], token, ticket: 0, yieldMs: 0 };
    const reply = await this.#call(commandTimeoutMs, `releases ${token}`, ({ machine, micros }) =>
      machine.release(command, micros),
    );
    return reply.results[0]!;
  }

  raise({ token, fence, commandTimeoutMs }: RaiseRequest): Promise<boolean> {
    this.#world.wroteBack += 1;
    if (this.#world.rules.broken === 'no write-back') return Promise.resolve(true);
    return this.#call(commandTimeoutMs, `raises the fence to ${fence}`, ({ machine, micros }) =>
      machine.raise([key], token, fence, micros),
    );
  }

  identify(timeoutMs: number): Promise<Identity> {
    const isBlind = this.#world.rules.broken === 'no restart guard';
    return this.#call(timeoutMs, 'asks who it is', (server) => ({
      runId: `${server.name}.${server.runs}`,
      uptimeMs: isBlind ? Number.POSITIVE_INFINITY : server.clockMs() - server.startedMs,
    }));
  }

  async abandon(request: ReleaseRequest, untilMs: number): Promise<void> {
    for (let isLast = false; !isLast; ) {
      isLast = this.#process.clock.now().monoMs > untilMs;
      const released = await this.release(request).catch(() => undefined);
      if (isLast) isLast = released !== undefined;
      if (!isLast) await new Promise<void>((resolve) => this.#world.after(50, resolve));
    }
  }

  releaseAndAcquire(): never {
    throw new Error('nobody is queued');
  }

  inspect(): Promise<LockState> {
    throw new Error('nobody looks');
  }

  join(): void {}

  async leave(): Promise<void> {}

  /** In their order, over a connection that a restart ends; what had no answer may be sent again over the next one. */
  #call<T>(timeoutMs: number, what: string, run: (server: Server) => T): Promise<T> {
    const world = this.#world;
    const server = this.#server;
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => reject(new LockBackendError(why, { unknown: true }));
      const deadline = this.#process.clock.setTimer(() => fail('silence'), timeoutMs) as Event;
      const { runs } = server;
      const arrive = (): void => {
        if (server.frozenUntilMs > world.nowMs) return void world.after(server.frozenUntilMs - world.nowMs, arrive);
        // The connection is gone. The client sends it again, or says that it broke.
        if (server.runs !== runs && world.random() < 0.5) return fail('the connection broke');
        const reply = run(server);
        world.note(() => `${this.#process.name} ${what} at ${server.name}: ${JSON.stringify(reply)}`);
        if (world.chance(world.rules.lose)) return;
        this.#answeredMs = Math.max(this.#answeredMs, world.nowMs + world.delayMs());
        world.after(this.#answeredMs - world.nowMs, () => {
          deadline.gone = true;
          resolve(reply);
        });
      };
      if (world.chance(world.rules.lose)) return;
      this.#arrivesMs = Math.max(this.#arrivesMs, world.nowMs + world.delayMs());
      world.after(this.#arrivesMs - world.nowMs, arrive);
      if (world.chance(world.rules.repeat)) {
        world.after(this.#arrivesMs - world.nowMs + world.random() * 100, () => run(server));
      }
    });
  }
}

/** One process, with a clock and a quorum of its own: it takes the lock, holds it, renews it, gives it back. */
class Process {
  readonly name: string;
  readonly clock: Clock;
  readonly #world: World;
  readonly #quorum: Quorum;
  readonly #rate: number;
  #turns = 0;
  #tokens = 0;

  constructor(world: World, name: string) {
    this.name = name;
    this.#world = world;
    this.#rate = 1 + (world.random() * 2 - 1) * mostDrift;
    const startMs = world.random() * 1e6;
    const read = (): Moment => ({ monoMs: startMs + world.nowMs * this.#rate, wallMs: 0 });
    this.clock = {
      now: read,
      setTimer: (work, ms) => world.after(ms / this.#rate, work),
      clearTimer: (event?: Event) => {
        if (event) event.gone = true;
      },
    };
    this.#quorum = new Quorum(
      world.servers.map((server) => new Connection(world, server, this)),
      this.clock,
    );
    this.#quorum.join();
  }

  start(): void {
    this.#world.unfinished += 1;
    this.#world.after(this.#world.random() * 10, () => this.#attempt());
  }

  #next(): void {
    this.#turns += 1;
    if (this.#turns < this.#world.rules.turnsEach) this.#world.after(this.#world.random() * 20, () => this.#attempt());
    else this.#world.unfinished -= 1;
  }

  #again(): void {
    this.#world.after(this.#world.random() * this.#world.rules.retryMs, () => this.#attempt());
  }

  #attempt(): void {
    const { lifetimeMs, giveUp, broken } = this.#world.rules;
    if (broken !== 'one token for all attempts' || this.#tokens === this.#turns) this.#tokens += 1;
    const token = `${this.name}.${this.#tokens}`;
    let isOver = false;
    if (this.#world.chance(giveUp)) {
      this.#world.after(this.#world.random() * 5, () => {
        if (isOver) return;
        isOver = true;
        void this.#quorum.abandon(this.#release(token), this.clock.now().monoMs + commandTimeoutMs);
        this.#again();
      });
    }
    const begin = (): boolean => !isOver;
    const request = { keys: key, token, lifetimeMs, fencing: true, minReplicas: 0, commandTimeoutMs, begin };
    this.#quorum.acquire(request).then(
      (reply) => {
        if (isOver) {
          if (reply.granted) this.#quorum.release(this.#release(token)).catch(() => {});
          return;
        }
        isOver = true;
        if (!reply.granted) return this.#again();
        const sent = broken === 'validity from the reply' ? this.clock.now() : reply.sent;
        if (this.#leftMs(sent) > 0) return this.#hold(token, reply.fence, sent);
        void this.#quorum.abandon(this.#release(token), 0);
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

  #hold(token: string, fence: number, sent: Moment): void {
    const world = this.#world;
    const { holdMs, lifetimeMs, leave, stall } = world.rules;
    const holder: Holder = { name: token, untilMs: this.#untilMs(sent), ended: false };
    world.note(() => `${token} holds it under ${fence} until ${holder.untilMs.toFixed(1)}`);
    world.holds(holder, fence);
    const end = (): void => {
      holder.ended = true;
      this.#quorum.release(this.#release(token)).then(
        () => this.#next(),
        () => {
          void this.#quorum.abandon(this.#release(token), this.clock.now().monoMs + commandTimeoutMs);
          this.#next();
        },
      );
    };
    if (world.chance(leave)) return this.#next();
    if (world.chance(stall)) return void world.after(world.random() * 2 * lifetimeMs, end);
    let leftMs = world.random() * 2 * holdMs;
    const renew = (): void => {
      const pauseMs = lifetimeMs / 3;
      if (holder.ended) return;
      if (leftMs <= pauseMs) return void world.after(leftMs, end);
      leftMs -= pauseMs;
      world.after(pauseMs, () => this.#extend(token, holder, renew));
    };
    renew();
  }

  /** As a hold does: one at a time, and what is over is over. */
  #extend(token: string, holder: Holder, then: () => void): void {
    const world = this.#world;
    const isHeld = (): boolean => !holder.ended && holder.untilMs > world.nowMs;
    const lost = (): void => {
      holder.ended = true;
      void this.#quorum.abandon(this.#release(token), 0);
      this.#next();
    };
    if (!isHeld()) return lost();
    const { lifetimeMs } = world.rules;
    const exact = world.random() < 0.3;
    const leftMs = (holder.untilMs - world.nowMs) * this.#rate;
    const validUntilMs = this.clock.now().monoMs + (exact ? Math.min(leftMs, commandTimeoutMs) : leftMs);
    const request = { keys: key, token, lifetimeMs, exact, validUntilMs, commandTimeoutMs, begin: isHeld };
    this.#quorum.extend(request).then(
      (reply) => {
        if (!isHeld() || reply.outcome !== 'extended') return lost();
        holder.untilMs = exact ? this.#untilMs(reply.sent) : Math.max(holder.untilMs, this.#untilMs(reply.sent));
        world.note(() => `${token} holds it until ${holder.untilMs.toFixed(1)}`);
        world.holds(holder, undefined);
        then();
      },
      () => (isHeld() ? world.after(20, () => this.#extend(token, holder, then)) : lost()),
    );
  }

  #release(token: string): ReleaseRequest {
    return { keys: key, token, commandTimeoutMs };
  }

  #leftMs({ monoMs }: Moment): number {
    return monoMs + trustedMs(this.#world.rules.lifetimeMs) - this.clock.now().monoMs;
  }

  /** In the world's time. */
  #untilMs(sent: Moment): number {
    return this.#world.nowMs + this.#leftMs(sent) / this.#rate;
  }
}
