// Text for people and for programs: durations, tables, and colours on a terminal. Text from a server is escaped, so that it cannot
// control the terminal.
import { Exit, exitCodes } from './exit';

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses a duration, such as `30s`, `500ms` or `1.5h`. A number alone is in seconds. Returns undefined for other text. */
export function durationOf(text: string): number | undefined {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? [];
  if (number === undefined) return undefined;
  const ms = Math.round(Number(number) * unitMs[unit]!);
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** Formats a duration with its two largest units. */
export function duration(ms: number | null): string {
  if (ms === null) return '-';
  if (ms === Number.POSITIVE_INFINITY) return 'no end';
  if (ms < 1000) return `${Math.round(ms)}ms`;
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes}m${Math.floor((ms % 60_000) / 1000)}s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours}h${minutes % 60}m` : `${Math.floor(hours / 24)}d${hours % 24}h`;
}

/** Replaces control characters, and characters that change the direction of text, with JSON escapes. */
export function plain(text: string): string {
  if (isAscii(text)) return text;
  const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (each) => each.split('').map(escaped).join(''));
}

/** A short cut for most texts, without which 100,000 rows take a fifth of a second more. */
function isAscii(text: string): boolean {
  return /^[ -~]*$/.test(text);
}

/** Wider cells shift the next ones, but make no column wider. */
const maxWidth = 80;
const gap = 2;

/**
 * Formats left-aligned columns. The last column is not padded.
 *
 * @param widths Minimum widths. They are raised to the widths used here, so that later rows are aligned with these.
 */
export function table(rows: readonly (readonly string[])[], widths: number[] = []): string[] {
  const last = (rows[0]?.length ?? 0) - 1;
  const lengthOf = isAscii(rows.map((row) => row.join('')).join('')) ? (text: string) => text.length : widthOf;
  for (let n = 0; n < last; n += 1) {
    for (const row of rows) widths[n] = Math.max(widths[n] ?? 0, Math.min(lengthOf(row[n]!), maxWidth));
  }
  const padded = (text: string, n: number): string =>
    n === last ? text : text + ' '.repeat(Math.max(widths[n]! - lengthOf(text), 0) + gap);
  return rows.map((row) => row.map(padded).join(''));
}

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\p{Emoji_Presentation}]|[\u{20000}-\u{3fffd}]/u;

export function widthOf(text: string): number {
  if (isAscii(text)) return text.length;
  let width = 0;
  for (const each of text) width += /\p{M}/u.test(each) ? 0 : wide.test(each) ? 2 : 1;
  return width;
}

export function cut(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let [short, width] = ['', 0];
  for (const each of text) {
    width += widthOf(each);
    if (width > columns - 1) break;
    short += each;
  }
  return `${short}…`;
}

/** Fits rows into the width of a terminal: removes the least useful cells first, then cuts the first cell of each row. */
export function fitted(rows: readonly string[][], columns: number, lessUseful: readonly number[]): string[] {
  const widths = rows[0]!.map((_, n) => Math.max(...rows.map((row) => widthOf(row[n]!))));
  let kept = [...widths.keys()].slice(1);
  const widthOfKept = (): number => kept.reduce((sum, n) => sum + gap + widths[n]!, 0);
  for (const column of lessUseful) {
    if (widthOfKept() + Math.min(widths[0]!, minKey) <= columns) break;
    kept = kept.filter((n) => n !== column);
  }
  const room = Math.max(columns - widthOfKept(), minKey);
  return table(rows.map((row) => [cut(row[0]!, room), ...kept.map((n) => row[n]!)])).map((text) => cut(text, columns));
}

const minKey = 12;

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

/** Colours a text on a terminal, unless its environment refuses colours. */
export function paint(style: keyof typeof codes, text: string): string {
  const wants = process.stdout.isTTY && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
  return wants ? `\x1b[${codes[style]}m${text}\x1b[0m` : text;
}

/** Writes a line to stdout. Resolves when it is written, with false if the reader is gone. @throws {Exit} it cannot be written. */
export async function print(line: string): Promise<boolean> {
  const failure = await new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
    process.stdout.write(`${line}\n`, resolve);
  });
  if (!failure || failure.code === 'EPIPE') return !failure;
  throw new Exit(exitCodes.failed, `the output cannot be written: ${failure.code}`);
}

/** One line of JSON without characters that control a terminal. */
export function jsonOf(value: object): string {
  return plain(JSON.stringify(value));
}

export function json(value: object): Promise<boolean> {
  return print(jsonOf(value));
}

export function note(text: string): void {
  process.stderr.write(`redis-exp-lock: ${plain(text)}\n`);
}
