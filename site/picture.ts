// `npm run site:picture`: the picture of the README. A round of the demo runs on the library, and its drawing goes to a file, with the colours of
// both schemes in it.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { h } from 'vue';
import { renderToString } from 'vue/server-renderer';
import { type Happening, Round } from './demo/round';
import { Timeline } from './demo/timeline';

const site = import.meta.dirname;
const target = join(site, '../docs/images/who-held-the-lock.svg');

const happenings: Happening[] = [];
const round = new Round(true, (happening) => happenings.push(happening));
round.pause('A');
await round.run();

const drawn = await renderToString(h(Timeline, { happenings, nowMs: 0, spanMs: 7000, width: 600 }));
const css = readFileSync(join(site, 'demo/timeline.css'), 'utf8');
const dark = css.replace(/^\.dark (\.timeline \{.*?^\})/ms, '@media (prefers-color-scheme: dark) { $1 }');
const style = dark.replace(/\s+/g, ' ').trim();
writeFileSync(target, `${drawn.replace('<defs>', `<style>${style}</style><defs>`)}\n`);
