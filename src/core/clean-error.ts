// The errors of others, without our tokens. A client puts the command that failed into its error, and with that script, keys
// and tokens; Redis puts arguments into its text. An error ends up in a log, and a token is all that releasing the lock takes.
//
// What stays is what helps to find the fault: class, name, message, code, stack, plain details such as address and port, and
// the errors inside. Whatever else hangs on it is dropped: of what we do not know we cannot say that it leads nowhere.

/** The uuid of a token, also where Redis has cut it off. */
const token = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{0,27}/gi;
/** Redis's own list of what it was sent. */
const listed = /(with args beginning with:).*/gis;
/** Errors inside of errors are followed so deep. */
const deepest = 8;

/** A copy that leads to no token. What is no error becomes its text. */
export function cleanError(error: unknown, seen = new Map<unknown, unknown>()): unknown {
  if (!(error instanceof Error)) return cleanText(textOf(error)); // H78
  const known = seen.get(error);
  if (known !== undefined) return known;
  const copy = new Error(cleanText(error.message));
  seen.set(error, copy);
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error));
  define(copy, 'stack', cleanText(error.stack ?? ''));
  if (seen.size > deepest) return copy;
  for (const name of Object.getOwnPropertyNames(error)) {
    if (name === 'message' || name === 'stack') continue;
    const value = cleanValue(Object.getOwnPropertyDescriptor(error, name)?.value, seen);
    if (value !== undefined) define(copy, name, value, Object.prototype.propertyIsEnumerable.call(error, name));
  }
  return copy;
}

/** A text without tokens. */
export function cleanText(text: string): string {
  return text.replace(listed, '$1 …').replace(token, '<token>'); // H78c
}

/** undefined: dropped. */
function cleanValue(value: unknown, seen: Map<unknown, unknown>): unknown {
  if (value instanceof Error) return cleanError(value, seen);
  if (Array.isArray(value) && value.length > 0 && value.every((each) => each instanceof Error)) {
    return value.map((each) => cleanError(each, seen));
  }
  if (typeof value === 'string') return cleanText(value);
  return typeof value === 'number' || typeof value === 'boolean' ? value : undefined; // H78b
}

function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return typeof value;
  }
}

function define(target: object, name: string, value: unknown, enumerable = false): void {
  Object.defineProperty(target, name, { value, enumerable, writable: true, configurable: true });
}
