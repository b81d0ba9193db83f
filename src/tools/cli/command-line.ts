// The command line: one table of all options. It is parsed by node:util and checked before anything connects.
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { lockKeys } from '../../core/keys';
import { usage } from './exit';
import { type LockPlace, placeOf } from './place';
import { durationOf } from './text';

const globals = {
  url: { type: 'string' },
  prefix: { type: 'string' },
  store: { type: 'string' },
  'shared-memory': { type: 'string' },
  quiet: { type: 'boolean', short: 'q' },
  verbose: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

const own = {
  wait: { type: 'string', short: 'w' },
  'no-wait': { type: 'boolean', short: 'n' },
  ttl: { type: 'string' },
  shared: { type: 'boolean' },
  permits: { type: 'string' },
  'busy-code': { type: 'string', short: 'E' },
  'kill-after': { type: 'string' },
  foreground: { type: 'boolean' },
  every: { type: 'string' },
  offset: { type: 'string' },
  scan: { type: 'boolean' },
  json: { type: 'boolean' },
  id: { type: 'string' },
  yes: { type: 'boolean' },
  force: { type: 'boolean' },
  port: { type: 'string' },
  actions: { type: 'boolean' },
  for: { type: 'string' },
} as const;

const all = { ...globals, ...own } satisfies ParseArgsConfig['options'];

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
  readonly values: FlagValues;
}

/** The words as the named command reads them. */
export interface CommandLine extends Omit<Typed, 'rest'> {
  /** The command to run, if the named command runs one. */
  readonly command: readonly string[] | undefined;
  readonly place: LockPlace;
}

type FlagValues = {
  readonly [name in keyof typeof all]?: (typeof all)[name]['type'] extends 'string' ? string : boolean;
};

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
  const line = { ...typed, ...split(typed, runs === true) };
  for (const name of Object.keys(line.values)) {
    const isOurs = name in globals || options.includes(name as OptionName);
    if (!isOurs) throw usage(`${line.name} has no option --${name}`);
  }
  const count = line.operands.length;
  if (count < min) throw usage(`${line.name}: a ${line.name === 'elect' ? 'name' : 'key'} is missing`);
  if (count > max) throw usage(`${line.name}: too many operands: ${JSON.stringify(line.operands[max])}`);
  if (runs && !line.command?.length) throw usage(`${line.name}: no command to run: … -- command args…`);
  if (min > 0) lockKeys(line.operands, line.values.prefix ?? '');
  return { ...line, place: placeOf(line.values) };
}

/** Splits the words after `--`, which are operands or the command. `-- KEY… -- command` has both. */
function split({ operands, rest }: Typed, runs: boolean): Pick<CommandLine, 'operands' | 'command'> {
  if (rest === undefined || !runs) return { operands: [...operands, ...(rest ?? [])], command: undefined };
  const end = operands.length === 0 ? rest.indexOf('--') : -1;
  return end < 0 ? { operands, command: rest } : { operands: rest.slice(0, end), command: rest.slice(end + 1) };
}

/** The value of an option that is a duration, in ms. */
export function msOf(
  { values }: CommandLine,
  name: 'wait' | 'ttl' | 'kill-after' | 'every' | 'offset',
): number | undefined {
  const text = values[name];
  const ms = text === undefined ? undefined : durationOf(text);
  if (text !== undefined && ms === undefined)
    throw usage(`--${name}: a duration such as 500ms, 30s, 5m, 3h, 1d; not ${JSON.stringify(text)}`);
  return ms;
}

export function integerOf({ values }: CommandLine, name: 'busy-code' | 'port', max: number): number | undefined {
  const text = values[name];
  if (text === undefined) return undefined;
  if (!/^\d{1,5}$/.test(text) || Number(text) > max)
    throw usage(`--${name}: a whole number, 0 to ${max}; not ${JSON.stringify(text)}`);
  return Number(text);
}

/** The value of `--permits`: `2/5` means two of five. */
export function permitsOf({ values }: CommandLine): readonly [wanted: number, max: number] | undefined {
  if (values.permits === undefined) return undefined;
  const [, wanted = '', max = ''] = /^(\d{1,9})\/(\d{1,9})$/.exec(values.permits) ?? [];
  if (Number(wanted) < 1 || Number(max) < Number(wanted)) {
    throw usage(`--permits: how many of how many, such as 1/3; not ${JSON.stringify(values.permits)}`);
  }
  return [Number(wanted), Number(max)];
}
