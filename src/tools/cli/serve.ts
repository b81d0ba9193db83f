// serve: the live page, for requests from this host only.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { CommandLine } from './command-line';
import { Exit, exitCodes } from './exit';
import { withSession } from './session';
import { endOfProcess } from './signals';
import { print } from './text';

const defaultPort = 7400;

export async function serve(line: CommandLine): Promise<number> {
  const port = line.values.port ?? defaultPort;
  return withSession(line, {}, async ({ connection, prefix }) => {
    const { lockPage } = await import('../page.js');
    const page = lockPage({ redis: connection.redis, prefix, actions: line.values.actions === true });
    const server = createServer((request, response) => {
      page(request, response, () => {
        response.writeHead(404, { 'content-type': 'text/plain' }).end('not found\n');
      });
    });
    await once(server.listen(port, '127.0.0.1'), 'listening').catch((error: NodeJS.ErrnoException) => {
      throw new Exit(exitCodes.failed, `port ${port} cannot be used: ${error.code}`);
    });
    await print(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await once(endOfProcess().signal, 'abort');
    server.close();
    server.closeAllConnections();
    return 0;
  });
}
