// The live page without a browser: who is answered, with what, and what it costs Redis.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { generate } from '../../scripts/generate-page';
import { idOf } from '../../src/core/token';
import redisExpLock, { memoryStore } from '../../src/index';
import { lockPage, type PageOptions } from '../../src/tools/page';
import * as document from '../../src/tools/page/document';
import { answer, holdReply, startProxy } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import {
  type Client,
  commandStats,
  connect,
  diffCommandStats,
  type RedisServer,
  recordCommands,
  startRedis,
} from '../support/redis';

interface Answered {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

type Mount = (req: any, res: any) => void;

const json = { 'content-type': 'application/json' };

describe('the live page', () => {
  let server: Server;
  let port: number;
  let mounted: Mount;

  before(async () => {
    server = createServer((req, res) => mounted(req, res));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as { port: number }).port;
  });

  after(() => {
    server.close();
    server.closeAllConnections();
  });

  function ask(path: string, { method = 'GET', headers = {}, body = '' } = {}): Promise<Answered> {
    return new Promise((resolve, reject) => {
      const asked = request({ port, host: '127.0.0.1', path, method, headers }, (res) => {
        let text = '';
        res.on('data', (chunk) => {
          text += chunk;
          if (res.headers['content-type']?.startsWith('text/event-stream') && text.includes('data:')) res.destroy();
        });
        res.on('close', () => resolve({ status: res.statusCode!, headers: res.headers, body: text }));
      });
      asked.on('error', reject);
      asked.end(body);
    });
  }

  const status = async (path: string, options?: Parameters<typeof ask>[1]): Promise<number> =>
    (await ask(path, options)).status;

  describe('what it sends', () => {
    it('is one file that page.html makes: it has not drifted', () => {
      const made = readFileSync(join(__dirname, '../../src/tools/page/document.ts'), 'utf8');
      expect(made).to.equal(generate());
    });

    it('asks nothing of any other address, and writes text as text', () => {
      expect(document.html).to.not.match(/https?:\/\/(?!www\.w3\.org\/2000\/svg)|@import|url\(/);
      expect(document.html).to.not.match(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\bon\w+="/);
      expect(document.html.length).to.be.below(32_000);
    });

    it('allows its own script and style by their hashes, and nothing else; with every answer, refusals too', async () => {
      mounted = lockPage({ redis: memoryStore(), actions: true });
      const answers = [await ask('/'), await ask('/events'), await ask('/free'), await ask('/nothing')];
      answers.push(await ask('/', { headers: { host: 'evil.example' } }));
      expect(answers.map((each) => each.status)).to.deep.equal([200, 200, 405, 404, 403]);
      for (const { headers } of answers) {
        const policy = headers['content-security-policy'];
        expect(policy).to.include("default-src 'none'");
        expect(policy).to.include("frame-ancestors 'none'");
        expect(policy).to.include("connect-src 'self'");
        expect(policy).to.not.match(/unsafe|\*|https?:/);
        for (const tag of ['script', 'style']) expect(policy).to.include(`${tag}-src 'sha256-${hashOf(tag)}'`);
        expect(headers['x-content-type-options']).to.equal('nosniff');
        expect(headers['referrer-policy']).to.equal('no-referrer');
        expect(headers['cache-control']).to.include('no-store');
      }
      expect(answers[0]!.body).to.equal(document.html);
      expect(await ask('/', { method: 'HEAD' })).to.deep.include({ status: 200, body: '' });
    });

    function hashOf(tag: string): string {
      const text = new RegExp(`<${tag}>([\\s\\S]*)</${tag}>`).exec(document.html)![1]!;
      return createHash('sha256').update(text).digest('base64');
    }
  });

  describe('which requests are answered', () => {
    it('with authorize: whom that lets in; a refusal and a throw say nothing', async () => {
      const deciders: [PageOptions['authorize'], number][] = [
        [(req) => req.headers['x-user'] === 'ops', 200],
        [async () => true, 200],
        [() => false, 403],
        [async () => false, 403],
        [() => undefined as any, 403],
        [
          () => {
            throw new Error('secret');
          },
          403,
        ],
        [() => Promise.reject(new Error('secret')), 403],
      ];
      for (const [authorize, expected] of deciders) {
        mounted = lockPage({ redis: memoryStore(), authorize, actions: true });
        const headers = { host: 'locks.example', 'x-user': 'ops' };
        for (const path of ['/', '/events', '/free']) {
          const { status, body } = await ask(path, { headers });
          expect(status, `${authorize} ${path}`).to.equal(expected === 200 && path === '/free' ? 405 : expected);
          expect(body).to.not.include('secret');
        }
      }
    });

    it('refuses options that it does not know, or that cannot be', () => {
      const redis = memoryStore();
      for (const wrong of [
        { authorise: () => true },
        { authorize: true },
        { actions: 'yes' },
        { prefix: 1 },
        { redis: 1 },
      ])
        expect(() => lockPage({ redis, ...(wrong as object) }), JSON.stringify(wrong))
          .to.throw()
          .with.property('code', 'ERR_LOCK_OPTION');
      expect(() => lockPage(undefined as any))
        .to.throw()
        .with.property('code', 'ERR_LOCK_OPTION');
      expect(() => lockPage({} as any))
        .to.throw()
        .with.property('code', 'ERR_LOCK_OPTION');
    });
  });

  describe('where it is mounted', () => {
    const page = lockPage({ redis: memoryStore(), actions: true });
    /** Mounts the page as Express does: without the path that it was mounted under. */
    const express = (path: string): Mount => {
      return (req, res) => {
        const next = (): void => res.writeHead(418).end();
        if (!req.url.startsWith(path)) return next();
        Object.assign(req, { originalUrl: req.url, baseUrl: path });
        req.url = req.url.slice(path.length).replace(/^(?!\/)/, '/');
        page(req, res, next);
      };
    };

    it('in Express under a path: its own three addresses, and `next` for all others, before anything is authorized', async () => {
      mounted = express('/admin/locks');
      for (const path of ['/admin/locks', '/admin/locks/', '/admin/locks/?a=b', '/admin/locks/events'])
        expect(await status(path), path).to.equal(200);
      for (const path of ['/admin/locks/x', '/admin/locks/x/', '/admin/locks/x/events', '/admin/locks/events/x'])
        expect(await status(path, { headers: { host: 'evil.example' } }), path).to.equal(418);
      mounted = express('');
      expect(await status('/')).to.equal(200);
      expect(await status('/blog/')).to.equal(418);
    });

    it('in node:http: under any path, that ends with `/`; 404 for all others', async () => {
      mounted = (req, res) => page(req, res);
      for (const path of ['/', '/deep/down/', '/deep/down/events', '/?x'])
        expect(await status(path), path).to.equal(200);
      for (const path of ['/x', '/deep/down', '/favicon.ico', '/events/x'])
        expect(await status(path), path).to.equal(404);
      mounted = (req, res) => page(req, res, () => res.writeHead(418).end());
      expect(await status('/x')).to.equal(418);
      expect(await status('/deep/down/')).to.equal(418);
    });

    it('as fetch: the same, with a Request and a Response', async () => {
      const authorize = (request: Request): boolean => request.headers.get('host') !== 'evil.example';
      const fetched = lockPage({ redis: memoryStore(), actions: true, authorize });
      const get = (url: string, init?: RequestInit): Promise<Response> => fetched.fetch(new Request(url, init));
      for (const url of ['http://localhost/', 'http://127.0.0.1:7400/a/b/', 'http://[::1]/']) {
        const answer = await get(url);
        expect(answer.status, url).to.equal(200);
        expect(await answer.text()).to.equal(document.html);
        expect(answer.headers.get('content-security-policy')).to.include("default-src 'none'");
      }
      expect((await get('http://localhost/', { method: 'HEAD' })).status).to.equal(200);
      expect((await get('http://localhost/nothing')).status).to.equal(404);
      expect((await get('http://localhost/', { headers: { host: 'evil.example' } })).status).to.equal(403);
      expect((await get('http://localhost/free')).status).to.equal(405);
      const refused = await get('http://localhost/free', { method: 'POST', headers: json, body: '{}' });
      expect(refused.status).to.equal(403);
    });

    it('as fetch: a stream of events, until its reader has enough', async () => {
      const redis = memoryStore();
      const streamed = lockPage({ redis, authorize: () => true });
      const release = await redisExpLock({ redis }).promise('streamed');
      const answer = await streamed.fetch(new Request('http://localhost/events'));
      expect(answer.headers.get('content-type')).to.match(/^text\/event-stream/);
      const reader = answer.body!.getReader();
      let text = '';
      while (!text.includes('"streamed"')) text += Buffer.from((await reader.read()).value!).toString();
      expect(text).to.match(/^retry: \d+\n\nevent: snapshot\ndata: \{/);
      await reader.cancel();
      await release();
      const abort = new AbortController();
      const aborted = await streamed.fetch(new Request('http://localhost/events', { signal: abort.signal }));
      abort.abort();
      while (!(await aborted.body!.getReader().read()).done) break;
    });
  });

  describe('freeing a lock', () => {
    const redis = memoryStore();
    const withLock = redisExpLock({ redis, prefix: 'p:', lifetime: 60_000 });
    const idOf = async (key: string): Promise<string> => (await withLock.inspect(key)).holders[0]!.id;
    const free = (body: unknown, headers: object = {}, method = 'POST'): Promise<Answered> => {
      const origin = `http://127.0.0.1:${port}`;
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      return ask('/locks/free', { method, headers: { origin, ...json, ...headers }, body: text });
    };

    before(() => {
      mounted = lockPage({ redis, prefix: 'p:', actions: true });
    });

    it('frees it by its key and the id of its holder, and only that', async () => {
      const lease = await withLock.promise('k');
      const id = await idOf('k');
      expect(await free({ key: 'p:k', id: '00000000' })).to.deep.include({ status: 409, body: '{"freed":false}' });
      expect(await free({ key: 'q:k', id })).to.deep.include({ status: 409 });
      expect(lease.signal.aborted).to.equal(false);
      expect(await free({ key: 'p:k', id })).to.deep.include({ status: 200, body: '{"freed":true}' });
      expect(await withLock.inspect('k')).to.deep.include({ locked: false });
      expect(await free({ key: 'p:k', id })).to.deep.include({ status: 409 });
      const successor = await withLock.promise('k');
      expect(await free({ key: 'p:k', id })).to.deep.include({ status: 409 });
      expect(await successor()).to.equal(true);
    });

    it('H88: is refused from elsewhere, by GET, without an id, as another content, too long', async () => {
      const lease = await withLock.promise('safe');
      const id = await idOf('safe');
      const body = { key: 'p:safe', id };
      const refusals: [number, Promise<Answered>][] = [
        [403, free(body, { origin: 'http://evil.example' })],
        [403, free(body, { origin: 'null' })],
        [403, free(body, { origin: `http://127.0.0.1:${port}.evil.example` })],
        [403, free(body, { origin: `http://127.0.0.1:${port}/path` })],
        [403, free(body, { origin: `ftp://127.0.0.1:${port}` })],
        [403, free(body, { origin: 'http://127.0.0.1:1' })],
        [403, free(body, { 'sec-fetch-site': 'cross-site' })],
        [403, free(body, { 'sec-fetch-site': 'same-site' })],
        [403, free(body, { 'sec-fetch-site': 'none' })],
        [403, ask('/free', { method: 'POST', headers: json, body: JSON.stringify(body) })],
        [415, free(body, { 'content-type': 'text/plain' })],
        [415, free(body, { 'content-type': 'application/x-www-form-urlencoded' })],
        [415, free(body, { 'content-type': 'application/jsonp' })],
        [400, free({ key: 'p:safe' })],
        [400, free({ id })],
        [400, free({ key: 'p:safe', id: '' })],
        [400, free({ key: 'p:safe', id: '*' })],
        [400, free({ key: 'p:safe', id: [id] })],
        [400, free({ key: ['p:safe'], id })],
        [400, free({ key: 'p:safe:queue', id })],
        [400, free('null')],
        [400, free('{')],
        [400, free('')],
        [405, free('', {}, 'GET')],
        [405, free(body, {}, 'PUT')],
        [405, ask('/', { method: 'POST' })],
        [405, ask('/events', { method: 'POST' })],
        [413, free({ ...body, more: 'x'.repeat(10_000) })],
      ];
      for (const [n, [expected, answer]] of refusals.entries())
        expect((await answer).status, `refusal ${n}`).to.equal(expected);
      expect((await free('', {}, 'GET')).headers.allow).to.equal('POST');
      expect(await withLock.inspect('safe')).to.deep.include({ locked: true });
      expect(lease.signal.aborted).to.equal(false);
      expect((await free(body, { 'sec-fetch-site': 'same-origin' })).status).to.equal(200);
    });

    it('takes a body that a parser has read before it', async () => {
      const page = lockPage({ redis, prefix: 'p:', actions: true });
      mounted = (req, res) => {
        let text = '';
        req
          .on('data', (chunk: Buffer) => (text += chunk))
          .on('end', () => {
            req.body = JSON.parse(text);
            page(req, res);
          });
      };
      await withLock.promise('parsed');
      const id = await idOf('parsed');
      expect((await free({ key: 'p:parsed', id })).status).to.equal(200);
    });

    it('with actions off, the default, there is no such path', async () => {
      mounted = lockPage({ redis, prefix: 'p:' });
      const lease = await withLock.promise('k');
      const id = await idOf('k');
      expect((await free({ key: 'p:k', id })).status).to.equal(404);
      expect((await free('', {}, 'GET')).status).to.equal(404);
      expect(await lease()).to.equal(true);
    });
  });

  describe('what it costs, and what it does not show', () => {
    let redis: RedisServer;
    let client: Client;

    before(async () => {
      redis = await startRedis();
      client = await redis.connect();
    });

    after(() => redis.discard());

    /** A viewer of the page: what it was told so far, and how to leave. */
    function look(path = '/'): { text: () => string; leave: () => Promise<void> } {
      let text = '';
      const asked = request({ port, host: '127.0.0.1', path: `${path}events` }, (res) => {
        res.on('data', (chunk) => {
          text += chunk;
        });
        res.on('error', () => {});
      });
      asked.on('error', () => {});
      asked.end();
      const leave = async (): Promise<void> => {
        asked.destroy();
        await new Promise((resolve) => setImmediate(resolve));
      };
      return { text: () => text, leave };
    }

    async function commandsDuring(work: () => Promise<unknown>): Promise<number> {
      const admin = await redis.connect();
      const before = await commandStats(admin);
      await work();
      const calls = diffCommandStats(before, await commandStats(admin));
      admin.destroy();
      return (calls.evalsha ?? 0) + (calls.eval ?? 0) + (calls.scan ?? 0);
    }

    it('twenty viewers cost what one costs; nobody, nothing', async () => {
      mounted = lockPage({ redis: client, prefix: 'cost:' });
      expect(await commandsDuring(() => sleep(600))).to.equal(0);
      const first = look();
      await waitFor(() => first.text().includes('snapshot'), { what: 'the snapshot' });
      const one = await commandsDuring(() => sleep(2_500));
      const others = Array.from({ length: 19 }, () => look());
      await waitFor(() => others.every((each) => each.text().includes('snapshot')), { what: 'all snapshots' });
      const twenty = await commandsDuring(() => sleep(2_500));
      expect(twenty)
        .to.be.above(0)
        .and.at.most(one + 4);
      for (const each of [first, ...others]) await each.leave();
      // Between two reads there is silence, too, before the server has noticed that the last one left.
      const listeners = async () => Number((await redis.command('PUBSUB', 'NUMSUB', 'redis-exp-lock:1:changed'))[1]);
      await waitFor(async () => (await listeners()) === 0, { what: 'the end of the subscription' });
      await waitFor(async () => (await commandsDuring(() => sleep(600))) === 0, { what: 'silence' });
    });

    it('a viewer that comes after a while without any is not shown what was there before', async () => {
      const withLock = redisExpLock({ redis: client, prefix: 'stale:', register: true });
      const release = await withLock.promise('k', { lifetime: 60_000 });
      mounted = lockPage({ redis: client, prefix: 'stale:' });
      const first = look();
      await waitFor(() => first.text().includes('stale:k'), { what: 'the lock' });
      await first.leave();
      await release();
      await waitFor(async () => (await commandsDuring(() => sleep(600))) === 0, { what: 'silence' });
      const next = look();
      await waitFor(() => next.text().includes('snapshot'), { what: 'the snapshot' });
      expect(next.text()).not.to.contain('stale:k');
      await next.leave();
      await withLock.close();
    });

    it('a read that ends after the last viewer left is not shown to the next viewer', async () => {
      const proxy = await startProxy(redis.port);
      const withLock = redisExpLock({ redis: client, prefix: 'left:', register: true });
      const release = await withLock.promise('k', { lifetime: 60_000 });
      mounted = lockPage({ redis: await connect(proxy.port), prefix: 'left:' });
      const first = look();
      await waitFor(() => first.text().includes('left:k'), { what: 'the lock' });
      const reply = holdReply();
      proxy.rule({ match: 'script', nth: 1 }, reply);
      await reply.arrived;
      await first.leave();
      await waitFor(
        async () => Number((await redis.command('PUBSUB', 'NUMSUB', 'redis-exp-lock:1:changed'))[1]) === 0,
        { what: 'the end of the subscription' },
      );
      await release();
      reply.release();
      await waitFor(async () => (await commandsDuring(() => sleep(600))) === 0, { what: 'silence' });
      const next = look();
      await waitFor(() => next.text().includes('snapshot'), { what: 'the snapshot' });
      expect(next.text()).not.to.contain('left:k');
      await next.leave();
      await withLock.close();
    });

    it('a holder that falls silent under another prefix is no row', async () => {
      const record = (id: string, key: string) => {
        const hold = {
          key,
          kind: 'exclusive',
          id: '12345678',
          fence: 1,
          owner: null,
          permits: 1,
          since: 0,
          until: null,
        };
        return client.set(`redis-exp-lock:1:process:${id}`, JSON.stringify({ id, held: [hold], waiting: [] }));
      };
      const ids = ['a', 'b'];
      await Promise.all([
        record('a', 'seen:k'),
        record('b', 'unseen:k'),
        client.set('seen:k', 'x'),
        client.set('unseen:k', 'x'),
      ]);
      for (const value of ids) await client.zAdd('redis-exp-lock:1:processes', { score: Date.now() + 60_000, value });
      mounted = lockPage({ redis: client, prefix: 'seen:' });
      const viewer = look();
      await waitFor(() => viewer.text().includes('seen:k'), { what: 'the row' });
      await client.del(ids.map((id) => `redis-exp-lock:1:process:${id}`));
      await client.zRem('redis-exp-lock:1:processes', ids);
      await waitFor(() => viewer.text().includes('"0 processes register'), { what: 'the end of both records' });
      await sleep(1_500);
      expect(viewer.text()).not.to.contain('unseen:k');
      await viewer.leave();
    });

    it('a silent holder that is gone has lost its lock; another holder of the same key has not', async () => {
      const semaphore = new redisExpLock.Semaphore('k', 2, { redis: client, prefix: 'fell:', lifetime: 60_000 });
      const [silent, other] = [await semaphore.acquire(), await semaphore.acquire()];
      const hold = { key: 'fell:k', kind: 'permits', id: idOf(silent.token), fence: 1, owner: null, permits: 1 };
      const record = { id: 'fell', held: [{ ...hold, since: Date.now(), until: null }], waiting: [] };
      await client.set('redis-exp-lock:1:process:fell', JSON.stringify(record));
      await client.zAdd('redis-exp-lock:1:processes', { score: Date.now() + 60_000, value: 'fell' });
      mounted = lockPage({ redis: client, prefix: 'fell:' });
      const viewer = look();
      const shown = (text: RegExp, what: string) => waitFor(() => text.test(viewer.text()), { what });
      await shown(/"1 process registers/, 'the record');
      await client.del('redis-exp-lock:1:process:fell');
      await client.zRem('redis-exp-lock:1:processes', 'fell');
      await shown(/"holders":\[\{.*\},\{.*holder silent/, 'two holders, one of them silent');
      await other.release();
      await shown(/"lost":0.*"holders":\[\{[^{}]*\}\].*holder silent/, 'the silent one alone');
      await silent.release();
      await shown(/"lost":1.*"gone":\["fell:k"\]/, 'its loss');
      await viewer.leave();
    });

    it('a scan that failed for a while begins anew: the locks of others are shown then', async () => {
      const proxy = await startProxy(redis.port);
      const failing = proxy.rule({ match: 'SCAN' }, answer('-LOADING Redis is loading the dataset in memory\r\n'));
      mounted = lockPage({ redis: await connect(proxy.port), prefix: 'scan:' });
      await client.set('scan:by-others', 'what another library wrote');
      const viewer = look();
      await waitFor(() => proxy.count('SCAN') > 0, { what: 'the first scan' });
      await waitFor(() => viewer.text().includes('snapshot'), { what: 'the snapshot' });
      expect(viewer.text()).not.to.contain('scan:by-others');
      failing.remove();
      await waitFor(() => viewer.text().includes('scan:by-others'), { what: 'the lock of another library' });
      await viewer.leave();
    });

    it('1,000 rows: less than one command a second', async () => {
      const holder = await redis.connect();
      const lasting = { lifetime: 60_000, commandTimeout: 20_000 };
      const withLock = redisExpLock({ redis: holder, prefix: 'many:', register: true, ...lasting });
      await Promise.all(Array.from({ length: 1000 }, (_, n) => withLock.promise(`k${n}`)));
      mounted = lockPage({ redis: client, prefix: 'many:' });
      const viewer = look();
      await waitFor(() => /"total":1000\b/.test(viewer.text()), { what: 'all rows' });
      const { laddr: _, addr } = Object.fromEntries(
        String(await client.sendCommand(['CLIENT', 'INFO']))
          .split(' ')
          .map((each) => each.split('=')),
      );
      await sleep(2_000); // the first look takes more
      const recording = await recordCommands(redis);
      await sleep(10_000);
      const commands = (await recording.stop()).filter((each) => each.client === addr && !each.lua);
      expect(commands.length).to.be.above(0).and.below(10);
      await viewer.leave();
      await withLock.close({ drain: false });
    });

    it('shows what processes that register lost in the last hour, before the page was opened, too', async () => {
      const withLock = redisExpLock({ redis: client, prefix: 'loss:', register: true, lifetime: 1_500 });
      const kept = await withLock.promise('kept', { lifetime: 60_000 });
      const lost = await withLock.promise('taken', { autoExtend: true });
      await client.del('loss:taken');
      await waitFor(() => lost.signal.aborted, { what: 'the loss to be noticed' });
      const elsewhere = await withLock.promise('taken', { prefix: 'elsewhere:', lifetime: 60_000 });
      await client.del('elsewhere:taken');
      expect(await elsewhere.extend(), 'lost under another prefix').to.equal(false);
      mounted = lockPage({ redis: client, prefix: 'loss:' });
      const viewer = look();
      await waitFor(() => /"lost":1\b/.test(viewer.text()), { what: 'the loss to be told' });
      await viewer.leave();
      await kept();
    });

    it('a token is in nothing that it sends, nor is a host, nor what an error says', async () => {
      const withLock = redisExpLock({
        redis: client,
        prefix: 'secret:',
        register: true,
        owner: 'me',
        lifetime: 60_000,
      });
      const lease = await withLock.promise('k');
      mounted = lockPage({ redis: client, prefix: 'secret:' });
      const viewer = look();
      await waitFor(() => viewer.text().includes('secret:k'), { what: 'the row' });
      expect(viewer.text()).to.include('"owner":"me"');
      expect(viewer.text()).to.not.include(lease.token).and.not.include(lease.token.slice(3, 20));
      await redis.pause();
      await waitFor(() => viewer.text().includes('event: down'), { what: 'the bad news' });
      expect(viewer.text()).to.include('data: {"message":"Redis does not answer"}');
      await redis.resume();
      await waitFor(() => viewer.text().split('event: snapshot').length > 2, { what: 'all there is, anew' });
      await viewer.leave();
      await lease();
    });

    it('for a viewer without room nothing is kept; once there is room, it gets a snapshot', async () => {
      const page = lockPage({ redis: client, prefix: 'slow:' });
      let response: any;
      let hasRoom = false;
      mounted = (req, res) => {
        response = res;
        const write = res.write.bind(res);
        res.write = (text: string): boolean => {
          write(text);
          return hasRoom;
        };
        page(req, res);
      };
      const viewer = look();
      await waitFor(() => viewer.text().includes('retry'), { what: 'the first words' });
      const withLock = redisExpLock({ redis: client, prefix: 'slow:', register: true, lifetime: 60_000 });
      const leases = await Promise.all(['a', 'b'].map((key) => withLock.promise(key)));
      const registered = async (): Promise<number> => {
        const keys: string[] = [];
        for await (const { key } of withLock.list()) keys.push(key);
        return keys.length;
      };
      await waitFor(async () => (await registered()) === 2, { what: 'what is registered' });
      await waitFor(async () => (await commandsDuring(() => sleep(1_200))) > 2, { what: 'a read' });
      expect(viewer.text()).to.equal('retry: 1000\n\n');
      hasRoom = true;
      response.emit('drain');
      await waitFor(() => viewer.text().includes('slow:b'), { what: 'all there is' });
      expect(viewer.text().match(/^event: .*$/gm)).to.deep.equal(['event: snapshot']);
      await Promise.all(leases.map((release) => release()));
      await waitFor(() => viewer.text().includes('"gone":["slow:'), { what: 'a change' });
      await viewer.leave();
    });
  });
});
