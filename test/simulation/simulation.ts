/**
 * A world in which the waiting protocol is run to be broken: the real queues of several processes, the real machine as their
 * Redis, and between them a network that delays, loses and repeats, and processes that die, stand still and change their mind.
 * Time is virtual and every choice comes from one seed, so a world that breaks a promise breaks it again.
 *
 * Invariant: nothing in here waits or rolls dice by itself; a world is a function of its seed and its rules.
 */

import { earlier } from '../../src/core/clock';
import { LockBackendError } from '../../src/core/errors';
import { trustedMs } from '../../src/hold/validity';
import { handOffsAlone, handOffsAmongOthers } from '../../src/queue/policy';
import { OwnEntry, Position, Queue, type QueuePort, type Waiter, type WaitTerms } from '../../src/queue/queue';
import type { AcquireReply, Grant, Holder, Moment, ReleaseReply, ReleaseRequest } from '../../src/store/contract';
import { Machine } from '../../src/store/embedded/machine/mutex-machine';
import { MemoryRows } from '../../src/store/embedded/machine/row';
import type { LateRequest } from '../../src/store/late-request';
import { limits } from '../../src/store/protocol';
import { Answer } from '../support/answer';
import { Heap, mulberry32 } from './events';

export interface Rules {
  readonly processes: number;
  readonly usersEach: number;
  readonly turnsEach: number;
  readonly lifetimeMs: number;
  readonly holdMs: number;
  readonly commandTimeoutMs: number;
  readonly minPollMs: number;
  /** Chances, 0 to 1, while faults last. */
  readonly lose: number;
  readonly repeat: number;
  readonly loseMessage: number;
  /** The chance that a stranger, who knows all of an entry but the nonce, publishes that its process was granted the lock. */
  readonly forge: number;
  /** The chance that a message is under way for up to 1.5 s. */
  readonly delay: number;
  readonly die: number;
  readonly pause: number;
  readonly abandonHold: number;
  readonly giveUp: number;
  /** A non-queueing client: SETNX, PEXPIRE, GET and DEL. */
  readonly nonQueueing: number;
  readonly counters: number;
  /** The pause of callers that poll. */
  readonly pollPauseMs: number;
  /** The time within which callers that poll have a turn, if nothing goes wrong. */
  readonly pollTurnMs?: number | undefined;
  /** Deliberate faults of the protocol itself. */
  readonly broken?: Broken | undefined;
}

export type Broken =
  | 'release without compare'
  | 'no confirmation'
  | 'releases first'
  | 'no rescue'
  | 'no poll marks'
  | 'one nonce for each entry'
  | 'a nonce that can be guessed'
  | 'a grant counts from its message'
  | 'a grant counts although little of it is left'
  | 'hand-off before the confirmation'
  | 'queued since its last request';

export class BrokenPromise extends Error {}

/** Faults happen until then; after it everybody must get on. */
const faultsEndMs = 15_000;
/** The time after the last fault by which no caller may still wait. */
const maxWaitMs = 60_000;
const pollMs = 5;
const epochMicros = 1_700_000_000_000_000;
const key = 'the lock';
/** The nonce in the variant whose nonces can be guessed. */
const theOnlyNonce = 'guessed';

/** Runs one world to its end. Throws a BrokenPromise; with `noting` one that tells the end of its history, which takes longer. */
export function simulate(seed: number, rules: Rules, noting = false): Simulation {
  const world = new Simulation(seed, rules, noting);
  try {
    world.run();
  } catch (error) {
    if (!noting && error instanceof BrokenPromise) return simulate(seed, rules, true);
    throw error;
  }
  return world;
}

interface Event {
  atMs: number;
  order: number;
  readonly process: Process | undefined;
  readonly work: () => void;
  gone: boolean;
}

interface Grantee extends Holder {
  untilMs: number;
  /** A moment before the confirmed request was sent. */
  sent?: Moment | undefined;
  readonly name: string;
  ended: boolean;
  /** Set once the confirmation was requested. */
  isConfirming?: boolean;
}

