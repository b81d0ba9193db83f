// Express under SIGTERM: no new connection, the requests that are there end under their locks, then the locks, then the client.
import express from 'express';
import { Redis } from 'ioredis';
import redisExpLock from 'redis-exp-lock';

const redis = new Redis(process.env.REDIS_URL!);
const withLock = redisExpLock({ redis, lifetime: 5_000 });
const app = express();

app.post('/orders/:id', async (request, response) => {
  await withLock.run(`order:${request.params.id}`, { timeout: 5_000 }, async () => {
    console.log('working');
    await new Promise((resolve) => setTimeout(resolve, Number(request.query.ms)));
  });
  response.send('done');
});

const server = app.listen(0, '127.0.0.1', () => console.log('port', (server.address() as { port: number }).port));

process.once('SIGTERM', async () => {
  console.log('is told: SIGTERM');
  await new Promise((resolve) => server.close(resolve));
  await withLock.close();
  await redis.quit();
  console.log('closed');
});
