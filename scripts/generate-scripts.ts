// Makes src/store/redis/scripts/generated.ts from the .lua files beside it: the text that is sent (the file without comments and indentation), its
// SHA-1, and a typed call with one parameter for each KEYS and ARGV that the header declares. The header is load-bearing: an index that
// it does not declare, or a declared scalar that the body never uses, fails the build. A test fails on drift.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as protocol from '../src/store/protocol';
import { inBatch } from '../src/store/redis/scripts/script';

const folder = join(__dirname, '..', 'src/store/redis/scripts');
const target = join(folder, 'generated.ts');

interface Parameter {
  name: string;
  list: boolean;
  about: string;
}

interface Source {
  /** The name in the code: camelCase of the file's name. */
  name: string;
  summary: string;
  keys: Parameter[];
  args: Parameter[];
  reply: string;
  body: string;
  /** True if the text is only ever sent as a part of another script. */
  within: boolean;
}

/** The whole of generated.ts, from the .lua files as they are now. @param edit For a test: what to make of a file's text. */
export function generate(edit: (file: string, text: string) => string = (_, text) => text): string {
  const texts = luaFiles().map(([name, text]) => [name, edit(`${name}.lua`, text)] as const);
  const all = new Map(texts);
  const parts = new Map(texts.filter(([, text]) => isPart(text)).map(([name, text]) => [camelCase(name), strip(text)]));
  for (const [name, text] of texts) {
    if (!texts.some(([, other]) => named(name, other, 'INCLUDE', all).some(([each]) => each === name))) continue;
    if (isWithin(text)) continue;
    // Sent alone and in a batch: what comes before and after the parts that it uses is written down once as well.
    const halves = text.split(/^-- THEN .*$/m).map(strip);
    for (const [i, half] of halves.entries()) if (half !== '') parts.set(`${camelCase(name)}${i + 1}`, half);
  }
  const sources = texts.filter(([, text]) => !isPart(text)).map(([name, text]) => parse(name, text, all));
  return [
    '// Made by `npm run generate` from the .lua files beside it; do not edit.',
    '// biome-ignore-all lint/style/useTemplate: the text between two parts may be a line end only',
    "import { type BatchableCall, inBatch, type Script, type ScriptCall } from './script';",
    [...parts].map(([name, text]) => `const ${name}Part = ${literal(text)};`).join('\n'),
    ...sources.map((source) => emit(source, parts)),
    `export const scripts: readonly Script[] = [${sources
      .filter((source) => !source.within)
      .map((source) => `${source.name}Script`)
      .join(', ')}];`,
    '',
  ].join('\n\n');
}

function luaFiles(): [name: string, text: string][] {
  const files = readdirSync(folder).filter((file) => file.endsWith('.lua'));
  return files.sort().map((file) => [file.slice(0, -'.lua'.length), readFileSync(join(folder, file), 'utf8')]);
}

/**
 * Exported for the drift test, which feeds it headers that lie.
 *
 * @param others The other files: for a header that says USES, the part that goes before the body; for one that says
 *               INCLUDE, scripts of which each becomes a function. One that says WITHIN is sent in no other way, with the parts
 *               that the other script uses.
 */
export function parse(name: string, text: string, others: ReadonlyMap<string, string> = new Map()): Source {
  const header = text.split('\n').filter((line) => line.startsWith('-- '));
  const source: Source = {
    name: camelCase(name),
    summary: '',
    keys: [],
    args: [],
    reply: '',
    body: strip(text),
    within: isWithin(text),
  };
  for (const line of header) {
    const [, section, rest] = /^-- (KEYS|ARGV|REPLY)\s+(.*)$/.exec(line) ?? [];
    if (section === 'REPLY') source.reply = rest!;
    else if (section) (section === 'KEYS' ? source.keys : source.args).push(parameter(name, rest!));
    else if (line.startsWith(`-- ${name}: `)) source.summary = line.slice(`-- ${name}: `.length);
  }
  if (!source.summary || !source.reply) throw new Error(`${name}.lua: the header needs "-- ${name}: …" and REPLY`);
  checkIndexes(name, source.body, 'KEYS', source.keys);
  checkIndexes(name, source.body, 'ARGV', source.args);
  const included = named(name, text, 'INCLUDE', others);
  if (included.length === 0)
    source.body = [...named(name, text, 'USES', others), [name, put(name, text, others)]]
      .map(([, each]) => strip(each!))
      .join('\n');
  else source.body = together(name, text, included, others) + strip(put(name, text, others));
  return source;
}

/** A part that only the rarer calls need comes where `-- THEN` names it: the others end before it. */
function put(name: string, text: string, others: ReadonlyMap<string, string>): string {
  return text.replace(/^-- THEN .*$/m, (line) =>
    named(name, line, 'THEN', others)
      .map(([, each]) => each)
      .join('\n'),
  );
}

function isPart(text: string): boolean {
  return text.startsWith('-- PART ');
}

function isWithin(text: string): boolean {
  return /^-- WITHIN /m.test(text);
}

