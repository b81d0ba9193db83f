// `redis-exp-lock/nestjs`: locks in an application of NestJS 10 to 12. The package @nestjs/common is loaded when a decorator is used.
//
// Invariant: each application has one factory. It closes before the hooks that close clients (`onApplicationShutdown`), and never
// closes a client itself.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Key } from '../core/keys';
import type { OnceOptions, Options } from '../core/option-types';
import type { Lease } from '../hold/lease';
import { redisExpLock, type WithLock } from '../with-lock';
import { loadPeer } from './peer';

/** The factory's options, made when the application starts. */
export interface LockModuleAsyncOptions {
  /** Modules that export the injected providers. */
  imports?: any[] | undefined;
  /** Providers that `useFactory` is called with. */
  inject?: any[] | undefined;
  useFactory: (...injected: any[]) => Options | Promise<Options>;
}

/** A module in the form of Nest's DynamicModule. */
export interface LockDynamicModule {
  module: typeof LockModule;
  global: boolean;
  imports: any[];
  providers: any[];
  exports: any[];
}

/** One key, several keys, or a function that makes them from the arguments of a call. `this` of the function is the method's object. */
export type KeyOf = Key | ((...args: any[]) => Key);

/**
 * The factory `withLock` for a whole application. When the application closes, the factory waits for holders and rejects waiters.
 *
 * @example
 * ```ts
 * import { LockModule } from 'redis-exp-lock/nestjs';
 *
 * const imports = [LockModule.forRoot({ redis: client, timeout: 5000 })]; // of the decorator Module
 * ```
 */
// biome-ignore lint/complexity/noStaticOnlyClass: Nest knows modules by their classes
export class LockModule {
  /** The provider to override in a test: `overrideProvider(LockModule.token)`. */
  static readonly token = 'redis-exp-lock';

  /** Makes the module. @param options Options of the factory, including `redis`. You connect and close its client. */
  static forRoot(options: Options): LockDynamicModule {
    return LockModule.forRootAsync({ useFactory: () => options });
  }

  /** Makes the module as `forRoot` does, with options that need other providers. */
  static forRootAsync({ imports = [], inject = [], useFactory }: LockModuleAsyncOptions): LockDynamicModule {
    const factory = {
      provide: LockModule.token,
      inject,
      useFactory: async (...injected: unknown[]) => redisExpLock(await useFactory(...injected)),
    };
    const closing = {
      provide: `${LockModule.token}:closing`,
      inject: [LockModule.token],
      useFactory: (withLock: WithLock) => ({ beforeApplicationShutdown: () => withLock.close() }),
    };
    return { module: LockModule, global: true, imports, providers: [factory, closing], exports: [LockModule.token] };
  }
}

/**
 * Injects `withLock` into a constructor's parameter or a property.
 *
 * @throws {Error} `MODULE_NOT_FOUND`: `@nestjs/common` is not installed.
 * @example
 * `class Accounts { constructor(@InjectLock() readonly withLock: WithLock) {} }`
 */
export function InjectLock(): PropertyDecorator & ParameterDecorator {
  const { Inject } = loadPeer(() => require('@nestjs/common'), 'redis-exp-lock/nestjs', '@nestjs/common @nestjs/core');
  return Inject(LockModule.token);
}

/**
 * Runs the method under the lock, as `withLock.run` does: the lock is renewed while the method runs, and the errors are those of `run`.
 * `this`, the arguments, the method's value and its error stay unchanged. Callers always get a promise.
 *
 * @param key     A key, or a function that makes it from the arguments.
 * @param options Options of `run`. Default: the options of the module.
 * @example
 * `class Accounts { @Locked((id: string) => id, { timeout: 5000 }) async pay(id: string) { return work(id); } }`
 */
export function Locked(key: KeyOf, options: Options = {}): MethodDecorator {
  return decorator(key, (withLock, keyOfCall, method) => withLock.run(keyOfCall, options, method));
}

/**
 * Runs the method once in each slot over all processes, as `withLock.once` does. Callers get the value of the method, or undefined if it
 * did not run. Put this decorator below `@Cron` or `@Interval` to start the method by them.
 *
 * @param key     A key, or a function that makes it from the arguments.
 * @param options Options of `once`. `every` has no default.
 * @example
 * `class Reports { @Once('nightly-report', { every: 86_400_000 }) async report() { return work(); } }`
 */
export function Once(key: KeyOf, options: OnceOptions): MethodDecorator {
  return decorator(key, async (withLock, keyOfCall, method) => {
    const result = await withLock.once(keyOfCall as string, options, method);
    return result.ran ? result.value : undefined;
  });
}

const running = new AsyncLocalStorage<{ lease: Lease | undefined }>();

/**
 * The lease of the innermost method under `@Locked` or `@Once` that runs this code; undefined outside such a method, and after the
 * method has settled.
 *
 * @example
 * ```ts
 * import { currentLease } from 'redis-exp-lock/nestjs';
 *
 * await work(currentLease()?.fence);
 * ```
 */
export function currentLease(): Lease | undefined {
  return running.getStore()?.lease;
}

/** One call of a method under a lock. */
type GuardedCall = (withLock: WithLock, key: Key, method: (lease: Lease) => Promise<unknown>) => Promise<unknown>;

/** Nest injects the factory into each object of the class, where the method finds it. */
const injected = Symbol('redis-exp-lock');

function decorator(key: KeyOf, call: GuardedCall): MethodDecorator {
  return (target, name, descriptor) => {
    InjectLock()(target, injected);
    const method = descriptor.value as (...args: unknown[]) => unknown;
    async function locked(this: any, ...args: unknown[]): Promise<unknown> {
      const withLock = factoryOf(this, name);
      const keyOfCall = typeof key === 'function' ? key.apply(this, args) : key;
      return call(withLock, keyOfCall, (lease) => within(lease, async () => method.apply(this, args)));
    }
    descriptor.value = dressedAs(method, locked) as NonNullable<typeof descriptor.value>;
  };
}

function factoryOf(object: any, name: string | symbol): WithLock {
  const withLock = object?.[injected];
  if (withLock !== undefined) return withLock;
  throw new Error(
    `${String(name)} is under a lock: its object has to be made by Nest, in an application with LockModule`,
  );
}

async function within<T>(lease: Lease, fn: () => Promise<T>): Promise<T> {
  const current: { lease: Lease | undefined } = { lease };
  try {
    return await running.run(current, fn);
  } finally {
    current.lease = undefined;
  }
}

/** Copies the method's name and metadata, because other decorators (`@Get`, `@Cron`) have left metadata on it or will read its name. */
function dressedAs(method: object, wrapper: object): unknown {
  const { name, length } = Object.getOwnPropertyDescriptors(method);
  Object.defineProperties(wrapper, { name: name!, length: length! });
  const { getMetadataKeys, getMetadata, defineMetadata } = Reflect as Record<string, any>;
  for (const key of getMetadataKeys?.(method) ?? []) defineMetadata(key, getMetadata(key, method), wrapper);
  return wrapper;
}
