// `redis-exp-lock/nestjs`: locks in an application of NestJS 10 to 12. The package @nestjs/common is loaded when a decorator is used.
//
// Invariant: each application has one factory. It closes before the hooks that close clients (`onApplicationShutdown`), and never
// closes a client itself.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Key } from '../core/keys';
import type { OnceOptions, Options } from '../core/options';
import type { Lease } from '../hold/lease';
import { redisExpLock, type WithLock } from '../with-lock';
import { loadPeer } from './peer';

/** The factory's options, made when the application starts. */
export interface LockModuleAsyncOptions {
  /** Modules that export what is injected. */
  imports?: any[] | undefined;
  /** What `useFactory` is called with. */
  inject?: any[] | undefined;
  useFactory: (...injected: any[]) => Options | Promise<Options>;
}

/** As Nest's DynamicModule. */
export interface LockDynamicModule {
  module: typeof LockModule;
  global: boolean;
  imports: any[];
  providers: any[];
  exports: any[];
}

/** One key, several, or what a call's arguments make of them; called with the object of the method as `this`. */
export type KeyOf = Key | ((...args: any[]) => Key);

/**
 * The factory `withLock`, for a whole application. When that closes, the factory waits for holders and rejects waiters.
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
  /** What to override in a test: `overrideProvider(LockModule.token)`. */
  static readonly token = 'redis-exp-lock';

  /** @param options Of the factory, `redis` among them. Its client is connected and closed by you. */
  static forRoot(options: Options): LockDynamicModule {
    return LockModule.forRootAsync({ useFactory: () => options });
  }

  /** As `forRoot`, with options that need other providers. */
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
 * Injects `withLock`: for a constructor's parameter or a property.
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
 * The method runs under the lock, as by `withLock.run`: renewed while it runs, and with the errors of `run`. `this`, the arguments, its
 * value and its error stay what they are. The method has to return a promise, or its callers get one all the same.
 *
 * @param key     A key, or what makes it of the arguments.
 * @param options As of `run`. Default: those of the module.
 * @example
 * `class Accounts { @Locked((id: string) => id, { timeout: 5000 }) async pay(id: string) { return work(id); } }`
 */
export function Locked(key: KeyOf, options: Options = {}): MethodDecorator {
  return decorator((withLock, keyOfCall, method) => withLock.run(keyOfCall(key), options, method));
}

/**
 * The method runs once in each slot, over all processes, as by `withLock.once`. Its callers get its value, or undefined where it did
 * not run. Put it below `@Cron` or `@Interval` to start it there.
 *
 * @param key     A key, or what makes it of the arguments.
 * @param options As of `once`: `every` has no default.
 * @example
 * `class Reports { @Once('nightly-report', { every: 86_400_000 }) async report() { return work(); } }`
 */
export function Once(key: KeyOf, options: OnceOptions): MethodDecorator {
  return decorator(async (withLock, keyOfCall, method) => {
    const result = await withLock.once(keyOfCall(key) as string, options, method);
    return result.ran ? result.value : undefined;
  });
}

const running = new AsyncLocalStorage<{ lease: Lease | undefined }>();

/**
 * The lease of the innermost method under `@Locked` or `@Once` that runs this code; undefined outside, and once that has settled.
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
type GuardedCall = (
  withLock: WithLock,
  keyOfCall: (key: KeyOf) => Key,
  method: (lease: Lease) => Promise<unknown>,
) => Promise<unknown>;

/** Nest injects the factory into each object of the class, where the method finds it. */
const injected = Symbol('redis-exp-lock');

function decorator(call: GuardedCall): MethodDecorator {
  return (target, name, descriptor) => {
    InjectLock()(target, injected);
    const method = descriptor.value as (...args: unknown[]) => unknown;
    async function locked(this: any, ...args: unknown[]): Promise<unknown> {
      const keyOfCall = (key: KeyOf): Key => (typeof key === 'function' ? key.apply(this, args) : key);
      return call(factoryOf(this, name), keyOfCall, (lease) => within(lease, async () => method.apply(this, args)));
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

/** Other decorators of the method (`@Get`, `@Cron`) have left their marks on it, or will read its name. */
function dressedAs(method: object, wrapper: object): unknown {
  const { name, length } = Object.getOwnPropertyDescriptors(method);
  Object.defineProperties(wrapper, { name: name!, length: length! });
  const { getMetadataKeys, getMetadata, defineMetadata } = Reflect as Record<string, any>;
  for (const key of getMetadataKeys?.(method) ?? []) defineMetadata(key, getMetadata(key, method), wrapper);
  return wrapper;
}
