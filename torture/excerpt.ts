/** The smallest part of a history that shows a violation: what its operations did, and what was done to them. */
import type { Written } from './history';
import type { Violation } from './models';

const maxLines = 40;
/** The time before a violation in which a fault may have to do with it. */
const beforeMs = 300;
/** The time after a violation in which a process may report that it still held the lock. */
const afterMs = 600;

export function excerpt(events: readonly Written[], { ids, fromMs, toMs }: Violation): string {
  const ownMs = events.filter((event) => 'id' in event && ids.includes(event.id)).map(({ t }) => t);
  const first = Math.min(fromMs, ...ownMs.filter((t) => t > fromMs - 10_000));
  const isShown = (event: Written): boolean => {
    if (event.t < first - beforeMs || event.t > toMs + afterMs) return false;
    if ('id' in event) return ids.includes(event.id);
    return event.t < toMs + 50 && (event.e !== 'stall' || event.ms > 100);
  };
  const shown = events.filter(isShown);
  const lines = shown.map((event) => line(event, first));
  if (lines.length <= maxLines) return lines.join('\n');
  const half = maxLines / 2;
  return [...lines.slice(0, half), `  … ${lines.length - maxLines} more …`, ...lines.slice(-half)].join('\n');
}

function line({ t, p, e, ...rest }: Written, zeroMs: number): string {
  const { id, until, ...words } = rest as { id?: string; until?: number };
  const valid = until ? ` until ${(until - zeroMs).toFixed(1)}` : '';
  const more = Object.entries(words).filter(([, value]) => value !== '' && value !== 0);
  const said = more.map(([name, value]) => ` ${name}=${Array.isArray(value) ? value.join(',') : value}`).join('');
  return `  ${(t - zeroMs).toFixed(1).padStart(9)} ms  ${(id ?? p).padEnd(9)} ${e}${valid}${said}`;
}
