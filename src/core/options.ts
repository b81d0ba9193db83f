// The table of the options: rules and defaults. Options are checked once, when they come in; settings are complete and trusted.
import { maxTimerMs } from './clock';
import { optionError, unknownOptionError } from './errors';
import { adviceFor } from './option-names';
import type { CloseOptions, Options, WaitOptions } from './option-types';
import type { RedisLike } from './redis-like';

/** Options, complete and trusted. The values are the defaults. */
export class Settings {
  readonly redis: RedisLike | readonly RedisLike[] | undefined = undefined;
  readonly lifetimeMs: number | null = 1000;
  readonly maxRetries: number = 0;
  readonly timeoutMs: number | undefined = undefined;
  /** True if only `timeout` was given: the caller waits in a queue if the store has one. */
  readonly queued: boolean = false;
  /** True if `timeout` or `maxRetries` was given at any level. */
  readonly waitGiven: boolean = false;
  readonly retryTimeoutMs: number = 5;
  readonly retryRatio: number = 1;
  readonly maxRetryTimeoutMs: number | undefined = undefined;
  readonly jitter: number = 0;
  readonly signal: AbortSignal | undefined = undefined;
  readonly autoExtend: boolean | undefined = undefined;
  readonly maxHoldMs: number = Number.POSITIVE_INFINITY;
  readonly owner: string | undefined = undefined;
  readonly name: string = '';
  readonly prefix: string = '';
  readonly fencing: boolean = true;
  readonly minReplicas: number = 0;
  readonly commandTimeoutMs: number = 1000;
  readonly register: boolean = false;
  readonly reentrant: boolean = false;
}

export const defaults: Settings = { ...new Settings() };

export interface Rule {
  readonly expected: string;
  /** Tells if the value is of the right kind; otherwise a TypeError is thrown. */
  readonly kind: (value: any) => boolean;
  /** Tells if the value is possible; otherwise a RangeError is thrown. */
  readonly possible: (value: any) => boolean;
  /** True if the option must be given. */
  readonly required?: boolean;
}

const isNumber = (value: unknown): boolean => typeof value === 'number';
const isObject = (value: unknown): value is object => Object(value) === value;
const isString = (value: unknown): boolean => typeof value === 'string';
const isFunction = (value: unknown): boolean => typeof value === 'function';
const always = (): boolean => true;
export const functionRule = (expected: string): Rule => ({ expected, kind: isFunction, possible: always });
export const integer = (min: number, max = Number.MAX_SAFE_INTEGER): Rule => ({
  expected: `a whole number, ${min} to ${max}`,
  kind: isNumber,
  possible: (value) => Number.isSafeInteger(value) && value >= min && value <= max, // H12c
});
export function milliseconds(expected: string, possible: (value: number) => boolean): Rule {
  return { expected, kind: isNumber, possible };
}
export const oneOf = (expected: string, values: readonly string[]): Rule => ({
  expected,
  kind: isString,
  possible: (value) => values.includes(value),
});
export const textRule: Rule = {
  expected: 'well-formed text of at most 256 characters',
  kind: isString,
  possible: (value: string) => value.length <= 256 && value.isWellFormed(),
};
export const filledTextRule: Rule = {
  ...textRule,
  expected: 'well-formed text of 1 to 256 characters',
  possible: (value: string) => value !== '' && textRule.possible(value),
};
export const signalRule: Rule = {
  expected: 'an AbortSignal',
  // Checked by its shape: a signal of another realm or of a package will do. Half a signal would never end a wait.
  kind: (value) =>
    typeof value?.aborted === 'boolean' && isFunction(value.addEventListener) && isFunction(value.removeEventListener),
  possible: always,
};
export const flag: Rule = { expected: 'true or false', kind: (value) => typeof value === 'boolean', possible: always };

export const prefixRule: Rule = { expected: 'well-formed text', kind: isString, possible: (v) => v.isWellFormed() };
export const lifetimeRule: Rule = { ...integer(1), expected: `a whole number of milliseconds, 1 to ${2 ** 53 - 1}` }; // H51b

type Rules = Readonly<Record<string, Rule>>;

