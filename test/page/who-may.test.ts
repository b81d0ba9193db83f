// The table "Who may see, and who may free" of docs/operations.md, row by row: over real connections, and with real POSTs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type OutgoingHttpHeaders, type RequestListener, type RequestOptions, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import redisExpLock, { memoryStore } from '../../src/index';
import { type LockPage, lockPage, type PageOptions } from '../../src/tools/page';
import { bundled } from '../support/bundle';
import { exited, freePort, track, waitFor } from '../support/processes';
import { startRedis } from '../support/redis';

const root = join(__dirname, '../..');
const prefix = 'p:';

/** A way to a page: the server that it is mounted in, and what a request through it looks like. */
interface Way {
  readonly serve: (page: LockPage) => RequestListener;
  readonly headers?: OutgoingHttpHeaders;
  /** `unix`: the server listens on a socket of the file system. `proxy`: the request passes a proxy of this machine. */
  readonly through?: 'unix' | 'proxy';
}

/** A row of the table: each way with each `authorize` has to give what the row says. */
interface Row {
  readonly options: readonly Omit<PageOptions, 'redis'>[];
  readonly ways: readonly Way[];
}

const listener = (page: LockPage): RequestListener => page;

/** As a server of the other kind does: from the Host it makes an address, and of the connection nothing is left. */
const fetcher =
  (page: LockPage): RequestListener =>
  async (req, res) => {
    const body = req.method === 'POST' ? { body: Readable.toWeb(req) as any, duplex: 'half' as const } : {};
    const headers = new Headers(req.headers as Record<string, string>);
    const answer = await page.fetch(
      new Request(`http://${req.headers.host}${req.url}`, { method: req.method!, headers, ...body }),
    );
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    res.flushHeaders();
    if (answer.body !== null) Readable.fromWeb(answer.body as any).pipe(res);
  };

const elsewhere =
  (page: LockPage): RequestListener =>
  (req, res) => {
    Object.defineProperty(req.socket, 'remoteAddress', { value: '10.0.0.1', configurable: true });
    page(req, res);
  };

const nobody = { actions: true };
const yes = [() => true, async () => true].map((authorize) => ({ authorize, actions: true }));
const no = [
  () => false,
  async () => false,
  () => undefined as any,
  () => Promise.reject(new Error('secret')),
  () => {
    throw new Error('secret');
  },
].map((authorize) => ({ authorize, actions: true }));

