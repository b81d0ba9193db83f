/** Every text that a value shows to a program that logs all of it. */
import { inspect } from 'node:util';

/** Every text that a value leads to: own properties of every kind, symbols, prototypes' none, entries, at any depth. */
export function textsIn(value: unknown, texts: string[] = [], seen = new Set<unknown>()): string[] {
  if (typeof value === 'string') texts.push(value);
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  if (!isObject || seen.has(value)) return texts;
  seen.add(value);
  for (const name of Reflect.ownKeys(value as object)) {
    texts.push(String(name));
    textsIn((value as any)[name], texts, seen);
  }
  if (value instanceof Map || value instanceof Set) for (const entry of value) textsIn(entry, texts, seen);
  if (value instanceof Error) texts.push(inspect(value, { depth: 20, showHidden: true, maxStringLength: null }));
  return texts;
}
