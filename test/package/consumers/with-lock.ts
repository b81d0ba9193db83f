// A program that uses all of `withLock` and of the errors. Compiled, never run: here against src, and by package.test.ts
// against the packed library and against face.d.ts, in every module system and strictness. So it may use only what all
// of these allow.
import { promisify } from 'node:util';
import redisExpLock, {
  AlreadyAcquiredLockError,
  type AnyLockError,
  type CloseOptions,
  type DetachedLease,
  HostLock,
  type HostLockOptions,
  type Key,
  type Lease,
  LockBackendError,
  LockBusyError,
  type LockCallback,
  LockClosedError,
  LockDeadlockError,
  LockError,
  LockLostError,
  type LockState,
  LockTimeoutError,
  memoryStore,
  type NodeRedisLike,
  NotAcquiredLockError,
  type Options,
  type RedisLike,
  type Store,
  sharedMemoryStore,
  TooManyLockAttemptsError,
  type TryRunResult,
  type WaitOptions,
  type WithLock,
} from '../../../src/index';

declare const client: NodeRedisLike;

export const withLock: WithLock = redisExpLock({ redis: client, lifetime: 1000, maxRetries: 0, retryTimeout: 5 });
export const withoutRedis: WithLock = redisExpLock();

// ---- options

export const redis: RedisLike = client;
export const wait: WaitOptions = { timeout: 5000, signal: new AbortController().signal };
export const everyOption: Options = {
  ...wait,
  redis: client,
  lifetime: null,
  maxRetries: Number.POSITIVE_INFINITY,
  retryTimeout: 5,
  retryRatio: 2,
  maxRetryTimeout: 500,
  jitter: 0.5,
  autoExtend: true,
  maxHold: 60_000,
  owner: 'worker',
  prefix: 'app:',
  fencing: false,
  minReplicas: 1,
  commandTimeout: 1000,
};
export const noneGiven: Options = {
  redis: undefined,
  lifetime: undefined,
  maxRetries: undefined,
  retryTimeout: undefined,
  retryRatio: undefined,
  maxRetryTimeout: undefined,
  jitter: undefined,
  timeout: undefined,
  signal: undefined,
  autoExtend: undefined,
  maxHold: undefined,
  owner: undefined,
  prefix: undefined,
  fencing: undefined,
  minReplicas: undefined,
  commandTimeout: undefined,
};

// ---- without Redis

export async function withoutServer(): Promise<string> {
  const stores: Store[] = [memoryStore(), sharedMemoryStore('locks')];
  for (const store of stores) await redisExpLock({ redis: store }).run('bankAccount', (lease) => lease.fence);
  const kinds: ('memory' | 'shared-memory')[] = stores.map(({ kind }) => kind);
  await Promise.all(stores.map((store) => store.close()));
  return kinds.join();
}

export async function onOneHost(): Promise<[number, boolean, true]> {
  const options: HostLockOptions = { lifetime: 30_000, timeout: 5000, step: 1, ratio: 2, maxStep: undefined };
  const host = new HostLock('locks', options);
  const waited: number = await host.lock('bankAccount');
  const key: string | null = host.key;
  const renewed: true = await host.expire(1000);
  await new HostLock(host.name).expire();
  return [waited + (key?.length ?? 0), await host.unlock(), renewed];
}

// ---- callback form

withLock('bankAccount', (err, done) => {
  if (err) return console.error(err.message);
  const fence: number = done.fence;
  done((releaseError, released) => console.log(releaseError?.message, released === true, fence));
});
withLock(['from', 'to'], { timeout: 100, lifetime: undefined }, (err, done) => {
  if (err) throw err;
  done().then((released: boolean) => console.log(released));
});
withLock('bankAccount', (err) => console.log(err === null));
withLock('bankAccount', { maxRetries: 3 }, (err) => console.log(err === null));
export const callback: LockCallback = (err, done) => {
  if (!err) done(() => {});
};
withLock('bankAccount', callback);

// ---- promise forms

export async function promised(key: Key): Promise<Lease> {
  const release = await withLock.promise(key, { signal: undefined, timeout: 5000 });
  await release();
  await withLock.promise(key);
  await promisify(withLock)(key, { maxRetries: 1 });
  return promisify(withLock)(key);
}

export async function tried(): Promise<number | null> {
  const lease = await withLock.tryLock('bankAccount', { owner: 'worker' });
  return (lease ?? (await withLock.tryLock('bankAccount')))?.fence ?? null;
}

export async function ran(): Promise<[number, string]> {
  const fence: number = await withLock.run('bankAccount', (lease) => lease.fence);
  const token: string = await withLock.run(['from', 'to'], { timeout: 5000 }, async (lease) => lease.token);
  return [fence, token];
}

export async function held(lease: Lease): Promise<boolean[]> {
  const { key, keys, token, fence, retries, signal } = lease;
  const first: string | undefined = typeof key === 'string' ? key : keys[0];
  signal.addEventListener('abort', () => console.log(first, token.length, fence + retries));
  const extended = [await lease.extend(), await lease.extend(lease.remaining() + 100)];
  await lease[Symbol.asyncDispose]();
  lease((err: Error | null, released?: boolean) => console.log(err, released));
  return [...extended, await lease.release(), await lease()];
}