/** The rules of the options for waiting. A call of an object takes no others: all other options are those of the object. */
export const waitRules: Readonly<Record<keyof WaitOptions, Rule>> = {
  maxRetries: {
    ...integer(0),
    expected: 'a whole number of further attempts, at least 0, or Infinity',
    possible: (value) => value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && value >= 0),
  },
  retryTimeout: milliseconds('milliseconds, at least 0', (value) => value >= 0 && value <= maxTimerMs),
  retryRatio: { expected: 'a number, at least 1', kind: isNumber, possible: (v) => v >= 1 && Number.isFinite(v) },
  maxRetryTimeout: milliseconds('milliseconds, at least 0', (value) => value >= 0 && value <= maxTimerMs),
  jitter: { expected: 'a share from 0 to 1', kind: isNumber, possible: (value) => value >= 0 && value <= 1 },
  timeout: milliseconds('milliseconds to wait, at least 0, or Infinity', (value) => value >= 0),
  signal: signalRule,
};

const rules: Readonly<Record<keyof Options, Rule>> = {
  redis: {
    expected:
      'a connected client of node-redis, ioredis, iovalkey or Valkey GLIDE, memoryStore() or sharedMemoryStore(name); ' +
      'or a list of clients, each once, of independent servers',
    kind: (value) =>
      Array.isArray(value)
        ? value.length > 0 && Array.from(value).every((each) => !Array.isArray(each) && isObject(each))
        : isObject(value),
    possible: (value) => !Array.isArray(value) || new Set(value).size === value.length, // H66b
  },
  lifetime: {
    expected: `${lifetimeRule.expected}, or null`,
    kind: (value) => value === null || isNumber(value),
    possible: (value) => value === null || lifetimeRule.possible(value), // H1c
  },
  ...waitRules,
  autoExtend: flag,
  maxHold: milliseconds('milliseconds, more than 0', (value) => value > 0),
  owner: { ...filledTextRule, expected: 'a label of 1 to 256 well-formed characters' },
  name: textRule,
  prefix: prefixRule,
  fencing: flag,
  minReplicas: { ...integer(0, 1000), expected: 'a whole number of replicas, 0 to 1000' },
  commandTimeout: { ...integer(1, maxTimerMs), expected: `a whole number of milliseconds, 1 to ${maxTimerMs}` },
  register: flag,
  reentrant: flag,
};

/**
 * The settings of `options` on top of `base` (the factory's settings, or the defaults).
 *
 * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: says what was expected and what was given.
 */
export function settle(options: unknown, base: Settings = defaults, known: Rules = rules): Settings {
  return options === undefined ? base : completed(optionsOf<Options>(options, known), base);
}

const times = ['lifetime', 'timeout', 'retryTimeout', 'maxRetryTimeout', 'maxHold', 'commandTimeout'];
/** The settings whose names say that they are milliseconds, such as `lifetimeMs`, by the names of their options. */
const inMs: Readonly<Record<string, string>> = Object.fromEntries(times.map((name) => [name, `${name}Ms`]));

function completed(given: Options, base: Settings): Settings {
  const settings: { -readonly [N in keyof Settings]: Settings[N] } & Record<string, unknown> = { ...base };
  for (const name in given) if (name in rules) settings[inMs[name] ?? name] = given[name as keyof Options];
  // A copy: the list belongs to the caller, who may change it.
  if (Array.isArray(given.redis)) settings.redis = Object.freeze([...given.redis]);
  // The most specific level that sets `timeout` or `maxRetries` decides how to wait. Values of other levels are not mixed in.
  if (given.timeout !== undefined || given.maxRetries !== undefined) {
    settings.timeoutMs = given.timeout;
    settings.maxRetries = given.maxRetries ?? Number.POSITIVE_INFINITY;
    settings.waitGiven = true;
    settings.queued = given.maxRetries === undefined && given.timeout !== 0;
  }
  return settings;
}

/**
 * Makes a function that settles the options of a call as `settle` does, and keeps the last settings: most calls of a
 * factory have equal options. Settling them anew costs 8 % of a sequential pair, and each lock would have settings of its own.
 * Values are compared, because a caller may change its options between two calls. Only plain values are kept: keeping a client
 * or a signal would keep it from the collector.
 */
