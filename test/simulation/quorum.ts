/**
 * A world in which the quorum is run to be broken: the real quorum of several processes, the real machine as each of its nodes,
 * and between them a network that delays, loses and repeats, nodes that restart empty or stand still, clocks that differ and
 * run at different rates, and processes that stall, die and change their mind. Time is virtual and every choice comes from one
 * seed.
 *
 * Invariant: nothing in here waits or rolls dice by itself; a world is a function of its seed and its rules.
 */
import { type Clock, clearAlarm, now } from '../../src/core/clock';
import { LockBackendError } from '../../src/core/errors';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  Identity,
  LockState,
  Mode,
  Node,
  RaiseRequest,
  ReleaseReply,
  ReleaseRequest,
} from '../../src/store/contract';
import { Machine } from '../../src/store/embedded/machine/mutex-machine';
import type { LateRequest } from '../../src/store/late-request';
import type { Operator } from '../../src/store/operator';
import { placesOf } from '../../src/store/permit-places';
import { Quorum } from '../../src/store/quorum/store';
import { Heap, mulberry32, type Timed } from './events';
import { Process } from './quorum-process';

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
  /** Chances of a node, every 100 ms: to be restarted, empty; to stand still. */
  readonly restart: number;
  readonly freeze: number;
  /** Chances of a process, in a turn: to stand still while it holds; to leave without a release; to give up an attempt. */
  readonly stall: number;
  readonly leave: number;
  readonly giveUp: number;
  /** The largest difference between the nodes' clocks, in ms. */
  readonly skewMs: number;
  /** True if nodes mint the fence that is proposed to them; otherwise each node mints its own. */
  readonly proposals: boolean;
  /** The lock: a mutex; or readers and a writer, with the number of readers and of upgrades; or a semaphore, with its permits. */
  readonly lock?: 'mutex' | { readonly readers: number; readonly upgrade: number } | { readonly permits: number };
  /** All nodes have just been started for the first time, and their operator has said so. */
  readonly isNew?: boolean;
  /** Deliberate faults. */
  readonly broken?: Broken | undefined;
}

export type Broken =
  | 'no write-back'
  | 'no restart guard'
  | 'no restart guard for an upgrade'
  | 'validity from the reply'
  | 'one token for all attempts'
  | 'readers count for a writer'
  | 'permits are counted';

export class BrokenPromise extends Error {}

const faultsEndMs = 1_500;
const maxWaitMs = 60_000;
export const commandTimeoutMs = 300;
/** Two clocks may run at rates that differ by less than a thousandth. */
export const maxDrift = 0.0004;
const epochMs = 1_700_000_000_000;
export const key = 'the lock';

/** Runs one world to its end. Throws a BrokenPromise; with `noting` one that tells the end of its history, which takes longer. */
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
export interface Holder {
  readonly name: string;
  /** undefined: of a mutex. */
  mode: Mode | undefined;
  fence: number;
  untilMs: number;
  ended: boolean;
}

/** The part of the world that a process knows. */
export type WorldOfProcesses = Pick<
  World,
  'rules' | 'random' | 'nowMs' | 'unfinished' | 'after' | 'chance' | 'note' | 'holds' | 'broken'
