// The two clients, connected, with a listener for errors: without one, node-redis ends the process when Redis restarts.
import { Redis } from 'ioredis';
import { createClient } from 'redis';

export async function ioredis(url) {
  const client = new Redis(url);
  client.on('error', () => {});
  await new Promise((resolve) => client.once('ready', resolve));
  return client;
}

export async function nodeRedis(url) {
  const client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
  return client;
}
