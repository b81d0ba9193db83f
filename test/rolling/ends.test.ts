/**
 * A process of one build is killed (kill -9) or stands still, in every role at once, as holder and as waiter: those of the other
 * build get the keys, and one that goes on again finds out that it has lost them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import { cont, exited, kill9, type NodeChild, startChild, stop, waitFor } from '../support/processes';
import { uniqueKey } from '../support/redis';
import type { Order } from './children/peer';
import { type Held, type Place, pairs, queuedRoles, type Role, roles } from './roles';
import { rollingServers, type Servers } from './servers';
import { bothVersions, directions, type Versions } from './versions';

/** Ends while a test waits; a process that runs renews it. */
const shortMs = 4_000;
const longMs = 120_000;
const modes = ['at-most-once', 'until-success'] as const;

interface Told {
  readonly key?: string;
  readonly fence?: number;
  readonly lost?: string;
  readonly left?: string;
  readonly kept?: boolean;
}

/** A process of one build, and what it has said of each key. */
class Peer {
  readonly child: NodeChild;
  readonly fences = new Map<string, number | undefined>();
  readonly lost = new Set<string>();
  readonly left = new Map<string, boolean>();

  constructor(child: NodeChild) {
    this.child = child;
    child.on('message', ({ key, fence, lost, left, kept }: Told) => {
      if (key !== undefined) this.fences.set(key, fence);
      if (lost !== undefined) this.lost.add(lost);
      if (left !== undefined) this.left.set(left, kept!);
    });
  }

  order(order: Order): void {
    this.child.send(order);
  }

  /** Resolves when the process has said so of all these keys. */
  async hasTold(keys: readonly string[], told: 'fences' | 'lost' | 'left'): Promise<void> {
    const missing = (): string[] => keys.filter((key) => !this[told].has(key));
    await waitFor(() => missing().length === 0, { timeoutMs: 60_000 }).catch(() => {
      expect.fail(`the process never said '${told}' of ${missing()}\n${this.child.output()}`);
    });
  }
}