export class Simulation {
  readonly rules: Rules;
  readonly machine: Machine;
  readonly history: string[] = [];
  nowMs = 0;
  grants = 0;
  /** The number of grants by message. */
  told = 0;
  commands = 0;
  unfinished = 0;
  readonly #random: () => number;
  readonly #rows = new MemoryRows();
  readonly #events = new Heap<Event>();
  readonly #processes: Process[] = [];
  #order = 0;
  #holder: Grantee | undefined;
  #lastFence = 0;
  /** Grants that had been made when an entry was first queued, and how many were before it. */
  readonly #stood = new Map<string, { grants: number; before: number }>();
  readonly #givenBack = new Set<string>();

  readonly #noting: boolean;

  constructor(seed: number, rules: Rules, noting: boolean) {
    this.rules = rules;
    this.#noting = noting;
    this.#random = mulberry32(seed);
    this.machine = new Machine((channel, text) => this.#tell(channel, text), this.#rows);
  }

  run(): void {
    const { processes, usersEach, nonQueueing, counters } = this.rules;
    for (let n = 0; n < processes; n++) this.#processes.push(new Process(this, `p${n}`));
    for (const process of this.#processes) for (let n = 0; n < usersEach; n++) new User(this, process, n).start();
    for (let n = 0; n < nonQueueing; n++) new Poller(this, `nonQueueing${n}`, false).start();
    for (let n = 0; n < counters; n++) new Poller(this, `counter${n}`, true).start();
    for (let event = this.#events.pop(); event !== undefined; event = this.#events.pop()) {
      if (event.gone || event.process?.dead) continue;
      if (event.process !== undefined && event.process.pausedUntilMs > event.atMs) {
        event.atMs = event.process.pausedUntilMs;
        event.order = this.#order++;
        this.#events.push(event);
        continue;
      }
      this.nowMs = event.atMs;
      if (this.nowMs > faultsEndMs + maxWaitMs)
        this.broken(`a caller still waits (${this.unfinished} users unfinished)`);
      event.work();
      if (this.unfinished === 0) break;
    }
    if (this.unfinished > 0) this.broken(`nothing will ever happen again, and ${this.unfinished} users are unfinished`);
  }

  get faulty(): boolean {
    return this.nowMs < faultsEndMs;
  }

  get micros(): number {
    return epochMicros + Math.floor(this.nowMs * 1000);
  }

  random(): number {
    return this.#random();
  }

  chance(share: number): boolean {
    return share > 0 && this.faulty && this.#random() < share;
  }

  at(atMs: number, process: Process | undefined, work: () => void): Event {
    const event = { atMs, order: this.#order++, process, work, gone: false };
    this.#events.push(event);
    return event;
  }

  after(ms: number, process: Process | undefined, work: () => void): Event {
    return this.at(this.nowMs + ms, process, work);
  }

  note(what: () => string): void {
    if (this.#noting) this.history.push(`${this.nowMs.toFixed(3)} ${what()}`);
  }

  broken(promise: string): never {
    throw new BrokenPromise(`${promise}\n${this.history.slice(-60).join('\n')}`);
  }

  /** The delay by which, in two variants, an answered request seems to have been sent later: older messages count. */
  shiftMs({ lifetimeMs }: WaitTerms): number {
    const { broken } = this.rules;
    if (broken === 'a grant counts from its message') return 1e9;
    if (broken !== 'a grant counts although little of it is left') return 0;
    return Math.min(lifetimeMs, limits.provisionalMs) / 2;
  }

  /** A process counts the lock as its own from now on. */
  granted(to: Grantee): void {
    this.note(() => `${to.name} holds ${to.token} under ${to.fence - epochMicros} until ${to.untilMs.toFixed(1)}`);
    const before = this.#holder;
    if (before !== undefined && !before.ended && before.untilMs > this.nowMs) {
      this.broken(`${to.name} and ${before.name} hold it`);
    }
    if (to.fence > 0 && to.fence <= this.#lastFence) this.broken(`fence ${to.fence} after ${this.#lastFence}`);
    this.#lastFence = Math.max(this.#lastFence, to.fence);
    this.#holder = to;
    this.grants += 1;
    this.#checkOvertaken(to.token);
  }

  #checkOvertaken(token: string): void {
    const stood = this.#stood.get(token);
    this.#stood.delete(token);
    if (stood === undefined || !this.isCalm) return;
    const overtakers = this.grants - 1 - stood.grants;
    const most = handOffsAlone + 1 + (handOffsAmongOthers + 1) * stood.before;
    if (overtakers > most) this.broken(`${overtakers} grants passed ${token}, which had ${stood.before} before it`);
  }

  /** No fault of any kind, and nobody who comes by another door. */
  get isCalm(): boolean {
    const { die, pause, nonQueueing, counters, abandonHold } = this.rules;
    return this.isOrderly && die + pause + nonQueueing + counters + abandonHold === 0;
  }

  /** The network does what a connection does. */
  get isOrderly(): boolean {
    const { lose, repeat } = this.rules;
    return lose + repeat === 0;
  }

  /** Lets the machine acquire, and checks the result. */
  acquire(command: Parameters<Machine['acquire']>[0], by: string): ReturnType<Machine['acquire']> {
    this.commands += 1;
    const reply = this.machine.acquire(command, this.micros);
    this.note(() => `${by} asks with ${command.token}: ${JSON.stringify(reply)}`);
    const position = reply.outcome === 'busy' ? reply.position : undefined;
    if (position && !this.#stood.has(command.token)) {
      this.#stood.set(command.token, { grants: this.grants, before: position.before });
    }
    this.#checkGivenBack();
    this.#checkQueuedOnce();
    return reply;
  }

  release(command: Parameters<Machine['release']>[0], by: string): ReturnType<Machine['release']> {
    this.commands += 1;
    const holder = this.machine.row(key, this.micros).token;
    const careless = this.rules.broken === 'release without compare' && holder !== undefined;
    const reply = this.machine.release(careless ? { ...command, token: holder } : command, this.micros);
    this.note(() => `${by} gives ${command.token} back: ${JSON.stringify(reply)}`);
    this.#givenBack.add(command.token);
    this.#checkGivenBack();
    return reply;
  }

  #checkGivenBack(): void {
    const holder = this.machine.row(key, this.micros).token;
    if (this.isOrderly && holder !== undefined && this.#givenBack.has(holder)) {
      this.broken(`${holder} was released, and holds the lock again`);
    }
  }

  /** Checks that no token has two entries: one of them would be granted to nobody. */
  #checkQueuedOnce(): void {
    const tokens = (this.#rows.get(key)?.queue ?? []).map(({ token }) => token);
    if (new Set(tokens).size < tokens.length) this.broken('a token is queued twice');
  }

  extend(token: string, lifetimeMs: number, notAfterMs: number, by: string): ReturnType<Machine['extend']> {
    this.commands += 1;
    const outcome = this.machine.extend({ keys: key, token, lifetimeMs, exact: false, notAfterMs }, this.micros);
    this.note(() => `${by} confirms ${token}: ${outcome}`);
    return outcome;
  }

  #tell(channel: string, text: string): void {
    const process = this.#processes.find((each) => each.channel === channel)!;
    const times = this.chance(this.rules.repeat) ? 2 : 1;
    for (let n = 0; n < times; n++) {
      if (this.chance(this.rules.loseMessage)) continue;
      this.after(this.delayMs(), process, () => process.hear(text));
    }
    if (!this.chance(this.rules.forge)) return;
    const other = this.#processes[Math.floor(this.random() * this.#processes.length)]!;
    this.after(this.delayMs(), other, () => other.hear(other.forgery()));
  }

  delayMs(): number {
    // Mostly short; now and then as long as a timeout.
    return this.chance(this.rules.delay) ? this.random() * 1500 : 0.05 + this.random() * 2;
  }
}

interface ReplyCallbacks<T> {
  readonly resolve: (reply: T) => void;
  readonly reject: (error: LockBackendError) => void;
}

/** A process: its own queues, its own connection. */
class Process implements QueuePort {
  readonly clock = this;
  readonly channel: string;
  dead = false;
  pausedUntilMs = 0;
  readonly #world: Simulation;
  readonly #queues = new Map<string, Queue>();
  readonly #left = new Map<string, () => void>();
  #ids = 0;
  #nonces = 0;
  #arrivalMs = 0;
  #answeredMs = 0;
  #unsent: { isRelease: boolean; send: () => void }[] = [];
  #waking = false;

  constructor(world: Simulation, name: string) {
    this.#world = world;
    this.channel = name;
    this.#misfortunes();
  }

  queue(lifetimeMs: number): Queue {
    const name = String(lifetimeMs);
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = new Queue({ key, lifetimeMs, fencing: true, owner: undefined }, this);
      this.#queues.set(name, queue);
    }
    return queue;
  }

  hear(text: string): void {
    this.#world.note(() => `${this.channel} hears of ${text}`);
    const [, id, nonce, fence] = /^([^/]+)\/([^=]+)(?:=(\d+))?$/.exec(text) as unknown as [
      string,
      string,
      string,
      string?,
    ];
    const wakeUp = { nonce, fence: fence === undefined ? undefined : Number(fence) };
    this.#waking = true;
    const known = [...this.#queues.values()].some((queue) => queue.wake(id, wakeUp));
    this.#waking = false;
    // Granted to an entry that was given up: released at once.
    if (!known) this.#left.get(id)?.();
  }

  /** The next best message about the latest entry, from somebody who cannot know its nonce. */
  forgery(): string {
    return `${this.channel}.${this.#ids - 1}/${theOnlyNonce}=${this.#world.machine.rows.fence + 1}`;
  }

  #misfortunes(): void {
    const { die, pause } = this.#world.rules;
    const look = (): void => {
      if (this.#world.chance(die)) {
        this.#world.note(() => `${this.channel} dies`);
        this.dead = true;
        for (const each of User.of(this)) each.end();
        return;
      }
      if (this.#world.chance(pause)) {
        this.pausedUntilMs = this.#world.nowMs + this.#world.random() * 4000;
        this.#world.note(() => `${this.channel} stands still until ${this.pausedUntilMs.toFixed(1)}`);
      }
      if (this.#world.faulty) this.#world.after(50, this, look);
    };
    if (die + pause > 0) this.#world.after(this.#world.random() * 50, this, look);
  }

  nowMs(): number {
    return this.#world.nowMs;
  }

  wallMs(): number {
    return this.#world.nowMs;
  }

  now(): Moment {
    return this.#moment();
  }

  random(): number {
    return this.#world.random();
  }

  setTimer(work: () => void, ms: number): unknown {
    if (this.#world.rules.broken === 'no rescue') return {};
    return this.#world.after(ms, this, work);
  }

  clearTimer(timer: unknown): void {
    (timer as Event).gone = true;
  }

  newEntry(queue: Queue): OwnEntry {
    const id = `${this.channel}.${this.#ids++}`;
    // As our tokens are: the end repeats the beginning of the last 36 characters.
    const token = `token-${id}`.padEnd(36, ' ');
    const whole = `${token.slice(0, 32)}${token.slice(0, 4)}`;
    return new OwnEntry(queue, whole, id);
  }

  newNonce(): string {
    const { broken } = this.#world.rules;
    if (broken === 'a nonce that can be guessed') return theOnlyNonce;
    // The id of the entry is in each message beside it.
    return broken === 'one nonce for each entry' ? 'the same' : `nonce${this.#nonces++}`;
  }

  granted(): void {}

  /** In some worlds, each process seems to have many other queues. */
  get minPollMs(): number {
    return this.#world.rules.minPollMs;
  }

  request(entry: OwnEntry): Promise<AcquireReply> {
    const { commandTimeoutMs } = entry.head!;
    const sent = this.#moment();
    const answer = new Answer<AcquireReply>();
    if (this.#waking && this.#world.rules.broken === 'no confirmation') {
      const fence = this.#world.machine.rows.fence - entry.fences + 1;
      this.#world.after(0, this, () => answer.resolve({ granted: true, fence, sent: this.#moment(), others: 1 }));
      return answer.promise;
    }
    const command = { ...this.#requestOf(entry), keys: [key], notAfterMs: this.#notAfterMs(commandTimeoutMs) };
    const run = (): unknown => this.#world.acquire(command, this.channel);
    this.#call(run, commandTimeoutMs, false, {
      resolve: (reply) => acquired(reply, sent, answer, this.#world.shiftMs(entry.queue.terms)),
      reject: answer.reject,
    });
    return answer.promise;
  }

  releaseAndRequest({ token }: Holder, entry: OwnEntry): Promise<[ReleaseReply, AcquireReply]> {
    const waiter = entry.head!;
    const sent = this.#moment();
    const answer = new Answer<[ReleaseReply, AcquireReply]>();
    const next = this.#requestOf(entry);
    const command = { keys: [key], token, ticket: 0, yieldMs: waiter.retryTimeoutMs, next };
    const run = (): unknown => this.#world.release(command, this.channel);
    this.#call(run, waiter.commandTimeoutMs, true, {
      resolve: (reply) => {
        const result = reply.results[0];
        const resolve = (acquire: AcquireReply): void => answer.resolve([result, acquire]);
        acquired(reply.next, sent, { resolve, reject: answer.reject }, this.#world.shiftMs(entry.queue.terms));
      },
      reject: answer.reject,
    });
    return answer.promise;
  }

  /** Confirms a grant, for as long as its holder counts on it. */
  confirm(holder: Grantee, lifetimeMs: number, answer: ReplyCallbacks<any>): void {
    const leftMs = holder.leftMs();
    const notAfterMs = Math.floor(this.#world.micros / 1000 + leftMs);
    const run = (): unknown => this.#world.extend(holder.token, lifetimeMs, notAfterMs, this.channel);
    this.#call(run, Math.max(leftMs / 2, 10), false, answer);
  }

  release(held: Holder): Promise<ReleaseReply> {
    const { resolve, reject, promise } = new Answer<ReleaseReply>();
    const { token, ticket = 0, yieldMs = 0, commandTimeoutMs } = held.releaseRequest();
    const run = (): unknown => this.#world.release({ keys: [key], token, ticket, yieldMs }, this.channel);
    this.#call(run, commandTimeoutMs, true, { resolve: (reply) => resolve(reply.results[0]), reject });
    return promise;
  }

  /** Releases once more, as a held lock does whose release had no answer, or of whose token a late request may still execute. */
  releaseAgain(token: string, late: LateRequest | undefined, commandTimeoutMs: number): void {
    if (late?.mayExecute(this.#world.nowMs))
      this.#releaseTwice(token, `released.${token}`, late.untilMs, commandTimeoutMs, -1);
    else this.#releaseUntilAnswered(token, commandTimeoutMs, 0);
  }

  abandon({ token, id, late, ticket, head }: OwnEntry): void {
    this.#releaseTwice(token, id, late?.untilMs ?? 0, head!.commandTimeoutMs, ticket || -1);
  }

  empty(queue: Queue): void {
    this.#queues.delete(String(queue.terms.lifetimeMs));
  }

  #releaseTwice(token: string, id: string, untilMs: number, commandTimeoutMs: number, ticket: number): void {
    const release = (done?: () => void): void => this.#releaseUntilAnswered(token, commandTimeoutMs, ticket, done);
    this.#left.set(id, () => release());
    release(() => {
      if (untilMs <= this.#world.nowMs) return void this.#left.delete(id);
      this.#world.after(untilMs + 2 - this.#world.nowMs, this, () => release(() => this.#left.delete(id)));
    });
  }

  #releaseUntilAnswered(token: string, commandTimeoutMs: number, ticket: number, done?: () => void): void {
    const command = { keys: [key], token, ticket, yieldMs: pollMs };
    this.#call(() => this.#world.release(command, this.channel), commandTimeoutMs, true, {
      resolve: () => done?.(),
      reject: () => this.#releaseUntilAnswered(token, commandTimeoutMs, ticket, done),
    });
  }

  #requestOf({ queue, token, id, nonce, ticket: known, sinceMs, fences }: OwnEntry) {
    const { lifetimeMs } = queue.terms;
    const fromMs = this.#world.rules.broken === 'queued since its last request' ? this.#world.nowMs : sinceMs;
    const ticket = known || -(epochMicros + Math.floor(fromMs * 1000));
    const silenceMs = 2 * this.minPollMs;
    const queueAs = { channel: this.channel, id: `${id}/${nonce}`, ticket, silenceMs };
    return { token, lifetimeMs, fences, queueAs };
  }

  #moment(): Moment {
    return { monoMs: this.#world.nowMs, wallMs: this.#world.nowMs };
  }

  #notAfterMs(commandTimeoutMs: number): number {
    return Math.floor(this.#world.micros / 1000) + commandTimeoutMs;
  }

  /** Sends a call. The calls of one tick arrive together and in order, and so do the answers. Each may be lost, or its command run twice. */
  #call(run: () => unknown, commandTimeoutMs: number, isRelease: boolean, answer: ReplyCallbacks<any>): void {
    const world = this.#world;
    let settled = false;
    const once = (settle: () => void): void => {
      if (!settled) settle();
      settled = true;
    };
    const deadline = world.after(commandTimeoutMs, this, () => {
      once(() => answer.reject(new LockBackendError('silence', { unknown: true })));
    });
    const arrive = (): void => {
      const reply = run();
      if (world.chance(world.rules.lose)) return world.note(() => `the answer to ${this.channel} is lost`);
      this.#answeredMs = Math.max(this.#answeredMs, world.nowMs + world.delayMs());
      world.at(this.#answeredMs, this, () => {
        deadline.gone = true;
        once(() => answer.resolve(reply));
      });
    };
    const send = (): void => {
      if (world.chance(world.rules.lose)) return world.note(() => `a command of ${this.channel} is lost`);
      world.at(this.#arrivalMs, undefined, arrive);
      if (world.chance(world.rules.repeat)) world.at(this.#arrivalMs + world.delayMs(), undefined, run as () => void);
    };
    if (this.#unsent.push({ isRelease, send }) === 1) world.after(0, this, () => this.#flush());
  }

  #flush(): void {
    const together = this.#unsent;
    this.#unsent = [];
    if (this.#world.rules.broken === 'releases first')
      together.sort((a, b) => Number(b.isRelease) - Number(a.isRelease));
    this.#arrivalMs = Math.max(this.#arrivalMs, this.#world.nowMs + this.#world.delayMs());
    for (const { send } of together) send();
  }
}

function acquired(reply: any, sent: Moment, { resolve, reject }: ReplyCallbacks<any>, shiftMs: number): void {
  if (reply.outcome === 'late') return reject(new LockBackendError('too late'));
  if (reply.outcome === 'granted') resolve({ ...reply, granted: true, sent });
  else resolve({ ...reply, granted: false, sent: earlier(sent, -shiftMs) });
}

function releaseOf(token: string, commandTimeoutMs: number): ReleaseRequest {
  return { keys: key, token, commandTimeoutMs, yieldMs: pollMs };
}

/** A caller in a process that waits, works, releases, and comes again. */
class User implements Waiter {
  static readonly #all = new WeakMap<Process, User[]>();
  readonly commandTimeoutMs: number;
  readonly retryTimeoutMs = pollMs;
  readonly #world: Simulation;
  readonly #process: Process;
  readonly #name: string;
  #turnsLeft: number;
  #queue!: Queue;
  #position!: Position;
  #waiting = false;
  #change: Event | undefined;

  static of(process: Process): readonly User[] {
    return User.#all.get(process) ?? [];
  }

  constructor(world: Simulation, process: Process, number: number) {
    this.#world = world;
    this.#process = process;
    this.#name = `${process.channel}/${number}`;
    this.#turnsLeft = world.rules.turnsEach;
    this.commandTimeoutMs = world.rules.commandTimeoutMs;
    User.#all.set(process, [...User.of(process), this]);
  }

  start(): void {
    this.#world.unfinished += 1;
    this.#world.after(this.#world.random() * 20, this.#process, () => this.#turn());
  }

  end(): void {
    if (this.#turnsLeft >= 0) this.#world.unfinished -= 1;
    this.#turnsLeft = -1;
  }

  #turn(): void {
    this.#turnsLeft -= 1;
    if (this.#turnsLeft < 0) {
      this.#world.unfinished -= 1;
      return;
    }
    const { lifetimeMs, giveUp } = this.#world.rules;
    this.#queue = this.#process.queue(this.#world.random() < 0.9 ? lifetimeMs : lifetimeMs * 2);
    this.#waiting = true;
    this.#position = new Position(this.#queue, this);
    this.#position.begin();
    if (this.#world.random() >= giveUp) return;
    const changeMindMs = this.#world.random() < 0.3 ? 0 : this.#world.random() * 300;
    const change = (): void => {
      if (!this.#waiting) return;
      this.#waiting = false;
      this.#world.note(() => `${this.#name} gives up`);
      this.#position.giveUp();
      this.#pauseThenTurn();
    };
    if (changeMindMs === 0) change();
    else this.#change = this.#world.after(changeMindMs, this.#process, change);
  }

  granted({ token, fence, sent: told, late, provisionalMs }: Grant): Holder {
    if (!this.#waiting) this.#world.broken(`${this.#name} is given a lock that it does not wait for`);
    this.#waiting = false;
    if (this.#change) this.#change.gone = true;
    const world = this.#world;
    const queue = this.#queue;
    const { holdMs, abandonHold, broken } = world.rules;
    const isProvisional = provisionalMs !== undefined;
    const sent = isProvisional ? earlier(told, world.shiftMs(queue.terms)) : told;
    const holder: Grantee = {
      token,
      fence,
      untilMs: sent.monoMs + trustedMs(provisionalMs ?? queue.terms.lifetimeMs),
      name: this.#name,
      ended: false,
      sent: isProvisional && broken !== 'hand-off before the confirmation' ? undefined : sent,
      leftMs: () => holder.untilMs - world.nowMs,
      confirmed: () => (holder.untilMs > world.nowMs ? holder.sent : undefined),
      confirmNow: () => isProvisional && this.#confirmOnce(queue, holder),
      releaseRequest: () => releaseOf(token, this.commandTimeoutMs),
    };
    if (isProvisional) this.#beginProvisionally(queue, holder, provisionalMs);
    world.granted(holder);
    if (world.chance(abandonHold)) {
      this.#loseLater(queue, holder);
      this.#pauseThenTurn();
      return holder;
    }
    world.after(world.random() * 2 * holdMs, this.#process, () => {
      holder.ended = true;
      this.#release(queue, holder, late);
      this.#pauseThenTurn();
    });
    return holder;
  }

  /** Begins to hold as a held lock does that was granted by message. */
  #beginProvisionally(queue: Queue, holder: Grantee, provisionalMs: number): void {
    const world = this.#world;
    world.told += 1;
    if (world.rules.broken === 'a grant counts from its message') {
      holder.untilMs = world.nowMs + trustedMs(queue.terms.lifetimeMs);
    }
    if (holder.leftMs() < Math.min(provisionalMs / 2, 500) - provisionalMs / 1000) {
      world.broken(`${this.#name} has ${holder.leftMs()} ms left to confirm its grant`);
    }
    const soonMs = Math.min(20, holder.leftMs() / 4);
    world.after(soonMs, this.#process, () => this.#confirmOnce(queue, holder));
  }

  #confirmOnce(queue: Queue, holder: Grantee): void {
    if (holder.isConfirming) return;
    holder.isConfirming = true;
    this.#confirm(queue, holder);
  }

  #confirm(queue: Queue, holder: Grantee): void {
    const world = this.#world;
    const { lifetimeMs } = queue.terms;
    const sent = this.#process.now();
    if (holder.ended || holder.leftMs() <= 0) return;
    this.#process.confirm(holder, lifetimeMs, {
      resolve: (outcome) => {
        if (holder.ended || holder.leftMs() <= 0) return;
        if (outcome === 'late') return this.#confirm(queue, holder);
        if (outcome === 'extended') {
          holder.sent = sent;
          holder.untilMs = Math.max(holder.untilMs, sent.monoMs + trustedMs(lifetimeMs));
          return;
        }
        // The process goes on with its work, and releases in vain.
        holder.untilMs = world.nowMs;
        queue.lost(holder);
      },
      reject: () => this.#confirm(queue, holder),
    });
  }

  /** Drops the lock without a release: it is lost when its validity ends, which a confirmation may still move. */
  #loseLater(queue: Queue, holder: Grantee): void {
    this.#world.after(Math.max(holder.leftMs(), 0), this.#process, () => {
      if (holder.leftMs() > 0) this.#loseLater(queue, holder);
      else queue.lost(holder);
    });
  }

  #release(queue: Queue, holder: Grantee, late: LateRequest | undefined): void {
    const reply = queue.release(holder);
    if (reply === 'released') return;
    const again = (): void => this.#process.releaseAgain(holder.token, late, this.commandTimeoutMs);
    (reply as Promise<ReleaseReply>).then(() => late?.mayExecute(this.#world.nowMs) && again(), again);
  }

  #pauseThenTurn(): void {
    this.#world.after(this.#world.random() < 0.5 ? 0 : this.#world.random() * 30, this.#process, () => this.#turn());
  }

  failed(error: LockBackendError): void {
    this.#world.broken(`${this.#name} failed: ${error.message}`);
  }

  troubled(): void {}
}

