// Makes src/tools/page/document.ts from src/tools/page/page.html: the page as it is sent, made small, and the hashes of its script and its style
// for the content security policy. A test fails on drift.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformSync } from 'esbuild';

const folder = join(__dirname, '..', 'src/tools/page');
const target = join(folder, 'document.ts');

/** The whole of document.ts, from the page as it is now. */
export function generate(): string {
  const source = readFileSync(join(folder, 'page.html'), 'utf8');
  const [style, script] = [smaller(source, 'style', 'css'), smaller(source, 'script', 'js')];
  const html = source
    .replace(/<!-- .*? -->/g, '')
    .replace(/^\s+/gm, '')
    .replace(/(?<=<style>)[\s\S]*?(?=<\/style>)/, () => style)
    .replace(/(?<=<script>)[\s\S]*?(?=<\/script>)/, () => script);
  return [
    '// Made by `npm run generate` from page.html; do not edit.',
    '// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the script has template strings',
    `export const styleHash = '${hashOf(style)}';`,
    `export const scriptHash = '${hashOf(script)}';`,
    '// biome-ignore format: one line',
    `export const html =\n${JSON.stringify(html)};`,
    '',
  ].join('\n');
}

/** The content of the one element of this name. */
function smaller(source: string, tag: string, loader: 'css' | 'js'): string {
  const found = [...source.matchAll(new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`, 'g'))];
  if (found.length !== 1) throw new Error(`page.html has ${found.length} elements <${tag}>`);
  const { code } = transformSync(found[0]![1]!, { loader, minify: true, charset: 'utf8' });
  // A line for each function, as the build does to programs: it must find none in a text.
  return code.trim().replace(/([;}])(?=(?:async )?function\*? \w+\()/g, '$1\n');
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

if (require.main === module) writeFileSync(target, generate());
