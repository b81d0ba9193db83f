/** The same figures as each of our two instruments gives them, in the words of Prometheus: `name{label="value",…}` and a number. */

import {
  AggregationTemporality,
  InMemoryMetricExporter,
  type MeterProvider,
  PeriodicExportingMetricReader,
  MeterProvider as Provider,
} from '@opentelemetry/sdk-metrics';

/** Figures by series; of durations only their number, for they are never the same twice. */
export type Figures = Record<string, number>;

export interface Metering {
  readonly meterProvider: MeterProvider;
  figures(): Promise<Figures>;
}

export function inMemoryMeter(): Metering {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1_000_000 });
  const meterProvider = new Provider({ readers: [reader] });
  return {
    meterProvider,
    async figures() {
      await meterProvider.forceFlush();
      const metrics =
        exporter
          .getMetrics()
          .at(-1)
          ?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
      return Object.fromEntries(metrics.flatMap((metric: any) => seriesOf(metric)));
    },
  };
}

/**
 * By the rules of OpenTelemetry's compatibility with Prometheus: dots become underscores; the unit is appended, spelled out, unless it
 * is in braces; a monotonic sum ends in `_total`; a histogram has the series `_bucket`, `_sum` and `_count`.
 */
function seriesOf({ descriptor, dataPoints, isMonotonic }: any): [string, number][] {
  const unit = descriptor.unit === 's' ? '_seconds' : '';
  const base = descriptor.name.replaceAll('.', '_') + unit + (isMonotonic ? '_total' : '');
  return dataPoints.flatMap(({ attributes, value }: any): [string, number][] => {
    if (value.count === undefined) return [[series(base, attributes), value]];
    const bounds = [...value.buckets.boundaries.map(String), '+Inf'];
    const buckets = bounds.map((le): [string, number] => [series(`${base}_bucket`, { ...attributes, le }), Number.NaN]);
    return [
      ...buckets,
      [series(`${base}_count`, attributes), value.count],
      [series(`${base}_sum`, attributes), Number.NaN],
    ];
  });
}

/** The figures that a registry of prom-client prints. */
export function parsed(text: string): Figures {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, labels, value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line)!;
      const pairs = [...(labels ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text]);
      const isTimed = /_bucket$|_sum$/.test(name!);
      return [series(name!, Object.fromEntries(pairs)), isTimed ? Number.NaN : Number(value)];
    }),
  );
}

function series(name: string, labels: object): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key.replaceAll('.', '_')}="${value}"`);
  return `${name}{${pairs.sort().join(',')}}`;
}
