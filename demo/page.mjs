// The live page beside the demo (`npm start -- --page`), opened in a browser where there is one.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { lockPage } from 'redis-exp-lock/page';

const OPENERS = { darwin: 'open', win32: 'explorer' };

/** Resolves the page's address; it ends with the demo. */
export async function openPage({ redis, prefix }, closing) {
  const server = http.createServer(lockPage({ redis, prefix }));
  closing.push(async () => {
    server.close();
    server.closeAllConnections();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${server.address().port}/`;
  if (process.stdout.isTTY) {
    // Nothing depends on it: the address is told as well.
    const opener = spawn(OPENERS[process.platform] ?? 'xdg-open', [address], { stdio: 'ignore', detached: true });
    opener.on('error', () => {}).unref();
  }
  return address;
}
