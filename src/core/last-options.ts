// The options of the last call and their settings: most calls of a factory have equal options. Reading, checking and completing
// options anew costs 8 % of a sequential pair, and each lock would have its own settings.
//
// Values are compared, because a caller may change its options between two calls. Only plain values are kept: keeping a client or
// a signal would keep it from the collector.
import { type Settings, settle } from './options';

type OptionValues = Readonly<Record<string, unknown>>;

/** Makes a function that settles the options of a call on top of `base`, as `settle` does. */
export function settleFor(base: Settings): (options: unknown) => Settings {
  let last: OptionValues = {};
  let count = 0;
  let lastSettings = base;

  function isLast(options: OptionValues, names: readonly string[]): boolean {
    if (names.length !== count) return false;
    for (const name of names) {
      if (!Object.hasOwn(last, name) || options[name] !== last[name]) return false;
    }
    return true;
  }

  return (options) => {
    if (options === undefined) return base;
    if (!isPlain(options)) return settle(options, base);
    const names = Object.getOwnPropertyNames(options);
    if (isLast(options, names)) return lastSettings; // S30
    // A copy, so that each getter is read once.
    const values = { ...options };
    if (!names.every((name) => Object.hasOwn(values, name))) return settle(options, base);
    const settings = Object.freeze(settle(values, base));
    // H77b
    if (!names.some((name) => isReference(values[name]))) {
      last = values;
      count = names.length;
      lastSettings = settings;
    }
    return settings;
  };
}

/** True for a plain object, which inherits no option. */
function isPlain(options: unknown): options is OptionValues {
  return typeof options === 'object' && options !== null && Object.getPrototypeOf(options) === Object.prototype;
}

function isReference(value: unknown): boolean {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