/** A caller that asks again and again: one of ours that polls, or an old client that knows nothing of queues. */
class Poller {
  readonly #world: Simulation;
  readonly #name: string;
  readonly #knowsQueues: boolean;
  #turns = 0;
  #turnsLeft: number;
  #waitsSinceMs: number | undefined;

  constructor(world: Simulation, name: string, knowsQueues: boolean) {
    this.#world = world;
    this.#name = name;
    this.#knowsQueues = knowsQueues;
    this.#turnsLeft = Math.ceil(world.rules.turnsEach / 2);
  }

  start(): void {
    this.#world.unfinished += 1;
    this.#ask();
  }

  #ask(): void {
    const world = this.#world;
    const { lifetimeMs, holdMs } = world.rules;
    const sentMs = world.nowMs;
    const token = `${this.#name}.${this.#turns}`;
    const fence = this.#knowsQueues ? this.#askAsOurs(token) : this.#setnx(token);
    if (fence === undefined) return this.#askAgain();
    this.#waitsSinceMs = undefined;
    this.#turns += 1;
    const untilMs = sentMs + trustedMs(lifetimeMs);
    const holder: Grantee = {
      token,
      fence,
      untilMs,
      name: this.#name,
      ended: false,
      leftMs: () => untilMs - world.nowMs,
      confirmed: () => undefined,
      confirmNow: () => {},
      releaseRequest: () => releaseOf(token, world.rules.commandTimeoutMs),
    };
    world.granted(holder);
    world.after(world.random() * holdMs, undefined, () => {
      holder.ended = true;
      if (this.#knowsQueues) world.release({ keys: [key], token, ticket: 0, yieldMs: pollMs }, this.#name);
      else if (world.machine.row(key, world.micros).token === token) world.machine.put(key, undefined, 0);
      this.#turnsLeft -= 1;
      if (this.#turnsLeft > 0) world.after(world.random() * 20, undefined, () => this.#ask());
      else world.unfinished -= 1;
    });
  }

  #askAgain(): void {
    const world = this.#world;
    const { pollPauseMs, pollTurnMs } = world.rules;
    this.#waitsSinceMs ??= world.nowMs;
    if (pollTurnMs !== undefined && world.nowMs - this.#waitsSinceMs > pollTurnMs) {
      world.broken(`${this.#name} polls in vain since ${this.#waitsSinceMs.toFixed(1)}`);
    }
    world.after(pollPauseMs, undefined, () => this.#ask());
  }

  #askAsOurs(token: string): number | undefined {
    const { lifetimeMs, pollPauseMs, broken } = this.#world.rules;
    const pauseMs = broken === 'no poll marks' ? undefined : pollPauseMs;
    const command = { keys: [key], token, lifetimeMs, notAfterMs: Number.MAX_SAFE_INTEGER, fences: 1, pauseMs };
    const reply = this.#world.acquire(command, this.#name);
    return reply.outcome === 'granted' ? reply.fence : undefined;
  }

  #setnx(token: string): number | undefined {
    const { machine, micros, rules } = this.#world;
    if (machine.row(key, micros).token !== undefined) return undefined;
    machine.put(key, token, Math.floor(micros / 1000) + rules.lifetimeMs);
    return 0;
  }
}
