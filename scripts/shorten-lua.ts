// Lua with fewer bytes: the same tokens on the same lines, without needless blanks, and each name of our own (a local, a parameter, a
// field of a table of ours) under a shorter one. One name gets the same short name in all scripts, and no two names get the same, so
// that a script is still the text of its parts, and nothing can come to mean something else.

/** What Lua and Redis give to a script, and what a call in a batch reads its keys and arguments with (`inBatch`). */
const given = new Set(
  `KEYS ARGV redis string table math bit struct cjson cmsgpack os assert error ipairs next pairs pcall rawget select self setmetatable
  tonumber tostring type unpack k a kn an`.split(/\s+/),
);
const keywords = new Set(
  `and break do else elseif end false for function goto if in local nil not or repeat return then true until while`.split(
    ' ',
  ),
);
const libraries = new Set(['redis', 'string', 'table', 'math', 'bit', 'struct', 'cjson', 'cmsgpack', 'os']);
/** In replies of Redis. */
const fieldsOfRedis = ['err', 'ok'];

type Kind = 'name' | 'field' | 'other' | 'line';

interface Token {
  text: string;
  kind: Kind;
  /** Declared here: `local`, a parameter, a variable of a loop. */
  isDeclared: boolean;
}

export interface ShortNames {
  names: ReadonlyMap<string, string>;
  fields: ReadonlyMap<string, string>;
}

const patterns = /\n|--.*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|\d[\w.]*|[A-Za-z_]\w*|\.\.\.|\.\.|[=~<>]=|[^\s\w]/g;

/** The tokens of Lua without comments, line ends included. */
export function tokensOf(lua: string): Token[] {
  const tokens = (lua.match(patterns) ?? [])
    .filter((text) => !text.startsWith('--'))
    .map((text): Token => ({ text, kind: 'other', isDeclared: false }));
  const words = tokens.filter(({ text }) => text !== '\n');
  for (const token of tokens) if (token.text === '\n') token.kind = 'line';
  /** What is open around a token: a table, or a body that `end` or `until` closes. */
  const open: string[] = [];
  let declares: 'none' | 'names' | 'parameters' = 'none';
  for (const [i, token] of words.entries()) {
    const [before, after] = [words[i - 1]?.text ?? '', words[i + 1]?.text ?? ''];
    const { text } = token;
    if (text === '{' || /^(?:function|if|do|repeat)$/.test(text)) open.push(text);
    else if (/^(?:\}|end|until)$/.test(text)) open.pop();
    if (text === 'function') declares = 'parameters';
    else if (text === 'local' || text === 'for') declares = 'names';
    else if (declares === 'parameters' ? text === ')' : text !== ',' && !isName(text)) declares = 'none';
    if (!isName(text)) continue;
    const isKey = open.at(-1) === '{' && (before === '{' || before === ',') && after === '=';
    token.kind = before === '.' || isKey ? 'field' : 'name';
    if (before === '.' && libraries.has(words[i - 2]!.text)) token.kind = 'other';
    token.isDeclared = token.kind === 'name' && (declares !== 'none' || before === 'function');
    // `local a, b` ends where the next name does not follow a comma.
    if (declares === 'names' && after !== ',') declares = 'none';
  }
  return tokens;
}

function isName(text: string): boolean {
  return /^[A-Za-z_]/.test(text) && !keywords.has(text);
}

/** @param asTheyAre Fields that are reached by their text: the names of scripts. */
export function shortNamesOf(texts: readonly string[], asTheyAre: readonly string[] = []): ShortNames {
  const tokens = texts.flatMap(tokensOf);
  const declared = new Set(tokens.filter(({ isDeclared }) => isDeclared).map(({ text }) => text));
  const all = tokens.filter(({ kind }) => kind === 'name');
  const names = all.filter(({ text }) => declared.has(text) && !given.has(text));
  const others = all.filter(({ text }) => !declared.has(text)).map(({ text }) => text);
  const kept = new Set([...fieldsOfRedis, ...asTheyAre]);
  const fields = tokens.filter(({ kind, text }) => kind === 'field' && !kept.has(text));
  return {
    names: shortest(names, new Set([...given, ...others])),
    fields: shortest(fields, kept),
  };
}

/** The shortest names for those that are written most. */
function shortest(tokens: readonly Token[], taken: ReadonlySet<string>): Map<string, string> {
  const counts = new Map<string, number>();
  for (const { text } of tokens) counts.set(text, (counts.get(text) ?? 0) + 1);
  const byCount = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  const free = candidates(taken);
  return new Map(byCount.map(([name]) => [name, free.next().value!]));
}

function* candidates(taken: ReadonlySet<string>): Generator<string, never> {
  const letters = [...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'];
  for (let before = ['']; ; before = before.flatMap((each) => letters.map((letter) => each + letter)))
    for (const each of before.flatMap((start) => letters.map((letter) => start + letter)))
      if (!taken.has(each) && !keywords.has(each)) yield each;
}

/** The same program, or the same part of one. */
export function shortened(lua: string, { names, fields }: ShortNames): string {
  const words = tokensOf(lua).map(
    ({ kind, text }) => (kind === 'name' ? names : fields).get(kind === 'other' ? '' : text) ?? text,
  );
  return words.map((word, i) => (needsBlank(words[i - 1] ?? '', word) ? ` ${word}` : word)).join('');
}

/** Two words, two minus signs (a comment), and a number beside dots. */
function needsBlank(before: string, word: string): boolean {
  if (before === '-') return word === '-';
  return (
    (/\w$/.test(before) && /^\w/.test(word)) ||
    (/^\d/.test(before) && /^\./.test(word)) ||
    (/\.$/.test(before) && /^\d/.test(word))
  );
}
