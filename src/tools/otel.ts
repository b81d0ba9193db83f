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
  const stopTracing = new LockSpans(api, tracer, given.key).start();
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

/** The span of a function that runs under a lock. */
interface HoldSpan {
  readonly span: Span;
  /** Set when the function has settled or the lock has ended. The other event ends the span. */
  isHalfOver: boolean;
}

class LockSpans {
  readonly #api: Api;
  readonly #tracer: Tracer;
  readonly #shownKey: InstrumentOptions['key'];
  readonly #acquires = new Map<AcquireEvent, Span>();
  readonly #holds = new Map<ObservedHold, HoldSpan>();

  constructor(api: Api, tracer: Tracer, shownKey: InstrumentOptions['key']) {
    this.#api = api;
    this.#tracer = tracer;
    this.#shownKey = shownKey;
  }

  start(): () => void {
    const stop = listen({
      'tracing:redis-exp-lock:acquire:start': (event: AcquireEvent) =>
        this.#acquires.set(event, this.#span('lock acquire', event)),
      'tracing:redis-exp-lock:acquire:asyncEnd': (event: AcquireEvent) => this.#endAcquire(event),
      'redis-exp-lock:hold': (message: HoldMessage) => this.#onHold(message),
    });
    return () => {
      stop();
      for (const span of this.#acquires.values()) span.end();
      for (const { span } of this.#holds.values()) span.end();
      this.#acquires.clear();
      this.#holds.clear();
    };
  }

  #span(what: string, event: LockEvent, attributes?: Attributes): Span {
    const { name, kind, key } = event;
    return this.#tracer.startSpan(name === '' ? what : `${what} ${name}`, {
      kind: this.#api.SpanKind.INTERNAL,
      attributes: { 'lock.name': name, 'lock.kind': kind, ...this.#attributesOf(key), ...attributes },
    });
  }

  #attributesOf(key: Key): Attributes {
    if (this.#shownKey === undefined) return {};
    try {
      return { 'lock.key': typeof key === 'string' ? this.#shownKey(key) : key.map((each) => this.#shownKey!(each)) };
    } catch {
      return {};
    }
  }

  #endAcquire(event: AcquireEvent): void {
    const span = this.#acquires.get(event);
    if (span === undefined) return;
    this.#acquires.delete(event);
    span.setAttributes({ 'lock.attempts': event.attempts!, 'lock.waited_ms': event.waitedMs! });
    if (event.outcome === 'granted') span.setAttribute('lock.fence', event.fence!);
    if (event.error !== undefined) this.#fail(span, errorType(event.error));
    span.end();
  }

  /** Marks a span as failed, without the message of the error, which names the key. */
  #fail(span: Span, code: string): void {
    span.setAttribute('error.type', code);
    span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: code });
  }

  #onHold(message: HoldMessage): void {
    const { hold } = message;
    if (message.phase === 'run') return this.#run(message);
    const open = this.#holds.get(hold);
    if (message.phase !== 'ended' || open === undefined) return;
    if (hold.outcome === 'lost') this.#fail(open.span, 'ERR_LOCK_LOST');
    this.#endHalf(hold);
  }

  #run(message: HoldMessage & { readonly phase: 'run' }): void {
    const { hold, run } = message;
    const span = this.#span('lock hold', hold, { 'lock.fence': hold.fence });
    const isOver = hold.outcome !== undefined;
    if (isOver) this.#fail(span, 'ERR_LOCK_LOST');
    this.#holds.set(hold, { span, isHalfOver: isOver });
    const { context, trace } = this.#api;
    message.run = () => {
      const running = context.with(trace.setSpan(context.active(), span), run);
      const end = (): void => this.#endHalf(hold);
      running.then(end, end);
      return running;
    };
  }

  #endHalf(hold: ObservedHold): void {
    const open = this.#holds.get(hold);
    if (open === undefined) return;
    if (!open.isHalfOver) {
      open.isHalfOver = true;
      return;
    }
    this.#holds.delete(hold);
    open.span.end();
  }
}
