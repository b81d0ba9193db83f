// Removes our tokens from the errors of clients and of Redis. A client puts the failed command into its error, with the script,
// keys and tokens; Redis puts arguments into its text. Errors end up in logs, and whoever has a token can release the lock.
//
// A clean error keeps what helps to find the fault: class, name, message, code, stack, plain details such as address and port,
// and the errors inside. All other properties are dropped, because an unknown property may lead to a token.

/** The uuid of a token, also if Redis has cut it off. */
const token = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{0,27}/gi;
/** Redis's own list of the arguments that it was sent. */
const listed = /(with args beginning with:).*/gis;
/** The number of errors, nested ones included, whose properties are copied. */
const maxErrors = 8;

/** Copies an error without anything that leads to a token. Any other value becomes its text. */
export function cleanError(error: unknown, seen = new Map<unknown, unknown>()): unknown {
  if (!(error instanceof Error)) return cleanText(textOf(error)); // H78
  const known = seen.get(error);
  if (known !== undefined) return known;
  const copy = new Error(cleanText(error.message));
  seen.set(error, copy);
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error));
  Object.defineProperty(copy, 'stack', { value: cleanText(error.stack ?? ''), writable: true, configurable: true });
  if (seen.size > maxErrors) return copy;
  for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(error))) {
    if (name === 'message' || name === 'stack') continue;
    const value = cleanValue(property.value, seen);
    if (value !== undefined) Object.defineProperty(copy, name, { ...property, value });
  }
  return copy;
}

/** The text without tokens. */
export function cleanText(text: string): string {
  return text.replace(listed, '$1 …').replace(token, '<token>'); // H78c
}

/** The value of a property without tokens; undefined if the property is dropped. */
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
