/** H85 to H94: found in use and under attack: jobs, leaders, commands, operators, the clock of a table, and the live page. */
import { drop, operand, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const foundCallers: readonly Protection[] = [
  {
    hazard: 'H85',
    without: 'a mark from the future counts',
    changes: [operand('H85', 3, true)],
    test: 'embedded/mutex-machine.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a mark that a fast clock has left counts',
    changes: [operand('H85h', 3, true)],
    test: 'process/slots.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a slot that is done is run once more',
    changes: [when('H85b', false)],
    test: 'process/slots.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a process tells its slot by its own clock',
    changes: [piece('H85c', 'serverMs', 'Date.now()')],
    test: 'process/slots.test.ts',
  },
  {
    hazard: 'H85',
    without: 'the lock of a job is not renewed',
    changes: [piece('H85d', 'autoExtend: true', 'autoExtend: false')],
    test: 'contract/once.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a slot is done once its job is, also where it may run at most once',
    changes: [piece('H85e', /marks: .*(?= \})/, 'marks: false')],
    test: 'process/slots.test.ts',
  },
  {
    hazard: 'H85',
    without: 'a job that has lost its lock marks its slot as done',
    changes: [when('H85f', false)],
    test: 'contract/once.test.ts',
  },
  {
    hazard: 'H86',
    without: 'what is proclaimed is written without a look at the lock',
    changes: [when('H86', false)],
    test: 'redis/proclaim.test.ts',
  },
  {
    hazard: 'H86',
    without: 'a candidate that lost its lock campaigns while its function still runs',
    changes: [
      piece(
        'H86b',
        /await ([\s\S]*);$/,
        `await Promise.race([
      $1,
      new Promise<any>((resolve) => lost.addEventListener('abort', () => resolve([{ status: 'rejected', reason: lost.reason }]))),
    ]);`,
      ),
    ],
    test: 'contract/election.test.ts',
  },
  {
    hazard: 'H86',
    without: 'a leader that is asked to stop releases its lock at once',
    changes: [
      piece(
        'H86c',
        /=> (.*);$/,
        `=> {
      $1;
      void won.release();
    };`,
      ),
    ],
    test: 'contract/election.test.ts',
  },
  {
    hazard: 'H86',
    without: 'the loss of the lock is no end of the term',
    changes: [drop('H86d')],
    test: 'contract/election.test.ts',
  },
  {
    hazard: 'H86',
    without: 'the lease of a leader is collected while its function runs',
    changes: [piece('H86e', 'heldLockOf(lease)', 'held')],
    test: 'contract/election.test.ts',
  },
  {
    hazard: 'H87',
    without: 'signals go to the command alone',
    changes: [piece('H87', '-pid', 'pid')],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H87',
    without: 'the lock is free once the command has ended, whatever it left behind',
    changes: [piece('H87b', 'await', 'void')],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H87',
    without: 'what ignores TERM is never killed',
    changes: [drop('H87c')],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H87',
    without: 'a command sees the key of an outer lock',
    changes: [piece('H87d', '...process.env, ...env', '...env, ...process.env')],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H87',
    without: 'a command goes on when its lock was lost',
    changes: [drop('H87e')],
    test: 'process/cli.test.ts',
  },
  {
    hazard: 'H88',
    without: 'a lock is taken from its present holder, not from the one that was named',
    changes: [operand('H88', 2, false)],
    test: 'contract/operating.test.ts',
  },
  {
    hazard: 'H88',
    without: 'a lock that was taken away is free, with callers in its queue',
    changes: [write('H88b', "attempt('DEL', KEYS[1])")],
    test: 'contract/operating.test.ts',
  },
  {
    hazard: 'H88',
    without: 'the holder does not hear that its lock was taken away',
    changes: [piece('H88c', /return .*/, 'return;')],
    test: 'contract/operating.test.ts',
  },
  {
    hazard: 'H88',
    without: 'of readers that share a holder only the one whose token is in Redis hears that it was taken away',
    changes: [piece('H88e', 'storedToken', 'token')],
    test: 'contract/operating.test.ts',
  },
  {
    hazard: 'H88',
    without: 'a page from elsewhere may free a lock',
    changes: [drop('H88d')],
    test: 'page/answers.test.ts',
  },
  {
    hazard: 'H89',
    without: 'each process counts from its own start',
    changes: [value('H89', 'performance.now.bind(performance)')],
    test: 'embedded/clock.test.ts',
  },
  {
    hazard: 'H89',
    without: 'the clock of a process runs ahead of that of the host',
    changes: [piece('H89b', '#minMs', '#maxMs')],
    test: 'embedded/clock.test.ts',
  },
  {
    hazard: 'H89',
    without: 'a process knows nothing of how far its clock lags behind',
    changes: [value('H89c', '0')],
    test: 'embedded/clock.test.ts',
  },
  {
    hazard: 'H91',
    without: 'a request that does not show its peer is answered by its Host',
    changes: [piece('H91', '!== undefined &&', '=== undefined ||')],
    test: 'page/who-may.test.ts',
  },
  {
    hazard: 'H91',
    without: 'what a proxy says that it passed on counts as near',
    changes: [operand('H91b', 2, true)],
    test: 'page/who-may.test.ts',
  },
  {
    hazard: 'H92',
    without: 'nobody is warned of a client that may stay with an old master',
    changes: [drop('H92')],
    test: 'redis/sentinel.test.ts',
  },
  {
    hazard: 'H92',
    without: 'a grant at an old master counts without its replicas',
    changes: [operand('H92b', 2, true)],
    test: 'redis/sentinel.test.ts',
  },
  {
    hazard: 'H94',
    without: 'a signal that the command got is forgotten with the command',
    changes: [drop('H94')],
    test: 'process/cli.test.ts',
  },
];
