/**
 * Worlds in which leaders and jobs are run to break their promises: the real loop of a candidate and the real machine as its Redis;
 * between them a network that delays, loses and repeats, and processes that die, stand still and resign under way.
 * Time is virtual and every choice comes from one seed. After each event all promises that it resolved have run.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { trustedMs } from '../../src/hold/validity';
import { Candidacy, type Won } from '../../src/jobs/candidacy';
import { Machine } from '../../src/store/embedded/machine/mutex-machine';
import { slotAt } from '../../src/store/slots';
import { Heap, mulberry32 } from './events';

export interface Rules {
  readonly processes: number;
  readonly turnsEach: number;
  readonly lifetimeMs: number;
  /** Chances, 0 to 1, while faults last. */
  readonly lose: number;
  readonly repeat: number;
  readonly delay: number;
  readonly die: number;
  readonly pause: number;
  readonly resign: number;
  readonly broken?: Broken | undefined;
}

export type Broken =
  | 'does not wait for fn'
  | 'no compare of the mark'
  | 'joins as long as one reads'
  | 'joins what was released'
  | 'shortens what others share'
  | 'hands off what was shortened';

export class BrokenPromise extends Error {}

interface Event {
  atMs: number;
  order: number;
  readonly process: Process | undefined;
  readonly work: () => void;
}

export const epochMs = 1_700_000_000_000;
const faultsEndMs = 8_000;
const maxWaitMs = 60_000;
export const commandTimeoutMs = 100;
const pollMs = 20;
const key = 'the lock';

export class World {
  readonly machine = new Machine(() => {});
  readonly rules: Rules;
  nowMs = 0;
  begun = 0;
  unfinished = 0;
  readonly processes: Process[];
  readonly #events = new Heap<Event>();
  readonly #random: () => number;
  readonly #history: string[] = [];
  #order = 0;

  constructor(seed: number, rules: Rules, newProcess: (world: World, name: string) => Process) {
    this.rules = rules;
    this.#random = mulberry32(seed);
    this.processes = Array.from({ length: rules.processes }, (_, n) => newProcess(this, `p${n}`));
  }

  async run(): Promise<this> {
    for (const process of this.processes) process.start();
    await turn();
    for (let event = this.#events.pop(); event !== undefined && this.unfinished > 0; event = this.#events.pop()) {
      const { process } = event;
      if (process?.dead) continue;
      if (process !== undefined && process.pausedUntilMs > event.atMs) {
        this.at(process.pausedUntilMs, process, event.work);
        continue;
      }
      this.nowMs = event.atMs;
      if (this.nowMs > faultsEndMs + maxWaitMs) this.broken(`${this.unfinished} processes are unfinished`);
      event.work();
      await turn();
    }
    if (this.failure !== undefined) throw this.failure;
    return this;
  }

  /** A promise that was broken in a callback of the world's own, where throwing would reach nobody. */
  failure: BrokenPromise | undefined;

  get micros(): number {
    return (epochMs + Math.floor(this.nowMs)) * 1000;
  }

  random(): number {
    return this.#random();
  }

  chance(share: number): boolean {
    return share > 0 && this.nowMs < faultsEndMs && this.#random() < share;
  }

  at(atMs: number, process: Process | undefined, work: () => void): void {
    this.#events.push({ atMs, order: this.#order++, process, work });
  }

  note(what: string): void {
    this.#history.push(`${this.nowMs.toFixed(2)} ${what}`);
  }

  broken(promise: string): never {
    this.failure ??= new BrokenPromise(`${promise}\n${this.#history.slice(-40).join('\n')}`);
    throw this.failure;
  }

  /** A command on its way to the machine, and its reply back; it may be lost, late, and carried out twice. */
  send<T>(process: Process, command: () => T, onReply: (reply: T) => void): void {
    if (this.chance(this.rules.lose)) return;
    if (this.chance(this.rules.repeat)) this.at(this.nowMs + this.#delayMs(), undefined, command);
    this.at(this.nowMs + this.#delayMs(), undefined, () => {
      const reply = command();
      if (!this.chance(this.rules.lose)) this.at(this.nowMs + this.#delayMs(), process, () => onReply(reply));
    });
  }

  #delayMs(): number {
    return this.chance(this.rules.delay) ? this.random() * 400 : 0.05 + this.random() * 2;
  }
}

