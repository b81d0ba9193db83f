// SVG plots of the figures, rendered by Vega without a browser.
import type { TopLevelSpec } from 'vega-lite';
import { type MeasuredRow, type Metric, metrics } from './measure';
import { medianOf, type Scenario } from './scenarios';

const ours = 'redis-exp-lock';
const colour = {
  condition: { test: `indexof(datum.id, '${ours}') === 0`, value: '#c0392b' },
  value: '#7f8c8d',
};

/** Bars of the first column, with their spread; or lines over the number of waiters or connections, where a scenario varies it. */
export function plot(scenario: Scenario, rows: readonly MeasuredRow[]): Promise<string> {
  return svg(scenario.rows.every(({ id }) => counted.test(id)) ? panels(scenario, rows) : bars(scenario, rows));
}

/** The name of a row that says how many want the lock. */
const counted = /^(.*), (\d+) (waiters|connections)$/;

async function svg(spec: TopLevelSpec): Promise<string> {
  const [{ parse, View }, { compile }] = await Promise.all([import('vega'), import('vega-lite')]); // ESM that awaits: no require
  const view = new View(parse(compile(spec).spec), { renderer: 'none' });
  try {
    return `${await view.toSVG()}\n`;
  } finally {
    view.finalize();
  }
}

function bars({ title, rows: order, columns }: Scenario, rows: readonly MeasuredRow[]): TopLevelSpec {
  const metric = columns[0]!;
  const values = rows.map(({ id, rounds }) => {
    const all = rounds.map((round) => round[metric]).filter((value) => value !== undefined);
    return { id, median: medianOf(rounds, metric), least: Math.min(...all), most: Math.max(...all) };
  });
  const shown = values.filter(({ median }) => Number.isFinite(median));
  // Where the widest is a hundred times the narrowest, bars would hide the narrow ones: dots on a logarithmic axis.
  const medians = shown.map(({ median }) => median);
  const wide = Math.max(...medians) > 100 * Math.min(...medians);
  const x = {
    field: 'median',
    type: 'quantitative',
    title: metrics[metric],
    scale: { type: wide ? 'log' : 'linear' },
  } as const;
  const y = {
    field: 'id',
    type: 'nominal',
    title: null,
    sort: order.map(({ id }) => id),
    axis: { labelLimit: 260 },
  } as const;
  const spread = { x: { field: 'least', type: 'quantitative' }, x2: { field: 'most' } } as const;
  return {
    ...sheet(title),
    data: { values: shown },
    encoding: { y },
    layer: [
      { mark: wide ? { type: 'point', filled: true, size: 80 } : 'bar', encoding: { x, color: colour } },
      { mark: { type: 'rule', color: '#2c3e50', strokeWidth: 1.5 }, encoding: spread },
    ],
  };
}

/** A panel for each column that is drawn. */
function panels({ title, columns, drawn = 1 }: Scenario, rows: readonly MeasuredRow[]): TopLevelSpec {
  const { width, ...others } = sheet(title);
  return { ...others, hconcat: columns.slice(0, drawn).map((metric) => ({ width, ...lines(rows, metric) })) };
}

function lines(rows: readonly MeasuredRow[], metric: Metric) {
  const values = rows.map(({ id, rounds }) => {
    const [, who, count, what] = counted.exec(id)!;
    return { id: who!, count: Number(count), what: what!, median: medianOf(rounds, metric) };
  });
  const counts = [...new Set(values.map(({ count }) => count))];
  return {
    data: { values: values.filter(({ median }) => Number.isFinite(median)) },
    mark: { type: 'line', point: true },
    encoding: {
      x: {
        field: 'count',
        type: 'quantitative',
        title: values[0]!.what,
        scale: { type: 'log' },
        axis: { values: counts },
      },
      y: { field: 'median', type: 'quantitative', title: metrics[metric], scale: { type: 'log' } },
      color: { field: 'id', type: 'nominal', title: null, legend: { labelLimit: 260 } },
    },
  } as const;
}

function sheet(title: string) {
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    title,
    width: 480,
    background: 'white',
    config: { font: 'sans-serif' },
  } as const;
}