const near = ['127.0.0.1', '127.0.0.1:7400', 'localhost', 'LOCALHOST:7400', '[::1]', '[::1]:7400'];
const far = ['locks.example', '127.0.0.1.evil.example', 'localhost.', 'localhost:x', '10.0.0.1', '::1'];
const passedOn = ['forwarded', 'via', 'x-real-ip', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'];
const foreignOrigins = [
  { origin: 'http://evil.example' },
  { origin: 'null' },
  { origin: undefined },
  ...['cross-site', 'same-site', 'none'].map((site) => ({ 'sec-fetch-site': site })),
];
const to = (host: string, serve = listener, headers = {}): Way => ({ serve, headers: { host, ...headers } });
const anywhere = [...near, ...far.slice(0, 1)].flatMap((host) => [to(host), to(host, fetcher), to(host, elsewhere)]);

const rows: Readonly<Record<string, Row>> = {
  'listener, none: from this machine, the Host is `127.0.0.1`, `localhost` or `[::1]`': {
    options: [nobody],
    ways: near.map((host) => to(host)),
  },
  'listener, none: from this machine, another Host (DNS rebinding)': {
    options: [nobody],
    ways: far.map((host) => to(host)),
  },
  'listener, none: with a header of a proxy: `Forwarded`, `Via`, `X-Real-IP`, `X-Forwarded-For`, `-Host` or `-Proto`': {
    options: [nobody],
    ways: passedOn.map((name) => to('localhost', listener, { [name]: '10.0.0.1' })),
  },
  'listener, none: from another machine, whatever its Host says': {
    options: [nobody],
    ways: [...near, ...far].map((host) => to(host, elsewhere)),
  },
  'listener, none: through a Unix socket, which shows no address': {
    options: [nobody],
    ways: near.map((host) => ({ ...to(host), through: 'unix' })),
  },
  'listener, none: through a proxy on this machine that sends a Host of its own and none of these headers': {
    options: [nobody],
    ways: [{ ...to('locks.example'), through: 'proxy' }],
  },
  '`fetch`, none: any': {
    options: [nobody],
    ways: [...near, ...far.slice(0, 1)].map((host) => to(host, fetcher)),
  },
  'both, returns true: any': { options: yes, ways: anywhere },
  'both, returns false, throws or rejects: any': { options: no, ways: anywhere },
  'both, returns true: sent by a page from elsewhere: the Origin is not the Host, or Sec-Fetch-Site is not `same-origin`':
    {
      options: yes,
      ways: foreignOrigins.flatMap((headers) => [listener, fetcher].map((serve) => to('localhost', serve, headers))),
    },
  'both, returns true: any, where `actions` are off (the default)': {
    options: yes.map(({ authorize }) => ({ authorize })),
    ways: anywhere,
  },
};

const table = readFileSync(join(root, 'docs/operations.md'), 'utf8')
  .split('### Who may see, and who may free\n')[1]!
  .split('\n\n')
  .find((text) => text.startsWith('| transport |'))!
  .trim()
  .split('\n')
  .slice(2)
  .map((line) => line.slice(2, -2).split(' | '))
  .map(([transport, authorize, asked, sees, frees]) => ({
    name: `${transport}, ${authorize}: ${asked}`,
    sees: sees!,
    frees: frees!,
  }));

describe('who may see the live page, and who may free a lock (H91)', function () {
  this.timeout(60_000); // each row starts servers of its own
  const folder = mkdtempSync(join(tmpdir(), 'redis-exp-lock-page-'));
  const redis = memoryStore();
  const withLock = redisExpLock({ redis, prefix, lifetime: 600_000 });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('the table has a row for each, and each of its rows is tested here', () => {
    const served = table.filter(({ name }) => name.startsWith('`serve'));
    expect(served).to.have.length(2);
    expect(table.map(({ name }) => name)).to.deep.equal([...Object.keys(rows), ...served.map(({ name }) => name)]);
  });

  for (const { name, sees, frees } of table.filter(({ name }) => name in rows)) {
    it(`${name}: ${sees}, ${frees}`, async () => {
      const { options, ways } = rows[name]!;
      for (const some of options) {
        const page = lockPage({ redis, prefix, ...some });
        for (const way of ways) await visit(page, way, { sees, frees });
      }
    });
  }

  /** Looks at a page, and frees a lock there: what is answered, and what becomes of the lock, is as the row says. */
  async function visit(page: LockPage, way: Way, { sees, frees }: { sees: string; frees: string }): Promise<void> {
    const target = await listening(way.serve(page), way.through === 'unix' ? join(folder, 'page.sock') : undefined);
    const proxy = way.through === 'proxy' ? await listening(passingOn(target)) : undefined;
    const told = JSON.stringify(way.headers);
    // Whoever reaches the proxy can know the Host that it sends.
    const origin = proxy && { origin: `http://127.0.0.1:${target.port}` };
    const lease = await withLock.promise('k');
    const { id } = (await withLock.inspect('k')).holders[0]!;
    try {
      const asked = { ...(proxy ?? target), headers: { ...origin, ...way.headers } };
      if (sees !== '–')
        for (const path of ['/', '/events']) expect(await ask(path, asked), told).to.equal(status(sees));
      expect(await free(asked, { key: `${prefix}k`, id }), told).to.equal(status(frees));
      expect((await withLock.inspect('k')).locked, told).to.equal(frees !== 'yes');
    } finally {
      await lease.release();
      for (const each of [proxy, target]) each?.close();
    }
  }

  it('fetch without authorize refuses every address, and says why: one warning for each page', async () => {
    const warnings: any[] = [];
    const listen = (warning: Error): void => void warnings.push(warning);
    process.on('warning', listen);
    const page = lockPage({ redis, prefix });
    for (const path of ['', 'events', 'free', 'nothing'])
      expect((await page.fetch(new Request(`http://localhost/${path}`))).status, path).to.equal(403);
    const head = await page.fetch(new Request('http://localhost/', { method: 'HEAD' }));
    expect([head.status, await head.text()]).to.deep.equal([403, '']);
    await waitFor(() => warnings.length > 0, { what: 'the warning' });
    process.off('warning', listen);
    expect(warnings.map(({ name, code }) => [name, code])).to.deep.equal([['RedisExpLockWarning', 'no-authorize']]);
    expect(warnings[0].message).to.match(/does not show where .+ `authorize`/);
  });

  describe('serve', () => {
    for (const { name, sees, frees } of table.filter(({ name }) => name.startsWith('`serve'))) {
      it(`${name}: ${sees}, ${frees}`, async () => {
        const server = await startRedis();
        const locks = redisExpLock({ redis: await server.connect(), prefix, lifetime: 600_000 });
        const port = await freePort();
        const args = ['serve', '--url', server.url, '--prefix', prefix, '--port', String(port)];
        if (name.startsWith('`serve --actions`')) args.push('--actions');
        const program = spawn(process.execPath, [bundled(join(root, 'src/tools/cli.ts')), ...args]);
        track(program);
        await once(program.stdout, 'data');
        const lease = await locks.promise('k');
        const body = { key: `${prefix}k`, id: (await locks.inspect('k')).holders[0]!.id };
        const asked = { host: '127.0.0.1', port, headers: { host: `127.0.0.1:${port}` } };
        expect(await ask('/', asked)).to.equal(status(sees));
        const rebound = { ...asked, headers: { host: 'locks.example' } };
        expect([await ask('/', rebound), await free(rebound, body)]).to.deep.equal([403, 403]);
        // Another address of this machine stands for one that others reach.
        const refused = await ask('/', { ...asked, host: '127.0.0.2' }).catch(({ code }) => code);
        expect(refused).to.equal('ECONNREFUSED');
        expect((await locks.inspect('k')).locked).to.equal(true);
        expect(await free(asked, body)).to.equal(status(frees));
        expect((await locks.inspect('k')).locked).to.equal(frees !== 'yes');
        await lease.release();
        program.kill('SIGTERM');
        await exited(program);
        await server.discard();
      });
    }
  });
});

const status = (cell: string): number => (cell === 'yes' ? 200 : Number(cell));

/** The status; a stream is left as soon as it began. */
function ask(path: string, options: RequestOptions, body = ''): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request({ ...options, path, agent: false }, (res) => {
      resolve(res.statusCode!);
      res.on('error', () => {}).destroy();
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

/** As the page itself does, where the given headers say nothing else. */
function free(options: RequestOptions, body: object): Promise<number> {
  const { headers: given } = options as { headers: OutgoingHttpHeaders };
  const sent = { origin: `http://${given.host}`, 'content-type': 'application/json', ...given };
  const headers = Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== undefined));
  return ask('/free', { ...options, method: 'POST', headers }, JSON.stringify(body));
}

/** A proxy that sends the request on under a Host of its own, and says nothing of where it came from. */
function passingOn({ host, port }: RequestOptions): RequestListener {
  return (req, res) => {
    const headers = { ...req.headers, host: `${host}:${port}` };
    const passed = request({ host, port, path: req.url, method: req.method, headers, agent: false }, (answer) => {
      res.writeHead(answer.statusCode!, answer.headers).flushHeaders();
      answer.on('error', () => {}).pipe(res);
      res.on('close', () => answer.destroy());
    });
    passed.on('error', () => res.destroy()); // the page may be gone already
    req.pipe(passed);
  };
}

interface Listening extends RequestOptions {
  close(): void;
}

async function listening(serve: RequestListener, socketPath?: string): Promise<Listening> {
  const server = createServer(serve);
  await new Promise<void>((resolve) => {
    if (socketPath === undefined) server.listen(0, '127.0.0.1', resolve);
    else server.listen(socketPath, resolve);
  });
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  if (socketPath !== undefined) return { socketPath, close };
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port, close };
}