>;

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
  /** The last fence of a reader: readers of one phase need not be in order. */
  #lastReaders = 0;
  /** A broken promise that was noticed where throwing would reach nobody. */
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
    const open = (process: Process): Quorum =>
      new Quorum(this.servers.map((server) => new Connection(this, server, process)));
    for (let n = 0; n < processes; n++) new Process(this, `p${n}`, open).start();
    for (let event = this.#events.pop(); event !== undefined; event = this.#events.pop()) {
      if (event.gone) continue;
      this.nowMs = event.atMs;
      if (this.nowMs > faultsEndMs + maxWaitMs) this.broken(`${this.unfinished} still wait`);
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

  /** @param fence Of a new holder, or of one that writes from now on. */
  holds(holder: Holder, fence: number | undefined): void {
    const others = this.#holders.filter((each) => each !== holder && !each.ended && each.untilMs > this.nowMs);
    const other = others.find((each) => !mayShare(each, holder));
    if (other !== undefined) this.broken(`${holder.name} and ${other.name} hold it`);
    const permits = others.reduce((sum, { mode }) => sum + (mode?.permits ?? 0), holder.mode?.permits ?? 0);
    if (holder.mode?.kind === 'counted' && permits > holder.mode.total) this.broken(`${permits} permits are held`);
    if (fence === undefined) return;
    this.grants += 1;
    holder.fence = fence;
    this.#checkFence(holder, fence);
    if (!this.#holders.includes(holder)) this.#holders.push(holder);
  }

  /** Checks that holders that exclude each other have their fences in order. */
  #checkFence({ mode }: Holder, fence: number): void {
    if (mode?.kind === 'counted') return;
    const isReader = mode?.kind === 'shared';
    const before = isReader ? this.#lastFence : Math.max(this.#lastFence, this.#lastReaders);
    // A writer that reads from now on keeps its fence, and readers that join it share that.
    const joins = isReader && this.#holders.some((each) => each.fence === fence && (each.mode?.step ?? 0) > 1);
    if (fence < before || (fence === before && !joins)) this.broken(`fence ${fence} after ${before}`);
    if (isReader) this.#lastReaders = Math.max(this.#lastReaders, fence);
    else this.#lastFence = fence;
  }
}

