// Connections of the tests of the shims: clients of ioredis that throw no error event, and that are all ended together.
import { Redis } from 'ioredis';

const clients: Redis[] = [];

export function connect(port: number, options: object = {}): Redis {
  const client = new Redis(port, options);
  client.on('error', () => {});
  clients.push(client);
  return client;
}

export function disconnectAll(): void {
  for (const client of clients.splice(0)) client.disconnect();
}
