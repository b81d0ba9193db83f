/**
 * A process that takes a lock when told to, and says what became of it. `skewMs`, the second argument, is how far its wall clock
 * is off. Messages in: `{ take: key, options }`, `{ extend: ms }`, `{ give: true }`; out: `{ done }` or `{ failed }`. With `tells: true`
 * it says 'sent' when the request was sent.
 */

import { createClient } from 'redis';
import sinon from 'sinon';
import redisExpLock from '../../../src/index';

const [url, skewMs = '0'] = process.argv.slice(2);

interface Order {
  readonly take?: string;
  readonly options?: redisExpLock.Options;
  readonly tells?: boolean;
  readonly extend?: number;
  readonly give?: boolean;
}

async function main(): Promise<void> {
  const realNow = Date.now;
  // Only the time that `Date.now` tells: timers and the monotonic clock go on as they do when somebody sets the clock.
  sinon.stub(Date, 'now').callsFake(() => realNow() + Number(skewMs));
  const redis = createClient({ url: url!, socket: { reconnectStrategy: 10 } });
  redis.on('error', () => {});
  await redis.connect();
  const withLock = redisExpLock({ redis });
  let lease: redisExpLock.Lease | undefined;

  async function obey({ take, options, tells, extend, give }: Order): Promise<unknown> {
    if (take !== undefined) {
      const taking = withLock.promise(take, options);
      // Some turns later, the request was written.
      if (tells) setTimeout(() => process.send!('sent'), 20);
      lease = await taking;
      return { token: lease.token, fence: lease.fence, remaining: lease.remaining() };
    }
    if (extend !== undefined) return lease!.extend(extend);
    if (give) return lease!.release();
    throw new Error('an order that nobody knows');
  }

  process.on('message', (order: Order) => {
    obey(order).then(
      (done) => process.send!({ done }),
      (error) => process.send!({ failed: { code: error.code, message: error.message, redisCode: error.redisCode } }),
    );
  });
  process.send!('ready');
}

void main();
