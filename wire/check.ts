// `npm run wire -- [--level 2] [--url redis://127.0.0.1:6379/9] [COMMAND …]`: plays wire/vectors.json against an implementation of the
// wire; without a command, against this library. The database must be empty; without a URL there is a server of its own. Exit code 1 if
// a vector was not met. docs/wire.md has the format of calls and replies.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { killChildren } from '../test/support/processes';
import { type Client, closeAll, connect, startRedis, stopServers } from '../test/support/redis';
import { Implementation } from './implementation';
import { differences, openServer, play, type Vector } from './vector';

export const ours = [process.execPath, '--import', 'tsx', join(__dirname, 'ours.ts')];

export function vectorsUpTo(level: number): Vector[] {
  const { vectors } = JSON.parse(readFileSync(join(__dirname, 'vectors.json'), 'utf8')) as { vectors: Vector[] };
  return vectors.filter((each) => each.level <= level);
}

/** Plays the vectors. Calls `tell` with the differences of each; none if it was met. */
export async function check(
  vectors: readonly Vector[],
  command: readonly string[],
  url: string,
  clients: readonly [Client, Client],
  tell: (vector: Vector, found: readonly string[]) => void,
): Promise<void> {
  const server = await openServer(...clients);
  const implementation = new Implementation(command, url);
  try {
    for (const vector of vectors) {
      const outcome = await play(vector, server, (call) => implementation.call(call));
      tell(vector, differences(vector, outcome));
    }
  } finally {
    await implementation.close();
  }
}

async function main(): Promise<void> {
  const args = process.argv.slice(2);
  const options = { level: { type: 'string', default: '4' }, url: { type: 'string' } } as const;
  const isOption = (n: number): boolean =>
    args[n]!.startsWith('--') || args[n - 1] === '--level' || args[n - 1] === '--url';
  const own = args.findIndex((_, n) => !isOption(n));
  const { values } = parseArgs({ args: own < 0 ? args : args.slice(0, own), options });
  const command = own < 0 ? ours : args.slice(own);
  const url = values.url ?? (await startRedis()).url;
  let [met, failed] = [0, 0];
  await check(
    vectorsUpTo(Number(values.level)),
    command,
    url,
    [await connect(url), await connect(url)],
    (vector, found) => {
      if (found.length === 0) met += 1;
      else failed += 1;
      if (found.length > 0) console.log(`not met: ${vector.name}\n  ${found.join('\n  ')}`);
    },
  );
  console.log(`${met} vectors met, ${failed} not met`);
  if (failed > 0) process.exitCode = 1;
}

if (require.main === module) {
  main().finally(async () => {
    closeAll();
    await stopServers();
    killChildren();
  });
}
