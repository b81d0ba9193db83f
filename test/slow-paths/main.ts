/**
 * `npm run test:slow-paths [-- --grep <text>]`: the contract suite, on every client with one Redis and in memory, and the
 * comparison of the scripts with their executable specification, in a copy of the tree without any short cut. Exit code as mocha's.
 */
import { AlteredTree } from '../support/altered-tree';
import { shortCuts } from './short-cuts';

/** Tests of what short cuts save (they count commands), and of two short cuts themselves. */
const leftOut = [
  /a done slot costs one command/,
  /and a few commands in all/,
  /`timeout: Infinity` and `maxRetries: Infinity` go on/,
  /a constant number of commands/,
  /H33: 10,000 waiters/,
  /^queued: hand-off/,
  /queued, granted by a message/,
];
/** On a machine that has other things to do. */
const mostMs = 60 * 60_000;

void main();

async function main(): Promise<void> {
  const tree = new AlteredTree();
  try {
    await tree.alter(shortCuts);
    const suites = ['test/contract/*.test.ts', 'test/redis/same-replies.test.ts'];
    const words = process.argv.slice(2);
    const left = words.length > 0 ? words : ['--invert', '--grep', leftOut.map(({ source }) => source).join('|')];
    const args = ['node_modules/mocha/bin/mocha.js', '--parallel', '--jobs', '2', ...left, ...suites];
    process.exitCode = (await tree.run(args, { isShown: true, mostMs })).code ?? 1;
  } finally {
    tree.remove();
  }
}
