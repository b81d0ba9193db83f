/**
 * The parts that the tests of holding a lock share: which script a command is, how a loss is awaited, how this process is blocked, and a
 * Redis without a network for the tests that own time.
 */

import { once } from 'node:events';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { scripts } from '../../src/store/redis/scripts/generated';
import type { FaultProxy } from '../support/fault-proxy';

export { blockFor, failure as rejectionOf } from '../contract/outcomes';

type ScriptName = 'acquire' | 'extend' | 'release' | 'inspect';

interface Call {
  readonly name: ScriptName;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** The calls of ours that a command makes, name of the command first: none, one, or all those of a batch. */
export function callsIn([, script, keyCount, ...words]: readonly string[]): Call[] {
  const known = scripts.find(({ sha, lua }) => script === sha || script === lua);
  if (known === undefined) return [];
  return split(known.name, words.slice(0, Number(keyCount)), words.slice(Number(keyCount)));
}

function split(name: string, keys: readonly string[], args: readonly string[]): Call[] {
  if (name === 'plain') return splitPlain(keys, args);
  if (name !== 'batch') return [{ name: name as ScriptName, keys, args }];
  const calls: Call[] = [];
  for (let keysDone = 0, argsDone = 0; argsDone < args.length; ) {
    const [each, keyCount, argCount] = args[argsDone]!.split(' ');
    const keysEnd = keysDone + Number(keyCount);
    const argsEnd = argsDone + 1 + Number(argCount);
    calls.push({
      name: each as ScriptName,
      keys: keys.slice(keysDone, keysEnd),
      args: args.slice(argsDone + 1, argsEnd),
    });
    keysDone = keysEnd;
    argsDone = argsEnd;
  }
  return calls;
}

function splitPlain(keys: readonly string[], args: readonly string[]): Call[] {
  const [renewals, releases, later, , lifetime, notAfter, fences, ...words] = args as readonly [string, ...string[]];
  const renewed = Number(renewals);
  const known = renewed + Number(releases);
  const [tokens, limits] = [words.slice(0, renewed), words.splice(renewed, renewed)];
  tokens.push(...words.slice(renewed));
  return tokens.map((token, n) => {
    if (n < renewed) return { name: 'extend', keys: [keys[n]!], args: [token, later!, '0', limits[n]!] };
    if (n < known) return { name: 'release', keys: [keys[n]!], args: [token] };
    return { name: 'acquire', keys: [keys[Number(releases) + n]!], args: [token, lifetime!, notAfter!, fences!] };
  });
}

/** Tells for the proxy's rules and for recordings if a command acquires, extends or releases, alone or in a batch. */
export const isAcquire = (args: readonly string[]): boolean => callsIn(args).some(({ name }) => name === 'acquire');
export const isExtension = (args: readonly string[]): boolean => extensionsIn(args).length > 0;
export const isRelease = (args: readonly string[]): boolean => callsIn(args).some(({ name }) => name === 'release');

/** The keys that a command extends, one after the other. */
export function extensionsIn(args: readonly string[]): string[] {
  return callsIn(args).flatMap(({ name, keys }) => (name === 'extend' ? keys : []));
}

/** The keys of every extension that the proxy saw. */
export function extendedKeys(proxy: FaultProxy): string[] {
  return proxy.commands.flatMap(({ args }) => extensionsIn(args));
}

/** The reason with which a lease, or a signal kept from one, aborts. */
export async function lossOf({ signal }: { readonly signal: AbortSignal }): Promise<redisExpLock.LockLostError> {
  if (!signal.aborted) await once(signal, 'abort', { signal: AbortSignal.timeout(15_000) });
  expect(signal.reason).to.be.instanceOf(redisExpLock.LockLostError);
  return signal.reason;
}

interface ScriptArguments {
  readonly keys: readonly string[];
  readonly arguments: readonly string[];
}

/**
 * A client by its shape, with as much of Redis behind it as locks of one key need. It lives on `Date.now()`, so a faked clock moves
 * it too, and answers in the next microtask, or when `answerAll` says so.
 */
export class FakeRedis {
  readonly isOpen = true;
  readonly isReady = true;
  /** The time by which the server's wall clock is ahead of ours. */
  aheadMs = 0;
  /** True if no answer arrives from now on; the commands run all the same. */
  silent = false;
  /** True if the connection breaks in place of an answer; the commands run all the same. */
  breaks = false;
  /** Answers wait for `answerAll`. */
  holding = false;
  /** The scripts that were called, by name, in order. */
  readonly calls: ScriptName[] = [];
  readonly locks = new Map<string, { token: string; endMs: number }>();
  readonly #held: (() => void)[] = [];
  #fence = 0;

  eval(lua: string, call: ScriptArguments): Promise<unknown> {
    return this.#answer(scripts.find((script) => script.lua === lua)!.name, call);
  }

  evalSha(sha: string, call: ScriptArguments): Promise<unknown> {
    return this.#answer(scripts.find((script) => script.sha === sha)!.name, call);
  }

  answerAll(): void {
    this.holding = false;
    for (const answer of this.#held.splice(0)) answer();
  }

  count(name: ScriptName): number {
    return this.calls.filter((each) => each === name).length;
  }

  async #answer(name: string, { keys, arguments: args }: ScriptArguments): Promise<unknown> {
    // As for a user that lacks the rights of the plain batch: the calls come again, as a batch of the usual kind.
    if (name === 'plain') throw new Error("NOPERM this user has no permissions to run the 'mget' command");
    const replies = split(name, keys, args).map((call) => this.#run(call));
    if (this.breaks) throw new Error('Socket closed unexpectedly');
    if (this.silent) return new Promise(() => {});
    if (this.holding) await new Promise<void>((resolve) => this.#held.push(resolve));
    return name === 'batch' ? replies.flatMap((reply) => [reply.length, ...reply]) : replies[0];
  }

  #run({ name, keys, args }: Call): number[] {
    this.calls.push(name);
    const serverMs = Date.now() + this.aheadMs;
    for (const [key, { endMs }] of this.locks) if (endMs <= serverMs) this.locks.delete(key);
    if (name === 'acquire') return this.#acquire(keys[0]!, args, serverMs);
    if (name === 'extend') return [this.#extend(keys[0]!, args, serverMs), serverMs];
    return [this.#release(keys[0]!, args[0]!)];
  }

  #acquire(key: string, [token, lifetimeMs, notAfter]: readonly string[], serverMs: number): number[] {
    if (serverMs > Number(notAfter)) return [-1, 0, 0, serverMs];
    const lock = this.locks.get(key);
    if (lock !== undefined && lock.token !== token) return [0, Math.ceil(lock.endMs - serverMs), 0, serverMs];
    this.locks.set(key, { token: token!, endMs: serverMs + Number(lifetimeMs) });
    this.#fence += 1;
    return [1, this.#fence, 0, serverMs];
  }

  #extend(key: string, [token, lifetimeMs, exact, notAfter]: readonly string[], serverMs: number): number {
    const lock = this.locks.get(key);
    if (lock === undefined) return 0;
    if (lock.token !== token) return -1;
    if (serverMs > Number(notAfter)) return -2;
    const endMs = serverMs + Number(lifetimeMs);
    lock.endMs = exact === '1' ? endMs : Math.max(lock.endMs, endMs);
    return 1;
  }

  #release(key: string, token: string): number {
    const lock = this.locks.get(key);
    if (lock === undefined) return 0;
    if (lock.token !== token) return -1;
    this.locks.delete(key);
    return 1;
  }
}
