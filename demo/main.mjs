// The main job, as a demo (`npm start`): several processes move money between accounts in Redis, or in
// shared memory where there is none. Once without a lock, and
// money is lost or made; once with withLock, and none is. Read it from top to bottom; worker.mjs is where the lock is used.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bank } from './bank.mjs';
import { audit, auditHolds, histogram } from './ledger.mjs';
import { readOptions } from './options.mjs';
import { openPage } from './page.mjs';
import { chart, slice, svg } from './picture.mjs';
import { finishLine, number, Progress, say, show, style, table, width } from './screen.mjs';
import { Elsewhere, enter, findServer, Sorry } from './server.mjs';
import { Team } from './team.mjs';

const PHASES = { unlocked: 'without a lock', locked: 'with withLock' };
const REFRESH_MS = 100;
const GO_ON_MS = 10_000;

const options = readOptions(process.argv.slice(2));
const closing = []; // how to end what was started, the last first
process.stdout.on('error', () => {}); // the reader of our output is gone: end in order all the same

const interrupt = interrupted();
try {
  process.exitCode = await Promise.race([story().catch(elsewhere), interrupt.exitCode]);
} catch (error) {
  finishLine();
  console.error(error instanceof Sorry ? error.message : error);
  process.exitCode = 1;
} finally {
  finishLine();
  while (closing.length > 0) await endOne(closing.pop());
}
if (interrupt.happened) process.exit(); // the story may still be under way somewhere

async function story() {
  const server = await findServer(closing);
  const { url, folder } = server;
  const setup = { url, folder, prefix: `{redis-exp-lock-demo:${randomBytes(8).toString('hex')}}:`, ...options };

  const { vault, redis, leave } = await enter(setup);
  closing.push(leave);
  const bank = new Bank(vault, setup);
  if (url !== undefined && !server.own) closing.push(() => bank.close()); // our own server takes everything with it

  const team = new Team(options.workers);
  closing.push(() => team.dismiss());
  await team.ready(setup);

  show();
  say(`${options.workers} processes move money between ${options.accounts} accounts, twice for ${options.seconds} s.`);
  say('Each transfer reads two balances, thinks for 1 to 4 ms, and writes both back.');
  say(`Server: ${server.line}`, 'dim');
  if (options.page) say(`Page: ${await openPage({ redis, prefix: setup.prefix }, closing)}`);
  show();

  const without = await phase('unlocked', { bank, team });
  const isCounted = server.own && !options.page; // the page runs scripts, too
  const scriptsBefore = isCounted ? await scriptCalls(redis) : 0;
  const locked = await phase('locked', { bank, team });
  const scripts = isCounted ? (await scriptCalls(redis)) - scriptsBefore : undefined;

  const figures = {
    without: audit(without),
    locked: audit(locked),
    holds: auditHolds(locked.transfers),
    waits: histogram(locked.waits),
    scripts,
  };
  tellFigures(figures);
  if (figures.locked.done > 0) tellHolds(figures.holds);
  const code = tellVerdict(figures);
  await keepWatching(team);
  return code;
}

/** Prints how to see the locks; in a terminal with the page, there is something to see until Ctrl-C. */
async function keepWatching(team) {
  if (!options.page) {
    say(
      'To watch the locks: npm start -- --page; or, while this runs against a REDIS_URL, npx redis-exp-lock top',
      'dim',
    );
  } else if (process.stdout.isTTY) {
    say('The workers go on, for the page, until Ctrl-C.', 'dim');
    for (;;) await team.work('locked', GO_ON_MS);
  }
}

/** The same demo, run by another Node; it ends with us. Resolves its exit code. */
async function elsewhere(error) {
  if (!(error instanceof Elsewhere)) throw error;
  const other = spawn(error.program, process.argv.slice(1), { stdio: 'inherit' });
  const ended = new Promise((resolve, reject) => other.once('exit', resolve).once('error', reject));
  closing.push(async () => {
    other.kill('SIGTERM');
    await ended;
  });
  return ended;
}

/** Lets the workers work for a while, and resolves with all that is known about it; meanwhile its progress is shown. */
async function phase(how, { bank, team }) {
  await bank.open();
  const before = await bank.balances();
  const started = performance.now();
  const elapsed = () => (performance.now() - started) / 1000;
  const progress = new Progress(PHASES[how].padEnd(14), options.seconds);

  const work = team.work(how, options.seconds * 1000);
  const isDone = work.then(() => true);
  while (!(await Promise.race([isDone, sleep(REFRESH_MS, false)]))) {
    progress.show(elapsed(), team.done, total(await bank.balances()));
  }
  const seconds = elapsed();
  const { transfers, waits } = await work;
  const after = await bank.balances();
  progress.end(seconds, transfers.length, total(after));
  return { transfers, waits, before, after, seconds };
}

