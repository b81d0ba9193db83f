// The site as `npm run site` builds it, in a real Chromium: a page for all of docs/ and for every export, links that lead somewhere, and the
// page in which the library runs.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { type Browser, findChromium, startChromium } from '../test/support/chromium';
import { freePort } from '../test/support/processes';

const root = join(__dirname, '..');
const dist = join(root, 'site/.vitepress/dist');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const types: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};
const widths = [360, 1280];
const schemes = ['light', 'dark'] as const;

/** The parts of a page that are checked. */
interface Seen {
  readonly ids: ReadonlySet<string>;
  readonly links: readonly URL[];
}

describe('the site', function () {
  this.timeout(600_000); // a build of a minute, and about 140 pages, each in four looks

  let server: Server;
  let origin: string;
  let browser: Browser;
  let page: Page;
  /** Errors in the console of the pages, and requests to other hosts. */
  const complaints: string[] = [];

  before(async function () {
    const program = findChromium();
    if (program === undefined) {
      console.warn('no Chromium on PATH: the site is NOT tested (apt-get install chromium)');
      return this.skip();
    }
    await promisify(execFile)(process.execPath, [join(root, 'site/build.mjs')], { cwd: root, maxBuffer: 2 ** 26 });
    const port = await freePort();
    origin = `http://127.0.0.1:${port}`;
    server = createServer((req, res) => {
      const { pathname } = new URL(req.url!, origin);
      const file = join(dist, pathname.endsWith('/') ? `${pathname}index.html` : decodeURIComponent(pathname));
      try {
        const body = readFileSync(file);
        res.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' }).end(body);
      } catch {
        res.writeHead(404).end();
      }
    });
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    browser = await startChromium(program);
    page = await browser.context.newPage();
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(`${page.url()}: ${message.text()}`);
    });
    page.on('pageerror', (error) => void complaints.push(`${page.url()}: ${error.message}`));
    page.on('response', (response) => {
      if (response.status() >= 400) complaints.push(`${page.url()}: ${response.status()} of ${response.url()}`);
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) complaints.push(request.url());
    });
  });

  after(async () => {
    await browser?.close();
    server?.close();
    server?.closeAllConnections();
  });

  const repositoryPages = (): string[] => {
    const docs = readdirSync(join(root, 'docs')).filter((file) => file.endsWith('.md'));
    return ['README.md', 'CHANGELOG.md', 'bench/RESULTS.md', ...docs.map((file) => `docs/${file}`)];
  };
  const htmlFiles = (): string[] =>
    readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.html'));

  it('has every page of docs/, the README, the changes and the benchmarks', () => {
    expect(htmlFiles()).to.include.members(repositoryPages().map((file) => file.replace(/md$/, 'html')));
  });

  it('has a page for every export of every entry, with defaults and errors', () => {
    const pages = htmlFiles();
    const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const typesOf = (entry: string): string | undefined => exports[entry].import?.types;
    for (const entry of Object.keys(exports).filter(typesOf)) {
      const folder = `reference/${entry.replace('.', 'redis-exp-lock')}`;
      expect(pages).to.include(`${folder}/index.html`);
      // An entry with the declarations of the main one refers to its pages.
      const owner = typesOf(entry) === typesOf('.') ? 'reference/redis-exp-lock' : folder;
      const names = exportsOf(readFileSync(join(root, typesOf(entry)!), 'utf8'));
      expect(names, entry).to.have.length.above(0);
      const hasPage = (name: string): boolean =>
        pages.some((file) => new RegExp(`^${owner}/[\\w-]+/${name}\\.html$`).test(file));
      expect(
        names.filter((name) => !hasPage(name)),
        entry,
      ).to.deep.equal([]);
    }
    const reference = (name: string): string =>
      readFileSync(join(dist, 'reference/redis-exp-lock', `${name}.html`), 'utf8');
    expect(reference('interfaces/Options')).to.match(/Ms until Redis frees the key by itself\. Default 1000/);
    expect(reference('interfaces/WithLock')).to.match(/Throws.*?href="[^"]*\/classes\/LockBackendError\.html"/s);
  });

  it('every link leads somewhere, from every page; at 360 and 1280 px, light and dark, nothing overflows and nothing complains', async () => {
    const seen = new Map<string, Seen>();
    const wide: string[] = [];
    const fileOf = ({ pathname }: URL): string => pathname.slice(1).replace(/(?<=^|\/)$/, 'index.html');
    const waiting = ['index.html'];
    for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
      if (seen.has(file)) continue;
      const address = `${origin}/${file}`;
      await page.goto(address, { waitUntil: 'load' });
      const look = await lookAround(page);
      seen.set(file, look);
      for (const width of widths) {
        await page.setViewportSize({ width, height: 800 });
        for (const colorScheme of schemes) {
          await page.emulateMedia({ colorScheme });
          if (await isTooWide(page)) wide.push(`${address} at ${width} px, ${colorScheme}`);
        }
      }
      for (const link of look.links) if (link.origin === origin) waiting.push(fileOf(link));
    }
    const links = [...seen].flatMap(([from, { links }]) => links.map((link) => [from, link] as const));
    const inward = links.filter(([, link]) => link.origin === origin);
    const broken = inward.filter(([, link]) => {
      return link.hash !== '' && !seen.get(fileOf(link))!.ids.has(decodeURIComponent(link.hash.slice(1)));
    });
    console.info(`      ${seen.size} pages, ${links.length} links`);
    expect(broken.map(([from, link]) => `${from} → ${link}`)).to.deep.equal([]);
    expect(wide).to.deep.equal([]);
    expect(complaints).to.deep.equal([]);
    expect(htmlFiles().filter((file) => file !== '404.html' && !seen.has(file))).to.deep.equal([]);
    const written = repositoryPages()
      .map((file) => readFileSync(join(root, file), 'utf8'))
      .join();
    const outward = links.filter(([, link]) => link.origin !== origin).map(([, link]) => link.href);
    expect(outward.filter((address) => !written.includes(address))).to.deep.equal([]);
  });

  it('finds a word of docs/ by its search', async () => {
    await page.goto(`${origin}/`);
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByRole('searchbox').fill('restart guard');
    await page.getByRole('option').filter({ hasText: 'The restart guard' }).first().click();
    await page.waitForURL('**/docs/quorum.html#the-restart-guard');
    expect(complaints).to.deep.equal([]);
  });

  it('draws the diagrams of the protocol', async () => {
    await page.goto(`${origin}/docs/protocol.html`);
    for (let n = 0; n < 3; n += 1) await page.locator('.diagram svg').nth(n).waitFor();
    expect(complaints).to.deep.equal([]);
  });

  describe('the page in which the library runs', () => {
    const log = (): Promise<string[]> => page.getByRole('log').getByRole('listitem').allInnerTexts();
    const verdict = (text: string): Promise<void> => page.getByRole('status').filter({ hasText: text }).waitFor();
    const press = async (name: string): Promise<void> => {
      await page.getByRole('button', { name, exact: true }).focus();
      await page.keyboard.press('Enter');
    };

    beforeEach(async () => {
      await page.goto(`${origin}/see-it.html`);
      await page.getByRole('button', { name: 'Run', exact: true }).waitFor();
    });

    it('three workers take turns', async () => {
      await press('Run');
      await verdict('the balance is 30: none was lost');
      const said = (await log()).join('\n');
      expect(said.match(/holds the lock/g)).to.have.length(3);
      expect(said.match(/releases the lock/g)).to.have.length(3);
      expect(said).not.to.match(/refused|is over/);
    });

    it('one is paused past its lifetime: the next get the lock, and its write is refused by the fence', async () => {
      await press('Run, and pause A');
      await verdict('the balance is 30: none was lost');
      const said = await log();
      const first = (words: string): number => said.findIndex((line) => line.includes(words));
      expect(first('A is stopped')).to.be.above(first('A holds the lock'));
      expect(first('The lifetime of A’s lock is over')).to.be.above(first('A is stopped'));
      for (const words of ['B writes 10', 'C writes 20', 'A runs again'])
        expect(first('A’s write is refused'), words).to.be.above(first(words));
      const [, own, stored] = /its fence (\d+) is smaller than the stored (\d+)/.exec(
        said[first('A’s write is refused')]!,
      )!;
      expect(Number(own)).to.be.below(Number(stored));
      expect(said.at(-1)).to.include('A releases the lock');
      expect(await page.locator('svg.timeline circle.refused').count()).to.equal(1);
    });

    it('without the fence it overwrites what the others wrote', async () => {
      await page.getByRole('checkbox').focus();
      await page.keyboard.press('Space');
      const pressed: string = await page.evaluate(`(async () => {
        const button = (text) => [...document.querySelectorAll('.demo button')].find((each) => each.innerText === text);
        button('Run').click();
        button('Pause A').click(); // in the same turn, so that A has not written yet
        await new Promise((resolve) => setTimeout(resolve));
        return button('Pause A').getAttribute('aria-pressed');
      })()`);
      expect(pressed).to.equal('true');
      await verdict('the balance is 10: 2 were overwritten');
      expect((await log()).join()).to.include('A writes 10 over what newer holders wrote');
      expect(await page.locator('svg.timeline circle.overwrote').count()).to.equal(1);
    });

    it('the checker of accessibility finds nothing in it, light and dark; what has the focus has an outline', async () => {
      await press('Run');
      await verdict('none was lost');
      await page.evaluate(axe);
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        const { violations } = await page.evaluate<any>('axe.run(".demo")');
        expect(violations.map(({ id, nodes }: any) => [id, nodes[0].html])).to.deep.equal([]);
      }
      await page.keyboard.press('Tab');
      expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).to.equal('solid');
    });

    it('with motion it moves between the events, without it does not', async () => {
      for (const reducedMotion of ['reduce', 'no-preference'] as const) {
        await page.emulateMedia({ reducedMotion });
        await press('Run');
        const moves = await page.evaluate(`(async () => {
          const looks = new Set();
          const events = new Set();
          while (document.querySelector('.verdict').textContent === '') {
            await new Promise((resolve) => requestAnimationFrame(resolve));
            const count = document.querySelectorAll('.log li').length;
            events.add(count);
            looks.add(count + ' ' + document.querySelector('svg.timeline').innerHTML);
          }
          return looks.size > events.size;
        })()`);
        await page.emulateMedia({ reducedMotion: 'reduce' });
        expect(moves).to.equal(reducedMotion === 'no-preference');
      }
    });

    it('the picture of the README is of such a run, with the colours of both schemes', () => {
      const picture = readFileSync(join(root, 'docs/images/who-held-the-lock.svg'), 'utf8');
      const marks = Array.from(picture.matchAll(/<circle class="(\w+)"/g), ([, kind]) => kind);
      expect(marks).to.deep.equal(['wrote', 'wrote', 'refused', 'wrote']);
      expect(picture).to.include('@media (prefers-color-scheme: dark)');
    });
  });
});

/** The names that a file of declarations exports, but for the default. */
function exportsOf(text: string): string[] {
  const declared = [
    ...text.matchAll(/^export (?:import|type|declare \w+|const|function|class|interface) (\w+)\b(?!\s*from)/gm),
  ];
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, names]) => names!.split(','));
  const names = listed.map((name) =>
    name
      .trim()
      .replace(/^type /, '')
      .replace(/^\w+ as /, ''),
  );
  return [...declared.map(([, name]) => name!), ...names].filter((name) => name !== '' && name !== 'default');
}

async function lookAround(page: Page): Promise<Seen> {
  const { ids, links } = await page.evaluate<{ ids: string[]; links: string[] }>(`({
    ids: [...document.querySelectorAll('[id]')].map((each) => each.id),
    links: [...document.querySelectorAll('a[href]')].map((each) => each.href),
  })`);
  return { ids: new Set(ids), links: links.map((link) => new URL(link)) };
}

function isTooWide(page: Page): Promise<boolean> {
  return page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth');
}
