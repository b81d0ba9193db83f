/**
 * Readers, writers and permits: what nobody releases ends by itself, and what has ended is not released.
 */
import { expect } from 'chai';
import redisExpLock from '../../src/index';
import { LONG_MS, useStage } from './faults';

const { RWLock, Semaphore } = redisExpLock;

describe('the ends of readers, writers and permits (H38, H40, H47)', () => {
  const stage = useStage();
  const terms = async () => ({
    redis: await stage.direct(),
    lifetime: LONG_MS,
    commandTimeout: 10_000,
    autoExtend: false,
  });
  const holds: Record<string, () => Promise<redisExpLock.Lease>> = {
    reader: async () => new RWLock(stage.key, await terms()).acquireRead(),
    writer: async () => new RWLock(stage.key, await terms()).acquireWrite(),
    permit: async () => new Semaphore(stage.key, 2, await terms()).acquire(),
  };

  for (const [kind, acquire] of Object.entries(holds)) {
    it(`${kind}: the key ends with its last holder, so that nothing stays after a crash`, async () => {
      const lease = await acquire();
      expect(await stage.server.command('PTTL', stage.key)).to.be.within(1, LONG_MS);
      expect(await lease.release()).to.equal(true);
    });

    it(`${kind}: one whose end has passed on the server was not released: false, and its member goes`, async () => {
      const lease = await acquire();
      const [member] = await stage.server.command<[string]>('ZRANGE', stage.key, 0, 0);
      const [seconds] = await stage.server.command<[string]>('TIME');
      await stage.server.command('ZADD', stage.key, 'XX', (Number(seconds) - 1) * 1000, member);
      expect(await lease.release()).to.equal(false);
      expect(await stage.server.command('EXISTS', stage.key)).to.equal(0);
    });
  }
});
