// redis-exp-lock/prometheus: the same figures as OpenTelemetry gets, under the names that its exporters give them; and the dashboard asks
// for nothing else.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Registry } from 'prom-client';
import redisExpLock from '../../src/index';
import { instrument } from '../../src/tools/otel';
import { collect } from '../../src/tools/prometheus';
import { failure, thrown } from '../contract/outcomes';
import { type Figures, inMemoryMeter, parsed } from './figures';
import { scenes } from './scenes';

const dashboardFile = join(__dirname, '../../dashboards/redis-exp-lock.json');

/** Every outcome, a loss, and a warning. */
async function playAll(): Promise<void> {
  for (const { play } of scenes) await play(() => {});
  const redis = redisExpLock.memoryStore();
  const withLock = redisExpLock({ redis, name: 'lost', lifetime: 60_000 });
  await failure(withLock.run('secret-key', () => redis.seize('secret-key', 1000)));
  const warned = warningOf('other');
  await withLock.promise('other', { lifetime: 100 });
  await warned;
}

/** The warning that a lock was never released; not one of a lock that an earlier test left behind. */
function warningOf(key: string): Promise<unknown> {
  const name = 'redis-exp-lock:warning';
  return new Promise((resolve) => {
    const listener = (message: any): void => {
      if (message.code !== 'never-released' || message.key !== key) return;
      unsubscribe(name, listener);
      resolve(message);
    };
    subscribe(name, listener);
  });
}

