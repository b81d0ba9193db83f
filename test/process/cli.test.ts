// The command line, with real processes: what is known to go wrong with commands under a lock (consul lock, flock, etcdctl), and
// what an operator types. One server, one program.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { stub } from 'sinon';
import redisExpLock from '../../src/index';
import { check, parse } from '../../src/tools/cli/command-line';
import { commands } from '../../src/tools/cli/commands';
import { Exit } from '../../src/tools/cli/exit';
import { perform } from '../../src/tools/cli/main';
import { fitted, table, widthOf } from '../../src/tools/cli/text';
import { header } from '../../src/tools/cli/watch';
import { bundled } from '../support/bundle';
import { exited, freePort, kill9, track, waitFor } from '../support/processes';
import { type Client, connect, type RedisServer, startRedis, uniqueKey } from '../support/redis';

const program = join(__dirname, '../../src/tools/cli.ts');

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

class Started {
  readonly child: ChildProcess;
  out = '';
  err = '';

  constructor(args: readonly string[], env: NodeJS.ProcessEnv, input?: string | Buffer) {
    this.child = spawn(process.execPath, [bundled(program), ...args], {
      env: { ...process.env, ...env },
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    track(this.child);
    this.child.stdout!.on('data', (text) => {
      this.out += String(text);
    });
    this.child.stderr!.on('data', (text) => {
      this.err += String(text);
    });
    this.child.stdin?.end(input);
  }

  async ended(): Promise<Ended> {
    await exited(this.child);
    // The last output may still be in the pipe when the process has ended.
    if (!this.child.stdout!.closed) await new Promise((resolve) => this.child.stdout!.once('close', resolve));
    return { code: this.child.exitCode, out: this.out, err: this.err };
  }

  async says(text: string): Promise<void> {
    await waitFor(() => this.out.includes(text), { what: `${text} in ${JSON.stringify(this.out + this.err)}` });
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]![0] !== 'Z';
  } catch {
    return false;
  }
};
const rows = (text: string): any[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('the command line', () => {
  let server: RedisServer;
  let client: Client;
  let withLock: redisExpLock.WithLock;
  let key: string;

  const start = (args: readonly string[], input?: string | Buffer): Started =>
    new Started(args, { REDIS_URL: server.url }, input);
  const type = (...args: string[]): Promise<Ended> => start(args).ended();
  /** Runs the tool in this process, which costs less than one of its own, for calls that neither run a command nor mind a signal. One at a time. */
  const typed = async (...args: string[]): Promise<Ended> => {
    const said = { out: '', err: '' };
    const { REDIS_URL } = process.env;
    const stubs = [stub(process.stdout, 'write'), stub(process.stderr, 'write')];
    const writesTo = (name: 'out' | 'err') => (text: unknown, onWritten?: () => void) => {
      said[name] += String(text);
      onWritten?.();
      return true;
    };
    for (const [n, name] of (['out', 'err'] as const).entries()) stubs[n]!.callsFake(writesTo(name) as never);
    process.env.REDIS_URL = server.url;
    try {
      const code = await perform(args);
      return { code, ...said };
    } finally {
      for (const each of stubs) each.restore();
      if (REDIS_URL === undefined) delete process.env.REDIS_URL;
      else process.env.REDIS_URL = REDIS_URL;
    }
  };
  const token = (of = key): Promise<string | null> => client.get(of);
  /** The pids that a command prints. */
  const pidsOf = (text: string): number[] => {
    const pids = [...text.matchAll(/pid (\d+)/g)].map(([, pid]) => Number(pid));
    for (const pid of pids) printed.add(pid);
    return pids;
  };
  const printed = new Set<number>();
  const gone = (pids: readonly number[]): Promise<unknown> =>
    waitFor(() => !pids.some(isAlive), { timeoutMs: 10_000, what: `${pids} to be gone` });

  before(async () => {
    server = await startRedis({ appendonly: 'everysec' });
    client = await connect(server.url);
    withLock = redisExpLock({ redis: client, lifetime: 60_000 });
  });
  after(async () => {
    await withLock.close({ drain: false });
    client.destroy();
    await server.discard();
  });
  beforeEach(() => {
    key = uniqueKey('cli');
  });
  // Where a test fails, a command may be left; by its words it is ours.
  afterEach(() => {
    for (const pid of [...printed].filter(isAlive)) {
      if (readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('sleep')) process.kill(pid, 'SIGKILL');
    }
    printed.clear();
  });

  describe('run', () => {
    it('H87: exits as the command did; 128 + its signal; 126 and 127 as a shell; nothing stays held', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-'));
      const cases = [
        [['sh', '-c', 'exit 7'], 7],
        [['sh', '-c', 'kill -9 $$'], 137],
        [[join(folder, 'missing')], 127],
        [[folder], 126],
      ] as const;
      const codes = await Promise.all(
        cases.map(async ([command], n) => (await type('run', `${key}-${n}`, '--', ...command)).code),
      );
      expect(codes).to.deep.equal(cases.map(([, code]) => code));
      expect(await client.keys(`${key}*`)).to.deep.equal([]);
      rmSync(folder, { recursive: true });
    });

    it('H87: of nested locks the command sees the inner one; of several, one a line; never a token', async () => {
      const inner = [process.execPath, bundled(program), 'run', `${key}-b`, `${key}-c`, '--', 'env'];
      const { out, code } = await type('run', key, '--', ...inner);
      expect(code).to.equal(0);
      expect(out).to.contain(`LOCK_KEY=${key}-b\n${key}-c\n`);
      expect(out).not.to.contain(`LOCK_KEY=${key}\n`);
      expect(out)
        .to.match(/^LOCK_FENCE=\d{16}$/m)
        .and.to.match(/^LOCK_OWNER=.+:\d+$/m);
      expect(out).not.to.match(/_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-/);
    });

    it('H87: 5 MB go through the command, in and out', async () => {
      const started = start(['run', key, '--', 'cat'], Buffer.alloc(5_000_000, 'x'));
      const { out, code } = await started.ended();
      expect([out.length, code]).to.deep.equal([5_000_000, 0]);
    });

    it('busy: 75, or what -E says, also for the other kind of lock; with -w as long as that', async () => {
      const lease = await withLock.promise(key);
      const all = [
        ['-n', '-E', '3'],
        ['-n', '--shared'],
        ['-w', '50ms'],
      ];
      const ended = [];
      for (const how of all) ended.push(await type('run', ...how, key, '--', 'echo', 'ran'));
      const errors = ended.map(({ err }) => err).join('');
      expect(
        ended.map(({ code }) => code),
        errors,
      ).to.deep.equal([3, 75, 75]);
      expect(ended.map(({ out }) => out).join('')).to.equal('');
      for (const { err } of ended) expect(err.trim().split('\n')).to.have.length(1);
      expect(await lease.release()).to.equal(true);
    });

    it('several keys, one of which others share: the command does not run without it', async () => {
      const shared = start(['run', '--shared', `${key}-b`, '--', 'sh', '-c', 'echo in; exec sleep 1000']);
      await shared.says('in');
      const several = await type('run', '-w', '300ms', `${key}-a`, `${key}-b`, '--', 'echo', 'ran');
      expect([several.code, several.out]).to.deep.equal([75, '']);
      shared.child.kill('SIGTERM');
      expect((await shared.ended()).code).to.equal(143);
    });

    it('--shared commands run side by side, and one that wants the key alone waits for them; permits too', async () => {
      const [one, other] = [1, 2].map(() =>
        start(['run', '--shared', key, '--', 'sh', '-c', 'echo in; read x'], undefined),
      );
      const held = start(['run', '--shared', key, '--', 'sh', '-c', 'echo in; exec sleep 1000']);
      await Promise.all([one!.ended(), other!.ended(), held.says('in')]);
      expect((await type('run', '-n', key, '--', 'true')).code, 'alone').to.equal(75);
      const alone = start(['run', key, '--', 'echo', 'alone']);
      await waitFor(async () => (await withLock.inspect(key)).queue[0]?.kind === 'write');
      held.child.kill('SIGTERM');
      expect((await held.ended()).code).to.equal(143);
      expect(await alone.ended()).to.include({ code: 0, out: 'alone\n' });
      const permit = start(['run', '--permits', '1/1', `${key}-p`, '--', 'sh', '-c', 'echo in; exec sleep 1000']);
      await permit.says('in');
      expect((await type('run', '-n', '--permits', '1/1', `${key}-p`, '--', 'true')).code, 'permits').to.equal(75);
      permit.child.kill('SIGINT');
      expect((await permit.ended()).code).to.equal(130);
    });

    it('H87: a signal ends the wait with 128 + n, and leaves nothing in the queue', async () => {
      const lease = await withLock.promise(key);
      const signals = ['SIGTERM', 'SIGINT'] as const;
      const waiting = signals.map(() => start(['run', key, '--', 'echo', 'ran']));
      await waitFor(async () => (await withLock.inspect(key)).queue.length === 2);
      for (const [n, signal] of signals.entries()) waiting[n]!.child.kill(signal);
      const ended = await Promise.all(waiting.map((each) => each.ended()));
      expect(ended.map(({ code }) => code)).to.deep.equal([143, 130]);
      expect(ended.map(({ out }) => out).join('')).to.equal('');
      expect((await withLock.inspect(key)).waiters).to.equal(0);
      expect(await lease.release()).to.equal(true);
    });

    it('H87: a TERM that comes with the grant ends the command, or comes before it; HUP leaves no orphans', async () => {
      const late = start(['run', key, '--', 'sh', '-c', 'echo pid $$; exec sleep 1000']);
      await waitFor(() => token());
      late.child.kill('SIGTERM');
      const { code, out } = await late.ended();
      expect(code).to.equal(143);
      await gone(pidsOf(out));
      // Its output is its own: what it leaves behind keeps ours open no longer.
      const script = 'sleep 1000 >&- 2>&- & echo pid $!; echo pid $$; wait';
      const hung = start(['run', key, '--', 'sh', '-c', script]);
      await hung.says(`pid ${pidsOf(hung.out)[1] ?? ''}`);
      await waitFor(() => pidsOf(hung.out).length === 2);
      hung.child.kill('SIGHUP');
      expect((await hung.ended()).code).to.equal(129);
      await gone(pidsOf(hung.out));
      expect(await token()).to.equal(null);
    });

    it('H87: a grandchild that ignores TERM is killed after the grace, and only then is the lock free', async () => {
      const script = `(trap '' TERM; echo pid $(sh -c 'echo $PPID'); while :; do sleep 0.05; done) & echo pid $$; wait`;
      const started = start(['run', '--kill-after', '300ms', key, '--', 'sh', '-c', script]);
      await waitFor(() => pidsOf(started.out).length === 2);
      const pids = pidsOf(started.out);
      started.child.kill('SIGTERM');
      await waitFor(async () => (await token()) === null);
      expect(pids.filter(isAlive), 'left when the lock is free').to.deep.equal([]);
      expect((await started.ended()).code).to.equal(143);
    });

    it('H87, H88: the key taken away: TERM at once, KILL after the grace, 76, and no grandchild left', async () => {
      const script = `trap 'echo got TERM' TERM; (trap '' TERM; echo pid $(sh -c 'echo $PPID'); while :; do sleep 0.05; done) & echo pid $$; while :; do sleep 0.05; done`;
      // A busy machine may not run the shell for a second: its trap must come before the KILL.
      const started = start(['run', '--ttl', '60s', '--kill-after', '3s', key, '--', 'sh', '-c', script]);
      await waitFor(() => pidsOf(started.out).length === 2);
      const held = (await token())!;
      const { id } = (await withLock.inspect(key)).holders[0]!;
      const system = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' });
      const environment = readFileSync(`/proc/${pidsOf(started.out)[1]}/environ`, 'latin1');
      const channel = 'redis-exp-lock:1:freed';
      const listeners = async () => (await server.command<[string, number]>('PUBSUB', 'NUMSUB', channel))[1];
      await waitFor(async () => (await listeners()) === 1, { what: 'its subscription' });
      // The registry shows the locks of a process a moment later.
      await waitFor(async () => rows((await typed('ls', '--json')).out).some((row) => row.key === key));
      const shown = [await typed('ls', '--json'), await typed('show', key, '--json')];
      expect([system, environment, ...shown.map(({ out }) => out)].join('\n')).not.to.contain(held.slice(-36));
      const listed = rows(shown[0]!.out);
      expect(listed.find((row) => row.key === key)).to.have.all.keys(
        'key',
        'kind',
        'owner',
        'id',
        'remaining',
        'waiting',
        'fence',
      );
      expect(listed.at(-1)).to.deep.equal({ coverage: { processes: 1, scanned: false } });
      expect(rows(shown[1]!.out)[0]).to.include({ key, kind: 'exclusive', id });

      // It refuses without a terminal, and a stale id changes nothing.
      expect((await type('release', key, '--id', id)).code).to.equal(64);
      const stale = await typed('release', key, '--id', id === '00000000' ? '11111111' : '00000000', '--yes');
      expect(stale.code).to.equal(1);
      expect(await token()).to.equal(held);
      const freed = await typed('release', key, '--id', id, '--yes');
      expect([freed.code, rows(freed.out)[0]]).to.deep.equal([0, { key, id, released: true }]);
      await waitFor(() => started.out.includes('got TERM'), { timeoutMs: 10_000, what: 'TERM' });
      const { code, out } = await started.ended();
      expect(code).to.equal(76);
      expect(pidsOf(out).filter(isAlive)).to.deep.equal([]);
    });

    it('H87: a server that is gone for longer than the ttl: the command is ended, 76; top waits for it to come back', async () => {
      const own = await startRedis();
      const script = `trap 'echo got TERM; exit 0' TERM; echo in; while :; do sleep 0.05; done`;
      const args = ['run', '--url', own.url, '--ttl', '2500ms', '--kill-after', '30s', key, '--', 'sh', '-c', script];
      const started = start(args);
      await started.says('in');
      const top = start(['top', '--url', own.url]);
      await top.says(' held, ');
      await own.stop();
      const { code, out } = await started.ended();
      expect([code, out]).to.deep.equal([76, 'in\ngot TERM\n']);
      await top.says('not connected');
      top.child.kill('SIGINT');
      expect((await top.ended()).code, 'top goes on').to.equal(0);
      await own.discard();
    });

    it('H87: killed with -9 it leaves its command without a lock, and help says so; the next fence is larger', async () => {
      const script = 'echo $LOCK_FENCE; echo pid $$; exec sleep 1000';
      const killed = start(['run', '--ttl', '60s', key, '--', 'sh', '-c', script]);
      await waitFor(() => pidsOf(killed.out).length === 1);
      await kill9(killed.child);
      await client.pExpire(key, 1); // in place of the rest of its ttl
      const next = await type('run', key, '--', 'sh', '-c', 'echo $LOCK_FENCE');
      expect(pidsOf(killed.out).filter(isAlive)).to.have.length(1);
      expect(Number(next.out)).to.be.greaterThan(Number.parseInt(killed.out, 10));
      for (const name of ['run', 'once', 'elect']) expect((await typed(name, '--help')).out).to.contain('kill -9');
    });

    it('H87: a command that setpriv ends with its parent is gone after kill -9', async function () {
      if (spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true']).status !== 0) this.skip();
      const command = ['setpriv', '--pdeathsig', 'KILL', 'sh', '-c', 'echo pid $$; exec sleep 1000'];
      const killed = start(['run', key, '--', ...command]);
      await waitFor(() => pidsOf(killed.out).length === 1);
      await kill9(killed.child);
      await gone(pidsOf(killed.out));
    });

    it('a wrong line is 64 before any connection; an address where nobody answers 69; each in one line', async () => {
      let connections = 0;
      const listening = createServer((socket) => {
        connections += 1;
        socket.destroy();
      });
      const port = await freePort();
      await new Promise<void>((resolve) => listening.listen(port, '127.0.0.1', resolve));
      const url = `redis://user:geheim@127.0.0.1:${port}`;
      for (const line of [
        ['run', '--', 'true'],
        ['run', key],
        ['run', '--permits', '3/2', key, '--', 'true'],
        ['ls', '--every', '1d'],
        ['ls', '--', 'a', 'b'],
        ['once', '--', 'a', 'b', '--', 'true'],
        ['run', '--', '-a', '--'],
      ]) {
        expect(() => {
          const typed = parse(line);
          check(typed, commands[typed.name!]!);
        }, line.join(' ')).to.throw(Exit);
      }
      const wrong = [
        ['run', '--wat', key, '--', 'true'],
        ['once', key, '--', 'true'],
        ['ls', '--store', 'memory'],
        ['ls', '--url', 'redis://:100%@127.0.0.1'],
        ['run', '', '--', 'true'],
        ['once', '--every', '1d', `${key}:queue`, '--', 'true'],
        ['elect', key, '--ttl', '999999999999d', '--', 'true'],
        ['show', 'k'.repeat(1024), '--prefix', 'p'],
        ['show', '-key'],
        ['release', '}', '--force', '--yes'],
        ['release', key, '--force'],
      ];
      const ended: Ended[] = [];
      for (const args of wrong) ended.push(await typed('--url', url, ...args));
      expect(ended.map(({ code }) => code)).to.deep.equal(wrong.map(() => 64));
      expect(connections).to.equal(0);
      const unreachable = await typed('ls', '--url', url);
      await new Promise((resolve) => listening.close(resolve));
      expect(unreachable.code).to.equal(69);
      for (const { err } of [...ended, unreachable]) {
        expect(err)
          .to.match(/^redis-exp-lock: [^\n]+\n$/)
          .and.not.to.contain('geheim');
      }
    });
  });

  it('once: the command runs once a slot; then 0 and a note. elect: the command of the leader, and its exit code', async () => {
    const args = ['once', '--every', '365d', key, '--', 'sh', '-c', 'echo ran; exit 3'];
    expect(await type(...args)).to.include({ code: 3, out: 'ran\n' });
    const again = await type(...args);
    expect(again).to.include({ code: 0, out: '' });
    expect(again.err).to.contain('has run in this slot');
    const elected = await type('elect', `${key}-e`, '--', 'sh', '-c', 'echo $LOCK_KEY $LOCK_FENCE; exit 4');
    expect(elected.code).to.equal(4);
    expect(elected.out).to.match(new RegExp(`^${key}-e \\d{16}\\n$`));
  });

  it('H94: elect: a TERM before or after a loss is remembered: no new command, no new campaign', async () => {
    // The first TERM of a command is that of the loss, or ours; the second is the other one.
    const script = `n=0; trap 'n=$((n+1)); echo TERM $n; [ $n -lt 2 ] || exit 0' TERM; echo pid $$; echo in; while :; do sleep 0.05; done`;
    for (const isLostFirst of [true, false]) {
      const name = `${key}-${isLostFirst}`;
      const elected = start(['elect', '--ttl', '15s', '--kill-after', '50s', name, '--', 'sh', '-c', script]);
      await elected.says('in\n');
      const steps = [() => withLock.free(name, { force: true }), () => elected.child.kill('SIGTERM')];
      if (!isLostFirst) steps.reverse();
      await steps[0]!();
      await elected.says('TERM 1');
      await steps[1]!();
      await elected.says('TERM 2');
      const isOver = (): boolean => elected.child.exitCode !== null || elected.out.split('in\n').length > 2;
      await waitFor(isOver, { what: 'its end, or another command' });
      elected.child.kill('SIGTERM');
      pidsOf(elected.out);
      expect(elected.out.replace(/pid \d+\n/, ''), elected.err).to.equal('in\nTERM 1\nTERM 2\n');
      expect((await elected.ended()).code).to.equal(76);
      expect(await token(name)).to.equal(null);
    }
  });

  it('H94: a HUP that the command took as a request to reload is no end: after a loss it is run anew', async () => {
    const script = `trap 'echo HUP' HUP; trap 'echo TERM; exit 0' TERM; echo in; while :; do sleep 0.05; done`;
    const elected = start(['elect', '--ttl', '15s', key, '--', 'sh', '-c', script]);
    await elected.says('in\n');
    elected.child.kill('SIGHUP');
    await elected.says('HUP');
    await withLock.free(key, { force: true });
    await elected.says('TERM\nin\n');
    elected.child.kill('SIGTERM');
    expect((await elected.ended()).code).to.equal(0);
  });

  it('H87: a signal ends the wait for a connection to a server that says nothing: 128 + n', async () => {
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const url = `redis://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const ended: Ended[] = [];
    for (const args of [['run'], ['once', '--every', '1d'], ['elect']]) {
      const connected = new Promise((resolve) => silent.once('connection', resolve));
      const started = start([...args, key, '--url', url, '--', 'echo', 'ran']);
      await connected;
      started.child.kill('SIGTERM');
      ended.push(await started.ended());
    }
    silent.close();
    expect(ended).to.deep.equal(ended.map(() => ({ code: 143, out: '', err: '' })));
  });

  it('serve: the page, for this host, until a signal', async () => {
    const serving = start(['serve', '--port', '0']);
    await serving.says('http://127.0.0.1:');
    const address = serving.out.trim();
    expect((await fetch(address)).status).to.equal(200);
    expect((await fetch(`${address}nothing`)).status).to.equal(404);
    serving.child.kill('SIGTERM');
    expect((await serving.ended()).code).to.equal(0);
  });

  it('show a free key: kind and owner null; a hostile key does nothing to a terminal; top shows pictures', async () => {
    expect((await typed('show', key)).out).to.equal(`${key} is free\n`);
    const free = rows((await typed('show', key, '--json')).out)[0];
    expect(free).to.deep.equal({
      key,
      kind: null,
      owner: null,
      id: null,
      remaining: 0,
      waiting: 0,
      holders: [],
      queue: [],
    });
    const hostile = `${key}\x1b[2J\x7f\x9b2J\u202e\u2066\u2028\u{e0001}`;
    const lease = await withLock.promise(hostile, { owner: '\x9b2J\u202e' });
    const shown = await typed('ls', '--scan', key);
    expect(shown.out).to.contain(`${key}\\u001b[2J\\u007f\\u009b2J\\u202e`);
    expect(shown.out.trim().split('\n').at(-1)).to.equal('1 lock; 0 processes registered, every key scanned');
    const inJson = [await typed('ls', '--scan', key, '--json'), await typed('show', hostile, '--json')];
    for (const { out } of inJson) {
      expect(rows(out)[0]).to.include({ key: hostile, owner: '\x9b2J\u202e' });
      expect(out).to.match(/^[\n -~]*$/);
    }
    expect(shown.out).to.match(/^[\n -~]*$/);
    const top = start(['top', '--scan', key]);
    await top.says('1 held, 0 waiting');
    top.child.kill('SIGINT');
    expect((await top.ended()).code).to.equal(0);
    await lease.release();
  });

  describe('doctor', () => {
    const rowOf = (out: string, check: string): any => rows(out).find((row) => row.check === check);
    const user = (name: string): string => `redis://${name}:password@127.0.0.1:${server.port}`;
    const setUser = (line: string): Promise<unknown> => client.sendCommand(line.replaceAll("'", '').split(' '));
    const linesOf = (out: string): string[] => [...out.matchAll(/ACL SETUSER [^"\n]+/g)].map(([line]) => line);
    const wordsOf = (line: string): string[] => [...new Set(line.split(' ').slice(3))].sort();
    const page = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8').match(/^ACL SETUSER lock .*$/gm)!;

    it('0 where all is well, 1 for a policy that evicts, a lock without end or no persistence, 2 for missing rights or silence', async () => {
      const well = await typed('doctor', '--json');
      expect(well.code, well.out).to.equal(0);
      for (const row of rows(well.out)) expect(row).to.have.all.keys('check', 'status', 'remedy');
      expect(rowOf(well.out, 'runtime').remedy).to.match(/^Node 2[\d.]+: [\w ]+; redis 6[\d.]+: tested$/);
      expect(rowOf(well.out, 'version').remedy).to.match(/^(Redis|Valkey|Redict) [\d.]+: (tested|expected to work)$/);
      const lease = await withLock.promise(key, { lifetime: null });
      await client.configSet('maxmemory-policy', 'allkeys-lru');
      await setUser('ACL SETUSER few on >password allkeys allchannels +@all -publish');
      const warned = await typed('doctor', '--json');
      await client.configSet('maxmemory-policy', 'noeviction');
      await lease.release();
      expect(warned.code).to.equal(1);
      expect(rowOf(warned.out, 'eviction policy').status).to.equal('warn');
      expect(rowOf(warned.out, 'locks without end').status).to.equal('warn');
      await client.configSet('appendonly', 'no');
      const forgetful = await typed('doctor', '--json');
      await client.configSet('appendonly', 'yes');
      expect([forgetful.code, rowOf(forgetful.out, 'persistence').status]).to.deep.equal([1, 'warn']);
      const failed = await typed('doctor', '--json', '--url', user('few'));
      expect(failed.code).to.equal(2);
      expect(rowOf(failed.out, 'rights: queue')).to.include({ status: 'fail', remedy: 'not permitted: +publish' });
      expect(linesOf(failed.out)).to.deep.equal(['ACL SETUSER few +publish']);
      const columns = (await typed('doctor', '--url', user('few'))).out.trim().split('\n');
      for (const line of columns) expect(line, 'aligned').to.match(/^(ok {4}|warn {2}|fail {2})\S/);
      await setUser(linesOf(failed.out)[0]!);
      expect((await typed('doctor', '--url', user('few'))).code, 'the line as it was typed').to.equal(0);
      expect((await typed('doctor', '--json', '--url', 'redis://127.0.0.1:1')).code).to.equal(2);
    });

    it('a server that runs no scripts, and tells no rights: it has no EVAL, and ACL SETUSER would not help (H96)', async () => {
      const bare = await startRedis({ args: ['--rename-command', 'EVAL', '', '--rename-command', 'ACL', ''] });
      const { code, out } = await typed('doctor', '--json', '--url', bare.url);
      expect(code).to.equal(2);
      expect(rowOf(out, 'rights: lock')).to.include({ status: 'fail', remedy: 'this server has no EVAL' });
      expect(linesOf(out)).to.deep.equal([]);
      await bare.discard();
    });

    it('passes the minimal user of the page, and groups rights by feature', async () => {
      await setUser(page[0]!);
      const { code, out } = await typed('doctor', '--json', '--prefix', 'lk:', '--url', user('lock'));
      expect(code, out).to.equal(0);
      const groups = rows(out).filter(({ check }) => check.startsWith('rights'));
      expect(groups.map(({ check, remedy }) => [check, remedy])).to.deep.equal([
        ['rights: lock', ''],
        ['rights: batch', 'not permitted; where it is needed: doctor --for batch'],
        ['rights: queue', 'not permitted; where it is needed: doctor --for queue'],
        ['rights: rwlock, semaphore', 'not permitted; where it is needed: doctor --for rwlock'],
        ['rights: register, list, free', 'not permitted; where it is needed: doctor --for register'],
        ['rights: endless', 'not permitted; where it is needed: doctor --for endless'],
        ['rights: min-replicas', 'not permitted; where it is needed: doctor --for min-replicas'],
        ['rights: eviction', 'not permitted; where it is needed: doctor --for eviction'],
        ['rights: quorum', 'not permitted; where it is needed: doctor --for quorum'],
      ]);
      const everywhere = await typed('doctor', '--url', user('lock'));
      expect([everywhere.code, everywhere.out.includes('give --prefix')]).to.deep.equal([2, true]);
    });

    it('--for: one line, which makes a user with the rights of the page, or adds those that are missing', async () => {
      const lines = {
        lock: [0],
        queue: [0, 1],
        semaphore: [0, 1, 2],
        register: [0, 1, 2, 3],
        'endless,eviction': [0, 4, 6],
      };
      for (const [feature, some] of Object.entries(lines)) {
        const { code, out } = await typed('doctor', '--prefix', 'lk:', '--for', feature);
        expect(code, out).to.equal(0);
        expect(linesOf(out), feature).to.have.length(1);
        const expected = some
          .map((n) => page[n]!)
          .join(' ')
          .replaceAll(' ACL SETUSER lock', '');
        expect(wordsOf(linesOf(out)[0]!), feature).to.deep.equal(wordsOf(expected));
      }
      for (const [n, prefix] of ['lk:', '{lk}:', 'l*k:'].entries()) {
        await setUser(`ACL SETUSER bare${n} on >password resetchannels -@all +hello +auth +ping`);
        for (const feature of ['lock', 'queue,rwlock', 'register,endless,min-replicas']) {
          const asked = ['doctor', '--json', '--prefix', prefix, '--url', user(`bare${n}`), '--for', feature];
          const failed = await typed(...asked);
          expect([failed.code, linesOf(failed.out).length], failed.out).to.deep.equal([2, 1]);
          await setUser(JSON.parse(`"${linesOf(failed.out)[0]!}"`));
          const well = await typed(...asked);
          expect(well.code, well.out).to.equal(0);
        }
      }
      expect((await typed('doctor', '--for', 'lock,wat')).code).to.equal(64);
    });
  });

  it('the library loads nothing of the tools, however it is loaded', () => {
    const script = `require('tsx/cjs'); require(${JSON.stringify(join(__dirname, '../../src/index.ts'))});
      console.log(Object.keys(require.cache).filter((each) => /src.tools/.test(each)).length, Object.keys(require.cache).filter((each) => /.src./.test(each)).length);`;
    const said = execFileSync(process.execPath, ['--eval', script], {
      encoding: 'utf8',
      cwd: join(__dirname, '../..'),
    });
    const [tools, all] = said.split(' ').map(Number) as [number, number];
    expect(tools).to.equal(0);
    expect(all).to.be.within(40, 140);
  });

  it('a table: wide characters, a key that is too long, and a narrow terminal', () => {
    const row = ['日本語', 'exclusive', 'host:1', '5f3ac91b', '1.0s', '9.0s', '0'];
    const widths: number[] = [];
    expect(
      table(
        [
          ['KEY', 'KIND'],
          ['日本語', 'x'],
          ['e\u0301', 'y'],
        ],
        widths,
      ),
    ).to.deep.equal(['KEY     KIND', '日本語  x', 'e\u0301       y']);
    expect(table([['abc', 'z']], widths), 'below the others').to.deep.equal(['abc     z']);
    const [long, after] = table([
      ['k'.repeat(1024), 'x'],
      ['k', 'y'],
    ]);
    expect([long!.length, after!.length]).to.deep.equal([1027, 83]);
    const rows = [header, row, ['k'.repeat(1024), ...row.slice(1)]];
    for (const columns of [40, 80, 120]) {
      const shown = fitted(rows, columns, [3, 2, 1]);
      for (const text of shown) expect(widthOf(text), text).to.be.at.most(columns);
      expect(shown[0]).to.match(/^KEY .*HELD-FOR {2}TTL {3}WAITING$/);
    }
    expect(fitted(rows, 120, [3, 2, 1])[0]).to.contain('ID');
  });

  it('a key that begins with a dash follows --', async () => {
    const dashed = `-${key}`;
    const ran = await type('run', '-n', '--', dashed, '-n', '--', 'sh', '-c', 'echo "$LOCK_KEY" "$@"', '--', 'a', '--');
    expect(ran).to.include({ code: 0, out: `${dashed}\n-n a --\n` });
    expect(await type('elect', '--', dashed, '--', 'echo', 'led')).to.include({ code: 0, out: 'led\n' });
    await client.set(dashed, 'token', { PX: 60_000 });
    expect(rows((await typed('show', '--json', '--', dashed)).out)[0]).to.include({ key: dashed, id: 'ee977806' });
    expect(rows((await typed('ls', '--scan', '--json', '--', dashed)).out)[0]).to.include({ key: dashed });
    const freed = await typed('release', '--force', '--yes', '--', dashed);
    expect(rows(freed.out)[0]).to.deep.equal({ key: dashed, id: 'ee977806', released: true });
    expect((await typed('show', dashed)).err).to.contain('a key that begins with a dash follows --');
  });

  it('release, by --id and by --force: at the prompt another text, the end of the input and an interrupt change nothing: 1, 1 and 130', async () => {
    await client.set(key, 'token', { PX: 60_000 });
    const { isTTY } = process.stderr;
    process.stderr.isTTY = true;
    const codes: (number | null)[] = [];
    for (const [n, keys] of ['other\r', '\x04', '\x03', 'other\r', '\x04', '\x03'].entries()) {
      const terminal = Object.assign(new PassThrough(), { isTTY: true });
      const stdin = stub(process, 'stdin').get(() => terminal);
      terminal.write(keys);
      const { code, err } = await typed('release', key, ...(n < 3 ? ['--id', '79bead8e'] : ['--force'])).finally(() =>
        stdin.restore(),
      );
      codes.push(code);
      expect(err).to.contain('Type the key');
    }
    process.stderr.isTTY = isTTY;
    expect(codes).to.deep.equal([1, 1, 130, 1, 1, 130]);
    expect(await token()).to.equal('token');
  });

  it('output that cannot be written: 1, and the reason; a reader that has left is no failure', async function () {
    if (!existsSync('/dev/full')) this.skip();
    const full = openSync('/dev/full', 'w');
    const { status, stderr } = spawnSync(process.execPath, [bundled(program), 'help'], {
      stdio: ['ignore', full, 'pipe'],
    });
    closeSync(full);
    expect([status, String(stderr)]).to.deep.equal([1, 'redis-exp-lock: the output cannot be written: ENOSPC\n']);
    const left = start(['help']);
    left.child.stdout!.destroy();
    expect(await left.ended()).to.include({ code: 0, err: '' });
  });

  it('help, and --help, of a command: its usage', async () => {
    for (const line of [
      ['help', 'run'],
      ['run', '--help'],
    ]) {
      const { code, out } = await typed(...line);
      expect(code).to.equal(0);
      expect(out).to.contain(`redis-exp-lock ${commands.run!.usage}`);
    }
    expect((await typed('help')).out).to.contain('redis-exp-lock COMMAND --help');
  });

  it('every example of the help is a line that its command takes, and its usage names all of its options', () => {
    for (const [name, command] of Object.entries(commands)) {
      expect(command.examples.length, name).to.be.greaterThan(0);
      for (const example of command.examples) {
        const line = parse(example.split(' | ')[0]!.split(' ').slice(1));
        expect(line.name).to.equal(name);
        check(line, command);
      }
      for (const option of command.options) expect(command.usage + command.details, name).to.contain(option);
    }
  });
});
