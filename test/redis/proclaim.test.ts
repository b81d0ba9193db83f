/** The value that a leader publishes is written under its lock, and never by a leader that has lost it (H86). */
import { expect } from 'chai';
import { useFakeTimers } from 'sinon';
import redisExpLock, { memoryStore } from '../../src/index';
import { LONG_MS, useStage } from './faults';

describe('proclaim (H86)', () => {
  const stage = useStage();

  it('a leader whose lock another took, and that does not know yet, writes nothing', async () => {
    const election = new redisExpLock.Election(stage.key, {
      redis: await stage.direct(),
      lifetime: LONG_MS,
      commandTimeout: 10_000,
      value: 'first',
    });
    const code = await election.lead(async (term) => {
      await term.proclaim('mine');
      await stage.server.command('SET', stage.key, 'another', 'PX', LONG_MS);
      const error = await term.proclaim('late').catch((reason) => reason);
      return error?.code;
    });
    expect(code).to.equal('ERR_LOCK_LOST');
    const [companion] = await stage.server.command<string[]>('KEYS', `{${stage.key}}:value`);
    expect(await stage.server.command('GET', companion!))
      .to.include('mine')
      .and.not.include('late');
    await election.close();
  });

  it('what a leader that died had written down ends within an hour of its lifetime', async () => {
    const election = new redisExpLock.Election(stage.key, {
      redis: await stage.direct(),
      lifetime: LONG_MS,
      commandTimeout: 10_000,
    });
    await election.lead(async (term) => {
      await term.proclaim('mine');
      const ms = await stage.server.command<number>('PTTL', `{${stage.key}}:value`);
      expect(ms)
        .to.be.greaterThan(LONG_MS)
        .and.at.most(LONG_MS + 3_600_000);
    });
    await election.close();
  });

  it('a leader goes on being known, however long it leads', async () => {
    const clock = useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
    try {
      const election = new redisExpLock.Election(stage.key, { redis: memoryStore(), value: 'mine' });
      await election.lead(async () => {
        await clock.tickAsync(3 * 3_600_000);
        expect(await election.leader()).to.include({ value: 'mine' });
      });
      await election.close();
    } finally {
      clock.restore();
    }
  });
});
