// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these are templates
/** H53 to H61: states of the server. */
import { drop, operand, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const servers: readonly Protection[] = [
  {
    hazard: 'H53',
    without: 'a script that the server has forgotten is an error for the caller',
    changes: [when('H53', true)],
    test: 'redis/commands.test.ts',
  },
  {
    hazard: 'H54',
    without: 'BUSY counts as a state that does not pass',
    changes: [piece('H54', '|BUSY', '')],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H54',
    without: 'a server with too many clients refuses for good',
    changes: [operand('H54b', 2, false)],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H54',
    without: 'a refusal that does not pass is tried again',
    changes: [when('H54c', true)],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H54',
    without: 'a right that is missing within a script has no name',
    changes: [drop('H54d')],
    test: 'redis/server-holders.test.ts',
  },
  {
    hazard: 'H55',
    without: 'an extension writes the key anew, which a full memory refuses',
    changes: [piece('H55', "'PEXPIRE', KEYS[i]", "'SET', KEYS[i], ARGV[1], 'XX', 'PX'")],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H55',
    without: 'an acquire gets past a full memory behind a release of the same tick',
    changes: [
      piece('H55b', /(\w+) = (\w+) and not .*, (string.*)\)\.err/, 'names.minted = $2 and $3'),
      piece(
        'H55c',
        /$/m,
        `
  if names.minted then
    call('SET', fence, names.minted)
  end`,
      ),
    ],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H55',
    without: 'the same where no fence is written first',
    changes: [value('H55d', 'true')],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H55',
    without: 'the end of a writer is moved by a write that a full memory refuses',
    changes: [drop('H55e')],
    test: 'redis/server-holders.test.ts',
  },
  {
    hazard: 'H55',
    without: 'a writer becomes a reader by a write that a full memory refuses',
    changes: [
      drop('H55f'),
      piece(
        'H55g',
        /$/,
        `
    call('ZREM', lock, mine.text)`,
      ),
    ],
    test: 'redis/server-holders.test.ts',
  },
  {
    hazard: 'H55',
    without: 'a reader gets past a full memory, because what has ended is removed first',
    changes: [
      piece(
        'H55h',
        /$/m,
        `
  purge(lock, '')`,
      ),
    ],
    test: 'redis/server-holders.test.ts',
  },
  {
    hazard: 'H55',
    without: 'a release that the server refuses says that the lock was no longer held',
    changes: [write('H55i', '        return false;')],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H55',
    without: 'a caller that is queued loses its place where memory is full',
    changes: [drop('H55j')],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H56',
    without: 'a slot on the move is an error for the caller',
    changes: [write('H56', '    handler.reject(error);')],
    test: 'redis/cluster-changes.test.ts',
  },
  {
    hazard: 'H56',
    without: 'calls of one tick fail together where one key of theirs has moved',
    changes: [piece('H56b', /, 'TRYAGAIN'.*(?=\])/, '')],
    test: 'redis/cluster-changes.test.ts',
  },
  {
    hazard: 'H56',
    without: 'an entry that is written again is removed first, and the key of the queue with it',
    changes: [piece('H56c', '#mine - 1', '#mine')],
    test: 'redis/cluster-changes.test.ts',
  },
  {
    hazard: 'H57',
    without: 'a companion may lie in another slot than its lock',
    changes: [piece('H57', '{${key}}', '${key}')],
    test: 'properties.test.ts',
  },
  {
    hazard: 'H57',
    without: 'keys of several slots are sent, and the cluster refuses them without a name',
    changes: [when('H57b', true), piece('H57c', ' ${describe(key)}', '')],
    test: 'redis/cluster.test.ts',
  },
  {
    hazard: 'H57',
    without: 'a plain client of a cluster node is told what Redis says',
    changes: [drop('H57d')],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H96',
    without: 'a plain client gets nothing but refusals from shards behind one endpoint',
    changes: [drop('H96')],
    test: 'redis/endpoint.test.ts',
  },
  {
    hazard: 'H96',
    without: 'each call of a plain client is refused once',
    changes: [drop('H96d')],
    test: 'redis/endpoint.test.ts',
  },
  {
    hazard: 'H96',
    without: 'a WAIT that may speak of another shard counts',
    changes: [drop('H96b')],
    test: 'redis/endpoint.test.ts',
  },
  {
    hazard: 'H96',
    without: 'a server that runs no scripts is told only in its own words',
    changes: [write('H96c', '  return false;')],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H58',
    without: 'a script names the fence counter by itself',
    changes: [piece('H58', 'KEYS[3]', "'redis-exp-lock:fence'"), piece('H58b', 'KEYS[3]', "'redis-exp-lock:fence'")],
    test: 'redis/cluster.test.ts',
  },
  {
    hazard: 'H58',
    without: 'the companions of a lock have a name that its rights do not cover',
    changes: [piece('H58c', /`(.*):(.*)`/, '`$2:$1`')],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H58',
    without: 'who is in the queue counts as dead where PUBLISH finds no subscriber',
    changes: [
      piece(
        'H58d',
        /^/,
        `  if not isMine and attempt('PUBLISH', first.channel, first.id .. ' ' .. lock) == 0 then
    call('ZREM', queue, first.member)
    return 'none'
  end
`,
      ),
    ],
    test: 'redis/cluster.test.ts',
  },
  {
    hazard: 'H59',
    without: 'the fence is a counter, and starts again with what the replica had',
    changes: [piece('H59', 'micros, ', ''), piece('H59b', 'micros, ', '')],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'a renewal that finds the key in other hands counts as one without an answer',
    changes: [piece('H59c', /held.*/, "throw new LockBackendError('the lock could not be extended', { key });")],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'what WAIT answers is not looked at',
    changes: [operand('H59d', 2, true)],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'a script that the server has forgotten is written behind WAIT',
    changes: [
      piece(
        'H59e',
        '(script.lua, keys, args)',
        'sha(script.sha, keys, args).catch(() => client.eval(script.lua, keys, args))',
      ),
    ],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'WAIT may speak of another connection than the one that wrote',
    changes: [value('H59f', 'true')],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'the calls of a refused batch are written behind a WAIT that is under way',
    changes: [drop('H59g')],
    test: 'redis/replicas-crowd.test.ts',
  },
  {
    hazard: 'H60',
    without: 'nobody looks at how the server evicts',
    changes: [drop('H60')],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H60',
    without: 'the warning is repeated with each lock',
    changes: [drop('H60b')],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H61',
    without: 'an extension makes a key that is gone anew',
    changes: [write('H61', "    redis.call('SET', KEYS[i], ARGV[1], 'PX', math.max(lifetime, 1))")],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H61',
    without: 'the fence is a counter, and a FLUSHALL sets it back',
    changes: [piece('H61b', 'micros, ', ''), piece('H61c', 'micros, ', '')],
    test: 'redis/foreign-keys.test.ts',
  },
];