/** Files are named in kebab-case, what is made of them in camelCase. */
function camelCase(name: string): string {
  return name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** The other files that a header names. */
function named(
  script: string,
  text: string,
  section: 'USES' | 'INCLUDE' | 'THEN',
  others: ReadonlyMap<string, string>,
): [name: string, text: string][] {
  const [, names = ''] = new RegExp(`^-- ${section}\\s+(.*)$`, 'm').exec(text) ?? [];
  return names
    .split(' ')
    .filter((name) => name !== '')
    .map((name) => {
      if (!others.has(name)) throw new Error(`${script}.lua: there is no ${name}.lua`);
      return [name, others.get(name)!];
    });
}

/** Scripts as functions that read their keys and arguments at their place in a longer list: nothing is copied. */
function together(
  name: string,
  own: string,
  included: readonly [name: string, text: string][],
  others: ReadonlyMap<string, string>,
): string {
  const ofEach = (['USES', 'THEN'] as const).flatMap((section) =>
    included.flatMap(([, text]) => named(name, text, section, others)),
  );
  const parts = [...named(name, own, 'USES', others), ...ofEach];
  const functions = included.map(([script, text]) => {
    return `${camelCase(script)} = function(k, a, kn, an)\n${inBatch(strip(text))}\nend,\n`;
  });
  const used = [...new Map(parts).values()].map((text) => `${strip(text)}\n`);
  return `${used.join('')}local scripts = {\n${functions.join('')}}\n`;
}

function parameter(script: string, text: string): Parameter {
  const [, name, list, about] = /^(\w+)(\[\])?\s+(.+)$/.exec(text) ?? [];
  if (!name) throw new Error(`${script}.lua: a header line needs a name and what it is: "${text}"`);
  return { name, list: list !== undefined, about: about! };
}

function checkIndexes(script: string, body: string, table: string, declared: Parameter[]): void {
  const scalars = declared.findIndex((each) => each.list);
  const last = declared.at(-1);
  if (scalars >= 0 && !last!.list && !body.includes(`${table}[#${table}]`))
    throw new Error(`${script}.lua: ${table} ${last!.name} is declared, and ${table}[#${table}] never used`);
  const fixed = scalars < 0 ? declared.length : scalars;
  const used = new Set([...body.matchAll(new RegExp(`\\b${table}\\[(\\d+)\\]`, 'g'))].map((match) => Number(match[1])));
  for (const index of used) {
    if (index < 1 || (index > fixed && scalars < 0))
      throw new Error(`${script}.lua: ${table}[${index}] is not declared in the header`);
  }
  for (let index = 1; index <= fixed; index++) {
    if (!used.has(index)) {
      throw new Error(
        `${script}.lua: ${table} ${declared[index - 1]!.name} is declared, and ${table}[${index}] never used`,
      );
    }
  }
}

/** The program of a line: all before two minus signs that are in no string. */
const program = /^(?:'(?:[^'\\]|\\.)*'|-(?!-)|[^'-])*/;

/** Lua without its comments, indentation and blank lines. */
export function strip(text: string): string {
  const lines = withNumbers(text)
    .split('\n')
    .map((line) => program.exec(line)![0].trim());
  return lines.filter((line) => line !== '').join('\n');
}

const numbers = new Map<string, unknown>(Object.entries({ ...protocol, ...protocol.limits }));

/** Writes the number for each `protocol.name`. Exported for the drift test. */
export function withNumbers(text: string): string {
  return text.replace(/\bprotocol\.(\w+)/g, (written, name) => {
    const number = numbers.get(name);
    if (!Number.isSafeInteger(number)) throw new Error(`${written}: no number of src/store/protocol.ts has this name`);
    return String(number);
  });
}

/** The text as an expression: a part that several scripts use is written down once. */
function expression(text: string, parts: ReadonlyMap<string, string>): string {
  for (const [name, part] of parts) {
    for (const [written, as] of [
      [part, `${name}Part`],
      [inBatch(part), `inBatch(${name}Part)`],
    ] as const) {
      const at = text.indexOf(written);
      if (at < 0) continue;
      const around = [text.slice(0, at), text.slice(at + written.length)];
      const [before, after] = around.map((each) => (each === '' ? '' : expression(each, parts)));
      return [before, as, after].filter((each) => each !== '').join(' + ');
    }
  }
  return literal(text);
}

/** Lines as lines: each end is a character less than as an escape, and there are a thousand. */
function literal(text: string): string {
  return text.includes('\n') ? `\`${text.replace(/[`\\]|\$\{/g, '\\$&')}\`` : JSON.stringify(text);
}

function emit(source: Source, parts: ReadonlyMap<string, string>): string {
  const sha = createHash('sha1').update(source.body).digest('hex');
  const text = source.within ? [] : [`  sha: '${sha}',`, `  lua: ${expression(source.body, parts)},`];
  const parameters = [
    ...source.keys.map((key) => `${key.name}: ${key.list ? 'readonly string[]' : 'string'}`),
    ...source.args.map((arg) => `${arg.name}: ${arg.list ? 'readonly string[]' : 'string | number'}`),
  ];
  const docs = [...source.keys, ...source.args].map((each) => ` * @param ${each.name} ${each.about}`);
  return [
    `const ${source.name}Script${source.within ? '' : ': Script'} = {`,
    `  name: '${source.name}',`,
    ...text,
    '};',
    '',
    '/**',
    ` * ${source.summary}`,
    ' *',
    ...docs,
    ` * @returns the call; its reply: ${source.reply}`,
    ' */',
    `export function ${source.name}(${parameters.join(', ')}): ${source.within ? 'BatchableCall' : 'ScriptCall'} {`,
    `  return { script: ${source.name}Script, keys: ${list(source.keys, false)}, args: ${list(source.args, true)} };`,
    '}',
  ].join('\n');
}

function list(parameters: Parameter[], text: boolean): string {
  if (parameters.length === 1 && parameters[0]!.list) return parameters[0]!.name;
  const item = ({ name, list }: Parameter): string => {
    if (list) return `...${name}`;
    return text ? `String(${name})` : name;
  };
  return `[${parameters.map(item).join(', ')}]`;
}

if (require.main === module) writeFileSync(target, generate());
