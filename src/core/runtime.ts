// The parts of Node's modules that the library uses. Node, Bun and Deno have them all, Cloudflare Workers some with a flag, a browser
// none. Each missing part has a stand-in, so that the library loads and locks in every runtime that has the globals of the Web.
//
// Invariant: nothing that `redis-exp-lock/edge` leads to imports a module of Node: a bundler for Workers or for browsers would refuse it.
import type * as asyncHooks from 'node:async_hooks';
import type * as crypto from 'node:crypto';
import type * as diagnostics from 'node:diagnostics_channel';
import type * as os from 'node:os';
import type * as util from 'node:util';
import * as standIns from './stand-ins';

const { AsyncLocalStorage: globalStorage, EdgeRuntime, navigator, process, Buffer } = globalThis as any;

/** A module of Node, or as much of it as this runtime has. Node before 20.16 gives it to a CommonJS module alone. */
function builtin<M>(name: string): Partial<M> {
  const { require } = typeof module === 'object' ? module : ({} as Partial<NodeModule>);
  return process?.getBuiltinModule?.(name) ?? require?.call(module, name) ?? {};
}

/** Remembers nothing where there is none: a wait for one's own lock is not found out there. Vercel's edge has it as a global. */
export const AsyncLocalStorage: typeof asyncHooks.AsyncLocalStorage =
  builtin<typeof asyncHooks>('node:async_hooks').AsyncLocalStorage ?? globalStorage ?? standIns.NoStorage;

const ownChannels = builtin<typeof diagnostics>('node:diagnostics_channel');
export const { channel, tracingChannel } = { ...standIns, ...ownChannels } as unknown as typeof diagnostics;

const { createHash, randomFillSync } = builtin<typeof crypto>('node:crypto');

export const fillRandom: (bytes: Uint8Array) => unknown =
  randomFillSync ?? ((bytes) => globalThis.crypto.getRandomValues(bytes));

/** The SHA-1 of a text in hexadecimal digits. */
export const sha1: (text: string) => string =
  createHash === undefined
    ? (text) => standIns.sha1(utf8(text))
    : (text) => createHash('sha1').update(text).digest('hex');

/** A value as the text for an error. */
export const inspect: (value: unknown, options: util.InspectOptions) => string =
  builtin<typeof util>('node:util').inspect ??
  ((value) => (typeof value === 'string' ? JSON.stringify(value) : String(value)));

/** The process id; 0 in a runtime without processes. */
export const pid: number = process?.pid ?? 0;

/** The host's name, or else the runtime's; 'host' if that cannot be read either. */
export function hostName(): string {
  try {
    return (builtin<typeof os>('node:os').hostname?.() ?? String(navigator.userAgent)).slice(0, 200) || 'host';
  } catch {
    return 'host';
  }
}

const encoder = new TextEncoder();

export const utf8: (text: string) => Uint8Array = Buffer ? (text) => Buffer.from(text) : (text) => encoder.encode(text);

export const byteLength: (text: string) => number = Buffer?.byteLength ?? ((text: string) => utf8(text).length);

/** A weak reference; an ordinary one in a runtime that has no others (Workers before 2025-05-05). */
export function weakly<T extends object>(thing: T): { deref(): T | undefined } {
  return typeof WeakRef === 'function' ? new WeakRef(thing) : { deref: () => thing }; // H90g
}

/** Emits a warning of the process, or shows it on the console of a runtime without one. */
export function emitWarning(message: string, options: { type: string; code: string; detail?: string }): void {
  if (process?.emitWarning) process.emitWarning(message, options);
  else console.warn(`(${options.code}) ${options.type}: ${message}`);
}

/**
 * True where a timer, a request over the network and a promise belong to the incoming request that made them, and end with it
 * (Cloudflare Workers, Vercel's edge): nothing of the kind is shared there with a caller of another incoming request.
 */
export const hasIncomingRequests: boolean = navigator?.userAgent === 'Cloudflare-Workers' || EdgeRuntime !== undefined;
