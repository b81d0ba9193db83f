/**
 * `npm run test:slow-paths [-- --grep <text>]`: the contract suite at the places of `npm cit`, and the comparison of the scripts with
 * their executable specification, in a copy of the tree without any short cut. Exit code as mocha's.
 * The result of a whole run goes to proof/slow-paths.json.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { versions } from '../../torture/versions';
import { AlteredTree } from '../support/altered-tree';
import { shortCuts, withoutShortCuts } from './short-cuts';

const root = join(__dirname, '../..');
/** Tests of what short cuts save (they count commands), and of short cuts themselves. */
const leftOut = [
  /a done slot costs one command/,
  /and a few commands in all/,
  /`timeout: Infinity` and `maxRetries: Infinity` go on/,
  /a constant number of commands/,
  /H33: 10,000 waiters/,
  /^queued: hand-off/,
  /queued, granted by a message/,
  /one member for all, a token for each/,
  /readers that share a holder all hear/,
  /64 at most join the first/,
  /an extension by the own lifetime is one for all/,
  /the loss of the member is a loss for all/,
  /each has its own `maxHold`: the end of one/,
  /a permit is handed off: a fence for each holder/,
];
/** The longest run, on a machine that has other things to do. */
const maxMs = 60 * 60_000;

void main();

async function main(): Promise<void> {
  const started = new Date();
  const tree = new AlteredTree();
  try {
    await tree.alter(withoutShortCuts);
    const suites = ['test/contract/*.test.ts', 'test/redis/same-replies.test.ts'];
    const words = process.argv.slice(2);
    const left = words.length > 0 ? words : ['--invert', '--grep', leftOut.map(({ source }) => source).join('|')];
    // Once more, on a machine that has other things to do: what a short cut hides fails each time.
    const terms = ['--parallel', '--jobs', '2', '--retries', '1'];
    const args = ['node_modules/mocha/bin/mocha.js', ...terms, ...left, ...suites];
    const { code, output } = await tree.run(args, { isShown: true, maxMs });
    process.exitCode = code ?? 1;
    const isWhole = words.length === 0 && process.env.REDIS_EXP_LOCK_PLACE === undefined;
    if (code === 0 && isWhole) await write(output, started);
  } finally {
    tree.remove();
  }
}

async function write(output: string, started: Date): Promise<void> {
  const [, passed, , skipped = '0'] = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?/m.exec(output)!;
  const proof = {
    command: 'npm run test:slow-paths',
    started: started.toISOString(),
    minutes: Number(((Date.now() - started.getTime()) / 60_000).toFixed(1)),
    versions: await versions(),
    passed: Number(passed),
    skipped: Number(skipped),
    leftOut: leftOut.map(({ source }) => source),
    shortCuts: shortCuts.map(({ name }) => name),
  };
  mkdirSync(join(root, 'proof'), { recursive: true });
  writeFileSync(join(root, 'proof/slow-paths.json'), `${JSON.stringify(proof, undefined, 2)}\n`);
}
