/** The tasks that any way to a Redis must do: lock, extend, queue and hand over, several in one tick, permits, and own connections for WAIT. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { waitFor } from '../support/processes';
import { type RedisServer, uniqueKey } from '../support/redis';
import { backendError, LONG_MS } from './faults';
import { rejectionOf } from './holding';

export interface Way {
  readonly redis: any;
  close(): void;
}

const page = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8');

/** Gives `lock` the rights that docs/operations.md lists, and takes all from everybody else. */
export async function restrict(server: RedisServer): Promise<void> {
  for (const line of page.match(/^ACL SETUSER lock .*$/gm)!) {
    await server.command(...line.replaceAll("'", '').split(' '));
  }
}

export interface Abilities {
  /** True if the client has connections for messages. */
  readonly hears: boolean;
  /** The number of replicas that can acknowledge; undefined if the client has no connection for WAIT. */
  readonly replicas: number | undefined;
}

/** @param ways Two, to locks under `lk:` only. */
export async function everythingWorks(ways: readonly Way[], { hears, replicas }: Abilities): Promise<void> {
  const options = { prefix: 'lk:', lifetime: LONG_MS, retryTimeout: 10, commandTimeout: 10_000 };
  const [one, other] = ways.map(({ redis }) => redisExpLock({ redis, ...options })) as [
    redisExpLock.WithLock,
    redisExpLock.WithLock,
  ];
  const key = uniqueKey();
  const lease = await one.promise(key, { minReplicas: 0 });
  expect(await other.tryLock(key)).to.equal(null);
  expect(await lease.extend()).to.equal(true);
  expect((await other.inspect(key)).locked).to.equal(true);
  const waiting = other.promise(key, { timeout: 10_000 });
  if (hears) await waitFor(async () => (await one.inspect(key)).waiters === 1, { what: 'a queued waiter' });
  expect(await lease()).to.equal(true);
  const next = await waiting;
  expect(next.fence).to.be.greaterThan(lease.fence);
  expect(await next()).to.equal(true);
  const many = await Promise.all([1, 2, 3].map((i) => one.promise(`${key}-${i}`)));
  expect(await Promise.all(many.map((each) => each()))).to.deep.equal([true, true, true]);
  const permit = await new redisExpLock.Semaphore(`${key}-s`, 1, { redis: ways[0]!.redis, ...options }).acquire();
  expect(await permit.release()).to.equal(true);
  if (replicas === undefined) {
    const error = await rejectionOf(one.promise(key, { minReplicas: 1 }));
    expect(error).to.include({ code: 'ERR_LOCK_OPTION' });
  } else {
    // A connection of our own, for WAIT, was made and asked.
    if (replicas > 0) {
      expect(await (await one.promise(key, { minReplicas: replicas, commandTimeout: 8000 }))()).to.equal(true);
    }
    const tooMany = () => backendError(one.promise(key, { minReplicas: replicas + 1, commandTimeout: 2_000 }));
    // The connection for WAIT may take longer to be made than that: then the error has no code yet.
    const error = await waitFor(() => tooMany().then((each) => each.redisCode !== undefined && each));
    expect(error).to.include({ redisCode: 'NOREPLICAS', retryable: true });
  }
  expect(
    await rejectionOf(redisExpLock({ redis: ways[0]!.redis, commandTimeout: 10_000 }).promise(key)),
    'not lk:',
  ).to.include({
    redisCode: 'NOPERM',
  });
  await Promise.all([one.close(), other.close()]);
}