describe('redis-exp-lock/prometheus', () => {
  let registry: Registry;
  let off: () => void;

  beforeEach(() => {
    registry = new Registry();
    off = collect(registry);
  });

  afterEach(() => off());

  const figures = async (): Promise<Figures> => parsed(await registry.metrics());

  it('gives the same figures as OpenTelemetry, series by series, and no key in any', async () => {
    const { meterProvider, figures: otelFigures } = inMemoryMeter();
    // Both in one step: what earlier tests left behind may end at any time.
    off();
    registry = new Registry();
    off = collect(registry);
    const stop = instrument({ meterProvider });
    await playAll();
    stop();
    const ours = await figures();
    expect(ours).to.deep.equal(await otelFigures());
    expect(Object.keys(ours).length).to.be.greaterThan(100);
    expect(ours['redis_exp_lock_lost_total{reason="taken"}']).to.equal(1);
    expect(ours['redis_exp_lock_warnings_total{code="never-released"}']).to.be.greaterThan(0);
    expect(await registry.metrics()).not.to.contain('secret-key');
    for (const [series, value] of Object.entries(ours)) {
      if (/^redis_exp_lock_(held|waiting)\{/.test(series)) expect(value, series).to.equal(0);
    }
    await meterProvider.shutdown();
  });

  it('off() takes its metrics out of the registry, and hears nothing more; others of the registry stay', async () => {
    const { Counter } = await import('prom-client');
    const mine = new Counter({ name: 'mine', help: 'mine', registers: [registry] });
    mine.inc();
    const withLock = redisExpLock({ redis: redisExpLock.memoryStore() });
    await withLock.run('k', () => {});
    off();
    off();
    await withLock.run('k', () => {});
    expect(await figures()).to.deep.equal({ 'mine{}': 1 });
    off = collect(registry);
    expect(Object.keys(await figures())).to.deep.equal(['mine{}']);
  });

  it('refuses what is no registry, and a registry that has these metrics', () => {
    for (const given of [undefined, {}, 'registry']) {
      expect(thrown(() => collect(given as any)).code).to.equal('ERR_LOCK_OPTION');
    }
    expect(thrown(() => collect(registry)).message).to.contain('redis_exp_lock_acquire_duration_seconds');
  });

  describe('the dashboard', () => {
    const dashboard = JSON.parse(readFileSync(dashboardFile, 'utf8'));
    const queries: string[] = [
      ...dashboard.panels.flatMap(({ targets }: any) => targets.map(({ expr }: any) => expr)),
      ...dashboard.templating.list.flatMap(({ query }: any) => query?.query ?? []),
    ];

    it('has a panel for everything that is to be seen, each with a query and a unit', () => {
      expect(dashboard.panels.map(({ title }: any) => title)).to.include.members([
        ...['Wait, p50', 'Wait, p99', 'Contended share', 'Held', 'Waiting', 'Hold, p99', 'Lost', 'Errors', 'Warnings'],
      ]);
      const ids = dashboard.panels.map(({ id }: any) => id);
      expect(new Set(ids).size).to.equal(ids.length);
      for (const { title, targets, fieldConfig, datasource } of dashboard.panels) {
        expect(targets, title).not.to.have.length(0);
        expect(fieldConfig.defaults.unit, title).to.be.a('string');
        expect(datasource.uid, title).to.match(/^\$\{datasource\}$/);
      }
    });

    it('asks only for series, labels and outcomes that are emitted, by OpenTelemetry and by prom-client', async () => {
      const { meterProvider, figures: otelFigures } = inMemoryMeter();
      const stop = instrument({ meterProvider });
      await playAll();
      stop();
      const emitters = { 'prom-client': await figures(), OpenTelemetry: await otelFigures() };
      for (const [emitter, emitted] of Object.entries(emitters)) {
        for (const query of queries) expect(missing(query, emitted), `${emitter}: ${query}`).to.deep.equal([]);
      }
      expect(
        missing('sum by (key) (redis_exp_lock_held{a="b"}) + redis_exp_lock_hold', emitters['prom-client']),
      ).to.have.members(['redis_exp_lock_hold', 'redis_exp_lock_held: a', 'key', 'redis_exp_lock_held: a="b"']);
      await meterProvider.shutdown();
    });

    it('docs/operations.md names, in its alerts and its table, nothing else either', async () => {
      const page = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8');
      const inline = [...page.matchAll(/`([^`\n]*redis_exp_lock_[^`\n]*)`/g)].map(([, text]) => text!);
      const alerts = inline.filter((text) => text.includes('('));
      expect(alerts).to.have.length.above(5);
      await playAll();
      const emitted = await figures();
      const histograms = /(_seconds)$/;
      for (const text of inline) expect(missing(text.replace(histograms, '$1_count'), emitted), text).to.deep.equal([]);
    });

    it('asks for every metric that there is', () => {
      const asked = queries.join(' ');
      for (const name of ['acquire_duration_seconds', 'hold_duration_seconds', 'held', 'waiting', 'lost_total']) {
        expect(asked).to.contain(`redis_exp_lock_${name}`);
      }
      expect(asked).to.contain('redis_exp_lock_warnings_total');
    });
  });
});

/** The names, labels and values of a query that no emitted series has. */
function missing(query: string, emitted: Figures): string[] {
  const series = Object.keys(emitted).map((each) => /^(\w+)\{(.*)\}$/.exec(each)!.slice(1) as [string, string]);
  const labelsOf = (name: string): string[] => series.filter(([each]) => each === name).map(([, labels]) => labels);
  const has = (labels: string[], label: string): boolean => labels.some((each) => `,${each}`.includes(`,${label}=`));
  const names = [...query.matchAll(/redis_exp_lock_\w+/g)].map(([name]) => name);
  const unknownNames = names.filter((name) => labelsOf(name).length === 0);
  const matchers = [...query.matchAll(/(redis_exp_lock_\w+)\{([^}]*)\}/g)].flatMap(([, name, list]) =>
    [...list!.matchAll(/(\w+)(=~|!=|=)"([^"]*)"/g)].flatMap(([, label, operator, value]) => {
      const labels = labelsOf(name!);
      const lacking = has(labels, label!) ? [] : [`${name}: ${label}`];
      const exact = operator === '=' && !labels.some((each) => `,${each},`.includes(`,${label}="${value}",`));
      return exact ? [...lacking, `${name}: ${label}="${value}"`] : lacking;
    }),
  );
  const grouped = [...query.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(', '));
  const all = names.flatMap(labelsOf);
  const asked = [...grouped, ...[...query.matchAll(/label_values\(\w+, (\w+)\)/g)].map(([, label]) => label!)];
  return [...unknownNames, ...matchers, ...asked.filter((label) => !has(all, label))];
}
