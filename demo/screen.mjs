// The output on the terminal: a line that moves, and a table at the end. Colours and moving only where a person looks
// on (a TTY, and no NO_COLOR); elsewhere the same words as plain lines.

import readline from 'node:readline';
import util from 'node:util';

const out = process.stdout;
const NEWS_EVERY_S = 1; // without a TTY
const BAR = 24;

const isColoured = Boolean(out.isTTY && out.hasColors() && !process.env.NO_COLOR);

/** Text in one of util.styleText's styles (Node 20.12 and later; plain before). */
export const style = (name, text) => (isColoured && util.styleText ? util.styleText(name, text) : text);

/** 80 where nobody says how wide; a column is left free, because some terminals wrap a full line. */
export const width = () => (out.isTTY && out.columns ? out.columns : 81) - 1;

/** A line as it is. */
export const show = (line = '') => console.log(line && `  ${line}`);

/** A sentence, on as many lines as it needs. */
export function say(sentence, color) {
  const columns = width() - 2;
  for (const line of sentence.match(new RegExp(`\\S.{0,${columns - 1}}(?=\\s|$)`, 'gu')) ?? []) {
    show(color ? style(color, line) : line);
  }
}

/** 12345.6 as 12,345.6 */
export const number = (value, digits = 0) =>
  value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });

let isLineOpen = false;

/** Leaves a line that was being rewritten, so that what comes next is not written into it. */
export function finishLine() {
  if (isLineOpen) out.write('\n');
  isLineOpen = false;
}

/** The line of one phase: rewritten in place on a TTY, otherwise written about once a second. */
export class Progress {
  #label;
  #seconds;
  #written = 0;

  constructor(label, seconds) {
    this.#label = label;
    this.#seconds = seconds;
  }

  show(elapsed, done, money) {
    if (out.isTTY) this.#rewrite(elapsed, done, money);
    else if (elapsed - this.#written >= NEWS_EVERY_S) this.#write(elapsed, done, money);
  }

  /** The last state stays on the screen. */
  end(elapsed, done, money) {
    if (out.isTTY) this.#rewrite(elapsed, done, money);
    else this.#write(elapsed, done, money);
    finishLine();
  }

  #rewrite(elapsed, done, money) {
    const room = width() - 4 - this.#label.length;
    const words = this.#words(elapsed, done, money).slice(0, room);
    const bar = this.#bar(elapsed, Math.min(BAR, Math.max(0, room - words.length)));
    readline.cursorTo(out, 0);
    out.write(`  ${style('bold', this.#label)}  ${bar}${words}`);
    readline.clearLine(out, 1);
    isLineOpen = true;
  }

  #bar(elapsed, room) {
    const full = Math.round(Math.min(1, elapsed / this.#seconds) * room);
    return style('cyan', '━'.repeat(full)) + style('dim', '─'.repeat(room - full));
  }

  #write(elapsed, done, money) {
    this.#written = elapsed;
    show(`${this.#label}${this.#words(elapsed, done, money)}`);
  }

  #words(elapsed, done, money) {
    return `${number(elapsed, 1).padStart(7)} s ${number(done).padStart(8)} transfers ${number(money).padStart(10)} coins`;
  }
}

/** Rows of [name, cell, cell]; a cell is a text, or [style, text]. Figures are aligned right, under their heads. */
export function table(heads, rows) {
  const text = (cell) => (Array.isArray(cell) ? cell[1] : cell);
  const widths = heads.map((head, column) =>
    Math.max(...[head, ...rows.map((row) => row[column])].map((c) => text(c).length)),
  );
  const line = (cells) =>
    cells.map((cell, column) => {
      const padded = column === 0 ? text(cell).padEnd(widths[0]) : text(cell).padStart(widths[column] + 4);
      return Array.isArray(cell) ? style(cell[0], padded) : padded;
    });
  show(line(heads.map((head) => ['bold', head])).join(''));
  show(style('dim', '─'.repeat(widths.reduce((total, one) => total + one) + 4 * (heads.length - 1))));
  for (const row of rows) show(line(row).join(''));
}