function mayShare({ mode: one }: Holder, { mode: other }: Holder): boolean {
  if (one === undefined || other === undefined) return false;
  return one.kind === 'counted' || (one.kind === 'shared' && other.kind === 'shared');
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
    this.rate = 1 + (world.random() * 2 - 1) * maxDrift;
    this.#skewMs = (world.random() * 2 - 1) * skewMs;
    this.startedMs = this.clockMs() - (world.rules.isNew ? 0 : 1_000_000);
    const look = (): void => {
      if (world.chance(restart)) this.#restart();
      if (world.chance(freeze)) this.frozenUntilMs = world.nowMs + world.random() * 500;
      if (world.nowMs < faultsEndMs) world.after(100, look);
    };
    if (restart + freeze > 0) world.after(world.random() * 100, look);
  }

  /** True in a first run: an operator has said that the quorum is new. */
  get isNew(): boolean {
    return this.#world.rules.isNew === true && this.runs === 0;
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
  readonly kind = 'redis';
  readonly operator = Object.defineProperty({}, 'offsetMs', { get: () => this.#offsetMs }) as Operator;
  readonly keyPrefix = '';
  readonly clock: Clock;
  readonly #world: World;
  readonly #server: Server;
  readonly #process: Process;
  #arrivesMs = 0;
  #answeredMs = 0;

  constructor(world: World, server: Server, process: Process) {
    this.#world = world;
    this.#server = server;
    this.#process = process;
    this.clock = process.clock;
  }

  /** Another one while it must not be known how young the server is. */
  generation = (): number => this.#server.runs + (this.#hidesAge ? 0.5 : 0);

  get #hidesAge(): boolean {
    const { broken } = this.#world.rules;
    return broken === 'no restart guard' || (broken === 'no restart guard for an upgrade' && this.#process.upgrades);
  }

  get #offsetMs(): number {
    return this.#server.clockMs() - this.#process.clock.nowMs() - 1.5;
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { token, lifetimeMs, fences, minFence, queueAs } = request;
    if (!request.begin()) throw new LockBackendError('nobody waits');
    const sent = now(this.#process.clock);
    const command = {
      keys: [key],
      token,
      // A key ends a millisecond later in Redis than in the machine.
      lifetimeMs: lifetimeMs! + 1,
      notAfterMs: sent.monoMs + this.#offsetMs + request.commandTimeoutMs,
      fences: Math.min(fences, 1),
      minFence: this.#world.rules.proposals ? minFence : undefined,
      queueAs,
      mode: request.mode && this.#asBroken(request.mode),
    };
    const reply = await this.#call(request.commandTimeoutMs, `acquires with ${token}`, ({ machine, micros }) =>
      machine.acquire(command, micros),
    );
    if (reply.outcome === 'late') throw new LockBackendError('too late');
    if (reply.outcome === 'busy') return { granted: false, leftMs: reply.leftMs };
    if (reply.outcome === 'done') throw new Error('no slots here');
    if (reply.outcome !== 'granted') return { granted: false, leftMs: 0, impossible: reply.outcome };
    return { granted: true, fence: reply.fence, sent, others: 0 };
  }

  #asBroken(mode: Mode): Mode {
    return this.#world.rules.broken === 'permits are counted' ? { ...mode, group: '' } : mode;
  }

  async extend({ token, lifetimeMs, exact, begin, held, ...request }: ExtendRequest): Promise<ExtendReply> {
    if (!begin()) return { outcome: 'late' };
    const sent = now(this.#process.clock);
    const notAfterMs = request.validUntilMs + this.#offsetMs;
    const strictly = request.strictly && this.#world.rules.broken !== 'readers count for a writer';
    const pending = { untilMs: request.validUntilMs };
    if (exact) this.#process.pendingExact.add(pending);
    const outcome = await this.#call(request.commandTimeoutMs, `extends ${token}`, ({ machine, micros }) =>
      machine.extend({ keys: key, token, lifetimeMs: lifetimeMs! + 1, exact, notAfterMs, held, strictly }, micros),
    );
    this.#process.pendingExact.delete(pending);
    return outcome === 'extended' ? { outcome, sent } : { outcome };
  }

  async release({ token, commandTimeoutMs, ticket = 0, held }: ReleaseRequest): Promise<ReleaseReply> {
    const command = { keys: [key], token, ticket, yieldMs: 0, held };
    const reply = await this.#call(commandTimeoutMs, `releases ${token}`, ({ machine, micros }) =>
      machine.release(command, micros),
    );
    return reply.results[0]!;
  }

  raise({ token, fence, mode, commandTimeoutMs }: RaiseRequest): Promise<boolean> {
    this.#world.wroteBack += 1;
    if (this.#world.rules.broken === 'no write-back') return Promise.resolve(true);
    return this.#call(commandTimeoutMs, `raises the fence to ${fence}`, ({ machine, micros }) =>
      machine.raise([key], token, fence, micros, mode),
    );
  }

  readPlaces(_: string, timeoutMs: number): Promise<number[][]> {
    return this.#call(timeoutMs, 'reads the places', ({ machine, micros }) =>
      machine.holders(key, micros).map(({ group }) => placesOf(group)),
    );
  }

  identify(timeoutMs: number): Promise<Identity> {
    const hidesAge = this.#hidesAge;
    return this.#call(timeoutMs, 'asks who it is', (server) => ({
      runId: `${server.name}.${server.runs}`,
      uptimeMs: hidesAge ? Number.POSITIVE_INFINITY : server.clockMs() - server.startedMs,
      isNew: server.isNew,
    }));
  }

  async abandon(request: ReleaseRequest, late?: LateRequest): Promise<void> {
    for (let isLast = false; !isLast; ) {
      isLast = late === undefined || this.#process.clock.nowMs() > late.untilMs;
      const released = await this.release(request).catch(() => undefined);
      if (isLast) isLast = released !== undefined;
      if (!isLast) await new Promise<void>((resolve) => this.#world.after(50, resolve));
    }
  }

  inspect(): Promise<LockState> {
    throw new Error('nobody looks');
  }

  join(): void {}

  async leave(): Promise<void> {}

  /** Sends calls in order, over a connection that a restart ends; calls without an answer may be sent again over the next one. */
  #call<T>(timeoutMs: number, what: string, run: (server: Server) => T): Promise<T> {
    const world = this.#world;
    const server = this.#server;
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => reject(new LockBackendError(why, { unknown: true }));
      const deadline = this.#process.clock.setIdleAlarm(() => fail('silence'), timeoutMs);
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
          clearAlarm(deadline);
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
