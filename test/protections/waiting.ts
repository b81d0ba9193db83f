/** H27 to H36: callers wait. */
import { drop, operand, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const waiting: readonly Protection[] = [
  {
    hazard: 'H27',
    without: 'an entry is sent before its subscription is confirmed',
    changes: [piece('H27', /await (\w+)/, '$1.catch(() => {})')],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H27',
    without: 'a queue whose subscription is never confirmed waits for it without end',
    changes: [piece('H27b', /setImmediate\(.*\)(?=, )/, '{}')],
    test: 'wake-ups.test.ts',
  },
  {
    hazard: 'H27',
    without: 'a message that comes before the reply is dropped',
    changes: [piece('H27c', 'this.#wakeUp = wakeUp', 'return true')],
    test: 'queue.test.ts',
  },
  {
    hazard: 'H27',
    without: 'a caller whose wake-ups were not open in time polls for as long as it waits',
    changes: [operand('H27d', 2, true)],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H28',
    without: 'a queue relies on its wake-ups alone',
    changes: [
      value(
        'H28',
        `() => {
    this.#timer = undefined;
  }`,
      ),
    ],
    test: 'contract/lost-wake-ups.test.ts',
  },
  {
    hazard: 'H28',
    without: 'a subscription that was cut is not made again, and nobody polls meanwhile',
    changes: [
      value(
        'H28',
        `() => {
    this.#timer = undefined;
  }`,
      ),
      drop('H28b'),
    ],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H28',
    without: 'all that were refused together ask together again',
    changes: [piece('H28c', 'random', '1')],
    test: 'queue.test.ts',
  },
  {
    hazard: 'H29',
    without: 'entries of the dead stay in the queue, and are granted the lock',
    changes: [operand('H29', 2, false)],
    test: 'process/queue.test.ts',
  },
  {
    hazard: 'H29',
    without: 'a grant that nobody confirms lasts for its whole lifetime',
    changes: [operand('H29b', 1, true)],
    test: 'process/queue.test.ts',
  },
  {
    hazard: 'H29',
    without: 'a caller that gives up leaves its entry in the queue',
    changes: [write('H29c', '    this.#stopTimer();')],
    test: 'queue.test.ts',
  },
  {
    hazard: 'H30',
    without: 'each waiter of a process requests the lock from Redis',
    changes: [operand('H30', 3, true)],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H30',
    without: 'each channel has a connection of its own',
    changes: [piece('H30b', '??=', '=')],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H30',
    without: 'a release wakes all that wait, whether there is room for them or not',
    changes: [operand('H30c', 2, false)],
    test: 'process/killed-waiters.test.ts',
  },
  {
    hazard: 'H31',
    without: 'a factory that is closed closes the channel for all',
    changes: [drop('H31')],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H32',
    without: 'a newcomer takes a free lock, past all that are queued',
    changes: [piece('H32', ', KEYS[2]', ''), piece('H32b', 'free[i]', 'free[i] and mayQueue')],
    test: 'contract/queue-fairness.test.ts',
  },
  {
    hazard: 'H32',
    without: 'a process hands the lock off to its own newcomers for as long as it likes',
    changes: [drop('H32d')],
    test: 'contract/queue-fairness.test.ts',
  },
  {
    hazard: 'H33',
    without: 'each waiter keeps an error, made where it was called',
    changes: [
      piece(
        'H33',
        /$/,
        `
    this.late = timedOut(this.awaited, this.#strategy);`,
      ),
      piece('H33b', 'timedOut(this.awaited, this.#strategy!)', 'this.late'),
    ],
    test: 'contract/queue-fairness.test.ts',
  },
  {
    hazard: 'H34',
    without: 'a message is split at its spaces',
    changes: [piece('H34', /;$/, ".split(' ')[0]!;")],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H34',
    without: 'a message is one line of text',
    changes: [piece('H34', /;$/, ".split('\\n')[0]!;")],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H35',
    without: 'the timer of a timeout stays when the wait is over',
    changes: [drop('H35')],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H35',
    without: 'the timer of a subscription keeps the process alive',
    changes: [piece('H35b', 'idle(', '(')],
    test: 'process/queue.test.ts',
  },
  {
    hazard: 'H35',
    without: 'close() waits for holders whose time is over',
    changes: [when('H35c', 'held.leftMs() > 0')],
    test: 'contract/close.test.ts',
  },
  {
    hazard: 'H36',
    without: 'a signal that was aborted before is not seen',
    changes: [drop('H36')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H36',
    without: 'a caller that is aborted stays in the queue',
    changes: [drop('H36b')],
    test: 'contract/queue.test.ts',
  },
  {
    hazard: 'H36',
    without: 'the grant of an attempt that was given up is not released',
    changes: [drop('H36c'), drop('H36d')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H36',
    without: 'a wait that is over still listens to its signal',
    changes: [drop('H36e')],
    test: 'redis/unknown-outcome.test.ts',
  },
];
