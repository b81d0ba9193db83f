/**
 * Sentinels for tests: as many as are asked for, watching any number of masters (and finding their replicas), of which the
 * majority decides.
 *
 * Invariant: a sentinel's file is in the first master's directory, which goes with the master; the processes end with ours at
 * the latest.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, kill9, track, waitFor } from './processes';
import { connect, type RedisServer, serverBinary } from './redis';

export interface TestSentinels {
  readonly ports: readonly number[];
  /** The ports for TLS, if the servers speak it. */
  readonly tlsPorts: readonly number[];
  /** Resolves when every sentinel knows that many replicas of a master, and all other sentinels of it. */
  ready(name: string, replicas: number): Promise<void>;
  /** Sets the ms of silence after which a server counts as down: a moment for a failover, and a minute before and after it. */
  givesUpAfter(name: string, ms: number): Promise<void>;
  /** Resolves when every sentinel has announced that the master is another one. */
  switched(name: string, port: number): Promise<void>;
  /** The port of the master that clients are sent to. */
  master(name: string): Promise<number>;
  stop(): Promise<void>;
}

export interface SentinelOptions {
  /** Further lines of their file; behind those that name the masters. */
  readonly lines?: readonly string[];
  /** True if each server has a port for TLS too; `lines` has the certificates. */
  readonly tls?: boolean;
}

/** Longer than a busy machine holds a server up. */
export const patientMs = 60_000;

/** Resolves when they listen. @param masters By the names that clients ask for. */
export async function startSentinels(
  masters: Readonly<Record<string, Pick<RedisServer, 'dir' | 'port'>>>,
  count = 3,
  { lines = [], tls = false }: SentinelOptions = {},
): Promise<TestSentinels> {
  const { dir } = Object.values(masters)[0]!;
  const watched = Object.entries(masters).flatMap(([name, { port }]) => [
    `sentinel monitor ${name} 127.0.0.1 ${port} ${Math.floor(count / 2) + 1}`,
    // A server that a busy machine holds up must not be failed over.
    `sentinel down-after-milliseconds ${name} ${patientMs}`,
    `sentinel failover-timeout ${name} 2000`,
  ]);
  const binary = await serverBinary();
  const start = async (): Promise<{ port: number; tlsPort: number; child: ChildProcess }> => {
    const port = await freePort();
    const tlsPort = await freePort();
    const secure = tls ? [`tls-port ${tlsPort}`] : [];
    const file = join(dir, `sentinel-${port}.conf`); // it writes there what it learns
    writeFileSync(
      file,
      `${[`port ${port}`, 'bind 127.0.0.1', `dir ${dir}`, ...secure, ...watched, ...lines].join('\n')}\n`,
    );
    const child = spawn(binary, [file, '--sentinel'], { stdio: 'ignore' });
    track(child);
    return { port, tlsPort, child };
  };
  const started = await Promise.all(Array.from({ length: count }, start));
  const ports = started.map(({ port }) => port);
  const clients = await Promise.all(ports.map((port) => connect(port, { RESP: 2 })));
  // A sentinel that stood still for two seconds does nothing for 30 s. Before Redis 7 there is no such command.
  for (const client of clients) await client.sendCommand(['SENTINEL', 'DEBUG', 'TILT-PERIOD', '3000']).catch(() => {});
  /** The views of all sentinels on a master, each as a function from the name of a field. */
  const know = async (name: string): Promise<((field: string) => string | undefined)[]> => {
    const states = await Promise.all(clients.map((client) => client.sendCommand(['SENTINEL', 'MASTER', name])));
    return (states as unknown as string[][]).map((state) => (field) => state[state.indexOf(field) + 1]);
  };
  return {
    ports,
    tlsPorts: started.map(({ tlsPort }) => tlsPort),
    async ready(name, replicas) {
      const knows = async (): Promise<boolean> => {
        const states = await know(name);
        return states.every(
          (of) => of('num-slaves') === String(replicas) && of('num-other-sentinels') === String(count - 1),
        );
      };
      await waitFor(knows, { what: `sentinels to know ${replicas} replicas of ${name}` });
    },
    async givesUpAfter(name, ms) {
      const set = ['SENTINEL', 'SET', name, 'down-after-milliseconds', String(ms)];
      await Promise.all(clients.map((client) => client.sendCommand(set)));
    },
    async switched(name, port) {
      const agree = async (): Promise<boolean> => (await know(name)).every((of) => of('port') === String(port));
      await waitFor(agree, { what: `sentinels to switch ${name} to ${port}` });
    },
    async master(name) {
      const address = await clients[0]!.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]);
      return Number((address as unknown as string[])[1]);
    },
    async stop() {
      for (const client of clients) client.destroy();
      await Promise.all(started.map(({ child }) => kill9(child)));
    },
  };
}
