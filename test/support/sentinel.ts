/**
 * A sentinel for tests: one that watches a master (and finds its replicas) under the name `main`, and is alone to decide.
 *
 * Invariant: its file is in the master's directory, which goes with the master; the process ends with ours at the latest.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { join } from 'node:path';
import { freePort, kill9, track, waitFor } from './processes';
import { type RedisServer, serverBinary } from './redis';

export interface TestSentinel {
  readonly name: 'main';
  readonly port: number;
  stop(): Promise<void>;
}

/** Resolves when it listens. */
export async function startSentinel(master: RedisServer): Promise<TestSentinel> {
  const port = await freePort();
  const file = join(master.dir, `sentinel-${port}.conf`); // it writes there what it learns
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${master.dir}`,
    `sentinel monitor main 127.0.0.1 ${master.port} 1`,
    'sentinel down-after-milliseconds main 500',
    'sentinel failover-timeout main 2000',
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  const child: ChildProcess = spawn(await serverBinary(), [file, '--sentinel'], { stdio: 'ignore' });
  track(child);
  await waitFor(() => listens(port), { what: `sentinel ${port} to listen` });
  return { name: 'main', port, stop: () => kill9(child) };
}

function listens(port: number): Promise<boolean> {
  const socket = dial({ port, host: '127.0.0.1' });
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}
