// The live page in a real Chromium, before a real Redis: what a person sees, and what a person can do.
import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Locator, Page } from 'playwright-core';
import redisExpLock from '../../src/index';
import { type LockPage, lockPage } from '../../src/tools/page';
import { type Browser, findChromium, startChromium } from '../support/chromium';
import { freePort, waitFor } from '../support/processes';
import { type Client, type RedisServer, startRedis } from '../support/redis';

const mount = '/admin/locks/';
const lifetime = 60_000;
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

describe('the live page in Chromium', () => {
  let redis: RedisServer;
  let client: Client;
  let browser: Browser;
  let page: Page;
  let server: Server;
  /** The server of a page of another origin. */
  let elsewhere: Server | undefined;
  let port: number;
  let lockedPage: LockPage;
  let withLock: redisExpLock.WithLock;
  /** Errors in the page's console. */
  const complaints: string[] = [];

  /** Answers to requests that may change something. */
  const answered: string[] = [];

  const listener = (req: IncomingMessage, res: ServerResponse): void => {
    // Not `finish`: a browser that may not read an answer closes the connection before the server has heard that it was sent.
    if (req.method !== 'GET') res.on('close', () => void answered.push(`${req.method} ${res.statusCode}`));
    lockedPage(req, res);
  };

  before(async function () {
    const program = findChromium();
    if (program === undefined) {
      console.warn('no Chromium on PATH: the live page is NOT tested in a browser (apt-get install chromium)');
      return this.skip();
    }
    redis = await startRedis();
    client = await redis.connect();
    lockedPage = lockPage({ redis: client, prefix: 'shop:', actions: true });
    port = await freePort();
    server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    withLock = redisExpLock({ redis: client, prefix: 'shop:', register: true, owner: 'billing-7', lifetime });
    browser = await startChromium(program);
    browser.context.setDefaultTimeout(30_000); // Chromium is a dozen processes, and a busy machine took 11 s to show a row
    page = await browser.context.newPage();
    page.on('console', (message) => void complaints.push(message.text()));
    page.on('pageerror', (error) => void complaints.push(error.message));
  });

  beforeEach(open);

  after(async () => {
    await browser?.close();
    for (const each of [server, elsewhere]) {
      each?.close();
      each?.closeAllConnections();
    }
    await withLock?.close({ drain: false });
    await redis?.discard();
  });

  const address = (): string => `http://127.0.0.1:${port}${mount}`;
  const row = (key: string): Locator => page.locator('tr.lock', { has: page.getByText(key, { exact: true }) });
  const status = (text: string): Promise<void> =>
    page.locator('#status', { hasText: new RegExp(`^${text}$`) }).waitFor();

  const counts = (text: string): Promise<void> =>
    page.locator('#count', { hasText: new RegExp(`^${text}$`) }).waitFor();

  async function open(): Promise<void> {
    await page.goto(address());
    await status('live');
  }

  /** Keys that are held, released in the end. */
  async function holding(keys: readonly string[], work: () => Promise<void>): Promise<void> {
    const leases = await Promise.all(keys.map((key) => withLock.promise(key)));
    try {
      for (const key of keys) await row(`shop:${key}`).waitFor();
      await work();
    } finally {
      await Promise.all(leases.map((release) => release()));
    }
  }

  it('shows a lock within a second of its grant, and takes it out after its release', async () => {
    const delays: number[] = [];
    // On a busy machine the browser itself takes longer, most of the time.
    for (let n = 0; n < 3 || (Math.min(...delays) >= 1000 && n < 12); n += 1) {
      const release = await withLock.promise(`soon-${n}`);
      const grantedMs = performance.now();
      await row(`shop:soon-${n}`).waitFor();
      delays.push(performance.now() - grantedMs);
      expect(await row(`shop:soon-${n}`).innerText()).to.include('billing-7');
      await release();
      await row(`shop:soon-${n}`).waitFor({ state: 'detached' });
    }
    expect(Math.min(...delays)).to.be.below(1000);
  });

  it('says what is held, what waits, since when, and lists those with trouble first', async () => {
    await client.set('shop:by-others', 'what another library wrote', { PX: lifetime });
    await client.set('shop:for-ever', 'x_00000000-0000-4000-8000-000000000000', {});
    await leaveWaiter('shop:stuck');
    await holding(['plain'], async () => {
      const wait = withLock.promise('plain', { timeout: 60_000, owner: 'web-1' });
      for (const badge of ['no end', 'foreign', 'queue stuck']) await page.getByText(badge, { exact: true }).waitFor();
      await page.locator('#waiting', { hasText: '2' }).waitFor();
      const order = await page.locator('tr.lock').evaluateAll((rows) => rows.map((each: any) => each.dataset.key));
      expect(order).to.deep.equal(['shop:stuck', 'shop:for-ever', 'shop:by-others', 'shop:plain']);
      expect(await page.locator('#held').innerText()).to.equal('3');
      expect(await page.locator('#oldest').innerText()).to.match(/\d s$/);
      expect(await row('shop:stuck').innerText()).to.include('nobody');
      const { holders } = await withLock.inspect('plain');
      const cells = await row('shop:plain').getByRole('gridcell').allInnerTexts();
      expect(cells.slice(1, 3)).to.deep.equal(['exclusive', `billing-7 ${holders[0]!.id}`]);
      expect(cells[5]).to.equal('1');
      void wait.then((release) => release());
    });
    await client.del(['shop:by-others', 'shop:for-ever', '{shop:stuck}:queue']);
    await forget('x');
    await row('shop:stuck').waitFor({ state: 'detached' });
  });

  it('counts the holders of a semaphore, also those that it does not list', async () => {
    const semaphore = new redisExpLock.Semaphore('seats', 20, {
      redis: client,
      prefix: 'shop:',
      register: true,
      lifetime,
    });
    const leases = await Promise.all(Array.from({ length: 20 }, () => semaphore.acquire()));
    await row('shop:seats').getByText('+ 19').waitFor();
    await Promise.all(leases.map((release) => release()));
    await row('shop:seats').waitFor({ state: 'detached' });
  });

  it('says that a holder is silent whose process is no longer heard of', async () => {
    const registered = (count: number): Promise<void> =>
      page.locator('#coverage', { hasText: new RegExp(`^${count} process`) }).waitFor();
    await registered(0);
    const gone = await redis.connect();
    const other = redisExpLock({ redis: gone, prefix: 'shop:', register: true, owner: 'cron-1', lifetime });
    const release = await other.promise('nightly');
    // The page shows the lock from its key, perhaps before the process has written that it holds it.
    const record = await waitFor(
      async () => {
        const records = await client.keys('redis-exp-lock:1:process:*');
        const texts = await Promise.all(records.map((key) => client.get(key)));
        return records[texts.findIndex((text) => text?.includes('shop:nightly'))];
      },
      { what: 'the record of the holder' },
    );
    await row('shop:nightly').waitFor();
    await registered(1); // a page that has read the key alone knows no holder that could fall silent
    gone.destroy();
    await client.del(record); // by itself it would be gone after 6 s
    await row('shop:nightly').getByText('holder silent').waitFor();
    expect(await row('shop:nightly').innerText()).to.include('cron-1');
    await client.del('shop:nightly');
    await row('shop:nightly').waitFor({ state: 'detached' });
    expect(await page.locator('#lost').innerText()).to.equal('1');
    await release().catch(() => {});
  });

  it('a hung holder with waiters comes first, before a stuck queue; clock times stand where logs have them', async () => {
    // Far from the end of a second: a reading may be some ms off.
    const nowMs = Math.floor(Date.now() / 1000) * 1000 + 300;
    const sinceMs = nowMs - 26 * 3_600_000;
    await client.set('shop:by-others', 'what another library wrote', { PX: lifetime });
    await leaveWaiter('shop:stuck');
    await pretend('hung', {
      held: [held('hung', 'billing-7', Date.now() - sinceMs, 25_000)],
      waiting: [waits('hung', 'billing-2', Date.now() - nowMs + 68_000)],
    });
    await row('shop:hung').getByText('long wait', { exact: true }).waitFor();
    await page.getByText('queue stuck', { exact: true }).waitFor();
    await page.getByText('queue stuck', { exact: true }).waitFor();
    await page.getByText('foreign', { exact: true }).waitFor();
    const order = await page.locator('tr.lock').evaluateAll((rows) => rows.map((each: any) => each.dataset.key));
    expect(order).to.deep.equal(['shop:hung', 'shop:stuck', 'shop:by-others']);
    const session = await browser.context.newCDPSession(page);
    await session.send('Emulation.setTimezoneOverride', { timezoneId: 'Asia/Kolkata' });
    await row('shop:hung').click();
    const stamp = (atMs: number): string => new Date(atMs).toISOString().slice(0, 19).replace('T', ' ');
    // Kolkata is 5:30 ahead, and has no summer time. A day is written where it is not today's.
    const text = `held for 1 d 2 h, since ${stamp(sinceMs + 19_800_000)} (${stamp(sinceMs)} UTC)`;
    await page.locator('.detail').getByText(text, { exact: true }).waitFor();
    const waited = stamp(nowMs - 68_000).slice(11);
    await page.locator('.detail ol').getByText(`${waited} UTC)`).waitFor();
    await page.locator('.detail').getByText('A process has waited for half a minute').waitFor();
    await session.send('Emulation.setTimezoneOverride', { timezoneId: '' });
    await session.detach();
    await forget('hung');
    await forget('x');
    await client.del(['shop:by-others', '{shop:stuck}:queue']);
    await row('shop:stuck').waitFor({ state: 'detached' });
  });

  it('at 1280 px nothing is clipped, and the question stands beside its button', async () => {
    await page.setViewportSize({ width: 1280, height: 800 });
    const owner = 'payments-worker-7d9f8b6c5-x2k4q:31337';
    const key = `tenant:4711:${'invoice:2026-11:export:'.repeat(4)}end`;
    const hour = 3_600_000;
    await pretend('wide', {
      held: [
        held(key, owner, 24 * hour - 30_000, hour - 1_000, 'permits', 2),
        held('prices', owner, 59.9 * 60_000, 24 * hour - 30_000, 'read'),
        held('migration', owner, 124 * 60_000, null),
      ],
      waiting: [waits(key, owner, 24 * hour - 30_000, 'permits'), waits('prices', owner, 59.9 * 60_000, 'write')],
    });
    await client.set('shop:by-others', 'what another library wrote', { PX: 24 * hour - 30_000 });
    await row(`shop:${key}`).getByText('long wait').waitFor();
    await row('shop:by-others').waitFor();
    await row(`shop:${key}`).click();
    const free = page.getByRole('button', { name: 'Free…' });
    const before = (await free.boundingBox())!;
    await free.click();
    expect(await clipped()).to.deep.equal([]);
    const [question, sure, cancel] = [
      (await page.getByText(/^Free it from [0-9a-f]{8}\? Its signal aborts\.$/).boundingBox())!,
      (await page.getByRole('button', { name: 'Free it now' }).boundingBox())!,
      (await page.getByRole('button', { name: 'Cancel' }).boundingBox())!,
    ];
    for (const { y, height } of [question, sure, cancel])
      expect(y + height / 2).to.be.closeTo(before.y + before.height / 2, 6);
    expect(question.x).to.be.closeTo(before.x, 4);
    // A double click on the first button does not confirm.
    expect(sure.x).to.be.above(before.x + before.width);
    expect(sure.x - question.x - question.width).to.be.within(0, 24);
    expect(cancel.x - sure.x - sure.width).to.be.within(0, 24);
    for (const by of ['longest', 'held', 'waits']) await page.selectOption('#sort', by);
    expect(await clipped()).to.deep.equal([]);
    await page.selectOption('#sort', 'trouble');
    await forget('wide');
    await client.del('shop:by-others');
    await row(`shop:${key}`).waitFor({ state: 'detached' });
    await page.setViewportSize({ width: 1180, height: 640 });
  });

  /** The texts of the page that are cut off. */
  function clipped(): Promise<string[]> {
    return page.evaluate(`
      [...document.querySelectorAll('body *:not(script):not(#said)')]
        .filter((each) => each.clientWidth > 0 && !each.closest('svg'))
        .filter((each) => each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1)
        .filter((each) => getComputedStyle(each).overflow !== 'visible')
        .map((each) => each.className + ': ' + each.textContent)
    `);
  }

  it('writes a hostile key and a hostile owner as they are, and runs nothing', async () => {
    const key = '<img src=x onerror="document.title=1">';
    const release = await withLock.promise(key, { owner: '<script>document.title=2</script>' });
    await row(`shop:${key}`).waitFor();
    expect(await row(`shop:${key}`).innerText()).to.include('<script>document.title=2</script>');
    await row(`shop:${key}`).click();
    await page.locator('tr.detail').waitFor();
    expect(await page.locator('img, tbody script').count()).to.equal(0);
    expect(await page.title()).to.equal('Locks');
    await release();
    await row(`shop:${key}`).waitFor({ state: 'detached' });
    // Characters that would turn a text around are written out.
    const turned = await withLock.promise('a\u202eb');
    await row('shop:a\\u{202e}b').waitFor();
    await turned();
  });

  it('connects again after its server was restarted', async () => {
    server.close();
    server.closeAllConnections();
    await status('reconnecting');
    const release = await withLock.promise('meanwhile');
    server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    await status('live');
    await row('shop:meanwhile').waitFor();
    await release();
  });

  it('says that Redis does not answer, and goes on when it does', async () => {
    await redis.pause();
    await status('Redis does not answer');
    await redis.resume();
    await status('live');
  });

  it('a click opens the queue; there, a lock is freed, and its holder is notified at once', async () => {
    const lease = await withLock.promise('stale');
    const taken = new Promise<any>((resolve) => {
      lease.signal.addEventListener('abort', () => resolve(lease.signal.reason));
    });
    await row('shop:stale').click();
    await page.getByRole('button', { name: 'Free…' }).click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    expect(lease.signal.aborted).to.equal(false);
    await page.getByRole('button', { name: 'Free…' }).click();
    await page.getByRole('button', { name: 'Free it now' }).click();
    await page.getByText('Freed: the next in its queue has it now.').waitFor();
    await row('shop:stale').waitFor({ state: 'detached' });
    await waitFor(() => answered.length > 0);
    expect(answered.splice(0)).to.deep.equal(['POST 200']);
    expect((await taken).reason).to.equal('taken');
    expect(await client.exists('shop:stale')).to.equal(0);
  });

  it('a page of another origin cannot free a lock, with or without a preflight', async () => {
    const lease = await withLock.promise('safe');
    const { holders } = await withLock.inspect('safe');
    elsewhere = createServer((_, res) => res.setHeader('content-type', 'text/html').end('<title>evil</title>'));
    const other = await freePort();
    await new Promise<void>((resolve) => elsewhere!.listen(other, '127.0.0.1', resolve));
    const evil = await browser.context.newPage();
    await evil.goto(`http://127.0.0.1:${other}/`);
    const body = JSON.stringify({ key: 'shop:safe', id: holders[0]!.id });
    const attempts = await evil.evaluate(
      ([url, text]) =>
        Promise.all(
          ['application/json', 'text/plain'].map((type) =>
            fetch(`${url}free`, {
              method: 'POST',
              mode: type === 'text/plain' ? 'no-cors' : 'cors',
              headers: { 'content-type': type },
              body: text!,
            }).then(
              (answer) => answer.type,
              () => 'refused',
            ),
          ),
        ),
      [address(), body],
    );
    expect(attempts).to.deep.equal(['refused', 'refused']);
    await waitFor(() => answered.length === 2);
    expect(answered.splice(0)).to.have.members(['OPTIONS 405', 'POST 403']);
    expect(await withLock.inspect('safe')).to.deep.include({ locked: true });
    expect(await lease()).to.equal(true);
    await evil.close();
  });

  it('works by keyboard alone: rows, queue, filter, sorting', async () => {
    await holding(['one', 'two', 'three'], async () => {
      await page.keyboard.press('/');
      await page.keyboard.type('shop:t');
      await row('shop:one').waitFor({ state: 'detached' });
      // The lock of the test before may still be shown for a moment.
      await counts('2 of 3 locks');
      await page.keyboard.press('Escape');
      await row('shop:one').waitFor();
      await page.selectOption('#sort', 'key');
      await page.locator('#filter').focus();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowDown');
      expect(await focusedKey()).to.equal('shop:three');
      await page.keyboard.press('Enter');
      expect(await row('shop:three').getAttribute('aria-expanded')).to.equal('true');
      await page.getByText('Nobody waits.').waitFor();
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).to.equal('Free…');
      await page.keyboard.press('Escape');
      expect(await focusedKey()).to.equal('shop:three');
      expect(await page.locator('tr.detail').count()).to.equal(0);
      await page.getByRole('button', { name: 'Key' }).focus();
      await page.keyboard.press('Enter');
      expect(await page.locator('tr.lock').first().getAttribute('data-key')).to.equal('shop:two');
      expect(await page.getByRole('columnheader', { name: 'Key' }).getAttribute('aria-sort')).to.equal('descending');
      await page.selectOption('#sort', 'trouble');
    });
  });

  it('is dark where the system is, and has room on a phone of 360 px', async () => {
    const background = (): Promise<string> => page.evaluate('getComputedStyle(document.body).backgroundColor');
    const light = await background();
    await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
    expect(await background()).to.not.equal(light);
    await holding([`${'long-name:'.repeat(8)}end`, 'short'], async () => {
      await page.setViewportSize({ width: 360, height: 740 });
      await row('shop:short').click();
      const free = page.getByRole('button', { name: 'Free…' });
      const box = (await free.boundingBox())!;
      expect(box.x + box.width).to.be.below(360);
      expect(await page.evaluate('document.documentElement.scrollWidth')).to.equal(360);
      expect(await page.locator('tr.lock').first().isVisible()).to.equal(true);
    });
    await page.setViewportSize({ width: 1180, height: 640 });
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  });

  it('axe finds nothing: light and dark, wide and narrow, with a queue open', async () => {
    await client.set('shop:by-others', 'what another library wrote', { PX: lifetime });
    await holding(['seen', 'other'], async () => {
      const wait = withLock.promise('seen', { timeout: 60_000 });
      await page.getByText('foreign', { exact: true }).waitFor();
      await row('shop:seen').click();
      for (const colorScheme of ['light', 'dark'] as const) {
        for (const width of [1180, 360]) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          await page.setViewportSize({ width, height: 640 });
          expect(await violations(), `${colorScheme}, ${width} px`).to.deep.equal([]);
        }
      }
      await page.setViewportSize({ width: 1180, height: 640 });
      await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
      void wait.then((release) => release());
    });
    await client.del('shop:by-others');
    await row('shop:by-others').waitFor({ state: 'detached' });
  });

  it('complained about nothing: no script, style or address was refused', () => {
    expect(complaints.filter((text) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY/.test(text))).to.deep.equal(
      [],
    );
  });

  async function violations(): Promise<unknown[]> {
    // By evaluate, which no content security policy concerns.
    const found = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ['violations'] })`);
    return (found as any).violations.map(({ id, nodes }: any) => [
      id,
      nodes.map(({ html, failureSummary }: any) => [html, failureSummary]),
    ]);
  }

  function focusedKey(): Promise<string | undefined> {
    return page.evaluate('document.activeElement.dataset.key');
  }

  it('looks like its pictures in docs/images, which UPDATE_SCREENSHOTS=1 takes anew', async () => {
    await pretend('picture', scene());
    await client.set('shop:legacy-export', 'what another library wrote', { PX: lifetime });
    await open();
    await row('shop:legacy-export').waitFor();
    await row('shop:invoice:2026-11').click();
    await picture('page.png', { width: 1180, height: 525 }, 'light');
    await open();
    await row('shop:legacy-export').waitFor();
    await picture('page-on-a-phone.png', { width: 360, height: 640 }, 'dark');
    await page.setViewportSize({ width: 1180, height: 640 });
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    await forget('picture');
    await client.del('shop:legacy-export');
  });

  async function picture(name: string, size: { width: number; height: number }, colorScheme: 'light' | 'dark') {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const taken = await page.screenshot();
    const file = join(__dirname, '../../docs/images', name);
    if (process.env.UPDATE_SCREENSHOTS) writeFileSync(file, taken);
    // A picture of nothing is small, and the repository has room for small ones only.
    expect(taken.length, name).to.be.within(15_000, 80_000);
    expect(statSync(file).size, name).to.be.within(15_000, 80_000);
  }

  /** Writes the record of a process that holds and waits for these locks. */
  async function pretend(id: string, record: object): Promise<void> {
    await client.set(`redis-exp-lock:1:process:${id}`, JSON.stringify({ id, host: 'h', pid: 1, held: [], ...record }));
    await client.zAdd('redis-exp-lock:1:processes', { score: Date.now() + 60_000, value: id });
    // Processes that registered before have given it a shorter life.
    await client.expire('redis-exp-lock:1:processes', 60);
  }

  async function forget(id: string): Promise<void> {
    await client.del(`redis-exp-lock:1:process:${id}`);
    await client.zRem('redis-exp-lock:1:processes', id);
  }

  /** Leaves the entry of a process that stands still while it waits: by its record it is alive, and nobody serves it. */
  async function leaveWaiter(key: string): Promise<void> {
    const nowMs = Date.now();
    // Later than that of an entry that it wrote itself: a busy machine takes longer to show it.
    const value = `1 ${nowMs + 60_000} x 1000 1 - y_00000000-0000-4000-8000-000000000000`;
    await client.zAdd(`{${key}}:queue`, { score: nowMs * 1000, value });
    const waiting = [{ key, kind: 'exclusive', since: nowMs, owner: 'y', permits: 1 }];
    await pretend('x', { waiting });
  }
});

/** The entry for a held lock in the record of a process. */
function held(
  key: string,
  owner: string,
  heldMs: number,
  leftMs: number | null,
  kind = 'exclusive',
  permits = 1,
): object {
  const nowMs = Date.now();
  const id = createHash('sha1')
    .update(key + owner)
    .digest('hex')
    .slice(0, 8);
  const until = leftMs === null ? null : nowMs + leftMs;
  return { key: `shop:${key}`, kind, fence: 1, since: nowMs - heldMs, id, owner, permits, until };
}

/** The entry for a lock that is waited for, in the record of a process. */
function waits(key: string, owner: string, waitedMs: number, kind = 'exclusive'): object {
  return { key: `shop:${key}`, kind, since: Date.now() - waitedMs, owner, permits: 1 };
}

/** A morning in a shop. */
function scene(): object {
  const minute = 60_000;
  return {
    held: [
      held('invoice:2026-11', 'billing-7', 4.3 * minute, 25_000),
      held('migration', 'deploy-118', 124 * minute, null),
      held('scheduler', 'scheduler-b', 1563 * minute, 11_000),
      held('prices', 'web-1', 3_200, 7_000, 'read'),
      held('prices', 'web-4', 2_100, 8_100, 'read'),
      held('render-farm', 'render-2', 42_000, 12_000, 'permits', 2),
      held('cart:0f4c2a77', 'web-2', 360, 9_600),
    ],
    waiting: [
      waits('invoice:2026-11', 'billing-2', 68_000),
      waits('invoice:2026-11', 'billing-9', 31_000),
      waits('prices', 'pricing-1', 900, 'write'),
      waits('legacy-export', 'export-1', 4_000),
    ],
    lost: [{ key: 'shop:cart:b1d09e11', id: '5f6c937d', at: Date.now() - 20 * minute }],
  };
}
