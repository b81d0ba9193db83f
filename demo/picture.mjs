// The lock's holders over time: a slice of the locked phase, one row per worker, as block characters and as SVG.
// A worker's row shows a block while it held the lock, dots while it waited for it, and nothing while it did without.

import { style } from './screen.mjs';

const SLICE_MS = 120;
const LABEL = 11;

/** The holds of 120 ms in the middle of the phase, on an axis that begins with one of them. */
export function slice(holds, workers) {
  const middle = (holds[0].got + holds.at(-1).ended) / 2;
  const first = holds.find((hold) => hold.got >= middle - SLICE_MS / 2) ?? holds[0];
  const from = first.got;
  const to = from + SLICE_MS;
  const rows = Array.from({ length: workers }, (_, worker) =>
    holds.filter((hold) => hold.worker === worker && hold.ended > from && hold.asked < to),
  );
  const count = holds.filter((hold) => hold.got < to && hold.ended > from).length;
  return { from, to, rows, count };
}

/** Half a character is the unit: painted where somebody held for more than half of it, so that two never share one. */
export function chart({ from, rows }, width) {
  const columns = [120, 60, 30].find((wanted) => LABEL + wanted + 3 <= width) ?? 30;
  const msPerHalf = SLICE_MS / columns / 2;
  const lines = rows.map((holds, worker) => {
    const halves = Array.from({ length: columns * 2 }, (_, half) => {
      const start = from + half * msPerHalf;
      const share = (begin, end) => covered(start, start + msPerHalf, begin, end) / msPerHalf;
      if (holds.some((hold) => share(hold.got, hold.ended) > 0.5)) return 'held';
      return holds.some((hold) => share(hold.asked, hold.got) > 0.5) ? 'waited' : '';
    });
    const cells = Array.from({ length: columns }, (_, column) => cell(halves[2 * column], halves[2 * column + 1]));
    return `${`worker ${worker + 1}`.padEnd(LABEL)}${cells.join('')}`.trimEnd();
  });
  return [...lines, ...axis(columns)];
}

function cell(left, right) {
  if (left === 'held' || right === 'held') {
    return style('cyan', left === right ? '█' : left === 'held' ? '▌' : '▐');
  }
  return left === 'waited' || right === 'waited' ? style('dim', '·') : ' ';
}

function axis(columns) {
  const step = columns / 6;
  const ruler = `├${`${'─'.repeat(step - 1)}┼`.repeat(6).slice(0, -1)}┤`;
  const figures = ['0'.padEnd(step), ...[20, 40, 60, 80, 100].map((ms) => `${ms}`.padEnd(step)), '120 ms'];
  return [' '.repeat(LABEL) + style('dim', ruler), ' '.repeat(LABEL) + style('dim', figures.join(''))];
}

const covered = (start, end, begin, finish) => Math.max(0, Math.min(end, finish) - Math.max(start, begin));

/** The same slice as a drawing; each bar shows its fence when pointed at. */
export function svg({ from, to, rows }, caption) {
  const [left, right, top, row, scale] = [90, 30, 60, 30, 8];
  const x = (time) => (left + (Math.min(to, Math.max(from, time)) - from) * scale).toFixed(1);
  const bottom = top + rows.length * row;
  const ticks = [0, 20, 40, 60, 80, 100, 120];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + SLICE_MS * scale + right} ${bottom + 50}" font-family="system-ui, sans-serif" font-size="13">
<style>
  text { fill: #444 } .title { font-size: 16px; font-weight: 600; fill: #111 }
  .grid { stroke: #ddd } .held { fill: #0e7490 } .waited { stroke: #b8c4c9; stroke-width: 2; stroke-dasharray: 2 3 }
</style>
<rect width="100%" height="100%" fill="#fff"/>
<text class="title" x="${left}" y="26">Who held the lock when</text>
<text x="${left}" y="46">${caption}</text>
${ticks.map((ms) => `<line class="grid" x1="${x(from + ms)}" x2="${x(from + ms)}" y1="${top}" y2="${bottom}"/><text x="${x(from + ms)}" y="${bottom + 20}" text-anchor="middle">${ms}${ms === 120 ? ' ms' : ''}</text>`).join('\n')}
${rows
  .map((holds, worker) => {
    const middle = top + worker * row + row / 2;
    return [
      `<text x="10" y="${middle + 5}">worker ${worker + 1}</text>`,
      ...holds.map(
        ({ asked, got, ended, fence }) =>
          `<line class="waited" x1="${x(asked)}" x2="${x(got)}" y1="${middle}" y2="${middle}"/>` +
          `<rect class="held" x="${x(got)}" y="${middle - 9}" width="${(x(ended) - x(got)).toFixed(1)}" height="18" rx="2"><title>worker ${worker + 1}, fence ${fence}, ${(ended - got).toFixed(2)} ms</title></rect>`,
      ),
    ].join('\n');
  })
  .join('\n')}
</svg>
`;
}
