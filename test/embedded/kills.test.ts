// Shared memory under kill -9, SIGSTOP, ended threads and deleted files: LockErrors only, nothing torn, nobody held up for
// longer than is stated. KILL_SECONDS=60 makes the first test as long as its promise; see `npm run test:kills`.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { failure, thrown } from '../contract/outcomes';
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
  this.timeout(60_000 + 2000 * killSeconds);
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
    const files = Array.from({ length: 8 }, (_, n) => join(runtime(), `count-${n}.txt`));
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
    expect(longestMs).to.be.lessThan(2000);
  });

  it('H73: a thread that is ended in the middle of a write holds nobody up; while it stays there, a second', async () => {
    const process = stress('threads', 'threads', '10');
    const { code, redisCode, ms } = await process.receive();
    expect({ code, redisCode }).to.deep.equal({ code: 'ERR_LOCK_BACKEND', redisCode: 'BUSY' });
    expect(ms).to.be.within(900, 3000);
    const { waits } = await process.receive();
    expect(waits).to.have.length(10);
    expect(Math.max(...waits)).to.be.lessThan(900);
    expect(await exited(process), process.output()).to.deep.equal({ code: 0, signal: null });
    expect(process.output()).to.equal('');
  });

  it('H73: a process that is stopped in the middle of a write costs others a second, and a LockBackendError that says so', async () => {
    const withLock = redisExpLock({ redis: open('stopped inside'), lifetime: 60_000 });
    const lease = await withLock.promise('held');
    const stuck = stress('stuck', 'stopped inside');
    await waitFor(() => stuck.output().includes('stuck'), { what: 'the write' });
    await stop(stuck);
    for (const call of [
      () => withLock.tryLock('key'),
      () => lease.extend(),
      () => withLock.inspect('key'),
      () => lease(),
    ]) {
      const startMs = performance.now();
      const error = await failure(call());
      expect(performance.now() - startMs).to.be.within(900, 3000);
      expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(error).to.include({ redisCode: 'BUSY', retryable: true });
      expect(error.message).to.match(/written by another process or thread for 1000 ms/);
    }
    await kill9(stuck);
    expect(await lease(), 'a failed release can be tried again').to.equal(true);
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
      await sharedMemoryStore('damaged').close();
      const [file] = filesOf('damaged');
      writeFileSync(file!, 'x'.repeat(8192));
      const error = thrown(() => sharedMemoryStore('damaged'));
      expect(error).to.be.instanceOf(redisExpLock.LockBackendError);
      expect(error).to.include({ redisCode: 'CORRUPT', retryable: false });
      expect(error.message).to.contain(file!).and.to.contain('delete it');
      expect(statSync(file!).size).to.equal(8192);
    });
  });
});
