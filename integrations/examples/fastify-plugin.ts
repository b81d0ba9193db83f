// Fastify: `app.withLock` in every route, and an orderly close. `app.close()` waits for the requests that hold a lock, rejects those
// that wait for one, and leaves the Redis client to its owner.
import fp from 'fastify-plugin';
import redisExpLock from 'redis-exp-lock';

declare module 'fastify' {
  interface FastifyInstance {
    withLock: redisExpLock.WithLock;
  }
}

export const locks = fp(
  async (app, options: redisExpLock.Options) => {
    const withLock = redisExpLock(options);
    app.decorate('withLock', withLock);
    app.addHook('preClose', () => withLock.close());
  },
  { name: 'redis-exp-lock' },
);