export function settleFor(base: Settings): (options: unknown) => Settings {
  let lastNames: readonly string[] = [];
  let last: Options = {};
  let lastSettings = base;

  const isLast = (options: Options, names: readonly string[]): boolean =>
    names.length === lastNames.length &&
    names.every((name, n) => name === lastNames[n] && options[name as keyof Options] === last[name as keyof Options]);

  return (options) => {
    if (options === undefined) return base;
    // An object that is not plain may inherit options.
    if (!isObject(options) || Object.getPrototypeOf(options) !== Object.prototype) return settle(options, base);
    const names = Object.getOwnPropertyNames(options);
    if (isLast(options, names)) return lastSettings; // S30
    const given = optionsOf<Options>(options, rules);
    const settings = completed(given, base);
    // A name that is not enumerable may be unknown.
    // H77b
    if (names.every((name) => Object.hasOwn(rules, name)) && !Object.values(given).some(isObject)) {
      [lastNames, last, lastSettings] = [names, given, Object.freeze(settings)];
    }
    return settings;
  };
}

/**
 * Makes a function that settles the options of a class or a call with options of its own: it returns all that are given,
 * and the settings of the common ones on top of `base`. Made once: merging the rules takes longer than checking the options.
 */
export function settlerWith<T extends Options>(own: Rules): (options: unknown, base: Settings) => [T, Settings] {
  const known = { ...own, ...rules };
  return (options, base) => {
    const given = optionsOf<T>(options, known);
    return [given, options === undefined ? base : completed(given, base)];
  };
}

/** The settings of a wait without end, unless the options limit the wait. */
export function endless(settings: Settings): Settings {
  if (settings.waitGiven) return settings;
  return { ...settings, timeoutMs: Number.POSITIVE_INFINITY, maxRetries: Number.POSITIVE_INFINITY, queued: true };
}

/** The options that are given, checked. Reads each one once, also a value of a getter or of a prototype. */
export function optionsOf<T>(options: unknown, known: Rules): T {
  const all = objectOf(options, known);
  const given: Record<string, unknown> = {};
  for (const name in known) {
    const rule = known[name]!;
    const value = all[name];
    if (value === undefined && !rule.required) continue;
    checkValue(name, rule, value);
    given[name] = value;
  }
  return given as T;
}

/** The options as an object without unknown names. */
function objectOf(options: unknown, known: object): Record<string, unknown> {
  if (options === undefined) return {};
  if (isClient(options) || (Array.isArray(options) && options.some(isClient))) {
    // The client is not shown: it may know a password.
    throw optionError('options', 'an object: redisExpLock({ redis: client })', 'a client');
  }
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw optionError('options', 'an object', options);
  }
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(known, name)) throw unknownOptionError(name, adviceFor(name, Object.keys(known))); // H12d
  }
  return options as Record<string, unknown>;
}

/** True for anything that could be the option `redis`. */
function isClient(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { kind, close, evalSha, evalsha, customCommand } = value as Record<string, unknown>;
  return (isString(kind) && isFunction(close)) || [evalSha, evalsha, customCommand].some(isFunction);
}

/** Throws unless the rule permits `value`. */
export function checkValue(name: string, rule: Rule, value: unknown): void {
  if (!isOfKind(rule, value)) throw optionError(name, rule.expected, value);
  if (!rule.possible(value)) throw optionError(name, rule.expected, value, 'range');
}

/** True if `value` is of the rule's kind. A value whose properties throw is of no kind. */
function isOfKind(rule: Rule, value: unknown): boolean {
  try {
    return rule.kind(value);
  } catch {
    return false;
  }
}

const drainRule: Rule = {
  expected: 'true, false, or milliseconds, at least 0',
  kind: (value) => typeof value === 'boolean' || isNumber(value),
  possible: (value) => value >= 0,
};

/** The ms for which `close` waits for holders: Infinity for `drain: true`, 0 for false. */
export function settleDrain(options: unknown): number {
  const { drain = true } = optionsOf<CloseOptions>(options, { drain: drainRule });
  if (typeof drain === 'number') return drain;
  return drain ? Number.POSITIVE_INFINITY : 0;
}
