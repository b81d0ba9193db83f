// The command line: one table of all options. It is parsed by node:util and checked before anything connects.
import { parseArgs } from 'node:util';
import { lockKeys } from '../../core/keys';
import { type LockPlace, placeOf } from './connect';
import { usage } from './exit';
import { durationOf } from './text';

const flag = { type: 'boolean' } as const;
const text = { type: 'string', read: (given: string) => given } as const;
const duration = { type: 'string', read: msOf } as const;
const integer = (max: number) => ({ type: 'string', read: integerTo(max) }) as const;

const globals = {
  url: text,
  prefix: text,
  store: text,
  'shared-memory': text,
  quiet: { ...flag, short: 'q' },
  verbose: { ...flag, short: 'v' },
  help: { ...flag, short: 'h' },
  version: flag,
} as const;

const own = {
  wait: { ...duration, short: 'w' },
  'no-wait': { ...flag, short: 'n' },
  ttl: duration,
  shared: flag,
  permits: { type: 'string', read: permitsOf },
  'busy-code': { ...integer(255), short: 'E' },
  'kill-after': duration,
  foreground: flag,
  every: duration,
  offset: duration,
  scan: flag,
  json: flag,
  id: text,
  yes: flag,
  force: flag,
  port: integer(65_535),
  actions: flag,
  for: text,
} as const;

const all = { ...globals, ...own };

/** The value of an option as its command reads it. */
type ValueOf<Option> = Option extends { read(given: string, name: string): infer Value } ? Value : boolean;

export type OptionName = keyof typeof own;

/** The options and operands that a command takes. */
export interface Shape {
  readonly options: readonly OptionName[];
  /** The minimum and maximum number of operands. The operands of a command that needs some are keys. */
  readonly operands: readonly [min: number, max: number];
  /** True if a command to run follows `--`. */
  readonly runs?: boolean;
}

/** The words as they were typed. */
export interface Typed {
  /** The name of the command; undefined if none was given. */
  readonly name: string | undefined;
  readonly operands: readonly string[];
  /** The words after the first `--`; undefined if there is no `--`. */
  readonly rest: readonly string[] | undefined;
  readonly values: Readonly<Record<string, string | boolean | undefined>>;
}

/** The words as the named command reads them. */
export interface CommandLine extends Omit<Typed, 'rest' | 'values'> {
  readonly values: { readonly [name in keyof typeof all]?: ValueOf<(typeof all)[name]> };
  /** The command to run, if the named command runs one. */
  readonly command: readonly string[] | undefined;
  readonly place: LockPlace;
}

/** Parses the words. @throws {Exit} an unknown option, or an option without its value. */
export function parse(argv: readonly string[]): Typed {
  const end = argv.indexOf('--');
  const args = end < 0 ? [...argv] : argv.slice(0, end);
  try {
    const { values, positionals } = parseArgs({ args, options: all, allowPositionals: true });
    const [name, ...operands] = positionals;
    return { name, operands, rest: end < 0 ? undefined : argv.slice(end + 1), values };
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    const advice = code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? '; a key that begins with a dash follows --' : '';
    throw usage(message.split(/[\n.]/)[0]! + advice);
  }
}

/** Checks the words against a shape. @throws {Exit | TypeError | RangeError} an unexpected or missing word, or an impossible key or address. */
export function check(typed: Typed, { options, operands: [min, max], runs }: Shape): CommandLine {
  const { name: command } = typed;
  const values: Record<string, unknown> = {};
  for (const [name, given] of Object.entries(typed.values)) {
    if (!(name in globals) && !options.includes(name as OptionName)) throw usage(`${command} has no option --${name}`);
    const option = all[name as keyof typeof all];
    values[name] = 'read' in option ? option.read(String(given), name) : given;
  }
  const line: CommandLine = { ...typed, ...split(typed, runs === true), values, place: placeOf(values) };
  const count = line.operands.length;
  if (count < min) throw usage(`${command}: a ${command === 'elect' ? 'name' : 'key'} is missing`);
  if (count > max) throw usage(`${command}: too many operands: ${JSON.stringify(line.operands[max])}`);
  if (runs && !line.command?.length) throw usage(`${command}: no command to run: … -- command args…`);
  if (min > 0) lockKeys(line.operands, line.values.prefix ?? '');
  return line;
}

/** Splits the words after `--`, which are operands or the command. `-- KEY… -- command` has both. */
function split({ operands, rest }: Typed, runs: boolean): Pick<CommandLine, 'operands' | 'command'> {
  if (rest === undefined || !runs) return { operands: [...operands, ...(rest ?? [])], command: undefined };
  const end = operands.length === 0 ? rest.indexOf('--') : -1;
  return end < 0 ? { operands, command: rest } : { operands: rest.slice(0, end), command: rest.slice(end + 1) };
}

function msOf(given: string, name: string): number {
  const ms = durationOf(given);
  if (ms !== undefined) return ms;
  throw usage(`--${name}: a duration such as 500ms, 30s, 5m, 3h, 1d; not ${JSON.stringify(given)}`);
}

function integerTo(max: number): (given: string, name: string) => number {
  return (given, name) => {
    if (/^\d{1,5}$/.test(given) && Number(given) <= max) return Number(given);
    throw usage(`--${name}: a whole number, 0 to ${max}; not ${JSON.stringify(given)}`);
  };
}

/** Reads a number of permits: `2/5` means two of five. */
function permitsOf(given: string): readonly [wanted: number, max: number] {
  const isPair = /^\d{1,9}\/\d{1,9}$/.test(given);
  const [wanted, max] = isPair ? (given.split('/').map(Number) as [number, number]) : [0, 0];
  if (wanted >= 1 && max >= wanted) return [wanted, max];
  throw usage(`--permits: how many of how many, such as 1/3; not ${JSON.stringify(given)}`);
}
