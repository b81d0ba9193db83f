/**
 * Leaders among real processes: terms that never overlap by one clock, a leader that is stopped for longer than its lifetime, leaders
 * and those behind them that are killed, and what being elected costs. RESIGNS=1000 proves the first for longer.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { cont, exited, kill9, type NodeChild, startChild, stop, waitFor } from '../support/processes';
import { type Client, commandStats, diffCommandStats, type RedisServer, startRedis, uniqueKey } from '../support/redis';

const script = require.resolve('./children/candidate.ts');
const resigns = Number(process.env.RESIGNS ?? 100);
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

describe('Election, among processes', function () {
  this.timeout(60_000 + 100 * resigns); // as many terms as are asked for
  let server: RedisServer;
  let client: Client;
  let name: string;

  before(async () => {
    server = await startRedis();
    client = await server.connect();
  });

  beforeEach(() => {
    name = uniqueKey();
  });

  after(async () => {
    client.destroy();
    await server.discard();
  });

  async function candidate(lifetimeMs: number): Promise<NodeChild> {
    const child = startChild(script, [server.url, name, String(lifetimeMs), '0']);
    expect(await child.receive(), child.output()).to.equal('campaigning');
    return child;
  }

  async function queued(count: number): Promise<void> {
    const look = redisExpLock({ redis: client });
    await waitFor(async () => (await look.inspect(name)).waiters === count, { what: `${count} in the queue` });
  }

  it(`H86: two candidates, ${resigns} terms each, that end and resign: never two leaders, and each term has a larger fence`, async () => {
    const children = [1, 2].map(() => startChild(script, [server.url, name, '5000', String(resigns)]));
    await Promise.all(children.map((child) => child.receive()));
    // Both are in the queue before either leads: one that started late would find that the other is done.
    const first = new redisExpLock.Election(name, { redis: client, lifetime: 60_000 });
    await first.lead(async () => {
      for (const child of children) child.send('begin');
      await queued(2);
    });
    await first.close();
    const all = await Promise.all(children.map((child) => child.receive<[number, number, number][]>()));
    for (const child of children) expect((await exited(child)).code, child.output()).to.equal(0);
    const terms = all.flat().sort(([, one], [, other]) => one - other);
    expect(terms).to.have.length(2 * resigns);
    for (const [n, [fence, began]] of terms.entries()) {
      const [lastFence, , lastEnded] = terms[n - 1] ?? [0, 0, 0];
      expect(fence, `fence of term ${n}`).to.be.greaterThan(lastFence);
      expect(began, `begin of term ${n}`).to.be.at.least(lastEnded);
    }
    // Both led: neither waited for the other to be done with all.
    const firstHalf = terms.slice(0, resigns).map(([fence]) => fence);
    for (const each of all) expect(each.some(([fence]) => firstHalf.includes(fence))).to.equal(true);
  });

  it('H86: stopped for longer than its lifetime (SIGSTOP): its function is notified, and has settled before it campaigns again', async () => {
    const child = await candidate(3_000);
    const { begins } = await child.receive();
    const election = new redisExpLock.Election(name, { redis: client, lifetime: 60_000 });
    await stop(child);
    let [ours, ended, aborted, settled]: any[] = [];
    const led = election.lead(async (term) => {
      ours = term.fence;
      await cont(child);
      [aborted, settled] = [await child.receive(), await child.receive()];
      await queued(1);
      ended = nowMs();
    });
    await led;
    expect(aborted.aborted).to.equal('stalled');
    expect(settled.settled).to.equal(begins);
    const again = await child.receive();
    expect(begins).to.be.lessThan(ours);
    expect(again.begins).to.be.greaterThan(ours);
    expect(again.at).to.be.at.least(settled.at);
    expect(again.at).to.be.at.least(ended);
    await election.close();
    await kill9(child);
  });

  it('H86: killed (kill -9): the next one leads within the lifetime; with the next in the queue, after its deadline as well', async () => {
    const lifetimeMs = 2_000;
    const tookMs: Record<string, number> = {};
    for (const dying of [1, 2]) {
      name = uniqueKey();
      const children: NodeChild[] = [];
      for (let n = 0; n < dying; n += 1) {
        children.push(await candidate(lifetimeMs));
        if (n === 0) await children[0]!.receive();
        else await queued(n);
      }
      const election = new redisExpLock.Election(name, { redis: client, lifetime: lifetimeMs });
      let ledAt = 0;
      const led = election.lead(() => {
        ledAt = nowMs();
      });
      await queued(dying);
      const killedAt = nowMs();
      await Promise.all(children.map(kill9));
      await led;
      tookMs[`${dying} died`] = Math.round(ledAt - killedAt);
      await election.close();
    }
    if (process.env.SHOW) console.log(tookMs);
    const slackMs = 10_000; // for the machine
    expect(tookMs['1 died']).to.be.lessThan(lifetimeMs + slackMs);
    // The entry of the dead one counts as expired 2 s after its last request; a grant to it lasts 2 s at most.
    expect(tookMs['2 died']).to.be.lessThan(lifetimeMs + 4_000 + slackMs);
  });

  it('at rest a leader costs an extension each third of its lifetime, an observer one request a lifetime, and nothing else', async () => {
    const own = await startRedis();
    const redis = await own.connect();
    const lifetimeMs = 1_500;
    const election = new redisExpLock.Election(name, { redis, lifetime: lifetimeMs });
    const observer = new redisExpLock.Election(name, { redis: await own.connect(), lifetime: lifetimeMs });
    /** And how many lifetimes passed meanwhile. */
    const measured = async (): Promise<Record<string, number> & { lifetimes: number }> => {
      const startMs = nowMs();
      const before = await commandStats(redis);
      await sleep(4 * lifetimeMs);
      const calls = diffCommandStats(before, await commandStats(redis));
      return { ...calls, lifetimes: (nowMs() - startMs) / lifetimeMs };
    };
    let isMeasured = false;
    // After a loss, it is called anew: what was measured while the machine stood still for longer than the lifetime was not at rest.
    await election.lead(async (term) => {
      await waitFor(() => election.leader());
      await sleep(lifetimeMs);
      const alone = await measured();
      if (term.signal.aborted) return;
      expect(alone.evalsha).to.be.within(2 * alone.lifetimes, 3 * alone.lifetimes + 2);
      expect(alone.pexpire).to.equal(alone.evalsha);

      const controller = new AbortController();
      const seen: unknown[] = [];
      const observing = (async () => {
        for await (const leader of observer.observe({ signal: controller.signal })) seen.push(leader);
      })();
      await sleep(2 * lifetimeMs);
      const both = await measured();
      controller.abort();
      await observing;
      if (term.signal.aborted) return;
      expect(both.evalsha! - both.pexpire!, 'requests of the observer').to.be.within(
        both.lifetimes - 2,
        both.lifetimes + 2,
      );
      expect(both.pexpire).to.be.within(2 * both.lifetimes, 3 * both.lifetimes + 2);
      const others = Object.keys(both).filter(
        (each) => !/^(evalsha|pexpire|get|pttl|time|info|ping|lifetimes)$/.test(each),
      );
      expect(others).to.deep.equal([]);
      expect(seen).to.have.length(1);
      isMeasured = true;
    });
    expect(isMeasured).to.equal(true);
    await own.discard();
  });
});
