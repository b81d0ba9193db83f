// serve: the live page, for requests from this host only.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CommandLine, integerOf } from './command-line';
import { placeOf } from './connect';
import { Exit, exitCodes } from './exit';
import { withSession } from './session';
import { print } from './text';

const defaultPort = 7400;

export async function serve(line: CommandLine): Promise<number> {
  const port = integerOf(line, 'port', 65_535) ?? defaultPort;
  placeOf(line);
  return withSession(line, {}, async ({ connection, prefix }) => {
    const { lockPage } = await import('../page.js');
    const page = lockPage({ redis: connection.redis, prefix, actions: line.values.actions === true });
    const server = createServer((request, response) => {
      page(request, response, () => {
        response.writeHead(404, { 'content-type': 'text/plain' }).end('not found\n');
      });
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) => {
        reject(new Exit(exitCodes.failed, `port ${port} cannot be used: ${error.code}`));
      });
      server.listen(port, '127.0.0.1', resolve);
    });
    await print(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await new Promise<void>((resolve) => {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve());
    });
    server.close();
    server.closeAllConnections();
    return 0;
  });
}