/** A process, which takes its turns and has misfortunes. */
export abstract class Process {
  readonly world: World;
  readonly name: string;
  dead = false;
  pausedUntilMs = 0;
  #tokens = 0;

  constructor(world: World, name: string) {
    this.world = world;
    this.name = name;
  }

  start(): void {
    this.world.unfinished += 1;
    this.#misfortune();
    const finished = (): void => {
      if (!this.dead) this.world.unfinished -= 1;
    };
    this.turns().then(finished, (error) => {
      this.world.failure ??= error;
      this.world.unfinished = 0;
    });
  }

  abstract turns(): Promise<void>;

  newToken(): string {
    return `${this.name}.${this.#tokens++}`;
  }

  after(ms: number, work: () => void): void {
    this.world.at(this.world.nowMs + ms, this, work);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Releases until a release is answered; and once more when no copy of an acquire can execute any longer. */
  release(command: () => void): Promise<void> {
    return new Promise((resolve) => {
      let isAnswered = false;
      const attempt = (): void => {
        if (isAnswered) return;
        this.world.send(this, command, () => {
          isAnswered = true;
          resolve();
        });
        this.after(commandTimeoutMs, attempt);
      };
      attempt();
      this.after(2 * commandTimeoutMs, () => this.world.send(this, command, () => {}));
    });
  }

  #misfortune(): void {
    const { world } = this;
    if (world.chance(world.rules.die)) {
      world.note(`${this.name} dies`);
      this.dead = true;
      world.unfinished -= 1;
      return;
    }
    if (world.chance(world.rules.pause)) {
      this.pausedUntilMs = world.nowMs + world.random() * 4 * world.rules.lifetimeMs;
      world.note(`${this.name} stands still until ${this.pausedUntilMs.toFixed(2)}`);
    }
    if (world.nowMs < faultsEndMs) this.after(50, () => this.#misfortune());
  }
}

/** A lock that is held and renewed, as its process counts it. */
class Held {
  readonly token: string;
  readonly fence: number;
  untilMs: number;
  isOver = false;
  readonly #process: Process;
  readonly #lost = new AbortController();

  constructor(process: Process, token: string, fence: number, sentMs: number) {
    this.#process = process;
    this.token = token;
    this.fence = fence;
    this.untilMs = sentMs + trustedMs(process.world.rules.lifetimeMs);
    this.#watch();
    process.after(process.world.rules.lifetimeMs / 3, () => this.#renew());
  }

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  get isLost(): boolean {
    return this.#lost.signal.aborted || this.untilMs <= this.#process.world.nowMs;
  }

  #watch(): void {
    this.#process.after(Math.max(this.untilMs - this.#process.world.nowMs, 0), () => {
      if (this.isOver || this.#lost.signal.aborted) return;
      if (this.isLost) this.#lost.abort(new Error('lost'));
      else this.#watch();
    });
  }

  #renew(): void {
    if (this.isOver || this.isLost) return;
    const { world } = this.#process;
    const { lifetimeMs } = world.rules;
    const sentMs = world.nowMs;
    const notAfterMs = epochMs + this.untilMs;
    const extend = () =>
      world.machine.extend({ keys: key, token: this.token, lifetimeMs, exact: false, notAfterMs }, world.micros);
    world.send(this.#process, extend, (reply) => {
      if (this.isOver || this.isLost) return;
      if (reply === 'extended') this.untilMs = Math.max(this.untilMs, sentMs + trustedMs(lifetimeMs));
      else if (reply !== 'late') this.#lost.abort(new Error(reply));
    });
    this.#process.after(lifetimeMs / 3, () => this.#renew());
  }
}

// Leaders.

interface Term {
  readonly held: Held;
  readonly stop: AbortController;
}

class Elected implements Won<Term> {
  readonly term: Term;
  readonly #candidate: Candidate;

  constructor(candidate: Candidate, held: Held) {
    this.#candidate = candidate;
    this.term = { held, stop: new AbortController() };
  }

  get signal(): AbortSignal {
    return this.term.held.signal;
  }

