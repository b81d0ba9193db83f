/**
 * The cost of a contended acquisition for the server: the commands that its scripts call. Their number is the same behind ten entries
 * as behind 300, for each kind of lock, and docs/operations.md gives it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { companionOf } from '../../src/core/keys';
import { newToken } from '../../src/core/token';
import type { AcquireReply, AcquireRequest, HeldMode, Mode, Store } from '../../src/store/contract';
import { storeOf } from '../../src/store/open';
import { ownServer } from '../support/own-server';
import { type Client, commandStats, diffCommandStats, uniqueKey } from '../support/redis';

type Counts = Record<string, number>;

/** The number of rounds. In some of them a request also moves the end of its queue, as the first of each second does. */
const rounds = 5;
const mode = (kind: Mode['kind'], permits = 1, total = 0): Mode => {
  return { kind, prefer: kind === 'counted' ? 'fair' : 'writer', group: '', permits, total, step: 0 };
};
/** The mode of the first holder, and that of those who wait. */
const kinds: Record<string, readonly [first: Mode | undefined, waiting: Mode | undefined]> = {
  mutex: [undefined, undefined],
  writers: [mode('exclusive'), mode('exclusive')],
  readers: [mode('exclusive'), mode('shared')],
  permits: [mode('counted', 2, 2), mode('counted', 2, 2)],
};

/** A release notifies up to 32 readers, so that behind ten it costs less. */
const depths = { readers: [40, 300] } as Record<string, readonly [number, number]>;

describe('what a contended acquisition costs the server (H95)', () => {
  let client: Client;
  let store: Store;

  ownServer((own) => {
    ({ client } = own);
    store = storeOf(client);
  });

  /** A request of a process that is to be queued. */
  function ask(
    key: string,
    token: string,
    kind: Mode | undefined,
    ticket = 0,
    sinceMs = performance.now(),
    channel = 'nobody',
  ): Promise<AcquireReply> {
    const common = { keys: key, token, lifetimeMs: 60_000, minReplicas: 0, commandTimeoutMs: 5_000, begin: () => true };
    const queueAs = { channel, id: '7', ticket, sinceMs, silenceMs: 10_000 };
    const request: AcquireRequest = { ...common, fences: kind === undefined ? 9 : 1, queueAs, mode: kind };
    return store.acquire(request);
  }

  async function release(key: string, token: string, kind: Mode | undefined, fence: number): Promise<void> {
    const held: HeldMode | undefined = kind && { mode: kind, fence };
    const reply = await store.release({
      keys: key,
      token,
      commandTimeoutMs: 5_000,
      yieldMs: 5,
      isConfirmed: true,
      held,
    });
    expect(reply).to.equal('released');
  }

  /** The commands of one acquisition behind `depth` others: its request, the release before it, and the request that its message leads to. */
  async function cost(depth: number, [first, waiting]: (typeof kinds)[string]): Promise<Counts> {
    const key = uniqueKey('cost');
    const tokens = Array.from({ length: depth + 1 }, () => newToken(undefined));
    const holder = newToken(undefined);
    const grant = await ask(key, holder, first);
    const fence = grant.granted ? grant.fence : 0;
    const [next] = await Promise.all(tokens.slice(1).map((token) => ask(key, token, waiting)));
    await sleep(10); // an entry that came since its request was sent would be looked at
    const start = await commandStats(client);
    const last = await ask(key, tokens[0]!, waiting);
    await release(key, holder, first, fence);
    // A mutex is granted by the release.
    if (waiting !== undefined) {
      const reply = await ask(key, tokens[1]!, waiting, next!.granted ? 0 : next!.position!.ticket);
      expect(reply.granted, 'it was its turn').to.equal(true);
    }
    const counts = diffCommandStats(start, await commandStats(client));
    expect(!last.granted && last.position!.before, 'entries before the last').to.equal(depth);
    return counts;
  }

  async function fewest(depth: number, kind: (typeof kinds)[string]): Promise<Counts> {
    const all: Counts[] = [];
    for (let n = 0; n < rounds; n += 1) all.push(await cost(depth, kind));
    const names = Object.keys(all[0]!).filter((name) => !name.startsWith('eval'));
    const counts = names.map((name) => [name, Math.min(...all.map((each) => each[name] ?? 0))] as const);
    return Object.fromEntries(counts.filter(([, count]) => count > 0));
  }

  const page = readFileSync(join(__dirname, '../../docs/operations.md'), 'utf8');

  for (const [name, kind] of Object.entries(kinds)) {
    const [short, long] = depths[name] ?? [10, 300];
    it(`${name}: as many commands behind ${long} entries as behind ${short}, and those of docs/operations.md`, async () => {
      const few = await fewest(short, kind);
      expect(await fewest(long, kind)).to.deep.equal(few);
      const sum = Object.values(few).reduce((one, other) => one + other);
      const [, told] = new RegExp(`^\\| ${name} \\|.*\\| (\\d+) \\|$`, 'm').exec(page) ?? [];
      expect(sum, JSON.stringify(few)).to.equal(Number(told));
    });
  }

  it('permits: each release notifies the waiter for which it makes room, and none that was notified before', async () => {
    const key = uniqueKey('notified');
    const permits = mode('counted', 1, 8);
    const held: { token: string; fence: number }[] = [];
    for (let n = 0; n < 8; n += 1) {
      const token = newToken(undefined);
      const grant = await ask(key, token, permits);
      held.push({ token, fence: grant.granted ? grant.fence : 0 });
    }
    const queue = (n: number) => ask(key, newToken(undefined), permits, 0, performance.now(), `process${n}`);
    await Promise.all(Array.from({ length: 20 }, (_, n) => queue(n)));
    const start = await commandStats(client);
    for (const { token, fence } of held.slice(0, 6)) await release(key, token, permits, fence);
    expect(diffCommandStats(start, await commandStats(client)).publish).to.equal(6);
  });

  it('a first request that runs twice is queued once, however many came between', async () => {
    const key = uniqueKey('twice');
    await ask(key, newToken(undefined), undefined);
    const [token, sinceMs] = [newToken(undefined), performance.now()];
    const first = await ask(key, token, undefined, 0, sinceMs);
    await Promise.all(Array.from({ length: 40 }, () => ask(key, newToken(undefined), undefined)));
    expect(await ask(key, token, undefined, 0, sinceMs)).to.have.deep.property(
      'position',
      !first.granted && first.position,
    );
    expect(await client.zCard(companionOf(key, 'queue'))).to.equal(41);
  });
});
