// ls, show, top, release: commands that list locks and take a lock away.
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { LockBackendError } from '../../core/errors';
import { lockKey } from '../../core/keys';
import type { LockState } from '../../core/lock-state';
import { type Coverage, fenceOf, heldMsOf, readSnapshot, type SeenLock, type Snapshot } from '../../inspect/snapshot';
import type { CommandLine } from './command-line';
import { Exit, exitCodes, usage } from './exit';
import { type Session, withSession } from './session';
import { codeOf, endOfProcess } from './signals';
import { cut, duration, fitted, json, jsonOf, note, paint, plain, print, table } from './text';

export const header = ['KEY', 'KIND', 'OWNER', 'ID', 'HELD-FOR', 'TTL', 'WAITING'];
/** Minimum widths, which align rows that are printed one by one. */
const minWidths = [32, 9, 20, 8, 8, 8, 7];
/** The columns ID, OWNER and KIND, in the order in which a narrow terminal loses them. */
const lessUseful = [3, 2, 1];
/** The limit of each command of `ls`, `show` and `release`: an operator looks when Redis is slow. */
const commandTimeoutMs = 5000;
/** The pause between two pictures of `top`, and the limit of each of its commands. */
const topMs = 1000;
const notifyMs = 250;

function cells(seen: SeenLock): string[] {
  const { lock } = seen;
  const [first, ...others] = lock.holders;
  const many = others.length > 0 ? ` +${others.length}` : '';
  return [
    plain(lock.key),
    lock.mode ?? '-',
    plain(lock.owner ?? '-') + many,
    first?.id ?? '-',
    duration(heldMsOf(seen)),
    lock.locked ? duration(lock.remaining) : '-',
    String(lock.waiters),
  ];
}

/** The JSON form of a lock. `remaining` is null if the lock never ends. */
function row(seen: SeenLock): object {
  const { key, mode: kind, owner, holders, remaining, waiters: waiting } = seen.lock;
  const id = holders[0]?.id ?? null;
  const fence = fenceOf(seen);
  return { key, kind, owner, id, remaining, waiting, ...(fence !== null && { fence }) };
}

function coverageText({ processes, scanned }: Coverage, count: number): string {
  const locks = `${count} ${count === 1 ? 'lock' : 'locks'}`;
  const registered = `${processes} ${processes === 1 ? 'process' : 'processes'} registered`;
  return `${locks}; ${registered}, ${scanned ? 'every key scanned' : 'other keys not scanned (--scan does)'}`;
}

function snapshotOf(
  { store, prefix }: Session,
  { operands, values }: CommandLine,
  commandTimeoutMs: number,
): Promise<Snapshot> {
  const searched = store.keyPrefix + prefix + (operands[0] ?? '');
  return readSnapshot(store.operator, { prefix: searched, scan: values.scan, commandTimeoutMs });
}

export function ls(line: CommandLine): Promise<number> {
  return withSession(line, {}, async (session) => {
    const snapshot = await snapshotOf(session, line, commandTimeoutMs);
    const widths = [...minWidths];
    let count = 0;
    const textOf = (some: readonly SeenLock[]): string[] => {
      if (line.values.json) return some.map((each) => jsonOf(row(each)));
      return table(count === 0 ? [header, ...some.map(cells)] : some.map(cells), widths);
    };
    for await (const some of snapshot.locks()) {
      if (!(await print(textOf(some).join('\n')))) return 0;
      count += some.length;
    }
    if (count === 0 && !line.values.json) await print(textOf([]).join('\n'));
    if (line.values.json) await json({ coverage: snapshot.coverage });
    else await print(paint('dim', coverageText(snapshot.coverage, count)));
    return 0;
  });
}

export function show(line: CommandLine): Promise<number> {
  const [key] = line.operands as [string];
  return withSession(line, { commandTimeout: commandTimeoutMs }, async (session) => {
    const state = await session.withLock.inspect(key);
    const full = lockKey(key, session.store.keyPrefix + session.prefix);
    const seen = (await readSnapshot(session.store.operator, { prefix: full, commandTimeoutMs })).seen(full, state);
    if (line.values.json) {
      await json({ ...row(seen), holders: state.holders, queue: state.queue });
      return 0;
    }
    if (state.locked) for (const text of table([header, cells(seen)], [...minWidths])) await print(text);
    else await print(`${plain(key)} is free`);
    await section('HOLDERS', ['ID', 'OWNER', 'KIND', 'PERMITS', 'TTL'], state.holders.map(holderCells));
    await section('QUEUE', ['OWNER', 'KIND', 'WAITING-FOR'], state.queue.map(waiterCells));
    return 0;
  });
}

function holderCells({ id, owner, kind, permits, remaining }: LockState['holders'][number]): string[] {
  return [id, plain(owner ?? '-'), kind, String(permits), duration(remaining)];
}

function waiterCells({ owner, kind, waitingMs }: LockState['queue'][number]): string[] {
  return [plain(owner ?? '-'), kind, duration(waitingMs)];
}