  get isLost(): boolean {
    return this.term.held.isLost;
  }

  run<T>(fn: () => T | PromiseLike<T>): Promise<T> {
    const settled = (async () => fn())();
    if (this.#candidate.world.rules.broken !== 'does not wait for fn') return settled;
    const { signal } = this.term.stop;
    const told = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    settled.catch(() => {});
    return Promise.race([settled, told]);
  }

  encloses(): boolean {
    return false;
  }

  abort(reason: unknown): void {
    this.term.stop.abort(reason);
  }

  release(): Promise<void> {
    const { world } = this.#candidate;
    const { held } = this.term;
    held.isOver = true;
    const command = { keys: [key], token: held.token, ticket: 0, yieldMs: 0 };
    return this.#candidate.release(() => void world.machine.release(command, world.micros));
  }
}

class Candidate extends Process {
  /** The held lock of the leader's function, as long as the function runs. */
  leads: Held | undefined;

  override async turns(): Promise<void> {
    const { world } = this;
    for (let n = 0; n < world.rules.turnsEach; n += 1) {
      const candidacy = new Candidacy<Term>(
        (stop) => this.#campaign(stop),
        () => {},
      );
      if (world.chance(world.rules.resign)) {
        this.after(
          world.random() * 2000,
          () => void (world.random() < 0.5 ? candidacy.resign() : candidacy.stop(stopped)),
        );
      }
      await candidacy
        .run((term) => this.#lead(term), undefined)
        .catch((error) => {
          if (error instanceof BrokenPromise) throw error;
        });
      await this.sleep(world.random() * 50);
    }
  }

  #campaign(stop: AbortSignal): Promise<Elected> {
    const { world } = this;
    const { lifetimeMs } = world.rules;
    const token = this.newToken();
    return new Promise((resolve, reject) => {
      let isSettled = false;
      const attempt = (): void => {
        if (isSettled) return;
        let isAnswered = false;
        const sentMs = world.nowMs;
        const command = { keys: [key], token, lifetimeMs, notAfterMs: epochMs + sentMs + commandTimeoutMs, fences: 1 };
        world.send(
          this,
          () => world.machine.acquire(command, world.micros),
          (reply) => {
            isAnswered = true;
            if (isSettled) return;
            if (reply.outcome !== 'granted') return this.after(pollMs, attempt);
            isSettled = true;
            resolve(new Elected(this, new Held(this, token, reply.fence, sentMs)));
          },
        );
        this.after(commandTimeoutMs, () => {
          if (!isAnswered) attempt();
        });
      };
      const giveUp = (): void => {
        if (isSettled) return;
        isSettled = true;
        const command = { keys: [key], token, ticket: 0, yieldMs: 0 };
        void this.release(() => void world.machine.release(command, world.micros));
        reject(stop.reason);
      };
      if (stop.aborted) return giveUp();
      stop.addEventListener('abort', giveUp);
      attempt();
    });
  }

  async #lead({ held, stop }: Term): Promise<void> {
    const { world } = this;
    world.note(`${this.name} leads under ${held.token}`);
    this.#check(held);
    this.leads = held;
    const told = new Promise<void>((resolve) => {
      if (stop.signal.aborted) resolve();
      stop.signal.addEventListener('abort', () => resolve());
    });
    await Promise.race([told, this.sleep(world.random() * 3 * world.rules.lifetimeMs)]);
    // It tidies up, for longer than its lifetime now and then; or it looks at nothing, and goes on.
    await this.sleep(world.random() < 0.5 ? 0 : world.random() * 2 * world.rules.lifetimeMs);
    world.note(`${this.name} has settled under ${held.token}`);
    if (this.leads === held) this.leads = undefined;
    if (held.isLost && world.random() < 0.5) throw new Error('lost');
  }

  #check(held: Held): void {
    const { world } = this;
    if (this.leads !== undefined) world.broken(`${this.name} runs two functions at once`);
    for (const other of world.processes as Candidate[]) {
      if (other.dead || other.leads === undefined || other.leads.isLost) continue;
      world.broken(`${this.name} begins while ${other.name} leads`);
    }
    if (held.fence <= lastFences.get(world)!) world.broken(`the term of ${this.name} has no larger fence`);
    lastFences.set(world, held.fence);
    world.begun += 1;
  }
}

