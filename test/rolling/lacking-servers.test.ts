/**
 * A rolling upgrade on a server that lacks commands, or becomes a replica for a while: processes of the build before and of this one
 * exclude each other and hand over there too.
 */
import { expect } from 'chai';
import { waitFor } from '../support/processes';
import { type Client, type RedisServer, startRedis, uniqueKey } from '../support/redis';
import { roles } from './roles';
import { bothVersions, directions, type Versions } from './versions';

/** Commands that are missing together, so that neither build is served as usual. */
const lacking = [['SUBSCRIBE'], ['PUBLISH'], ['MGET', 'EXISTS'], ['CONFIG', 'INFO', 'CLIENT', 'SCRIPT', 'WAIT']];
const lifetime = 60_000;

describe('old and new beside each other, on servers that lack something', function () {
  this.timeout(120_000); // the build before is unpacked and loaded first
  let versions: Versions;
  bothVersions((both) => {
    versions = both;
  });

  for (const commands of lacking) {
    describe(`without ${commands.join(', ')}`, () => {
      const place = useServer(commands.flatMap((command) => ['--rename-command', command, '']));
      for (const [from, to] of directions) {
        it(`${from} holds, ${to} stays out and gets the lock next, as writer too (H97)`, () =>
          handOver(from, to, place));
      }
    });
  }

  describe('that is a replica for a while', () => {
    const place = useServer([]);
    for (const [from, to] of directions) {
      it(`${from} holds, ${to} waits through READONLY and gets the lock next (H54, H97)`, () =>
        handOver(from, to, place, async () => {
          await place.server.command('REPLICAOF', '127.0.0.1', 1);
          const redisCode = await versions[to]
            .library({ redis: place.clients[to] })
            .promise(uniqueKey())
            .catch((error) => error.redisCode);
          expect(redisCode).to.equal('READONLY');
          await place.server.command('REPLICAOF', 'NO', 'ONE');
        }));
    }
  });

  async function handOver(from: 'old' | 'new', to: 'old' | 'new', place: Place, meanwhile?: () => Promise<void>) {
    for (const role of ['queued', 'writer'] as const) {
      const key = uniqueKey();
      const enter = (who: 'old' | 'new') =>
        roles[role](versions[who], { redis: place.clients[who], nodes: [] }, { key, lifetime });
      const first = await enter(from);
      let isIn = false;
      const entered = enter(to).finally(() => {
        isIn = true;
      });
      expect(await versions[to].library({ redis: place.clients[to] }).tryLock(`${key}-other`)).not.to.equal(null);
      await meanwhile?.();
      expect(isIn).to.equal(false);
      expect(await first.leave()).to.equal(true);
      const second = await entered;
      expect(second.fence).to.be.greaterThan(first.fence!);
      expect(await second.leave()).to.equal(true);
      await waitFor(async () => (await place.server.command('GET', key)) === null, { what: 'the key to be free' });
    }
  }
});

interface Place {
  server: RedisServer;
  clients: Record<'old' | 'new', Client>;
}

/** A server for the tests of a suite, with a client for each build. */
function useServer(args: readonly string[]): Place {
  const place = {} as Place;
  before(async () => {
    place.server = await startRedis({ args });
    place.clients = { old: await place.server.connect(), new: await place.server.connect() };
  });
  after(async () => {
    for (const client of Object.values(place.clients)) client.destroy();
    await place.server.discard();
  });
  return place;
}
