// redis-exp-lock/otel, with the SDK's own exporters in memory: metrics and spans of every outcome, each span ended once under the span of
// the caller, no key anywhere, and nothing left when it is switched off.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { context, diag, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { instrument } from '../../src/tools/otel';
import { failure, published, thrown } from '../contract/outcomes';
import { waitFor } from '../support/processes';
import { connect, sharedRedis, uniqueKey } from '../support/redis';
import { scenes } from './scenes';

describe('redis-exp-lock/otel', () => {
  let spanExporter: InMemorySpanExporter;
  let tracerProvider: BasicTracerProvider;
  let metricExporter: InMemoryMetricExporter;
  let meterProvider: MeterProvider;
  let off: () => void;

  before(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });

  after(() => context.disable());

  beforeEach(() => {
    spanExporter = new InMemorySpanExporter();
    tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spanExporter)] });
    metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter: metricExporter, exportIntervalMillis: 1_000_000 });
    meterProvider = new MeterProvider({ readers: [reader] });
    off = () => {};
  });

  afterEach(async () => {
    off();
    await meterProvider.shutdown();
    await tracerProvider.shutdown();
  });

  const on = (options = {}): void => {
    off = instrument({ tracerProvider, meterProvider, ...options });
  };

  async function collected(): Promise<Map<string, MetricData>> {
    await meterProvider.forceFlush();
    const last = metricExporter.getMetrics().at(-1);
    const all = last?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? [];
    return new Map(all.map((metric) => [metric.descriptor.name, metric]));
  }

  /** `[attributes, value]`; of a histogram, how many. */
  async function points(name: string): Promise<[object, number][]> {
    const metric = (await collected()).get(`redis_exp_lock.${name}`);
    return (metric?.dataPoints ?? []).map(({ attributes, value }: any) => [attributes, value.count ?? value]);
  }

  /** The points of a counter of such events, by that label. */
  function tally(events: readonly any[], label: string): [object, number][] {
    const values = [...new Set(events.map((event) => event[label]))];
    return values.map((value) => [{ [label]: value }, events.filter((event) => event[label] === value).length]);
  }

  const spans = (): ReadableSpan[] => spanExporter.getFinishedSpans();
  const named = (name: string): ReadableSpan[] => spans().filter((span) => span.name === name);

  describe('every outcome', () => {
    for (const { what, kind, outcome, code, contended, play } of scenes) {
      it(`${what}: one measurement and one span`, async () => {
        await play(() => on());
        const labels = { 'lock.name': 'scene', 'lock.kind': kind, outcome, contended };
        const expected = code === undefined ? labels : { ...labels, 'error.type': code };
        expect(await points('acquire.duration')).to.deep.equal([[expected, 1]]);
        for (const gauge of ['waiting', 'held']) {
          for (const [, value] of await points(gauge)) expect(value, gauge).to.equal(0);
        }
        const [span, ...others] = named('lock acquire scene');
        expect(others).to.deep.equal([]);
        expect(span!.kind).to.equal(SpanKind.INTERNAL);
        expect(span!.status.code).to.equal(code === undefined ? SpanStatusCode.UNSET : SpanStatusCode.ERROR);
        expect(span!.attributes).to.include({ 'lock.name': 'scene', 'lock.kind': kind });
        expect(span!.attributes['lock.waited_ms']).to.be.within(0, 20_000);
        expect('lock.fence' in span!.attributes).to.equal(outcome === 'granted');
        await inspectForKeys();
      });
    }
  });

  /** No key, in whatever was exported. */
  async function inspectForKeys(): Promise<void> {
    const exported = spans().map(({ name, attributes, status, events }) => ({ name, attributes, status, events }));
    expect(JSON.stringify([exported, [...(await collected()).values()]])).not.to.contain('secret-key');
  }

  describe('metrics', () => {
    it('have the names, types, units and buckets that are documented', async () => {
      on();
      const redis = redisExpLock.memoryStore();
      const withLock = redisExpLock({ redis });
      await withLock.run('k', () => {});
      const lease = await withLock.promise('k', { lifetime: 60_000 });
      redis.seize('k', 1000);
      await lease.extend();
      await lease();
      const found = [...(await collected()).values()].map(({ descriptor, dataPoints }: any) => {
        const { name, unit } = descriptor;
        return [name, unit, dataPoints[0].value.buckets?.boundaries];
      });
      const buckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];
      expect(found).to.have.deep.members([
        ['redis_exp_lock.acquire.duration', 's', buckets],
        ['redis_exp_lock.hold.duration', 's', [...buckets, 300, 1800]],
        ['redis_exp_lock.held', '{lock}', undefined],
        ['redis_exp_lock.waiting', '{acquire}', undefined],
        ['redis_exp_lock.lost', '{lock}', undefined],
      ]);
      expect(await points('lost')).to.deep.equal([[{ reason: 'taken' }, 1]]);
      expect(await points('hold.duration')).to.have.deep.members([
        [{ 'lock.name': '', 'lock.kind': 'mutex', outcome: 'released' }, 1],
        [{ 'lock.name': '', 'lock.kind': 'mutex', outcome: 'lost' }, 1],
      ]);
    });

    it('`held` and `waiting` say what there is now, by kind, also after an upgrade', async () => {
      on();
      const redis = redisExpLock.memoryStore();
      const rw = new redisExpLock.RWLock('k', { redis, name: 'n' });
      const lease = await rw.acquireRead({ lifetime: 60_000 });
      expect(await points('held')).to.deep.equal([[{ 'lock.name': 'n', 'lock.kind': 'read' }, 1]]);
      await lease.upgrade();
      expect(await points('held')).to.deep.equal([
        [{ 'lock.name': 'n', 'lock.kind': 'read' }, 0],
        [{ 'lock.name': 'n', 'lock.kind': 'write' }, 1],
      ]);
      const waiting = rw.read({ timeout: 5000 }, () => {});
      expect((await points('waiting')).find(([labels]: any) => labels['lock.kind'] === 'read')![1]).to.equal(1);
      await lease();
      await waiting;
      for (const gauge of ['held', 'waiting']) for (const [, value] of await points(gauge)) expect(value).to.equal(0);
    });

    it('an end that no caller notices is counted: a lock that expired, one that was detached and adopted', async () => {
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore(), name: 'n' });
      // Heard and counted for the same time: one that an earlier test left behind may end meanwhile, too.
      const losses = await published('redis-exp-lock:lost', async () => {
        on();
        await withLock.promise('forgotten', { lifetime: 200 }); // a busy machine may take a while to grant it
        await waitFor(async () => (await points('held'))[0]![1] === 0, { what: 'the end of the forgotten lock' });
        off();
      });
      expect(await points('lost')).to.have.deep.members(tally(losses, 'reason'));
      expect(losses.filter(({ key }) => key === 'forgotten').map(({ reason }) => reason)).to.deep.equal(['expired']);
      on();
      const detached = (await withLock.promise('k')).detach();
      expect((await points('held'))[0]![1]).to.equal(0);
      const adopted = await withLock.adopt(detached, { lifetime: 60_000 });
      expect((await points('held'))[0]![1]).to.equal(1);
      await adopted!();
      expect((await points('held'))[0]![1]).to.equal(0);
    });

    it('count a warning by its code', async () => {
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
      // Heard and counted for the same time: one that an earlier test left behind may be warned of meanwhile, too.
      const ours: string[] = [];
      const hear = ({ key, code }: any): void => void (key === 'warned' && ours.push(code));
      subscribe('redis-exp-lock:warning', hear);
      const warnings = await published('redis-exp-lock:warning', async () => {
        on();
        await withLock.promise('warned', { lifetime: 200 });
        await waitFor(() => ours.length > 0, { what: 'the warning' });
        off();
      });
      unsubscribe('redis-exp-lock:warning', hear);
      expect(await points('warnings')).to.have.deep.members(tally(warnings, 'code'));
      expect(ours).to.deep.equal(['never-released']);
    });

    it('ten thousand locks, in every form, leave no up-down counter off zero', async () => {
      on();
      const redis = redisExpLock.memoryStore();
      const withLock = redisExpLock({ redis, timeout: 30_000, lifetime: 30_000 });
      const semaphore = new redisExpLock.Semaphore('s', 3, { redis, timeout: 30_000, lifetime: 30_000 });
      const rw = new redisExpLock.RWLock('rw', { redis, timeout: 30_000, lifetime: 30_000 });
      const forms = [
        (i: number) => withLock.run(`k${i % 7}`, () => {}),
        (i: number) => withLock.tryRun(`k${i % 7}`, () => {}),
        (i: number) => withLock.promise(`k${i % 7}`).then((lease) => lease()),
        () => failure(withLock.run('thrower', () => Promise.reject(new Error('mine')))),
        () => semaphore.run(() => {}),
        () => rw.read(() => {}),
        () => rw.write(() => {}),
        (i: number) =>
          withLock.promise(['a', `b${i % 3}`], { maxRetries: 2 }).then(
            (lease) => lease(),
            () => {},
          ),
      ];
      for (let done = 0; done < 10_000; done += 200) {
        await Promise.all(Array.from({ length: 200 }, (_, i) => forms[i % forms.length]!(done + i)));
      }
      for (const gauge of ['held', 'waiting']) {
        const all = await points(gauge);
        expect(all.length).to.be.greaterThan(0);
        for (const [labels, value] of all) expect(value, `${gauge} ${JSON.stringify(labels)}`).to.equal(0);
      }
      const counts = await points('acquire.duration');
      expect(counts.reduce((sum, [, count]) => sum + count, 0)).to.equal(10_000);
      expect(spans().filter(({ name }) => name === 'lock acquire')).to.have.length(10_000);
    });

    it('counts on Redis what it counts in memory', async () => {
      on();
      const { url } = await sharedRedis();
      const withLock = redisExpLock({
        redis: await connect(url),
        name: 'redis',
        // A server that stands still for a while loses no lock and no reply.
        ...{ timeout: 40_000, lifetime: 20_000, commandTimeout: 20_000 },
      });
      const key = uniqueKey('otel');
      await Promise.all(Array.from({ length: 20 }, () => withLock.run(key, () => {})));
      const [[labels, held]] = (await points('held')) as [[any, number]];
      expect([labels['lock.name'], held]).to.deep.equal(['redis', 0]);
      const counts = await points('acquire.duration');
      expect(counts.reduce((sum, [, count]) => sum + count, 0)).to.equal(20);
      expect(counts.some(([each]: any) => each.contended === true)).to.equal(true);
      await withLock.close();
    });
  });

  describe('spans', () => {
    const caller = <T>(work: () => Promise<T>): Promise<T> =>
      tracerProvider.getTracer('test').startActiveSpan('caller', async (span) => {
        try {
          return await work();
        } finally {
          span.end();
        }
      });
    const idOf = (name: string): string => named(name)[0]!.spanContext().spanId;
    const parents = (name: string): (string | undefined)[] =>
      named(name).map(({ parentSpanContext }) => parentSpanContext?.spanId);

    it('acquire and hold are siblings under the caller; hold is active in the function, also after a wait', async () => {
      on();
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore(), name: 'n', timeout: 5000 });
      const first = await withLock.promise('k');
      await caller(async () => {
        setTimeout(() => first(), 10);
        await withLock.run('k', async () => {
          await new Promise((resolve) => setTimeout(resolve, 1));
          tracerProvider.getTracer('test').startSpan('inner').end();
        });
        tracerProvider.getTracer('test').startSpan('after').end();
      });
      const ids = named('lock acquire n');
      expect(ids).to.have.length(2);
      expect(ids[1]!.parentSpanContext?.spanId).to.equal(idOf('caller'));
      expect(parents('lock hold n')).to.deep.equal([idOf('caller')]);
      expect(parents('inner')).to.deep.equal([idOf('lock hold n')]);
      expect(parents('after')).to.deep.equal([idOf('caller')]);
      expect(named('lock hold n')[0]!.attributes['lock.fence']).to.equal(ids[1]!.attributes['lock.fence']);
    });

    it('a callback, and what follows a wait, run under the caller’s span', async () => {
      on();
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
      await caller(
        () =>
          new Promise<void>((resolve) => {
            withLock('k', (_, done) => {
              tracerProvider.getTracer('test').startSpan('in the callback').end();
              done!(() => {
                tracerProvider.getTracer('test').startSpan('after the release').end();
                resolve();
              });
            });
          }),
      );
      for (const name of ['lock acquire', 'in the callback', 'after the release']) {
        expect(parents(name), name).to.deep.equal([idOf('caller')]);
      }
    });

    it('every form that runs a function has one hold span, ended when the lock has ended', async () => {
      on();
      const redis = redisExpLock.memoryStore();
      const withLock = redisExpLock({ redis, name: 'run' });
      await withLock.run('k', () => {});
      await withLock.tryRun('k', () => {});
      const rw = new redisExpLock.RWLock('rw', { redis, name: 'rw' });
      await rw.read(() => {});
      await rw.write(() => {});
      await new redisExpLock.Semaphore('s', 1, { redis, name: 'permits' }).run(() => {});
      await new redisExpLock.Lock('l', { redis, name: 'lock' }).synchronize(() => {});
      const holds = spans().filter(({ name }) => name.startsWith('lock hold'));
      expect(holds.map(({ name, attributes }) => [name, attributes['lock.kind']])).to.deep.equal([
        ['lock hold run', 'mutex'],
        ['lock hold run', 'mutex'],
        ['lock hold rw', 'read'],
        ['lock hold rw', 'write'],
        ['lock hold permits', 'permits'],
        ['lock hold lock', 'mutex'],
      ]);
      for (const { status } of holds) expect(status.code).to.equal(SpanStatusCode.UNSET);
    });

    it('a function and those that joined its lock have a hold span each, all of which end', async () => {
      on();
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore(), name: 'n', reentrant: true });
      await withLock.run('k', () => Promise.all([withLock.run('k', () => {}), withLock.run('k', () => {})]));
      expect(named('lock hold n')).to.have.length(3);
    });

    it('a loss makes the hold span an error, noticed during the function or by the release', async () => {
      on();
      const redis = redisExpLock.memoryStore();
      const withLock = redisExpLock({ redis, name: 'n', lifetime: 60_000 });
      const later = await failure(withLock.run('k', () => redis.seize('k', 1000)));
      redis.expire('k');
      const meanwhile = await failure(
        withLock.run('k', async (lease) => {
          redis.seize('k', 1000);
          await lease.extend();
        }),
      );
      expect([later.code, meanwhile.code]).to.deep.equal(['ERR_LOCK_LOST', 'ERR_LOCK_LOST']);
      const holds = named('lock hold n');
      expect(holds).to.have.length(2);
      for (const { status, attributes } of holds) {
        expect(status).to.deep.equal({ code: SpanStatusCode.ERROR, message: 'ERR_LOCK_LOST' });
        expect(attributes['error.type']).to.equal('ERR_LOCK_LOST');
      }
    });

    it('a function that throws, or detaches its lease, ends its span, which is no error of the lock', async () => {
      on();
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
      await failure(withLock.run('a', () => Promise.reject(new Error('mine'))));
      await withLock.run('b', (lease) => void lease.detach());
      expect(named('lock hold').map(({ status }) => status.code)).to.deep.equal([0, 0]);
    });

    it('show of a key what `key` makes of it; one that throws is ignored', async () => {
      on({ key: (key: string) => `<${key}>` });
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore(), prefix: 'p:' });
      await withLock.run('k', () => {});
      await withLock.run(['a', 'b'], () => {});
      expect(named('lock hold').map(({ attributes }) => attributes['lock.key'])).to.deep.equal([
        '<p:k>',
        ['<p:a>', '<p:b>'],
      ]);
      off();
      on({
        key: () => {
          throw new Error('mine');
        },
      });
      await withLock.run('k', () => {});
      expect(named('lock acquire').at(-1)!.attributes).not.to.have.property('lock.key');
      expect(named('lock acquire')).to.have.length(3);
    });
  });

  describe('off()', () => {
    it('ends what is open, takes back what is counted, and hears nothing more; a second call changes nothing', async () => {
      on();
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore(), timeout: 5000 });
      let leave = (): void => {};
      const running = withLock.run('k', () => new Promise<void>((resolve) => (leave = resolve)));
      await waitFor(() => named('lock acquire').length === 1);
      const waiting = withLock.run('k', () => {});
      expect((await points('held'))[0]![1]).to.equal(1);
      expect((await points('waiting'))[0]![1]).to.equal(1);
      off();
      off();
      expect((await points('held'))[0]![1]).to.equal(0);
      expect((await points('waiting'))[0]![1]).to.equal(0);
      const before = spans().length;
      expect(spans().map(({ name }) => name)).to.have.members(['lock acquire', 'lock acquire', 'lock hold']);
      leave();
      await Promise.all([running, waiting]);
      expect(spans()).to.have.length(before);
      expect((await points('held'))[0]![1]).to.equal(0);
      expect((await points('acquire.duration'))[0]![1]).to.equal(1);
    });

    it('ends the span of a function that outlives its lock once, whatever the function does then', async () => {
      const complaints: unknown[] = [];
      const note = (...words: unknown[]): unknown => complaints.push(words);
      diag.setLogger({ error: note, warn: note, info: () => {}, debug: () => {}, verbose: () => {} });
      on();
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
      await withLock.run('k', async (lease) => {
        lease.detach();
        off();
      });
      diag.disable();
      expect(named('lock hold')).to.have.length(1);
      expect(complaints).to.deep.equal([]);
    });

    it('what began before it was switched on is not counted when it ends', async () => {
      const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
      const lease = await withLock.promise('k');
      on();
      await lease();
      expect(await points('held')).to.deep.equal([]);
      expect(await points('hold.duration')).to.deep.equal([]);
    });
  });

  it('H12: refuses unknown options and wrong values, and then measures nothing', async () => {
    for (const options of [{ tracer: 1 }, { key: 'k' }, { tracerProvider: {} }, 'otel']) {
      expect(thrown(() => instrument(options as any)).code, JSON.stringify(options)).to.equal('ERR_LOCK_OPTION');
    }
    await redisExpLock({ redis: redisExpLock.memoryStore() }).run('k', () => {});
    expect(trace.getActiveSpan()).to.equal(undefined);
    expect(spans()).to.deep.equal([]);
  });
});
