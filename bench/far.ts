// A network in front of a server: each reply of the server arrives later by this delay. The bytes keep their order.
import { connect, createServer, type Server, type Socket } from 'node:net';

export interface Far {
  readonly url: string;
  close(): void;
}

export async function far(port: number, delayMs: number): Promise<Far> {
  const sockets = new Set<Socket>();
  const server: Server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port, host: '127.0.0.1', noDelay: true });
    for (const [from, to] of [[client, upstream] as const, [upstream, client] as const]) {
      sockets.add(from);
      from.on('error', () => to.destroy()).on('close', () => to.destroy());
    }
    client.on('data', (bytes) => upstream.write(bytes));
    upstream.on('data', (bytes) => setTimeout(() => client.writable && client.write(bytes), delayMs));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address() as { port: number };
  return {
    url: `redis://127.0.0.1:${address.port}`,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
