// A Redis of a suite's own: what its tests do to the server, and what the server counts, is theirs alone.
import { type Client, type RedisServer, type ServerOptions, startRedis } from './redis';

export interface OwnServer {
  readonly server: RedisServer;
  readonly client: Client;
}

/** Starts a server, and connects a client, before the tests of a suite; ends both after them. */
export function ownServer(started: (own: OwnServer) => void, options: ServerOptions = {}): void {
  let server: RedisServer | undefined;
  let client: Client | undefined;

  before(async () => {
    server = await startRedis(options);
    client = await server.connect();
    started({ server, client });
  });

  after(async () => {
    client?.destroy();
    await server?.discard();
  });
}
