// redis-exp-lock/edge where it is meant to be: in workerd, which runs Cloudflare's Workers, with and without flags, over HTTP to a real
// Redis; and in Chromium. A bundle for either takes it for `redis-exp-lock`.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { type BuildOptions, build } from 'esbuild';
import { findChromium, startChromium } from '../test/support/chromium';
import { exited, freePort, track, waitFor } from '../test/support/processes';
import { sharedRedis, uniqueKey } from '../test/support/redis';
import { type Bridge, startBridge } from '../test/support/upstash';

/** Bundles a program as wrangler and Vite do, and sees that nothing of Node is in it. */
async function bundle(entry: BuildOptions, conditions: string[]): Promise<string> {
  const { outputFiles, metafile, warnings } = await build({
    ...entry,
    ...{ bundle: true, write: false, metafile: true, platform: 'browser', format: 'esm', target: 'es2022' },
    conditions,
    outdir: 'nowhere',
    logLevel: 'silent',
  });
  expect(warnings).to.deep.equal([]);
  const files = Object.keys(metafile!.inputs).filter((file) => file.includes('redis-exp-lock/lib/'));
  expect(files.map((file) => file.slice(file.indexOf('lib/')))).to.have.members([
    ...['lib/core.js', 'lib/edge.js', 'lib/edge.mjs', 'lib/store/embedded/no-shared-memory.js'],
  ]);
  return outputFiles![0]!.text;
}