const stopped = new Error('stopped');
const lastFences = new WeakMap<World, number>();

export function simulateTerms(seed: number, rules: Rules): Promise<World> {
  const world = new World(seed, rules, (of, name) => new Candidate(of, name));
  lastFences.set(world, 0);
  return world.run();
}

// Jobs once a slot.

const everyMs = 1000;

/** The jobs that began in a slot, and the one that counts. */
interface SlotState {
  readonly began: string[];
  markedBy: string | undefined;
}

class Worker extends Process {
  readonly #mode: 'at-most-once' | 'until-success';
  readonly #slots: Map<number, SlotState>;

  constructor(world: World, name: string, mode: 'at-most-once' | 'until-success', slots: Map<number, SlotState>) {
    super(world, name);
    this.#mode = mode;
    this.#slots = slots;
  }

  /** A timer that fires when it likes. */
  override async turns(): Promise<void> {
    for (let n = 0; n < this.world.rules.turnsEach; n += 1) {
      await this.#once();
      await this.sleep(this.world.random() * 400);
    }
  }

  #once(): Promise<void> {
    const { world } = this;
    const slots = { everyMs, offsetMs: 0, marks: this.#mode === 'at-most-once' };
    const token = this.newToken();
    const sentMs = world.nowMs;
    const { lifetimeMs } = world.rules;
    const notAfterMs = epochMs + sentMs + commandTimeoutMs;
    const command = { keys: [key], token, lifetimeMs, notAfterMs, fences: 1, slots };
    return new Promise((resolve, reject) => {
      let isSettled = false;
      const give = (): void => {
        if (isSettled) return;
        isSettled = true;
        this.#giveBack(token, undefined).then(resolve, reject);
      };
      const acquire = () => ({
        ...world.machine.acquire(command, world.micros),
        index: slotAt(world.micros / 1000, slots).index,
      });
      world.send(this, acquire, (reply) => {
        if (isSettled) return;
        if (reply.outcome !== 'granted') return give();
        isSettled = true;
        this.#job(new Held(this, token, reply.fence, sentMs), reply.index).then(resolve, reject);
      });
      this.after(commandTimeoutMs, give);
    });
  }

  async #job(held: Held, index: number): Promise<void> {
    const { world } = this;
    if (held.isLost) return this.#giveBack(held.token, undefined);
    const state = this.#slots.get(index) ?? { began: [], markedBy: undefined };
    this.#slots.set(index, state);
    world.note(`${this.name} runs the job of ${index} under ${held.token}`);
    if (this.#mode === 'at-most-once' && state.began.length > 0) world.broken(`the job of ${index} runs twice`);
    if (state.markedBy !== undefined) world.broken(`the job of ${index} runs although it is done`);
    state.began.push(held.token);
    world.begun += 1;
    await this.sleep(world.random() * (world.random() < 0.2 ? 1500 : 100));
    held.isOver = true;
    const isDone = this.#mode === 'until-success' && world.random() < 0.8;
    await this.#giveBack(held.token, isDone ? index : undefined);
  }

  #giveBack(token: string, done: number | undefined): Promise<void> {
    const { world } = this;
    return this.release(() => {
      if (done !== undefined) this.#mark(token, done);
      world.machine.release({ keys: [key], token, ticket: 0, yieldMs: 0 }, world.micros);
    });
  }

  #mark(token: string, index: number): void {
    const { world } = this;
    const careless = world.rules.broken === 'no compare of the mark' && world.machine.row(key, world.micros).token;
    const slot = { index, start: index * everyMs, end: (index + 1) * everyMs };
    if (!world.machine.markSlot(key, careless || token, slot, world.micros)) return;
    world.note(`${token} marks ${index}`);
    const state = this.#slots.get(index)!;
    if (state.began.at(-1) !== token) world.broken(`the slot ${index} is done by a job that another has overtaken`);
    state.markedBy = token;
  }
}

export function simulateSlots(seed: number, mode: 'at-most-once' | 'until-success', rules: Rules): Promise<World> {
  const slots = new Map<number, SlotState>();
  return new World(seed, rules, (world, name) => new Worker(world, name, mode, slots)).run();
}
