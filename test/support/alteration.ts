/**
 * Alterations of the sources: what is taken out, or done wrong on purpose. The code is found by its marker, `// H34` or `-- H34b S2`,
 * in whatever file of src/ that is: at the end of its first line, or on a line above. With the line go those below that are indented
 * deeper, and what closes them.
 *
 * Invariant: an alteration that does not apply, or not as it was meant, is an error.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Marked {
  /** Such as `H34b`. */
  readonly at: string;
  readonly edit: (code: string, words: Words) => string;
}

/** An alteration of code without a marker. */
export interface Matched {
  /** The path in src/. */
  readonly file: string;
  /** Stands there exactly once, markers aside. */
  readonly from: string;
  readonly to: string;
}

export type Alteration = Marked | Matched;

/** A language's. */
interface Words {
  readonly and: string;
  readonly or: string;
  readonly before: RegExp;
}

const lua: Words = { and: 'and', or: 'or', before: /^ *(?:else)?if (?=.* then)/ };
const typescript: Words = { and: '&&', or: '||', before: /\bif (?=\()/ };

const markers = /(?:^| )(?:\/\/|--) ((?:[HBS]\d+[a-z]? ?)+)$/gm;
const closing = /^ *(?:[)\]}]|(?:end|else|elseif|until)\b)/;
const generated = 'store/redis/scripts/generated.ts';

/** The statement goes, or the item of a list. */
export function drop(at: string): Marked {
  return { at, edit: () => '' };
}

/** The condition of the `if`, or of the value as far as its `?`, is always met, never met, or is another one. */
export function when(at: string, condition: boolean | string): Marked {
  const edit = (code: string, words: Words): string => {
    const [start, end] = conditionOf(code, words);
    const other = typeof condition === 'string' ? condition : constant(condition, code.slice(start, end), words);
    return put(code, start, end, other);
  };
  return { at, edit };
}

/** Lets one operand of such a condition count as true or false. The first is 1; what is in brackets is one. */
export function operand(at: string, position: number, counts: boolean): Marked {
  const edit = (code: string, words: Words): string => {
    const [first, last] = conditionOf(code, words);
    const ends = [...indexesOf([` ${words.and} `, ` ${words.or} `], code, first, last), last];
    if (position > ends.length) throw new Error(`${at}: there are ${ends.length} operands`);
    const start = position === 1 ? first : code.indexOf(' ', ends[position - 2]! + 1) + 1;
    const end = ends[position - 1]!;
    return put(code, start, end, `(${constant(counts, code.slice(start, end), words)})`);
  };
  return { at, edit };
}

/** Replaces the expression that is assigned or returned. */
export function value(at: string, expression: string): Marked {
  return { at, edit: (code) => put(code, startOfValue(code), code.search(/[;,]?$(?![\s\S])/), expression) };
}

/** A piece of the code: the only one with this text, or the first that the expression finds. */
export function piece(at: string, from: string | RegExp, to: string): Marked {
  const edit = (code: string): string => {
    if (typeof from === 'string' && code.split(from).length > 2) throw new Error(`${at}: more than once: ${from}`);
    return code.replace(from, to);
  };
  return { at, edit };
}

/** Replaces all of the code. */
export function write(at: string, code: string): Marked {
  return { at, edit: () => code };
}

/** The files of src/ by the markers in them. */
export function filesByMarker(src: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const name of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
    const file = name.replaceAll('\\', '/');
    if (!/\.(m?ts|lua)$/.test(file) || file === generated) continue;
    for (const marker of markersOf(readFileSync(join(src, file), 'utf8'))) {
      if (found.has(marker)) throw new Error(`src/ has the marker ${marker} more than once`);
      found.set(marker, file);
    }
  }
  return found;
}

/** The file of src/ that an alteration is about. */
export function fileOf(alteration: Alteration, files: ReadonlyMap<string, string>): string {
  const file = 'file' in alteration ? alteration.file : files.get(alteration.at);
  if (file === undefined) throw new Error(`src/ has no marker ${(alteration as Marked).at}`);
  return file;
}

/** The text of a file of src/ with those alterations that are its own. */
export function altered(file: string, text: string, alterations: readonly Alteration[]): string {
  const words = file.endsWith('.lua') ? lua : typescript;
  const own = new Set(markersOf(text));
  const marked = alterations.filter((each): each is Marked => 'at' in each && own.has(each.at));
  const edited = marked.reduce((before, each) => edit(before, each, words), text);
  const strangers = namesOf(edited).filter((name) => !namesOf(text).includes(name));
  if (strangers.length > 0) throw new Error(`src/${file} has no ${strangers.join(', ')} that the alteration could use`);
  const matched = alterations.filter((each): each is Matched => 'file' in each && each.file === file);
  return matched.reduce(replaced, unmarked(edited));
}

