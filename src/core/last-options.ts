// The options of the last call and their settings: most calls of a factory have equal options. Reading, checking and completing
// options anew costs 8 % of a sequential pair, and each lock would have its own settings.
//
// Values are compared, because a caller may change its options between two calls. Only plain values are kept: keeping a client or
// a signal would keep it from the collector.
import { type Settings, settle } from './options';

type OptionValues = Readonly<Record<string, unknown>>;

export class LastOptions {
  readonly #base: Settings;
  #last: OptionValues = {};
  #count = 0;
  #settings: Settings;

  constructor(base: Settings) {
    this.#base = base;
    this.#settings = base;
  }

  /**
   * As `settle`, on top of the base.
   *
   * @throws {TypeError | RangeError} `ERR_LOCK_OPTION`: says what was expected and what was given.
   */
  settle(options: unknown): Settings {
    if (options === undefined) return this.#base;
    if (!isPlain(options)) return settle(options, this.#base);
    const names = Object.getOwnPropertyNames(options);
    if (this.#isLast(options, names)) return this.#settings; // S30
    // A copy, so that each getter is read once.
    const values = { ...options };
    if (!names.every((name) => Object.hasOwn(values, name))) return settle(options, this.#base);
    const settings = Object.freeze(settle(values, this.#base));
    // H77b
    if (!names.some((name) => isReference(values[name]))) {
      this.#last = values;
      this.#count = names.length;
      this.#settings = settings;
    }
    return settings;
  }

  #isLast(options: OptionValues, names: readonly string[]): boolean {
    if (names.length !== this.#count) return false;
    for (const name of names) {
      if (!Object.hasOwn(this.#last, name) || options[name] !== this.#last[name]) return false;
    }
    return true;
  }
}

/** True for a plain object, which inherits no option. */
function isPlain(options: unknown): options is OptionValues {
  return typeof options === 'object' && options !== null && Object.getPrototypeOf(options) === Object.prototype;
}

function isReference(value: unknown): boolean {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
