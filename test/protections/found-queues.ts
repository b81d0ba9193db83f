/** H80 to H84, H95: found in use and under attack: queues, messages and what readers share. */
import { drop, operand, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const foundQueues: readonly Protection[] = [
  {
    hazard: 'H80',
    without: 'the key yields after 64 hand-offs alone, however long callers have polled in vain',
    changes: [piece('H80', / or \(.*\)(?=\) then)/, ''), value('H80b', 'false')],
    test: 'redis/queue-model.test.ts',
  },
  {
    hazard: 'H80',
    without: 'the key yields for the pause of its holder, not for that of those that poll',
    changes: [piece('H80c', /, [^,]*\)$/, ')'), piece('H80d', /, [^,]*\);$/, ');')],
    test: 'redis/queue-model.test.ts',
  },
  {
    hazard: 'H80',
    without: 'callers that poll leave no mark',
    changes: [operand('H80e', 1, false), when('H80f', true)],
    test: 'simulation/simulation.test.ts',
  },
  {
    hazard: 'H81',
    without: 'each call reads the whole queue',
    changes: [value('H81', '1000000'), value('H81b', '1000000')],
    test: 'redis/queue-front.test.ts',
  },
  {
    hazard: 'H82',
    without: 'the deadline of an entry may be any time from now',
    changes: [operand('H82', 3, false)],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'an entry is granted as many fences as it says',
    changes: [operand('H82', 4, false)],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'the key yields for as long as a mark in its queue says',
    changes: [operand('H82b', 2, true)],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'a queue of another version without an end stays',
    changes: [drop('H82c')],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'the deadline of an entry of readers and writers may be any time from now',
    changes: [operand('H82d', 2, false)],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H82',
    without: 'a counter of fences far ahead of the clock is as good as any',
    changes: [operand('H82e', 3, false)],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H82',
    without: 'a cached value must be JSON',
    changes: [
      piece(
        'H82f',
        /catch[\s\S]*/,
        `finally {
  }`,
      ),
    ],
    test: 'redis/forged-queue.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a message grants whatever nonce it names',
    changes: [operand('H83', 2, false)],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H83',
    without: 'all requests of an entry have one nonce',
    changes: [piece('H83b', ' = ', ' ||= ')],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a message grants however late it comes',
    changes: [drop('H83c')],
    test: 'queue.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a message grants for the whole lifetime',
    changes: [piece('H83d', ', provisionalMs', '')],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a lock is handed off before its grant was confirmed',
    changes: [operand('H83e', 2, true), operand('H83f', 2, true)],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H83',
    without: 'a grant to an entry that has left stays',
    changes: [drop('H83g')],
    test: 'contract/granted-by-message.test.ts',
  },
  {
    hazard: 'H84',
    without: 'the first reader that leaves releases what it shares',
    changes: [write('H84', "    if (!wasHeld) return 'missing';")],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'each reader that joins lets others join for longer',
    changes: [
      piece(
        'H84b',
        /$/,
        `
    this.#closesMs = this.nowMs() + turnMs;`,
      ),
    ],
    test: 'readers.test.ts',
  },
  {
    hazard: 'H84',
    without: 'readers of another owner, group or lifetime join as well',
    changes: [operand('H84c', 2, true), operand('H84c', 4, true)],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'the validity of a reader that joins counts from then on',
    changes: [
      piece('H84d', 'sent,', 'sent: { monoMs: this.nowMs(), wallMs: sent.wallMs + this.nowMs() - sent.monoMs },'),
    ],
    test: 'simulation/sharing.test.ts',
  },
  {
    hazard: 'H84',
    without: 'a reader joins what is being released',
    changes: [drop('H84e')],
    test: 'readers.test.ts',
  },
  {
    hazard: 'H84',
    without: 'a reader joins what was lost',
    changes: [drop('H84f')],
    test: 'readers.test.ts',
  },
  {
    hazard: 'H84',
    without: 'the loss of what readers share is that of one of them',
    changes: [piece('H84g', ']) ', '].slice(0, 1)) ')],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'an extension by another lifetime is one of all that share',
    changes: [drop('H84h')],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'an upgrade takes what others share with it along',
    changes: [drop('H84i')],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H84',
    without: 'a permit is handed off with its fence',
    changes: [piece('H84j', ' + 1', '')],
    test: 'contract/shared-members.test.ts',
  },
  {
    hazard: 'H95',
    without: 'a token that was never queued is looked for among the last entries',
    changes: [when('H95', true)],
    test: 'redis/contended-cost.test.ts',
  },
  {
    hazard: 'H95',
    without: 'a process does not say since when its token may be queued',
    changes: [piece('H95b', 'ticket === 0 && sinceMs > 0 ? -since : ticket', 'sinceMs > 0 ? ticket : -since')],
    test: 'redis/contended-cost.test.ts',
  },
  {
    hazard: 'H95',
    without: 'all of a short queue is read, of readers, writers and permits',
    changes: [value('H95c', '100')],
    test: 'redis/contended-cost.test.ts',
  },
  {
    hazard: 'H95',
    without: 'a release notifies again the waiters for whom there was room before',
    changes: [value('H95e', 'false')],
    test: 'redis/contended-cost.test.ts',
  },
  {
    hazard: 'H95',
    without: 'a first request that ran twice does not look for its entry',
    changes: [piece('H95d', 'since, ', 'micros + 1, ')],
    test: 'redis/contended-cost.test.ts',
  },
];
