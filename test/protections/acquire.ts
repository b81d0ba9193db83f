/** H1 to H12: a lock is acquired. */
import { drop, operand, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const acquire: readonly Protection[] = [
  {
    hazard: 'H1',
    without: 'the script takes any lifetime: the key is set, and its time to live fails',
    changes: [when('H1', false)],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H1',
    without: 'an extension may be to a fraction, or to less than nothing',
    changes: [when('H1b', 'not lifetime or lifetime ~= lifetime')],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H1',
    without: 'a lifetime is any number, and sent as it is',
    changes: [value('H1c', '() => true')],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H2',
    without: 'the repeated request has a token of its own, and waits for what the first one got',
    changes: [when('H2', true)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H2',
    without: 'a lock that has the caller’s own token is busy',
    changes: [when('H2b', true)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H2',
    without: 'the repeated request mints another fence',
    changes: [operand('H2c', 1, false)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H2',
    without: 'a lock without an end has none before its caller has heard of it',
    changes: [value('H2d', 'Number.MAX_SAFE_INTEGER')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'the script does not look at its last moment',
    changes: [when('H3', false)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'a request is good for ever',
    changes: [value('H3b', 'Number.MAX_SAFE_INTEGER')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'what a client cannot send now is left to its offline queue',
    changes: [piece('H3c', "=== 'ready'", "!== 'closed'")],
    test: 'redis/clients.test.ts',
  },
  {
    hazard: 'H3',
    without: 'acquires of one tick do not look at their last moment',
    changes: [operand('H3d', 1, true)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'the server’s clock is taken for what it was when the request was sent, however long that was under way',
    changes: [write('H3f', '    this.#offsetMs = Math.max(maxOffsetMs, minOffsetMs);')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H3',
    without: 'a table in memory does not look at the last moment of a request',
    changes: [drop('H3g')],
    test: 'embedded/mutex-machine.test.ts',
  },
  {
    hazard: 'H4',
    without: 'what Redis runs twice mints two fences',
    changes: [operand('H4', 1, false)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H4',
    without: 'what Redis runs twice sets the end anew, even if it is sooner',
    changes: [value('H4b', 'tonumber(ttl)')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H5',
    without: 'any list is read as numbers',
    changes: [operand('H5', 2, true), operand('H5', 3, true), value('H5', 'reply.map(Number)')],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H5',
    without: 'any number but 0 is a grant',
    changes: [value('H5b', 'Number(only) > 0 ? Number(only) : undefined')],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H5',
    without: 'an unknown reply counts as “busy”: what it may have granted is not released',
    changes: [piece('H5c', ', unknown: true', '')],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H5',
    without: 'any reply but 0 says that a lock was released',
    changes: [when('H5d', 'Number(reply) !== 0')],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H6',
    without: 'the validity counts from the reply',
    changes: [piece('H6', 'sent', 'now()')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H6',
    without: 'a grant that came too late is given out all the same',
    changes: [when('H6b', true)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H6',
    without: 'a grant that came too late is refused, and not released',
    changes: [drop('H6c')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H7',
    without: 'user code runs under a grant that was valid when its reply was read',
    changes: [when('H7', true)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H7',
    without: 'a grant that is over before user code runs is refused, and not released',
    changes: [drop('H7b')],
    test: 'redis/strange-replies.test.ts',
  },
  {
    hazard: 'H8',
    without: 'a caller that gives up forgets the attempt that is under way',
    changes: [drop('H8')],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H8',
    without: 'what was given up is released once, whether that was heard or not',
    changes: [when('H8b', true)],
    test: 'redis/unknown-outcome.test.ts',
  },
  {
    hazard: 'H8',
    without: 'a request that nobody waits for any longer is still sent',
    changes: [value('H8c', 'true')],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H9',
    without: 'listeners are called as those of an EventEmitter',
    changes: [write('H9', '  for (const listener of (lostChannel as any)._subscribers) listener(event);')],
    test: 'redis/diagnostics.test.ts',
  },
  {
    hazard: 'H9',
    without: 'what a listener of `error` throws reaches the code that emits the event',
    changes: [
      piece(
        'H9b',
        /catch[\s\S]*/,
        `finally {
    }`,
      ),
    ],
    test: 'shims/redlock.test.ts',
  },
  {
    hazard: 'H10',
    without: 'a key of another type is busy',
    changes: [piece('H10', 'call', 'attempt')],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H10',
    without: 'every error of Redis is waited out',
    changes: [value('H10b', 'true')],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H10',
    without: '`inspect` takes a string without an end for one that has ended',
    changes: [value('H10c', 'Math.max(leftMs, 0)')],
    test: 'contract/inspect.test.ts',
  },
  {
    hazard: 'H11',
    without: 'tokens are made of Math.random()',
    changes: [write('H11', '  for (let i = 0; i < pool.length; i += 1) pool[i] = Math.floor(Math.random() * 256);')],
    test: 'token.test.ts',
  },
  {
    hazard: 'H11',
    without: 'a release is published with its token',
    changes: [piece('H11b', ' }', ', token: held.token }')],
    test: 'redis/diagnostics.test.ts',
  },
  {
    hazard: 'H11',
    without: 'the token is an enumerable property of the lease',
    changes: [
      piece(
        'H11c',
        /$/,
        `
  Object.defineProperty(lease, 'token', { value: held.token, enumerable: true });`,
      ),
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H12',
    without: 'a string is the list of its letters',
    changes: [drop('H12'), write('H12b', '  key = Array.from(key as string);')],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H12',
    without: 'numbers may be fractions, and infinite',
    changes: [operand('H12c', 1, true), operand('H12c', 3, true)],
    test: 'contract/options.test.ts',
  },
  {
    hazard: 'H12',
    without: 'an option is known when the rules have it, or inherit it',
    changes: [piece('H12d', ') throw', ' && !(name in rules)) throw')],
    test: 'contract/options.test.ts',
  },
  {
    hazard: 'H12',
    without: 'a key may have lone surrogates',
    changes: [when('H12e', false)],
    test: 'contract/options.test.ts',
  },
  {
    hazard: 'H12',
    without: 'a key may be of any length',
    changes: [when('H12f', false)],
    test: 'contract/options.test.ts',
  },
];