function tellFigures({ without, locked, holds, waits, scripts }) {
  const ms = (value) => (value === undefined ? '–' : `${number(value, 1)} ms`);
  const judged = (value, isGood, words = number(value)) => [isGood ? 'green' : 'red', words];
  const both = (name, cell) => [name, cell(without), cell(locked)];
  const lockOnly = (name, cell) => [name, ['dim', '–'], cell];

  show();
  table(
    ['', PHASES.unlocked, PHASES.locked],
    [
      both('transfers done', ({ done }) => number(done)),
      both('transfers per second', ({ perSecond }) => number(perSecond)),
      both('interrupted transfers ¹', ({ interrupted }) => judged(interrupted, interrupted === 0)),
      both('lost updates ²', ({ lost }) => judged(lost, lost === 0)),
      both('accounts with a wrong balance', ({ wrong, accounts }) =>
        judged(wrong, wrong === 0, `${wrong} of ${accounts}`),
      ),
      both('money at the start', ({ moneyBefore }) => number(moneyBefore)),
      both('money at the end', ({ moneyBefore, moneyAfter }) => judged(moneyAfter, moneyAfter === moneyBefore)),
      lockOnly('acquisitions that waited ³', number(holds.waited)),
      lockOnly('wait, median', ms(holds.medianWait)),
      lockOnly('wait, longest', ms(holds.waited > 0 ? holds.longestWait : undefined)),
      ...waits.map(({ label, count, bar }) => [`acquire took ${label} ⁶`, ['dim', bar], number(count)]),
      lockOnly('highest fence', number(locked.highestFence)),
      lockOnly('fences out of order ⁴', judged(locked.outOfOrder, locked.outOfOrder === 0)),
      lockOnly('script calls per acquisition ⁵', scripts === undefined ? '–' : number(scripts / locked.done, 2)),
    ],
  );
  for (const note of [
    '¹ another one was written between its reading and its writing',
    '² no longer in the balance: overwritten from an older reading',
    '³ asked while another process still held the lock',
    '⁴ not above the fence of the transfer before, in the order Redis wrote them',
    '⁵ to acquire the lock and to release it; counted on a server of our own',
    ...(waits.length > 0 ? ['⁶ as the library publishes on redis-exp-lock:acquire (`waitedMs`)'] : []),
  ]) {
    say(note, 'dim');
  }
}

function tellHolds({ holds, overlaps, longestOverlap, medianHandOver }) {
  const picture = slice(holds, options.workers);
  const caption =
    `held ${picture.count} times in ${picture.to - picture.from} ms; by the processes' clocks, of all ${number(holds.length)} in the phase ` +
    `${overlaps === 0 ? 'none overlapped another' : `${number(overlaps)} OVERLAPPED another, by up to ${number(longestOverlap, 3)} ms`}` +
    `${medianHandOver === undefined ? '' : `; hand-off ${number(medianHandOver, 2)} ms (median)`}`;
  show();
  show(style('bold', 'Who held the lock when') + style('dim', '   █ held   · waited'));
  show();
  for (const line of chart(picture, width() - 2)) show(line);
  show();
  say(caption, 'dim');
  if (options.svg !== undefined) {
    fs.writeFileSync(options.svg, svg(picture, caption));
    say(`Drawn in ${options.svg}`, 'dim');
  }
}

/** The exit code, and why. */
function tellVerdict({ without, locked }) {
  const difference = without.moneyAfter - without.moneyBefore;
  const coins =
    difference === 0
      ? 'the sum came out right by chance'
      : `${number(Math.abs(difference))} coins ${difference < 0 ? 'vanished' : 'came from nowhere'}`;
  const faults = [
    locked.done === 0 && 'no transfer was made',
    locked.interrupted > 0 && `${number(locked.interrupted)} transfers were interrupted`,
    locked.lost > 0 && `${number(locked.lost)} updates were lost`,
    locked.wrong > 0 && `${locked.wrong} accounts have a wrong balance`,
    locked.moneyAfter !== locked.moneyBefore &&
      `${number(locked.moneyBefore)} coins became ${number(locked.moneyAfter)}`,
    locked.outOfOrder > 0 && `${number(locked.outOfOrder)} fences were out of order`,
  ].filter(Boolean);

  show();
  say(
    without.lost > 0
      ? `Without a lock ${number(without.lost)} updates were lost, and ${coins}.`
      : `Without a lock nothing was lost this time. ${options.workers === 1 ? 'One process alone has nobody to collide with.' : 'That was luck: nothing prevented it.'}`,
  );
  if (faults.length > 0) {
    say(`With withLock ${faults.join(', ')}: the lock did not do its work.`, 'red');
    return 1;
  }
  say('With withLock nothing was lost, and every fence was above the one before.', 'green');
  show();
  return 0;
}

/** The number of scripts that the server has run so far. Reading and writing balances needs none, so all are the lock's. */
async function scriptCalls(client) {
  const calls = (await client.info('commandstats')).matchAll(/^cmdstat_(?:evalsha|eval):calls=(\d+)/gm);
  return total([...calls].map(([, count]) => Number(count)));
}

/** Ctrl-C and other signals: resolves the exit code of the signal. */
function interrupted() {
  const state = { happened: false };
  state.exitCode = new Promise((resolve) => {
    for (const [signal, code] of Object.entries({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 })) {
      process.on(signal, () => {
        state.happened = true;
        resolve(code);
      });
    }
  });
  return state;
}

/** Ends one part of the demo. A part that cannot be ended must not keep the others from their ends. */
async function endOne(end) {
  try {
    await end();
  } catch (error) {
    console.error(`While ending: ${error.message}`);
    process.exitCode ||= 1;
  }
}

function total(numbers) {
  return numbers.reduce((sum, one) => sum + one, 0);
}
