// Shared memory under kill -9, SIGSTOP, ended threads and deleted files: LockErrors only, nothing torn, nobody held up for
// longer than is stated. KILL_SECONDS=60 makes the first test as long as its promise; see `npm run test:kills`.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { failure, pending } from '../contract/outcomes';
import { exited, kill9, type NodeChild, startChild, stop, waitFor } from '../support/processes';
import type { Seen } from './children/stress';
import { describeWithEngine } from './engine';
import { ownRuntimeFolder } from './folder';
import { isInner } from './other-node';

const { sharedMemoryStore } = redisExpLock;
const killSeconds = Number(process.env.KILL_SECONDS || (isInner ? 3 : 6));
const stress = (deed: string, ...args: string[]): NodeChild =>
  startChild(join(__dirname, 'children/stress.ts'), [deed, ...args]);

describeWithEngine('shared memory under attack', function () {
  this.timeout(60_000 + 2000 * killSeconds); // the kills go on for that long
  const runtime = ownRuntimeFolder();
  const folder = () => join(runtime(), 'redis-exp-lock');
  const opened: redisExpLock.Store[] = [];

  function open(name: string): redisExpLock.Store {
    const store = sharedMemoryStore(name);
    opened.push(store);
    return store;
  }

  const filesOf = (name: string): string[] =>
    readdirSync(folder())
      .filter((each) => each.startsWith(`${name}-`))
      .map((each) => join(folder(), each))
      .sort();

  after(() => Promise.all(opened.map((store) => store.close())));

  it(`H74: a kill -9 each 100 ms for ${killSeconds} s: LockErrors only, nothing on stderr, no stall over 2 s, nothing lost`, async () => {
    // One that is killed keeps its lock for its lifetime: more locks than the 150 kills of that time, so that some are always free.
    const files = Array.from({ length: 200 }, (_, n) => join(runtime(), `count-${n}.txt`));
    for (const file of files) writeFileSync(file, '0 0\n');
    const start = () => stress('count', 'kills', ...files);
    const survivor = start();
    const victims = Array.from({ length: 4 }, start);
    await Promise.all([survivor, ...victims].map((each) => each.receive()));

    let kills = 0;
    const said: string[] = [];
    const startMs = performance.now();
    for (; kills < 10 * killSeconds && performance.now() < startMs + 2000 * killSeconds; kills++) {
      await sleep(Math.max(0, startMs + 100 * kills - performance.now()) + 20 * Math.random());
      const victim = victims.shift()!;
      await kill9(victim);
      said.push(victim.output());
      victims.push(start());
    }
    for (const each of [survivor, ...victims]) {
      if (each !== survivor) expect(await each.receive(), each.output()).to.equal('counting');
      each.send('end');
    }
    const seen = await Promise.all([survivor, ...victims].map((each) => each.receive<Seen>()));
    for (const each of [survivor, ...victims]) {
      expect(await exited(each)).to.deep.equal({ code: 0, signal: null });
      said.push(each.output());
    }
    expect(said.join('')).to.equal('');

    let lines = 0;
    for (const file of files) {
      const counted = readFileSync(file, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => line.split(' ').map(Number));
      for (const [n, [number, fence]] of counted.entries()) {
        expect(number, `line ${n} of ${file}`).to.equal(n);
        if (n > 0) expect(fence).to.be.greaterThan(counted[n - 1]![1]!);
      }
      lines += counted.length - 1;
    }
    const longestMs = Math.max(...seen.map((each) => each.longestMs));
    const refused = Object.assign({}, ...seen.map((each) => each.refused));
    if (process.env.KILL_SECONDS) {
      const { pairs } = seen[0]!;
      console.log(
        `${kills} kills, ${lines} lines counted, ${pairs} pairs of the survivor, longest ${longestMs.toFixed(0)} ms, refused ${JSON.stringify(refused)}`,
      );
    }
    expect(kills).to.be.greaterThan(killSeconds);
    expect(lines).to.be.greaterThan(100);
    // What the library waits for it sleeps away, a second at most in each of two calls. The rest is the machine's, or SQLite's own
    // wait, which would take five seconds.
    expect(Math.max(...seen.map((each) => each.longestSleepMs)), `${longestMs} ms`).to.be.lessThan(2000);
    expect(Math.max(...seen.map((each) => each.longestRestMs))).to.be.lessThan(5000);
  });

  it('H73: a thread that is ended in the middle of a write holds nobody up; while it stays there, a second', async () => {
    const process = stress('threads', 'threads', '10');
    const { code, redisCode, ms } = await process.receive();
    expect({ code, redisCode }).to.deep.equal({ code: 'ERR_LOCK_BACKEND', redisCode: 'BUSY' });
    expect(ms).to.be.at.least(900);
    const { waits } = await process.receive<{ waits: number[] }>();
    expect(waits).to.have.length(10);
    // If the ended thread held the others up, each wait would last a second. A busy machine may draw out one of them.
    expect(waits.filter((each) => each < 900).length, `${waits}`).to.be.at.least(8);
    expect(await exited(process), process.output()).to.deep.equal({ code: 0, signal: null });
    expect(process.output()).to.equal('');
  });

  /** A process that stands still in a write. */
  async function standingIn(name: string): Promise<NodeChild> {
    const stuck = stress('stuck', name);
    await waitFor(() => stuck.output().includes('stuck'), { what: 'the write' });
    await stop(stuck);
    return stuck;
  }

  /** Calls `call`. @returns The ms for which the call lets this thread sleep. */
  async function sleptMs(call: () => Promise<unknown>): Promise<number> {
    const { wait } = Atomics;
    let sleptMs = 0;
    Atomics.wait = ((array: Int32Array<SharedArrayBuffer>, index: number, value: number, ms: number) => {
      sleptMs += ms;
      return wait(array, index, value, ms);
    }) as typeof Atomics.wait;
    try {
      await call();
    } finally {
      Atomics.wait = wait;
    }
    return sleptMs;
  }

  it('H73, H74: a process that is stopped in the middle of a write costs others a second, once, and a LockBackendError that says so', async () => {
    const withLock = redisExpLock({ redis: open('stopped inside'), lifetime: 60_000 });
    const lease = await withLock.promise('held');
    const other = await withLock.promise('other');
    const stuck = await standingIn('stopped inside');
    const startMs = performance.now();
    const calls: (() => Promise<unknown>)[] = [
      () => lease(),
      () => lease(),
      () => withLock.tryLock('key'),
      () => other.extend(),
      () => withLock.inspect('key'),
    ];
    for (const [n, call] of calls.entries()) {
      let error: any;
      const ms = await sleptMs(async () => {
        error = await failure(call());
      });
      if (n === 0) expect(performance.now() - startMs).to.be.at.least(900);
      expect(ms, String(call)).to.be.at.most(n === 0 ? 1001 : 10);
      // It waits in naps of this thread: SQLite itself would wait for five seconds at each attempt.
      if (n === 0) expect(ms).to.be.at.least(10);
      expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(error).to.include({ redisCode: 'BUSY', retryable: true });
      expect(error.message).to.match(/written by another process or thread for 1000 ms/);
    }
    await kill9(stuck);
    expect(await lease(), 'a failed release can be tried again').to.equal(true);
  });

  it('H73: a lock that `run` could not release is released once the table can be written', async () => {
    const withLock = redisExpLock({ redis: open('released later'), lifetime: 600_000, commandTimeout: 50 }); // nothing answers
    let stuck!: NodeChild;
    const ran = await withLock.run('key', async () => {
      stuck = await standingIn('released later');
      return 'ran';
    });
    expect(ran).to.equal('ran');
    await kill9(stuck);
    await waitFor(async () => !(await withLock.inspect('key')).locked);
  });

  it('H93: a process that starts meanwhile lives, and has its lock once the other goes on or is gone', async () => {
    const stuck = await standingIn('starting');
    const starting = startChild(join(__dirname, 'children/worker.ts'), ['wait', 'starting', 'theirs']);
    expect(await starting.receive(), starting.output()).to.equal('waiting');
    const withLock = redisExpLock({ redis: open('starting') });
    const hostLock = new redisExpLock.HostLock('starting', { timeout: 25_000, lifetime: 60_000 });
    for (const call of [
      () => withLock.tryLock('ours'),
      () => withLock.promise('ours', { timeout: 50 }),
      () => new redisExpLock.HostLock('starting', { timeout: 0 }).lock('ours'),
    ]) {
      expect(await failure(call())).to.include({ code: 'ERR_LOCK_BACKEND', redisCode: 'BUSY', retryable: true });
    }
    const waits = [withLock.promise('ours', { timeout: 60_000 }), hostLock.lock('host')];
    expect(await Promise.all(waits.map(pending))).to.deep.equal([true, true]);
    await kill9(stuck);
    await Promise.all(waits);
    expect(await hostLock.unlock()).to.equal(true);
    expect(await starting.receive(), starting.output()).to.have.property('held');
    await kill9(starting);
  });

  it('H93: a wait that the table has held up for longer than its limit sets no timer in the past', async () => {
    const withLock = redisExpLock({ redis: open('overdue'), lifetime: 60_000 });
    // Its process is in a queue, and so hears messages from now on.
    const lease = await withLock.promise('key');
    const waiting = withLock.promise('key', { timeout: 60_000 });
    await waitFor(async () => (await withLock.inspect('key')).waiters === 1);
    await lease();
    await (await waiting)();
    const stuck = await standingIn('overdue');
    const { setTimeout } = globalThis;
    const delays: number[] = [];
    globalThis.setTimeout = ((work: () => void, ms: number) => {
      delays.push(ms);
      return setTimeout(work, ms);
    }) as typeof setTimeout;
    try {
      expect(await failure(withLock.promise('key', { timeout: 300 }))).to.be.instanceOf(redisExpLock.LockError);
    } finally {
      globalThis.setTimeout = setTimeout;
    }
    expect(delays.length).to.be.greaterThan(0);
    expect(delays.filter((ms) => ms < 0)).to.deep.equal([]);
    await kill9(stuck);
  });

  describe('a table whose files were deleted underneath', () => {
    const deletions: Record<string, (name: string) => void> = {
      'the table': (name) => filesOf(name).forEach((each) => void rmSync(each)),
      'its file alone': (name) => rmSync(filesOf(name)[0]!),
      'its log alone': (name) => rmSync(filesOf(name).find((each) => each.endsWith('-wal'))!),
      'its index alone': (name) => rmSync(filesOf(name).find((each) => each.endsWith('-shm'))!),
      'its folder': () => rmSync(folder(), { recursive: true }),
    };
    for (const [what, remove] of Object.entries(deletions)) {
      it(`${what}: every process goes on in a new one; holders learn of the loss, and fences rise`, async () => {
        const name = what.replaceAll(' ', '_');
        const other = stress('obey', name);
        expect(await other.receive()).to.equal('ready');
        const tell = (order: string, key: string): Promise<any> => {
          other.send({ order, key });
          return other.receive();
        };
        const withLock = redisExpLock({ redis: open(name), lifetime: 60_000 });
        const ours = await withLock.promise('ours');
        const theirs = await tell('take', 'theirs');
        expect(await withLock.tryLock('theirs')).to.equal(null);
        await sleep(120); // its companions are checked ten times a second
        remove(name);

        expect(await ours.extend()).to.equal(false);
        const again = await withLock.promise('theirs');
        expect(again.fence).to.be.greaterThan(theirs.fence);
        await sleep(120);
        expect(await tell('extend', 'theirs'), 'a lock of the old table').to.equal(false);
        expect(await tell('inspect', 'theirs')).to.include({ locked: true, fence: again.fence });
        expect(await tell('take', 'theirs')).to.equal(null);
        // One that waits there is notified as before.
        const waiting = tell('wait', 'theirs');
        await waitFor(async () => (await withLock.inspect('theirs')).waiters === 1);
        expect(await again()).to.equal(true);
        expect((await waiting).fence).to.be.greaterThan(again.fence);
        await kill9(other);
      });
    }

    it('a file that is no table is refused by name', async () => {
      const before = sharedMemoryStore('damaged');
      await redisExpLock({ redis: before }).inspect('key');
      await before.close();
      const [file] = filesOf('damaged');
      writeFileSync(file!, 'x'.repeat(8192));
      const error = await failure(redisExpLock({ redis: open('damaged') }).tryLock('key'));
      expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(error).to.include({ redisCode: 'CORRUPT', retryable: false });
      expect(error.message).to.contain(file!).and.to.contain('delete it');
      expect(statSync(file!).size).to.equal(8192);
    });
  });
});
