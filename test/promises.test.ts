// docs/safety.md, "Which deployment promises what": every sentence of the table has a test that would fail without it. A sentence is
// what stands between two semicolons of a cell; a test is named by its file and words of its title.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';

const root = join(__dirname, '..');
const failover = 'test/redis/sentinel.test.ts';
const changes = 'test/redis/cluster-changes.test.ts';
const twice = 'granted twice; the old holder is notified at its next extension';

const evidence: Readonly<Record<string, Readonly<Record<string, readonly [file: string, title: string]>>>> = {
  memory: {
    'exclusion, first come first served': ['test/embedded/memory.test.ts', 'first come, first served'],
    'fences strictly increasing': [
      'test/contract/acquire.test.ts',
      'a fence is a safe integer and rises with each grant',
    ],
    'anything across processes or worker threads': ['test/embedded/memory.test.ts', 'each call makes another place'],
  },
  'shared memory': {
    'exclusion across processes while the table is neither deleted nor full': [
      'test/embedded/shared-memory.test.ts',
      'four that add to a number in a file lose nothing',
    ],
    'a dead holder frees within its lifetime': [
      'test/embedded/shared-memory.test.ts',
      'frees the key within its lifetime, and not before',
    ],
    'across hosts, users or containers': ['test/embedded/shared-memory.test.ts', 'the folder is this user’s alone'],
    'across a reboot': ['test/embedded/shared-memory.test.ts', 'a table of another boot is never read'],
    'progress while a process is stopped in the microseconds of a write': [
      'test/embedded/shared-memory.test.ts',
      'a process that stands still outside of a write holds nobody up',
    ],
  },
  'one Redis': {
    'no two holders with unexpired validity': ['test/redis/model.test.ts', 'never two valid holders'],
    "free at most `lifetime` after the holder's death": [
      'test/process/exit.test.ts',
      'frees its key within its lifetime',
    ],
    'fences strictly increasing': ['test/redis/model.test.ts', 'never a fence that falls'],
    "after the server's wall clock jumps": ['test/redis/renewal.test.ts', 'a server whose clock jumped ahead or back'],
    'after eviction, `DEL` or `FLUSHALL` by others': [
      'test/redis/late-extension.test.ts',
      'an operator takes the key away from its holder',
    ],
    'after a restart without persistence': ['test/redis/commands.test.ts', 'a restart: the same factory goes on'],
  },
  Sentinel: {
    'as one Redis *between* failovers': ['test/redis/clients.test.ts', 'works; messages come, also after a loss'],
    'a lock that had reached the replica is kept over the failover': [
      failover,
      'every holder keeps it and renews it there',
    ],
    '`minReplicas` narrows the window': [failover, 'minReplicas, in the same story: not granted'],
    'an old master that was stopped and goes on grants nothing with `minReplicas`, nor to a client that has heard of the failover (node-redis, or ioredis with `failoverDetector: true`)':
      [failover, ': never granted there'],
    'exclusion across a failover': [failover, twice],
    'fences that rise while an old master goes on beside the new one': [
      failover,
      'granted and renewed there, with the larger fence, until it is a replica',
    ],
    '`minReplicas` never closes the window': [failover, 'minReplicas 1 of 2'],
  },
  'Redis Cluster': {
    'as one Redis *between* failovers': [
      'test/redis/cluster.test.ts',
      'acquire, busy, inspect, extend, release: on every node',
    ],
    'a lock stays what it is while its slot moves': [changes, 'token and time intact, renewed on both sides'],
    'a lock that had reached the replica is kept when its master dies or is paused (GLIDE notices a pause by its own checks only)':
      [changes, 'its replica takes over, and locks are kept and renewed there'],
    'exclusion across a failover': ['test/redis/replicas.test.ts', 'grants twice; the old holder is notified'],
    'one lock on keys of several slots': [
      'test/redis/cluster.test.ts',
      'keys of several slots: an error that names them',
    ],
    'taking or releasing a lock in the moments in which its own slot moves (both wait)': [
      changes,
      'acquire and release wait until it has moved',
    ],
  },
  'a quorum of N independent Redis': {
    'exclusion and rising fences while fewer than half are down, clocks run at rates within a thousandth, and restarts are seen (`INFO`)':
      ['test/simulation/quorum.test.ts', 'the quorum in simulated worlds'],
    'if nodes restart empty within a lifetime unseen': [
      'test/redis/quorum.test.ts',
      'where it may not be asked, there is one warning, and it goes on without',
    ],
  },
  everywhere: {
    'the holder learns of the loss no later than the end of its validity on its own clock, event loop permitting': [
      'test/process/stalls.test.ts',
      'the first thing it sees is that it lost',
    ],
    'a stale holder is *detectable* by its fence': [
      'test/process/fence.test.ts',
      'the Redis row refuses it and nothing changes',
    ],
    'stopping code that ignores the signal': ['test/contract/run.test.ts', 'the lock was lost meanwhile'],
    'resources that ignore the fence': [
      'test/process/fence.test.ts',
      'without the fence, its stale write overwrites the newer one',
    ],
  },
};

describe('which deployment promises what', () => {
  const text = readFileSync(join(root, 'docs', 'safety.md'), 'utf8');
  const section = text.split('## Which deployment promises what')[1]!.split('\n## ')[0]!;
  const rows = section
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2);

  for (const row of rows) {
    const [where, ...cells] = row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
    it(`${where}: every sentence has its test, and that test is there`, () => {
      const tests = evidence[/^[A-Za-z ]*\w/.exec(where!)![0]];
      const sentences = cells.flatMap((cell) => cell.split(/;\s*/)).filter((sentence) => sentence !== '–');
      expect(sentences).to.have.members(Object.keys(tests ?? {}));
      for (const [file, title] of Object.values(tests!)) {
        const titles =
          readFileSync(join(root, file), 'utf8').match(/\b(?:it|describe)\(\s*(['"`])[\s\S]*?\1\s*,/g) ?? [];
        expect(
          titles.some((each) => each.includes(title)),
          `${file}: ${title}`,
        ).to.equal(true);
      }
    });
  }

  it('every deployment that has tests is in the table', () => {
    expect(rows).to.have.length(Object.keys(evidence).length);
  });
});