export async function ranOnce(): Promise<number> {
  const tried = await withLock.tryRun('bankAccount', (lease) => lease.fence);
  const result: TryRunResult<number> = await withLock.tryRun('bankAccount', { lifetime: 5000 }, async () => 5);
  return tried.ran && result.ran ? tried.value + result.value : 0;
}

export async function handedOver(lease: Lease): Promise<Lease | null> {
  const detached: DetachedLease = lease.detach();
  const { key, token, fence, until }: { key: Key; token: string; fence: number; until: number } = detached;
  await withLock.adopt({ key, token, fence, until });
  return withLock.adopt(detached, { autoExtend: true });
}

export async function looked(): Promise<string> {
  const state: LockState = await withLock.inspect('bankAccount');
  const { locked, owner, remaining, waiters, fence } = state;
  const held: boolean = locked && state.mode === 'exclusive';
  return held ? `${owner ?? 'somebody'} for ${remaining} ms, fence ${fence}, ${waiters} waiting` : 'free';
}

export async function closed(): Promise<void> {
  const options: CloseOptions = { drain: 100 };
  await withLock.close(options);
  await withLock.close({ drain: undefined });
  await withLock.close();
}

// ---- errors

export function byCode(failure: AnyLockError): string | number | undefined {
  switch (failure.code) {
    case 'ERR_LOCK_ATTEMPTS':
      return failure.attempts;
    case 'ERR_LOCK_LOST':
      return failure.reason === 'stalled' ? String(failure.result) : failure.reason;
    case 'ERR_LOCK_BACKEND':
      return failure.redisCode;
    case 'ERR_LOCK_TIMEOUT':
    case 'ERR_LOCK_ALREADY_ACQUIRED':
    case 'ERR_LOCK_NOT_ACQUIRED':
    case 'ERR_LOCK_DEADLOCK':
    case 'ERR_LOCK_CLOSED':
      return failure.message;
    default:
      return unreachable(failure);
  }
}

function unreachable(failure: never): never {
  throw failure;
}

export function byClass(error: unknown): Key | number | undefined {
  if (error instanceof TooManyLockAttemptsError) return error.attempts;
  if (error instanceof LockLostError) return error.reason.length;
  if (error instanceof LockBackendError) return error.redisCode?.length;
  if (error instanceof LockTimeoutError || error instanceof LockClosedError) return error.code.length;
  if (error instanceof AlreadyAcquiredLockError || error instanceof NotAcquiredLockError) return error.message;
  if (error instanceof LockDeadlockError) return error.stack?.length;
  if (error instanceof redisExpLock.LockError && error.retryable) return error.key;
  return error instanceof LockError ? error.code : undefined;
}

export function acrossCopies(error: unknown): string | undefined {
  if (error instanceof LockBusyError && error.retryable) return error.message;
  return LockError.is(error) ? error.code : undefined;
}

/** `is` narrows to its own class, not to LockError: each line reads a type that only that class has. */
export function byIs(error: unknown): unknown[] {
  const attempts: number = TooManyLockAttemptsError.is(error) ? error.attempts : 0;
  const timeout: 'ERR_LOCK_TIMEOUT' | undefined = LockTimeoutError.is(error) ? error.code : undefined;
  const acquired: 'ERR_LOCK_ALREADY_ACQUIRED' | undefined = AlreadyAcquiredLockError.is(error) ? error.code : undefined;
  const not: 'ERR_LOCK_NOT_ACQUIRED' | undefined = NotAcquiredLockError.is(error) ? error.code : undefined;
  const lost: LockLostError['reason'] | undefined = LockLostError.is(error) ? error.reason : undefined;
  const deadlock: 'ERR_LOCK_DEADLOCK' | undefined = LockDeadlockError.is(error) ? error.code : undefined;
  const redisCode: string | undefined = LockBackendError.is(error) ? error.redisCode : undefined;
  const closed: 'ERR_LOCK_CLOSED' | undefined = LockClosedError.is(error) ? error.code : undefined;
  const busy: LockBusyError[] = [error].filter(LockBusyError.is);
  return [attempts, timeout, acquired, not, lost, deadlock, redisCode, closed, busy];
}

export function isBackend(error: Error): Error {
  if (LockBackendError.is(error)) return new Error(error.redisCode);
  return error; // not `never`
}

// ---- what the types refuse, whatever the strictness

// @ts-expect-error no key
withLock(callback);
// @ts-expect-error the function comes last
withLock.run('bankAccount', () => 1, { timeout: 5000 });
// @ts-expect-error an option that does not exist
redisExpLock({ redis: client, expiry: 1000 });
// @ts-expect-error no client
redisExpLock({ redis: {} });
// @ts-expect-error a lease is read, not written
export const overwrite = (lease: Lease) => (lease.fence = 1);
