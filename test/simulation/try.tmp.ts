import { BrokenPromise, type Rules, simulate } from './quorum';

const calm: Rules = {
  nodes: 3,
  processes: 2,
  turnsEach: 2,
  lifetimeMs: 600,
  holdMs: 20,
  retryMs: 20,
  lose: 0,
  repeat: 0,
  restart: 0,
  freeze: 0,
  stall: 0,
  leave: 0,
  giveUp: 0,
  skewMs: 100,
  proposals: true,
};
const faults = { lose: 0.03, repeat: 0.03, freeze: 0.03, stall: 0.1, leave: 0.1, giveUp: 0.1 };
const rw = { lock: { readers: 0.6, upgrade: 0.4 }, processes: 3 } as const;
const sem = { lock: { permits: 3 }, processes: 4 } as const;
const worlds: Record<string, Partial<Rules>> = {
  calm: {},
  faults,
  'rw calm': { ...rw, turnsEach: 4 },
  'rw writeback': { ...rw, proposals: false, turnsEach: 4, skewMs: 500 },
  'rw split': { ...rw, nodes: 4, holdMs: 1 },
  'rw faults': { ...rw, ...faults },
  'rw restart': { ...rw, restart: 0.12, leave: 0.2, holdMs: 100, lifetimeMs: 250, retryMs: 40 },
  'rw long': { ...rw, ...faults, holdMs: 500, lifetimeMs: 300, restart: 0.03, retryMs: 60 },
  'rw all': { ...rw, ...faults, nodes: 5, restart: 0.03, proposals: false, retryMs: 60 },
  'sem calm': { ...sem, turnsEach: 4 },
  'sem faults': { ...sem, ...faults },
  'sem restart': { ...sem, restart: 0.12, leave: 0.2, holdMs: 100, lifetimeMs: 250, retryMs: 40 },
  'sem long': { ...sem, ...faults, holdMs: 500, lifetimeMs: 300, restart: 0.03, retryMs: 60 },
};
(async () => {
  const only = process.argv[2];
  const n = Number(process.argv[3] ?? 200);
  const broken: any = process.argv[4];
  for (const [name, rules] of Object.entries(worlds)) {
    if (only && only !== 'all' && !name.includes(only)) continue;
    const t = performance.now();
    let grants = 0;
    let bad = '';
    let end = 0;
    for (let seed = Number(process.env.FROM ?? 0); seed < n; seed++) {
      try {
        const w = await simulate(seed, { ...calm, ...rules, broken });
        grants += w.grants;
        end += w.nowMs;
      } catch (e) {
        if (!(e instanceof BrokenPromise)) throw e;
        bad = `seed ${seed}: ${process.env.LONG ? e.message : e.message.split(String.fromCharCode(10))[0]}`;
        break;
      }
    }
    console.log(name, grants, (end / n).toFixed(0), 'virtual ms', (performance.now() - t).toFixed(0), 'ms', bad);
  }
})();
