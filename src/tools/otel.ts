// `redis-exp-lock/otel`: the locks of this process as OpenTelemetry metrics and spans. The package @opentelemetry/api is loaded when
// `instrument` is called.
//
// Invariant: each span ends once. The span of an acquire ends with its outcome. The span of a function under a lock ends when the
// function has settled and the lock has ended. Spans that are still open end with the instrumentation.
import type { Attributes, Meter, MeterProvider, Span, Tracer, TracerProvider } from '@opentelemetry/api';
import type { AcquireEvent, HoldMessage, LockEvent, ObservedHold } from '../core/events';
import type { Key } from '../core/keys';
import { functionRule, optionsOf } from '../core/options';
import { errorType, listen, type Metric, meterLocks, type Recorder } from './metering';
import { loadPeer } from './peer';

type Api = typeof import('@opentelemetry/api');

const scopeName = 'redis-exp-lock';

export interface InstrumentOptions {
  /** Provider of tracers. Default: the global provider. */
  tracerProvider?: TracerProvider | undefined;
  /** Provider of meters. Default: the global provider. */
  meterProvider?: MeterProvider | undefined;
  /** Returns the text that spans show for a key (`lock.key`), such as the key or its hash. Default: none. Metrics never show keys. */
  key?: ((key: string) => string) | undefined;
}

const providerRule = (method: string) => ({
  expected: `an OpenTelemetry provider, with ${method}()`,
  kind: (value: any) => typeof value?.[method] === 'function',
  possible: () => true,
});

const rules = {
  tracerProvider: providerRule('getTracer'),
  meterProvider: providerRule('getMeter'),
  key: functionRule('a function from a key to what spans show of it'),
};

/**
 * Measures and traces all locks of this process, from every factory, until the returned function is called. The returned function ends
 * the open spans and takes back the counts of `held` and `waiting`.
 *
 * @throws {Error} `MODULE_NOT_FOUND`: `@opentelemetry/api` is not installed. Nothing is measured.
 * @throws {TypeError} `ERR_LOCK_OPTION`: an unknown option or a wrong value. Nothing is measured.
 * @example
 * ```ts
 * import { instrument } from 'redis-exp-lock/otel';
 *
 * const off = instrument({ key: (key) => key.split(':')[0]! });
 * ```
 */
export function instrument(options?: InstrumentOptions): () => void {
  const given = optionsOf<InstrumentOptions>(options, rules);
  const api = loadPeer<Api>(() => require('@opentelemetry/api'), 'redis-exp-lock/otel', '@opentelemetry/api@1');
  const tracer = (given.tracerProvider ?? api.trace.getTracerProvider()).getTracer(scopeName);
  const meter = (given.meterProvider ?? api.metrics.getMeterProvider()).getMeter(scopeName);
  const stopMetering = meterLocks((metric) => recorderOf(meter, metric));
  const stopTracing = traceLocks(api, tracer, given.key);
  return () => {
    stopMetering();
    stopTracing();
  };
}

function recorderOf(meter: Meter, { name, type, unit, description, buckets }: Metric): Recorder {
  if (type === 'histogram') {
    const advice = { explicitBucketBoundaries: [...buckets!] };
    const histogram = meter.createHistogram(name, { unit, description, advice });
    return (value, labels) => histogram.record(value, labels);
  }
  const create = type === 'counter' ? 'createCounter' : 'createUpDownCounter';
  const counter = meter[create](name, { unit, description });
  return (value, labels) => counter.add(value, labels);
}

function traceLocks(api: Api, tracer: Tracer, shownKey: InstrumentOptions['key']): () => void {
  const acquires = new Map<AcquireEvent, Span>();
  /** The spans of the functions that run under a lock; true once either the function has settled or the lock has ended. */
  const holds = new Map<ObservedHold, Map<Span, boolean>>();

  function begin(what: string, { name, kind, key }: LockEvent, attributes?: Attributes): Span {
    return tracer.startSpan(name === '' ? what : `${what} ${name}`, {
      kind: api.SpanKind.INTERNAL,
      attributes: { 'lock.name': name, 'lock.kind': kind, ...attributesOf(key, shownKey), ...attributes },
    });
  }

  /** Marks a span as failed, without the message of the error, which names the key. */
  function fail(span: Span, code: string): void {
    span.setAttribute('error.type', code);
    span.setStatus({ code: api.SpanStatusCode.ERROR, message: code });
  }

  function endAcquire(event: AcquireEvent): void {
    const span = acquires.get(event);
    if (span === undefined) return;
    acquires.delete(event);
    span.setAttributes({ 'lock.attempts': event.attempts!, 'lock.waited_ms': event.waitedMs! });
    if (event.outcome === 'granted') span.setAttribute('lock.fence', event.fence!);
    if (event.error !== undefined) fail(span, errorType(event.error));
    span.end();
  }

  /** Called when the function has settled, and when the lock has ended. The second call ends the span. */
  function endHalf(hold: ObservedHold, span: Span): void {
    const open = holds.get(hold);
    if (open?.get(span) === false) return void open.set(span, true);
    if (open?.delete(span)) span.end();
    if (open?.size === 0) holds.delete(hold);
  }

  function onRun(message: HoldMessage & { readonly phase: 'run' }): void {
    const { hold, run } = message;
    const span = begin('lock hold', hold, { 'lock.fence': hold.fence });
    const isOver = hold.outcome !== undefined;
    if (isOver) fail(span, 'ERR_LOCK_LOST');
    const open = holds.get(hold) ?? new Map();
    holds.set(hold, open.set(span, isOver));
    const end = (): void => endHalf(hold, span);
    const { context, trace } = api;
    message.run = () => {
      const running = context.with(trace.setSpan(context.active(), span), run);
      running.then(end, end);
      return running;
    };
  }

  const stop = listen({
    'tracing:redis-exp-lock:acquire:start': (event: AcquireEvent) => acquires.set(event, begin('lock acquire', event)),
    'tracing:redis-exp-lock:acquire:asyncEnd': endAcquire,
    'redis-exp-lock:hold': (message: HoldMessage) => {
      const { hold } = message;
      if (message.phase === 'run') return onRun(message);
      if (message.phase !== 'ended') return;
      for (const span of holds.get(hold)?.keys() ?? []) {
        if (hold.outcome === 'lost') fail(span, 'ERR_LOCK_LOST');
        endHalf(hold, span);
      }
    },
  });
  return () => {
    stop();
    for (const span of acquires.values()) span.end();
    for (const open of holds.values()) for (const span of open.keys()) span.end();
    acquires.clear();
    holds.clear();
  };
}

function attributesOf(key: Key, shownKey: InstrumentOptions['key']): Attributes {
  if (shownKey === undefined) return {};
  try {
    return { 'lock.key': typeof key === 'string' ? shownKey(key) : key.map((each) => shownKey(each)) };
  } catch {
    return {};
  }
}
