/** What a leader proclaims is written under its lock, and by nobody who has lost it (H86). */
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { LONG_MS, useStage } from './faults';

describe('proclaim (H86)', () => {
  const stage = useStage();

  it('a leader whose lock another took, and who has not been told yet, writes nothing', async () => {
    const election = new redisExpLock.Election(stage.key, {
      redis: await stage.direct(),
      lifetime: LONG_MS,
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
});
