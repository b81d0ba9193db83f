// Who held the lock when: a lane for each worker, drawn from what happened. The page shows it as it grows, and `picture.ts` writes one to a
// file.
import { type FunctionalComponent, h, type VNode } from 'vue';
import { type Happening, type Worker, workers } from './round';

interface Stretch {
  readonly worker: Worker;
  readonly kind: 'waits' | 'holds' | 'lost' | 'paused';
  readonly fromMs: number;
  readonly toMs: number;
}

/** The stretch that begins with each event. */
const begins: Partial<Record<Happening['kind'], Stretch['kind']>> = {
  waits: 'waits',
  granted: 'holds',
  lost: 'lost',
  paused: 'paused',
};
/** The events that end a stretch. */
const ends: Record<Stretch['kind'], readonly Happening['kind'][]> = {
  waits: ['granted'],
  holds: ['lost', 'released'],
  lost: ['expired'],
  paused: ['resumed'],
};

/** Stretches in which something lasted; what has no end yet ends now. */
function stretches(happenings: readonly Happening[], nowMs: number): Stretch[] {
  return happenings.flatMap(({ worker, kind: begin, atMs: fromMs }, index) => {
    const kind = begins[begin];
    if (kind === undefined) return [];
    const end = happenings.slice(index).find((each) => each.worker === worker && ends[kind].includes(each.kind));
    return [{ worker, kind, fromMs, toMs: end?.atMs ?? nowMs }];
  });
}

const laneHeight = 48;
const barHeight = 24;
const left = 28;
const right = 12;
const marks: Partial<Record<Happening['kind'], string>> = { wrote: '✓', refused: '✕', overwrote: '!' };
/** Narrower bars have no label. */
const labelWidth = 52;

export const Timeline: FunctionalComponent<{
  happenings: readonly Happening[];
  nowMs: number;
  /** The length of the axis. */
  spanMs: number;
  width: number;
}> = ({ happenings, nowMs, spanMs, width }) => {
  const x = (ms: number): number => Math.round(10 * (left + ((width - left - right) * ms) / spanMs)) / 10;
  const top = (worker: Worker): number => 8 + workers.indexOf(worker) * laneHeight;
  const bottom = 8 + workers.length * laneHeight;

  const bar = ({ worker, kind, fromMs, toMs }: Stretch): VNode[] => {
    const wide = Math.max(1, x(toMs) - x(fromMs));
    const box = { x: x(fromMs), y: top(worker), width: wide, height: barHeight };
    if (kind === 'paused') return [h('rect', { class: 'paused', ...box, fill: 'url(#timeline-paused)' })];
    const label = { class: `label ${kind}`, x: x(fromMs) + 12, y: top(worker) + 16 };
    return [h('rect', { class: kind, ...box, rx: 3 }), ...(wide < labelWidth ? [] : [h('text', label, kind)])];
  };
  const write = ({ worker, kind, atMs }: Happening): VNode[] => {
    const sign = marks[kind];
    if (sign === undefined) return [];
    const y = top(worker) + barHeight / 2;
    return [
      h('circle', { class: kind, cx: x(atMs), cy: y, r: 9 }),
      h('text', { class: 'sign', x: x(atMs), y: y + 4 }, sign),
    ];
  };
  const lane = (worker: Worker): VNode[] => [
    h('line', { class: 'lane', x1: left, x2: width - right, y1: top(worker) + barHeight, y2: top(worker) + barHeight }),
    h('text', { class: 'name', x: 8, y: top(worker) + 17 }, worker),
  ];
  const second = (n: number): VNode[] => [
    h('line', { class: 'grid', x1: x(n * 1000), x2: x(n * 1000), y1: 4, y2: bottom }),
    h('text', { class: 'second', x: x(n * 1000), y: bottom + 14 }, n === 0 ? '0 s' : String(n)),
  ];
  const hatch = h(
    'pattern',
    { id: 'timeline-paused', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' },
    [h('rect', { class: 'hatch', width: 2.5, height: 6 })],
  );

  const lasting = stretches(happenings, nowMs);
  const height = bottom + 22;
  return h(
    'svg',
    {
      class: 'timeline',
      role: 'img',
      'aria-label': 'Who held the lock when',
      xmlns: 'http://www.w3.org/2000/svg',
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
    },
    [
      h('defs', [hatch]),
      h('rect', { class: 'paper', width, height }),
      ...Array.from({ length: Math.floor(spanMs / 1000) + 1 }, (_, n) => second(n)).flat(),
      ...workers.flatMap(lane),
      ...lasting.filter(({ kind }) => kind !== 'paused').flatMap(bar),
      ...lasting.filter(({ kind }) => kind === 'paused').flatMap(bar),
      ...happenings.flatMap(write),
    ],
  );
};
Timeline.props = ['happenings', 'nowMs', 'spanMs', 'width'];