/** Two Workers, each an isolate of its own with an address of its own. */
async function startWorkers(program: string, date: string, flags: string[], { url, token }: Bridge) {
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-workerd-'));
  const ports = [await freePort(), await freePort()];
  const services = ports.map((_, n) => `(name = "worker${n}", worker = .worker)`);
  const sockets = ports.map(
    (port, n) => `(name = "${n}", address = "127.0.0.1:${port}", http = (), service = "worker${n}")`,
  );
  const variables = { URL: url, TOKEN: token, UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token };
  const bindings = Object.entries(variables).map(([name, text]) => `(name = "${name}", text = "${text}")`);
  writeFileSync(join(folder, 'worker.mjs'), program);
  writeFileSync(
    join(folder, 'config.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
    const config :Workerd.Config = (
      services = [${services.join(', ')}, (name = "loopback", network = (allow = ["private"]))],
      sockets = [${sockets.join(', ')}],
    );
    const worker :Workerd.Worker = (
      modules = [(name = "worker", esModule = embed "worker.mjs")],
      compatibilityDate = "${date}",
      compatibilityFlags = ${JSON.stringify(flags)},
      globalOutbound = "loopback",
      bindings = [${bindings.join(', ')}],
    );`,
  );
  const { default: binary } = require('workerd') as { default: string };
  const child = spawn(binary, ['serve', 'config.capnp'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  track(child);
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
  const read = async (path: string, worker: number): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${ports[worker]}/${path}`);
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${path}: ${text}\n${said}`);
    return text;
  };
  const ask = async (path: string, worker = 0): Promise<any> => JSON.parse(await read(path, worker));
  const isUp = (): Promise<boolean> => read('absent', 1).then(Boolean, () => child.exitCode !== null);
  await waitFor(isUp, { what: 'workerd to serve' });
  if (child.exitCode !== null) throw new Error(said);
  const stop = async (): Promise<void> => {
    child.kill();
    await exited(child);
    rmSync(folder, { recursive: true, force: true });
  };
  return { ask, read, stop };
}

/** The Worker of docs/integrations.md. */
function printedWorker(): string {
  const page = readFileSync(join(__dirname, '../docs/integrations.md'), 'utf8');
  return /^```js\n(import [^`]*?export default [\s\S]*?)^```$/m.exec(page)![1]!;
}

const hosts: Record<string, { date: string; flags: string[]; knowsItself: boolean }> = {
  'no flag': { date: '2025-01-01', flags: [], knowsItself: false },
  'no flag, as in 2023': { date: '2023-06-01', flags: [], knowsItself: false },
  nodejs_als: { date: '2025-01-01', flags: ['nodejs_als'], knowsItself: false },
  nodejs_compat: { date: '2025-01-01', flags: ['nodejs_compat'], knowsItself: true },
  'all of today': { date: '2026-10-01', flags: [], knowsItself: true },
};

describe('redis-exp-lock/edge in workerd', () => {
  let bridge: Bridge;
  let program: string;

  before(async () => {
    bridge = await startBridge((await sharedRedis()).url);
    program = await bundle({ entryPoints: [join(__dirname, 'worker.mjs')] }, ['workerd', 'worker', 'browser']);
  });

  after(() => bridge?.close());

  for (const [title, { date, flags, knowsItself }] of Object.entries(hosts)) {
    describe(title, () => {
      let workers: Awaited<ReturnType<typeof startWorkers>>;
      const key = (name: string): string => uniqueKey(name).replaceAll('/', '-');

      before(async () => {
        workers = await startWorkers(program, date, flags, bridge);
      });

      after(() => workers?.stop());

      it('H90: `run` runs its function once and resolves; a lock is renewed while it runs', async () => {
        expect(await workers.ask(`run/${key('run')}`)).to.deep.equal([true, 1]);
        expect(await workers.ask(`renewed/${key('renewed')}`)).to.equal(true);
      });

      it('`promise` and `tryRun`, `once`, `cached`, permits, readers and a writer', async () => {
        const [busy, released, ran] = await workers.ask(`promise/${key('promise')}`);
        expect([busy, released, ran]).to.deep.equal([{ ran: false }, true, { ran: true, value: 'ran' }]);
        const [job, page, permits] = ['once', 'cached', 'permits'].map(key);
        expect([await workers.ask(`once/${job}`), await workers.ask(`once/${job}`, 1)]).to.deep.equal([true, false]);
        const pages = await Promise.all([0, 1].map((worker) => workers.ask(`cached/${page}`, worker)));
        expect(pages[0]).to.equal(pages[1]);
        const all = await Promise.all([0, 1, 0, 1].map((worker) => workers.ask(`permits/${permits}`, worker)));
        expect(all).to.deep.equal(Array.from({ length: 4 }, () => 'permit'));
        expect(await workers.ask(`rw/${key('rw')}`)).to.deep.equal(['read', 'wrote']);
      });

      it('two Workers that want one lock both get it, one after the other', async () => {
        const shared = key('wait');
        const fences = await Promise.all([0, 1, 0, 1].map((worker) => workers.ask(`wait/${shared}`, worker)));
        expect(new Set(fences).size).to.equal(4);
      });

      it('H90: requests that share a client in one isolate all get the lock', async () => {
        const shared = key('shared');
        const fences = await Promise.all(Array.from({ length: 10 }, () => workers.ask(`shared/${shared}`)));
        expect(new Set(fences).size).to.equal(10);
      });

      if (date > '2024-10-14') {
        it('requests of one isolate share a lock in memory', async () => {
          const fences = await Promise.all(Array.from({ length: 10 }, () => workers.ask('memory/key')));
          expect(new Set(fences).size).to.equal(10);
        });
      }

      it('shared memory says by name that it is not there', async () => {
        for (const said of await workers.ask('absent')) {
          expect(said).to.match(/^LockBackendError: (?:HostLock|sharedMemoryStore) needs files and sockets, /);
        }
      });

      it(`a wait for one’s own lock is ${knowsItself ? '' : 'not '}told apart`, async () => {
        const said = await workers.ask(`self/${key('self')}`);
        expect(said).to.match(/^LockTimeoutError: /);
        expect(said.includes('the caller holds it itself')).to.equal(knowsItself);
      });
    });
  }
});

describe('the Worker of docs/integrations.md', () => {
  it('answers, without a flag, to each of the requests that want the lock', async () => {
    const bridge = await startBridge((await sharedRedis()).url);
    const stdin = { contents: printedWorker(), resolveDir: __dirname };
    const program = await bundle({ stdin }, ['workerd', 'worker', 'browser']);
    const workers = await startWorkers(program, '2025-01-01', [], bridge);
    const answers = await Promise.all([0, 1, 0, 1].map((worker) => workers.read('', worker)));
    expect(answers.filter((answer) => /^made under fence \d+$/.test(answer))).to.have.length(4);
    expect(new Set(answers).size).to.equal(4);
    await workers.stop();
    bridge.close();
  });
});

describe('redis-exp-lock/edge in Chromium', () => {
  const chromium = findChromium();
  const program = `
    import redisExpLock, { eventChannel, memoryStore } from 'redis-exp-lock';
    const withLock = redisExpLock({ redis: memoryStore() });
    const told = [];
    eventChannel('redis-exp-lock:release').subscribe(({ fence }) => told.push(fence));
    const order = [];
    const one = (name) => withLock.run('key', { timeout: 10_000 }, async ({ fence }) => {
      order.push(name);
      await new Promise((resolve) => setTimeout(resolve, 20));
      return fence;
    });
    window.outcome = Promise.all(['first', 'second', 'third'].map(one)).then((fences) => ({ fences, order, told }));`;

  (chromium === undefined ? it.skip : it)('runs, queues in order, and its fences rise', async () => {
    const stdin = { contents: program, resolveDir: __dirname };
    const text = await bundle({ stdin }, ['browser']);
    const server = createServer((request, response) => {
      const isScript = request.url === '/program.js';
      response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
      response.end(
        isScript
          ? text
          : '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/program.js"></script>',
      );
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const browser = await startChromium(chromium!);
    try {
      const page = await browser.context.newPage();
      const complaints: string[] = [];
      page.on('console', (message) => void complaints.push(message.text()));
      page.on('pageerror', (error) => void complaints.push(error.message));
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
      await page.waitForFunction('window.outcome');
      const { fences, order, told } = (await page.evaluate('window.outcome')) as Record<string, any[]>;
      expect(order).to.deep.equal(['first', 'second', 'third']);
      expect(fences).to.deep.equal(fences!.toSorted((one, other) => one - other));
      expect(new Set(fences).size).to.equal(3);
      expect(told).to.deep.equal(fences);
      expect(complaints).to.deep.equal([]);
    } finally {
      await browser.close();
      server.close();
      server.closeAllConnections();
    }
  });
});
