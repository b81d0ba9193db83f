// The live page beside the demo (`--page`): the lock's holder and queue, while the workers work. Nothing can be freed there.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';

const PORT = 7400; // or any other, where that is taken
const OPENERS = { darwin: 'open', win32: 'explorer', linux: 'xdg-open' };

/** Resolves the page's address. What ends it is pushed to `closing` before it is started. */
export async function openPage({ redis, prefix }, closing) {
  const { lockPage } = await import('redis-exp-lock/page');
  const server = createServer(lockPage({ redis, prefix }));
  closing.push(() => {
    server.close();
    server.closeAllConnections();
  });
  await listen(server, PORT).catch(() => listen(server, 0));
  const url = `http://127.0.0.1:${server.address().port}/`;
  if (process.stdout.isTTY) show(url);
  return url;
}

async function listen(server, port) {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
}

/** Opens the page in the browser of this machine, if there is one. */
function show(url) {
  const opener = spawn(OPENERS[process.platform] ?? 'xdg-open', [url], { stdio: 'ignore', detached: true });
  opener.on('error', () => {});
  opener.unref();
}
