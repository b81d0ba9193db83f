/** The result of the replies of a quorum's nodes, where there is no other reply to wait for. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import type { Clock } from '../../src/core/clock';
import { LockBackendError } from '../../src/core/errors';
import type { Node } from '../../src/store/contract';
import { releaseByMajority } from '../../src/store/quorum/majority';
import type { QuorumNode } from '../../src/store/quorum/node';
import { Nodes } from '../../src/store/quorum/nodes';
import type { Round } from '../../src/store/quorum/round';

describe('nodes of a quorum of which none can be asked', () => {
  const clock = { setIdleAlarm: () => undefined } as unknown as Clock;
  const silence = () => new LockBackendError('silence', { unknown: true });
  const silent = { clock, release: () => Promise.reject(silence()) } as unknown as Node;
  const nodes = new Nodes([silent, silent, silent]);

  it('H62: when every node that was asked for a lock has fallen silent, a question settles with an error', async () => {
    const asking = nodes.ask(
      'k',
      () => Promise.reject(new Error('is not asked')),
      () => undefined,
      [],
    );
    expect(await settled(asking)).to.include({ code: 'ERR_LOCK_BACKEND', unknown: true });
  });

  it('H62: and so does its release, of which the third node was never asked', async () => {
    const [one, other, third] = nodes.all as [QuorumNode, QuorumNode, QuorumNode];
    for (const node of [one, other]) node.failed(silence());
    const round = { settle: () => [third], end: () => {} } as unknown as Round;
    const releasing = releaseByMajority(nodes, { keys: 'k', token: 't', commandTimeoutMs: 10 }, round);
    const error = await settled(releasing);
    expect(error).to.include({ code: 'ERR_LOCK_BACKEND', key: 'k', unknown: true });
    expect((error as Error).message).to.contain('2 of 3 failed');
  });

  it('H66: nodes that fell silent and have granted a lock since then are asked for its release', async () => {
    const released = { clock, release: () => Promise.resolve('released') } as unknown as Node;
    const answering = new Nodes([released, released, released]);
    const [one, other, third] = answering.all as [QuorumNode, QuorumNode, QuorumNode];
    for (const node of [one, other]) node.failed(silence());
    const round = { settle: () => [third], end: () => {} } as unknown as Round;
    const releasing = releaseByMajority(answering, { keys: 'k', token: 't', commandTimeoutMs: 10 }, round);
    expect(await settled(releasing)).to.equal('released');
  });

  it('H66: a node that has granted a lock is asked for its release, although another silent one recovers before it', async () => {
    const probes: (() => void)[] = [];
    const probing = { nowMs: () => 0, setIdleAlarm: (probe: () => void) => void probes.push(probe) };
    const store = {
      clock: probing,
      generation: () => 1,
      identify: () => Promise.resolve({ runId: '', uptimeMs: 60_000, isNew: false }),
      acquire: () => Promise.resolve({ granted: true, fence: 1, sent: { monoMs: 0, wallMs: 0 } }),
      release: () => Promise.resolve('released'),
    } as unknown as Node;
    const answering = new Nodes([store, store, store]);
    const [one, other, third] = answering.all as [QuorumNode, QuorumNode, QuorumNode];
    for (const node of [one, other]) node.failed(silence());
    const terms = { keys: 'k', token: 't', commandTimeoutMs: 10 };
    const request = { ...terms, lifetimeMs: 1000, fences: 1, minReplicas: 0, begin: () => true };
    for (const node of [one, other]) expect(await node.acquire(request)).to.include({ granted: true });
    probes[1]!(); // of the other
    await turn();
    const round = { settle: () => [third], end: () => {} } as unknown as Round;
    expect(await settled(releaseByMajority(answering, terms, round))).to.equal('released');
  });

  /** The outcome of `work`, which must not wait for anything. */
  function settled(work: Promise<unknown>): Promise<unknown> {
    return Promise.race([work.catch((reason) => reason), turn('does not end')]);
  }
});
