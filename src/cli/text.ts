// Text for people and for programs: durations, tables, colours where a terminal wants them. What comes from a server is shown so
// that it can do nothing to a terminal.

const units: readonly (readonly [string, number])[] = [
  ['ms', 1],
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
];

/** `30s`, `500ms`, `1.5h`; a number alone is seconds. undefined: it is none. */
export function durationOf(text: string): number | undefined {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? [];
  if (number === undefined) return undefined;
  return Math.round(Number(number) * units.find(([name]) => name === unit)![1]);
}

/** The two largest units. */
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

/** Control characters, and what turns text around, as escapes. */
export function plain(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (each) => `\\u${each.codePointAt(0)!.toString(16).padStart(4, '0')}`,
  );
}

/** Left-aligned columns; the last is as wide as it is. */
export function table(rows: readonly (readonly string[])[], least: readonly number[] = []): string[] {
  const widths = (rows[0] ?? []).map((_, n) =>
    rows.reduce((most, row) => Math.max(most, row[n]!.length), least[n] ?? 0),
  );
  return rows.map((row) =>
    row
      .map((cell, n) => cell.padEnd(widths[n]!))
      .join('  ')
      .trimEnd(),
  );
}

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

/** Colours only on a terminal that has not said no. */
export function paint(stream: NodeJS.WriteStream, style: keyof typeof codes, text: string): string {
  const wants = stream.isTTY && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
  return wants ? `\x1b[${codes[style]}m${text}\x1b[0m` : text;
}

let broken = false;

/** A line on stdout. Resolves once there is room for more; false: nobody reads it any more. */
export async function print(line: string): Promise<boolean> {
  if (broken) return false;
  if (!process.stdout.write(`${line}\n`)) await roomIn(process.stdout);
  return !broken;
}

/** Resolves when all was taken that was written, or nobody takes any more. */
export function roomIn(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      for (const event of ['drain', 'close', 'error']) stream.removeListener(event, done);
      resolve();
    };
    for (const event of ['drain', 'close', 'error']) stream.on(event, done);
  });
}

/** A reader that has gone is no error. */
export function watchOutput(): void {
  process.stdout.on('error', () => {
    broken = true;
  });
  process.stderr.on('error', () => {});
}

export function json(value: object): Promise<boolean> {
  return print(JSON.stringify(value));
}

/** To stderr. */
export function note(text: string): void {
  process.stderr.write(`redis-exp-lock: ${plain(text)}\n`);
}
