// `redis-exp-lock/prometheus`: the locks of this process as metrics of prom-client, which is loaded when `collect` is called. The names
// are the names that OpenTelemetry's exporters give to the metrics of otel.ts, so that one dashboard serves both.
import type { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { optionError } from '../core/errors';
import { type Labels, type Metric, meterLocks, metrics, type Recorder } from './metering';
import { loadPeer } from './peer';

type PromClient = typeof import('prom-client');

/**
 * Measures all locks of this process, from every factory, into `registry` until the returned function is called. The returned function
 * removes the metrics from the registry.
 *
 * @throws {Error} `MODULE_NOT_FOUND`: prom-client is not installed; or this registry has these metrics already. Nothing is measured.
 * @throws {TypeError} `ERR_LOCK_OPTION`: not a registry.
 * @example
 * ```ts
 * import { register } from 'prom-client';
 * import { collect } from 'redis-exp-lock/prometheus';
 *
 * const off = collect(register);
 * ```
 */
export function collect(registry: Registry<any>): () => void {
  if (typeof registry?.registerMetric !== 'function') {
    throw optionError('registry', 'a Registry of prom-client', registry);
  }
  const client = loadPeer<PromClient>(() => require('prom-client'), 'redis-exp-lock/prometheus', 'prom-client@15');
  const stop = meterLocks((metric) => recorderOf(client, metric, registry));
  return () => {
    stop();
    for (const metric of Object.values(metrics)) registry.removeSingleMetric(prometheusName(metric));
  };
}

/** The name of a metric in Prometheus, which contains the unit and the type. */
function prometheusName({ name, unit, type }: Metric): string {
  return `${underscored(name)}${unit === 's' ? '_seconds' : ''}${type === 'counter' ? '_total' : ''}`;
}

function recorderOf(client: PromClient, metric: Metric, registry: Registry): Recorder {
  const config = {
    name: prometheusName(metric),
    help: metric.description,
    labelNames: metric.labels.map(underscored),
    registers: [registry],
  };
  if (metric.type === 'histogram') {
    const histogram: Histogram = new client.Histogram({ ...config, buckets: [...metric.buckets!] });
    return (value, labels) => histogram.observe(labelsOf(labels), value);
  }
  const counter: Counter | Gauge = metric.type === 'counter' ? new client.Counter(config) : new client.Gauge(config);
  return (value, labels) => counter.inc(labelsOf(labels), value);
}

function labelsOf(labels: Labels): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [underscored(name), String(value)]));
}

function underscored(name: string): string {
  return name.replaceAll('.', '_');
}