async function section(title: string, names: string[], rows: string[][]): Promise<void> {
  if (rows.length === 0) return;
  await print(`\n${paint('bold', title)}`);
  for (const text of table([names, ...rows])) await print(text);
}

/** Shows the locks, sorted by trouble, until `q` or a signal. Prints one screen after the other if stdout is a pipe. */
export function top(line: CommandLine): Promise<number> {
  return withSession(line, {}, async (session) => {
    const { stdin, stdout } = process;
    const isScreen = stdout.isTTY && process.env.TERM !== 'dumb';
    const end = endOfProcess();
    let hasBegun = false; // After the first read, the server may go away and come back.
    if (stdin.isTTY && isScreen) {
      stdin.setRawMode(true);
      stdin.on('data', (data) => [...'q\u0003\u0004'].some((each) => String(data).includes(each)) && end.abort());
    }
    try {
      while (!end.signal.aborted) {
        const text = await picture(session, line, stdout.isTTY ? (stdout.rows ?? 24) : Number.POSITIVE_INFINITY).catch(
          (error: unknown) => {
            if (!hasBegun || !(error instanceof LockBackendError)) throw error;
            return `${session.connection.name}: ${error.message}`;
          },
        );
        hasBegun = true;
        if (!(await print(isScreen ? `\x1b[H\x1b[2J${text}` : text))) break;
        await pause(topMs, undefined, { signal: end.signal }).catch(() => {});
      }
    } finally {
      if (stdin.isTTY && isScreen) stdin.setRawMode(false);
      stdin.pause();
    }
    return 0;
  });
}

async function picture(session: Session, line: CommandLine, height: number): Promise<string> {
  const snapshot = await snapshotOf(session, line, topMs);
  const all: SeenLock[] = [];
  for await (const some of snapshot.locks()) for (const each of some) all.push(each);
  const waits = ({ lock }: SeenLock): number => lock.queue.reduce((max, { waitingMs }) => Math.max(max, waitingMs), 0);
  all.sort(
    (a, b) => waits(b) - waits(a) || (heldMsOf(b) ?? 0) - (heldMsOf(a) ?? 0) || (a.lock.key < b.lock.key ? -1 : 1),
  );
  const waiting = all.reduce((sum, { lock }) => sum + lock.waiters, 0);
  const heldMs = all.flatMap((seen) => heldMsOf(seen) ?? []);
  const oldest = heldMs.length === 0 ? null : heldMs.reduce((max, ms) => Math.max(max, ms), 0);
  const head = `${session.connection.name}: ${all.length} held, ${waiting} waiting, oldest hold ${duration(oldest)}`;
  const rows = [header, ...all.slice(0, Math.max(height - 5, 1)).map(cells)];
  const { columns } = process.stdout;
  const shown = columns ? fitted(rows, columns, lessUseful) : table(rows, [...minWidths]);
  const foot = paint('dim', cut(coverageText(snapshot.coverage, all.length), columns || Infinity));
  return [paint('bold', cut(head, columns || Infinity)), ...shown, foot].join('\n');
}

/** Takes a lock away. @returns 0: freed; 1: the lock was not held by that holder. */
export async function release(line: CommandLine): Promise<number> {
  const { id, yes, force } = line.values;
  const [key] = line.operands as [string];
  if ((id === undefined) === (force !== true)) throw usage('release: --id ID of the holder (see show), or --force');
  if (id !== undefined && !/^[0-9a-f]{8}$/.test(id))
    throw usage('release: --id takes the 8 hex digits that show prints');
  if (!yes) await confirm(key, force ? 'all its holders' : 'its holder');
  return withSession(line, { commandTimeout: commandTimeoutMs }, async ({ connection, withLock }) => {
    const [holder] = force ? (await withLock.inspect(key)).holders : [];
    const released = await withLock.free(key, force ? { force: true } : { id });
    // Without a server, this process itself has to notify the holder.
    if (released && connection.masters === undefined) await pause(notifyMs);
    await json({ key, id: id ?? holder?.id ?? null, released });
    if (!released && !line.values.quiet) note(id === undefined ? `${key} is free` : `${key} is not held by ${id}`);
    return released ? 0 : exitCodes.failed;
  });
}

async function confirm(key: string, holders: string): Promise<void> {
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw usage('release: prompts at a terminal; without one it needs --yes');
  const typed = await answerTo(`Type the key to take it away from ${holders} (${plain(key)}): `);
  if (typed !== key) throw new Exit(exitCodes.failed, 'not the key: nothing was changed');
}

/** Asks on the terminal. Resolves with '' at the end of the input. @throws {Exit} an interrupt. */
async function answerTo(question: string): Promise<string> {
  const prompt = createInterface({ input: process.stdin, output: process.stderr, prompt: question });
  prompt.prompt();
  const ends = ['line', 'close', 'SIGINT'].map(async (name) => ({ name, args: await once(prompt, name) }));
  const { name, args } = await Promise.race(ends);
  prompt.close(); // The terminal leaves its raw mode.
  if (name !== 'line') process.stderr.write('\n');
  if (name === 'SIGINT') throw new Exit(codeOf('SIGINT'));
  return args[0] ?? '';
}
