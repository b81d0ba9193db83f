/** Outcomes of calls, for tests that ask for them: a rejection, the arguments of a callback, errors that nobody caught. */

import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { type Alarm, Clock } from '../../src/core/clock';
import type redisExpLock from '../../src/index';

type WithLock = redisExpLock.WithLock;

/** The error that the promise rejects with. */
export function failure(promise: Promise<unknown>): Promise<any> {
  return promise.then(
    (value) => {
      throw new Error(`expected a rejection, got ${String(value)}`);
    },
    (error) => error,
  );
}

/** The error that `work` throws. */
export function thrown(work: () => unknown): any {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error('expected an exception');
}

/** True if the call is still under way. */
export async function pending(promise: Promise<unknown>): Promise<boolean> {
  const nothing = {};
  await turn(); // what is settled already shows it by now
  const settled = promise.then(
    () => true,
    () => true,
  );
  return (await Promise.race([settled, turn(nothing)])) === nothing;
}

/** The arguments of the callback, which must be called once. */
export function called(
  withLock: WithLock,
  key: redisExpLock.Key,
  options: redisExpLock.Options = {},
): Promise<{ err: any; done: redisExpLock.Lease }> {
  return new Promise((resolve) => withLock(key, options, (err, done) => resolve({ err, done: done! })));
}

/** Blocks this process, as a computation without a pause does; it costs no processor time. */
export function blockFor(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

const ofTest = new AsyncLocalStorage<unknown>();
const ofTestWithClients = new AsyncLocalStorage<unknown>();
let forgetTimers = (): void => {};

/** Counts timers. */
export interface TimerCount {
  (): number;
  /** Where each of them was set. */
  origins(): string[];
}

/** Resolves once the library has none of these timers left, or no more than `max`, also on a fake clock. */
export async function noneLeft(timers: TimerCount, max = 0): Promise<void> {
  const startedNs = process.hrtime.bigint();
  while (timers() > max) {
    if (process.hrtime.bigint() - startedNs > 10_000_000_000n)
      throw new Error(`${timers()} timers are left after ten seconds: ${timers.origins().join('; ')}`);
    await turn();
  }
}

/** The function that an alarm calls, before it was changed here. */
const rings = new WeakMap<Alarm, Alarm['ring']>();

/**
 * Counts the timers that the library has set on behalf of this test and neither undone nor seen fire: those that were set in a step that
 * began after this call. Alarms that other tests left behind may share a timer with this test, and are not counted. Call it before the
 * test waits for anything, or in a hook that waits for nothing. The count ends with the test.
 */
export function libraryTimers(): TimerCount {
  const open = new Map<Alarm, Error>();
  let isOver = false;
  ofTest.enterWith(open);
  const { add } = Clock.prototype;
  Clock.prototype.add = function (alarm, exactMs, slackMs) {
    const whose = ofTest.getStore();
    if (whose === open) open.set(alarm, new Error('set'));
    // What rings for others, on a timer that they share with this test, stays theirs.
    const ring = rings.get(alarm) ?? alarm.ring;
    rings.set(alarm, ring);
    alarm.ring = () => (isOver ? ring.call(alarm) : ofTest.run(whose, () => ring.call(alarm)));
    add.call(this, alarm, exactMs, slackMs);
  };
  const before = forgetTimers;
  forgetTimers = () => {
    isOver = true;
    ofTest.disable(); // a storage that was used once makes every promise of the process dearer
    Clock.prototype.add = add;
    forgetTimers = before;
    before();
  };
  const count = (): number => {
    for (const alarm of open.keys()) if (alarm.timer === undefined) open.delete(alarm);
    return new Set([...open.keys()].map(({ timer }) => timer)).size;
  };
  return Object.assign(count, { origins: () => [...open.values()].map(({ stack }) => String(stack)) });
}

/** The file of the function that called the caller of this one. Read without a stack as text, which would be looked up in the source maps. */
export function fileOfCaller(): string {
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = 3;
    Error.prepareStackTrace = (_, sites) => sites[2]?.getFileName();
    return (new Error().stack as string | undefined) ?? '';
  } finally {
    Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  }
}

/** Ends the counting of timers after each test. */
export function stopCountingTimers(): void {
  forgetTimers();
}

/**
 * Counts the timers that anybody sets on behalf of what the test does from here on, clients included, until it asks for another count.
 * Call it in the test, behind an `await` (else the timer of mocha's limit counts too), and `stop` at its end. A timer that was cleared
 * counts until the next turn. `holding` counts those that keep the process alive.
 */
export function timersFromHere(): { count(): number; holding(): Promise<number>; stop(): void } {
  const open = new Map<number, NodeJS.Timeout>();
  ofTestWithClients.enterWith(open);
  const hook = createHook({
    init(id, type, _, timer) {
      if (type === 'Timeout' && ofTestWithClients.getStore() === open) open.set(id, timer as NodeJS.Timeout);
    },
    destroy: (id) => void open.delete(id),
  }).enable();
  const stop = (): void => {
    hook.disable();
    ofTestWithClients.disable();
  };
  const holding = async (): Promise<number> => {
    await turn(); // a timer that has just fired is gone by then
    return [...open.values()].filter((timer) => timer.hasRef()).length;
  };
  return { count: () => open.size, holding, stop };
}

/** Resolves when the signal aborts, or has aborted already: then no event comes any longer. */
export async function abortOf(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/** Tells what was published on a diagnostics channel while `work` ran. */
export async function published<T = any>(name: string, work: () => unknown): Promise<T[]> {
  const messages: T[] = [];
  const listener = (message: unknown): void => void messages.push(message as T);
  subscribe(name, listener);
  try {
    await work();
  } finally {
    unsubscribe(name, listener);
  }
  return messages;
}

/** Errors that nobody caught while `work` ran; mocha does not hear of them. */
export async function uncaught(work: () => unknown): Promise<{ exceptions: unknown[]; rejections: unknown[] }> {
  const exceptions: unknown[] = [];
  const rejections: unknown[] = [];
  const restore = [
    replaceListeners('uncaughtException', (error) => exceptions.push(error)),
    replaceListeners('unhandledRejection', (reason) => rejections.push(reason)),
  ];
  try {
    await work();
    await turn(); // both are reported at the end of a turn
    await turn();
  } finally {
    for (const undo of restore) undo();
  }
  return { exceptions, rejections };
}

function replaceListeners(event: string, listener: (reason: unknown) => void): () => void {
  const others = process.rawListeners(event);
  process.removeAllListeners(event);
  process.on(event, listener);
  return () => {
    process.off(event, listener);
    for (const other of others) process.on(event, other as () => void);
  };
}