/** The text without markers, and without the lines that are theirs alone. */
function unmarked(text: string): string {
  const lines = text.split('\n').map((line) => [line, line.replace(markers, '')] as const);
  return lines.flatMap(([line, bare]) => (bare !== line && bare.trim() === '' ? [] : [bare])).join('\n');
}

function replaced(before: string, { file, from, to }: Matched): string {
  if (before.split(from).length !== 2) throw new Error(`src/${file} no longer has this exactly once: ${from}`);
  return before.replace(from, () => to);
}

function edit(text: string, { at, edit: change }: Marked, words: Words): string {
  const lines = text.split('\n');
  const found = lines.findIndex((line) => markersOf(line).includes(at));
  const [comment] = lines[found]!.match(markers)!;
  const isAbove = lines[found]!.trim() === comment.trim();
  const start = isAbove ? found + 1 : found;
  const end = endOf(lines, start);
  const code = [lines[start]!.replace(markers, ''), ...lines.slice(start + 1, end)].join('\n');
  const changed = change(code, words);
  if (changed === code) throw new Error(`${at} changes nothing: ${code}`);
  // The marker stays: another alteration may be at it, too.
  const others = changed === '' ? [] : changed.replace(/$/m, () => (isAbove ? '' : comment)).split('\n');
  return [...lines.slice(0, start), ...others, ...lines.slice(end)].join('\n');
}

/** The line after a statement, as the formatter leaves it. */
function endOf(lines: readonly string[], start: number): number {
  const depth = indentOf(lines[start]!);
  let end = start + 1;
  for (let i = end; i < lines.length; i += 1) {
    if (lines[i]!.trim() === '') continue;
    const deeper = indentOf(lines[i]!) - depth;
    if (deeper < 0 || (deeper === 0 && !closing.test(lines[i]!))) break;
    end = i + 1;
  }
  return end;
}

function indentOf(line: string): number {
  return line.search(/\S|$/);
}

function markersOf(text: string): string[] {
  return [...text.matchAll(markers)].flatMap(([, names]) => names!.split(' '));
}

/** The position of the condition: from, to. */
function conditionOf(code: string, words: Words): [start: number, end: number] {
  const found = words.before.exec(code.split('\n')[0]!);
  const start = found === null ? startOfValue(code, true) : found.index + found[0].length;
  if (found === null) return [start, indexesOf([' ? ', ';', ','], code, start, code.length)[0] ?? code.length];
  if (words === lua) return [start, code.indexOf(' then')];
  return [start + 1, indexesOf([')'], code, start + 1, code.length)[0]!];
}

function startOfValue(code: string, isCondition = false): number {
  const found = /\breturn |(?:[^=!<>~?]|\?\?)= |=> |^ *[\w#]+: /.exec(code);
  if (found === null) throw new Error(`there is no value: ${code}`);
  const start = found.index + found[0].length;
  const head = isCondition ? /^\([^()]*\)(?:: \w+)? => /.exec(code.slice(start)) : null;
  return start + (head?.[0].length ?? 0);
}

/** The positions of the texts outside of brackets and strings. */
function indexesOf(texts: readonly string[], code: string, start: number, end: number): number[] {
  const indexes: number[] = [];
  let depth = 0;
  let quote = '';
  for (let i = start; i < end; i += 1) {
    const char = code[i]!;
    if (quote === '' && depth === 0 && texts.some((text) => code.startsWith(text, i))) indexes.push(i);
    if (quote !== '') quote = char === quote ? '' : quote;
    else if (/['"`]/.test(char)) quote = char;
    else if (/[([{]/.test(char)) depth += 1;
    else if (/[)\]}]/.test(char)) depth -= 1;
  }
  return indexes;
}

/** True or false; the expression stays, since what it uses must be used. */
function constant(counts: boolean, expression: string, { and, or }: Words): string {
  return counts ? `true ${or} (${expression})` : `false ${and} (${expression})`;
}

function put(code: string, start: number, end: number, text: string): string {
  return code.slice(0, start) + text + code.slice(end);
}

/** Words of the languages that an alteration may bring along. */
const known = new Set(
  `_ and any as await class const do else end extends finally for get if in ipairs KEYS ARGV let local math new next not null of or pcall
  redis require return set string super then this throw tonumber true try undefined false nil void while`.split(/\s+/),
);

/** The names that the text uses and does not declare, members and names of the languages aside. */
function namesOf(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\/|(?:\/\/|--) .*$/gm, '').replace(/'[^'\n]*'|"[^"\n]*"/g, "''");
  const declared = [...code.matchAll(/\b(?:const|let|local) (?:_, )?(\w+)|\((\w+)\) =>/g)].flatMap(
    ([, ...names]) => names,
  );
  const used = [...code.matchAll(/(?<![.\w#])(?:this\.(?=#))?(#?[A-Za-z_]\w*)\b(?!:)/g)].map(([, name]) => name!);
  return [...new Set(used)].filter((name) => !declared.includes(name) && !(name in globalThis) && !known.has(name));
}