describe('old and new, when processes end or stand still', function () {
  this.timeout(180_000); // two builds start in each child, and locks of four seconds end
  let versions: Versions;
  let servers: Servers;
  let places: Record<'old' | 'new', Place>;
  let peer: Peer;
  /** A key for each pair of roles. */
  let keys: readonly string[];

  bothVersions((both) => {
    versions = both;
  });

  rollingServers(async (all) => {
    servers = all;
    places = { old: await all.connect(), new: await all.connect() };
  });

  beforeEach(() => {
    keys = pairs.map(([holder, waiter]) => uniqueKey(`${holder}-${waiter}`.replaceAll(' ', '-')));
  });

  afterEach(() => kill9(peer.child));

  async function start(who: 'old' | 'new'): Promise<void> {
    const urls = [servers.redis, ...servers.nodes].map(({ url }) => url);
    peer = new Peer(startChild(require.resolve('./children/peer.ts'), [JSON.stringify(versions[who].paths), ...urls]));
    expect(await peer.child.receive(), peer.child.output()).to.equal('ready');
  }

  const enter = (who: 'old' | 'new', role: Role, key: string): Promise<Held> =>
    roles[role](versions[who], places[who], { key, lifetime: longMs });

  /** Takes all keys at once, in the roles of their pairs. */
  const enterAll = (who: 'old' | 'new', role: 0 | 1): Promise<Held>[] =>
    pairs.map((pair, n) => enter(who, pair[role], keys[n]!));

  async function leaveAll(all: readonly Held[]): Promise<void> {
    for (const held of all) expect(await held.leave()).to.equal(true);
  }

  const orderAll = (role: 0 | 1, lifetime: number): void => {
    for (const [n, pair] of pairs.entries()) peer.order({ enter: pair[role], key: keys[n]!, lifetime });
  };

  const areQueued = (): Promise<unknown> =>
    waitFor(
      async () => {
        const queues = keys
          .filter((_, n) => queuedRoles.includes(pairs[n]![1]))
          .map((key) => companionOf(key, 'queue'));
        return (await places.old.redis.exists(queues)) === queues.length;
      },
      { what: 'the process to be queued' },
    );

  function expectHigher(all: readonly Held[]): void {
    for (const [n, { fence }] of all.entries()) {
      if (fence !== undefined) expect(fence, keys[n]).to.be.greaterThan(peer.fences.get(keys[n]!)!);
    }
  }

  for (const [from, to] of directions) {
    it(`kill -9 of ${from}, which holds in every role: ${to} gets every key (H97)`, async () => {
      await start(from);
      const jobs = modes.map((mode) => ({ mode, key: uniqueKey(mode) }));
      for (const { mode, key } of jobs) peer.order({ job: mode, key, lifetime: shortMs });
      orderAll(0, shortMs);
      await peer.hasTold([...keys, ...jobs.map(({ key }) => key)], 'fences');
      const entered = enterAll(to, 1);
      await kill9(peer.child);
      const all = await Promise.all(entered);
      expectHigher(all);
      await leaveAll(all);
      const withLock = versions[to].library({ redis: places[to].redis });
      const next = (mode: (typeof modes)[number], key: string) =>
        withLock.once(key, { every: 10 * 365 * 86_400_000, mode }, () => 'next');
      const [once, again] = jobs as [(typeof jobs)[0], (typeof jobs)[0]];
      expect(await next(once.mode, once.key)).to.include({ ran: false, reason: 'done' });
      const ran = await waitFor(
        async () => {
          const result = await next(again.mode, again.key);
          return result.ran && result;
        },
        { what: 'the job of the dead process' },
      );
      expect(ran).to.include({ value: 'next' });
    });

    it(`${from} stands still while it holds in every role: ${to} gets every key, and ${from} finds out (H97)`, async () => {
      await start(from);
      orderAll(0, shortMs);
      await peer.hasTold(keys, 'fences');
      const entered = enterAll(to, 1);
      await stop(peer.child);
      const all = await Promise.all(entered);
      await cont(peer.child);
      expectHigher(all);
      const losers = keys.filter((_, n) => pairs[n]![0] !== 'redlock');
      await peer.hasTold(losers, 'lost');
      for (const key of keys) peer.order({ leave: true, key, lifetime: 0 });
      await peer.hasTold(keys, 'left');
      expect([...peer.left].filter(([, kept]) => kept)).to.deep.equal([]);
      for (const held of all) expect(held.signal?.aborted ?? false).to.equal(false);
      await leaveAll(all);
    });

    it(`kill -9 of ${from}, which waits in every role: ${to} gets past it (H97)`, async () => {
      const first = await Promise.all(enterAll(to, 0));
      await start(from);
      orderAll(1, longMs);
      await areQueued();
      const behind = enterAll(to, 1);
      await kill9(peer.child);
      await leaveAll(first);
      const all = await Promise.all(behind);
      for (const [n, { fence }] of all.entries()) {
        if (fence !== undefined) expect(fence, keys[n]).to.be.greaterThan(first[n]!.fence!);
      }
      await leaveAll(all);
    });

    it(`${from} stands still while it waits in every role: ${to} gets past it, and ${from} is served later (H97)`, async () => {
      const first = await Promise.all(enterAll(to, 0));
      await start(from);
      orderAll(1, longMs);
      await areQueued();
      await stop(peer.child);
      const behind = enterAll(to, 1);
      await leaveAll(first);
      const all = await Promise.all(behind);
      await cont(peer.child);
      await sleep(50);
      const readers = keys.filter((_, n) => pairs[n]![1] === 'reader');
      expect([...peer.fences.keys()].filter((key) => !readers.includes(key))).to.deep.equal([]);
      await leaveAll(all);
      await peer.hasTold(keys, 'fences');
      // Readers that are in together share a fence.
      for (const [n, { fence }] of all.entries()) {
        const min = readers.includes(keys[n]!) ? fence : fence && fence + 1;
        if (min !== undefined) expect(peer.fences.get(keys[n]!), keys[n]).to.be.at.least(min);
      }
      expect([...peer.lost]).to.deep.equal([]);
    });
  }

  it('a node of a quorum is killed under both: neither is in beside the other, and each hands over (H97)', async () => {
    await start('old');
    const key = uniqueKey('quorum');
    const held = await enter('new', 'quorum', key);
    // The node that the holder does not need: without one that granted, its release has no majority.
    const granted = await Promise.all(servers.nodes.map((node) => node.command('EXISTS', key)));
    await servers.nodes[Math.max(granted.indexOf(0), 0)]!.kill();
    peer.order({ enter: 'quorum', key, lifetime: longMs });
    expect(await versions.old.library({ redis: places.old.nodes, commandTimeout: 5_000 }).tryLock(key)).to.equal(null);
    expect(peer.fences.has(key)).to.equal(false);
    expect(await held.leave()).to.equal(true);
    await peer.hasTold([key], 'fences');
    expect(peer.fences.get(key)).to.be.greaterThan(held.fence!);
    const next = enter('new', 'quorum', key);
    peer.order({ leave: true, key, lifetime: 0 });
    expect((await next).fence).to.be.greaterThan(peer.fences.get(key)!);
    expect(await (await next).leave()).to.equal(true);
    peer.child.disconnect();
    void exited(peer.child);
  });
});
