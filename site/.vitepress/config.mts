import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type DefaultTheme, defineConfig } from 'vitepress';

const reference = fileURLToPath(new URL('../generated/reference/typedoc-sidebar.json', import.meta.url));
const referenceItems = (): DefaultTheme.SidebarItem[] =>
  existsSync(reference) ? JSON.parse(readFileSync(reference, 'utf8')) : [];

const docs = (items: Record<string, string>): DefaultTheme.SidebarItem[] =>
  Object.entries(items).map(([text, page]) => ({ text, link: `/docs/${page}` }));

/** GitHub's anchors, so that a link to a heading means the same there and here. */
const slugify = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');

const base = process.env.SITE_BASE ?? '/';

export default defineConfig({
  title: 'redis-exp-lock',
  description: 'Distributed locks on Redis for Node: a fence with every grant, and a signal when the lock may be lost.',
  lang: 'en-GB',
  srcDir: 'generated',
  base,
  head: [['link', { rel: 'icon', href: `${base}favicon.svg` }]],
  lastUpdated: false,
  markdown: {
    anchor: { slugify },
    config({ renderer, utils }) {
      const fence = renderer.rules.fence!;
      renderer.rules.fence = (tokens, index, ...rest) => {
        const { info, content } = tokens[index]!;
        return info === 'mermaid'
          ? `<MermaidDiagram source="${utils.escapeHtml(content)}" />`
          : fence(tokens, index, ...rest);
      };
    },
  },
  // The library is CommonJS, and a link leads out of node_modules to it.
  vite: { build: { commonjsOptions: { include: [/node_modules/, /\/lib\/.*\.js$/] } } },
  transformPageData: ({ relativePath }) =>
    relativePath.startsWith('bench/') ? { frontmatter: { pageClass: 'bench' } } : undefined,
  themeConfig: {
    search: { provider: 'local' },
    outline: { level: [2, 3] },
    nav: [
      { text: 'Start', link: '/README' },
      { text: 'See it', link: '/see-it' },
      { text: 'Guide', link: '/docs/safety', activeMatch: '^/docs/(?!proof|compare|hazards)' },
      { text: 'Reference', link: '/reference/', activeMatch: '^/reference/' },
      { text: 'Proof', link: '/docs/proof', activeMatch: '^/(bench|docs/(proof|compare|hazards))' },
    ],
    sidebar: {
      '/reference/': [{ text: 'Reference', link: '/reference/', items: referenceItems() }],
      '/': [
        {
          text: 'Begin',
          items: [
            { text: 'Start', link: '/README' },
            { text: 'See it', link: '/see-it' },
            ...docs({ Questions: 'questions' }),
          ],
        },
        {
          text: 'Locks',
          items: docs({
            Safety: 'safety',
            Waiting: 'waiting',
            Options: 'options',
            'Readers, writers, semaphores': 'readers-writers-semaphores',
            'Jobs and leaders': 'coordination',
            'A quorum': 'quorum',
            'Without Redis': 'without-redis',
          }),
        },
        {
          text: 'In production',
          items: docs({
            Operations: 'operations',
            Integrations: 'integrations',
            Migration: 'migration',
            'Testing your code': 'testing-your-code',
          }),
        },
        {
          text: 'Inside, and proof',
          items: [
            ...docs({
              'How it works': 'protocol',
              'The wire format': 'wire',
              'How it is tested': 'proof',
              Hazards: 'hazards',
              'Other libraries': 'compare',
            }),
            { text: 'Benchmarks', link: '/bench/RESULTS' },
            { text: 'Changes', link: '/CHANGELOG' },
          ],
        },
      ],
    },
  },
});
