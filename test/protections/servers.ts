// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these are templates
/** H53 to H61: states of the server. */
import type { Alteration } from '../support/altered-tree';
import type { Protection } from './protection';

/** A counter as others would write it. */
const countingFence: readonly Alteration[] = [
  {
    file: 'scripts/acquire.lua',
    from: 'math.max(last + 1, micros, least)',
    to: 'math.max(last + 1, least)',
  },
  {
    file: 'scripts/mint.lua',
    from: 'math.max(lastFence(fence) + 1, micros, least or 0)',
    to: 'math.max(lastFence(fence) + 1, least or 0)',
  },
];

export const servers: readonly Protection[] = [
  {
    hazard: 'H53',
    without: 'a script that the server has forgotten is an error for the caller',
    changes: [
      {
        file: 'stores/redis/sender.ts',
        from: 'if (isNoScript(error)) this.#sendText(call, handler);\n          else this.#refused(error, call, handler);',
        to: 'this.#refused(error, call, handler);',
      },
    ],
    test: 'redis/commands.test.ts',
  },
  {
    hazard: 'H54',
    without: 'BUSY counts as a state that does not pass',
    changes: [{ file: 'stores/redis/replies.ts', from: "  'BUSY',\n", to: '' }],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H54',
    without: 'a server with too many clients refuses for good',
    changes: [{ file: 'stores/redis/replies.ts', from: ' || /max number of clients/i.test(text)', to: '' }],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H54',
    without: 'a refusal that does not pass is tried again',
    changes: [
      {
        file: 'acquire.ts',
        from: 'if (error.retryable) this.#next();\n    else this.#fail(error);',
        to: 'this.#next();',
      },
    ],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H54',
    without: 'a right that is missing within a script has no name',
    changes: [
      {
        file: 'stores/redis/replies.ts',
        from: "  if (/ACL failure|can't (run|access)|no permissions/i.test(text)) return 'NOPERM';\n",
        to: '',
      },
    ],
    test: 'redis/server-holders.test.ts',
  },
  {
    hazard: 'H55',
    without: 'an extension writes the key anew, which a full memory refuses',
    changes: [
      {
        file: 'scripts/extend.lua',
        from: "redis.call('PEXPIRE', KEYS[i], string.format('%.0f', lifetime))",
        to: "redis.call('SET', KEYS[i], ARGV[1], 'XX', 'PX', string.format('%.0f', lifetime))",
      },
    ],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H55',
    without: 'an acquire gets past a full memory behind a release of the same tick',
    changes: [
      {
        file: 'scripts/plain.lua',
        from: 'local first, areUsual = 0, false',
        to: 'local first, areUsual, minted = 0, false, nil',
      },
      {
        file: 'scripts/plain.lua',
        from: "areUsual = areUsual and not attempt('SET', fence, string.format('%.0f', last)).err",
        to: "minted = areUsual and string.format('%.0f', last)",
      },
      {
        file: 'scripts/plain.lua',
        from: 'local function acquireAll()\n',
        to: "local function acquireAll()\n  if minted then\n    call('SET', fence, minted)\n  end\n",
      },
    ],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H55',
    without: 'the same where no fence is written first',
    changes: [
      {
        file: 'stores/redis/plain.ts',
        from: 'return acquire === undefined || acquire.fences > 0 || (release === undefined && renewal === undefined);',
        to: 'return true;',
      },
    ],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H55',
    without: 'the end of a writer is moved by a write that a full memory refuses',
    changes: [{ file: 'scripts/extend-shared.lua', from: '  purge(lock, mine)\n', to: '' }],
    test: 'redis/server-holders.test.ts',
  },
  {
    hazard: 'H55',
    without: 'a writer becomes a reader by a write that a full memory refuses',
    changes: [
      {
        file: 'scripts/acquire-shared.lua',
        from: "    call('ZREM', lock, mine.text)\n    call('ZADD', lock, score, text('r', 1, step, mine.fence, token, mine.group))\n",
        to: "    call('ZADD', lock, score, text('r', 1, step, mine.fence, token, mine.group))\n    call('ZREM', lock, mine.text)\n",
      },
    ],
    test: 'redis/server-holders.test.ts',
  },
  {
    hazard: 'H55',
    without: 'a reader gets past a full memory, because what has ended is removed first',
    changes: [
      {
        file: 'scripts/acquire-shared.lua',
        from: 'if granted then\n  -- Readers of one phase share a fence.\n',
        to: "if granted then\n  purge(lock, '')\n",
      },
    ],
    test: 'redis/server-holders.test.ts',
  },
  {
    hazard: 'H55',
    without: 'a release that the server refuses says that the lock was not held any more',
    changes: [{ file: 'held-lock.ts', from: 'throw forKey(error, this.key);', to: 'return false;' }],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H56',
    without: 'a slot on the move is an error for the caller',
    changes: [
      {
        file: 'stores/redis/sender.ts',
        from: 'setTimeout(() => this.send(call, handler), movingPauseMs).unref();',
        to: 'handler.reject(error);',
      },
    ],
    test: 'redis/cluster-changes.test.ts',
  },
  {
    hazard: 'H56',
    without: 'calls of one tick fail together where one key of theirs has moved',
    changes: [
      {
        file: 'stores/redis/batch.ts',
        from: "new Set(['NOPERM', 'CROSSSLOT', 'TRYAGAIN', 'CLUSTERDOWN', 'MOVED', 'ASK'])",
        to: "new Set(['NOPERM', 'CROSSSLOT'])",
      },
    ],
    test: 'redis/cluster-changes.test.ts',
  },
  {
    hazard: 'H57',
    without: 'a companion may lie in another slot than its lock',
    changes: [
      {
        file: 'keys.ts',
        from: 'if (tag === null) return `{${key}}:${name}`;',
        to: 'if (tag === null) return `${key}:${name}`;',
      },
    ],
    test: 'properties.test.ts',
  },
  {
    hazard: 'H57',
    without: 'keys of several slots are sent, and the cluster refuses them without a name',
    changes: [
      {
        file: 'stores/redis/store.ts',
        from: "if (typeof keys === 'string' || !this.#client.clustered || new Set(keys.map(slotOf)).size === 1) return undefined;",
        to: "if (typeof keys === 'string' || new Set(keys.map(slotOf)).size > 0) return undefined;",
      },
      {
        file: 'stores/redis/replies.ts',
        from: 'const message = `Redis refused ${describe(key)}: ${text}`;',
        to: 'const message = `Redis refused: ${text}`;',
      },
    ],
    test: 'redis/cluster.test.ts',
  },
  {
    hazard: 'H57',
    without: 'a plain client of a cluster node is told what Redis says',
    changes: [
      {
        file: 'stores/redis/sender.ts',
        from: '    if (!this.#client.clustered && isOfCluster(error)) return handler.reject(noClusterClient(error as Error));\n',
        to: '',
      },
    ],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H58',
    without: 'a script names the fence counter by itself',
    changes: [
      {
        file: 'scripts/acquire.lua',
        from: "top or call('GET', KEYS[3]) or '0'",
        to: "top or call('GET', 'redis-exp-lock:fence') or '0'",
      },
      {
        file: 'scripts/acquire.lua',
        from: "call('SET', KEYS[3], string.format('%.0f', fence))",
        to: "call('SET', 'redis-exp-lock:fence', string.format('%.0f', fence))",
      },
    ],
    test: 'redis/cluster.test.ts',
  },
  {
    hazard: 'H58',
    without: 'the companions of a lock have a name that its rights do not cover',
    changes: [
      {
        file: 'keys.ts',
        from: 'if (tag === null) return `{${key}}:${name}`;',
        to: 'if (tag === null) return `${name}:{${key}}`;',
      },
    ],
    test: 'redis/server-states.test.ts',
  },
  {
    hazard: 'H58',
    without: 'who is in the queue counts as dead where PUBLISH finds no subscriber',
    changes: [
      {
        file: 'scripts/queue.lua',
        from: '  local ttl = token == mine and lifetime or',
        to: [
          "  if token ~= mine and attempt('PUBLISH', channel, id .. ' ' .. lock) == 0 then",
          "    call('ZREM', queue, first)",
          "    return 'none'",
          '  end',
          '  local ttl = token == mine and lifetime or',
        ].join('\n'),
      },
    ],
    test: 'redis/cluster.test.ts',
  },
  {
    hazard: 'H59',
    without: 'the fence is a counter, and starts again with what the replica had',
    changes: countingFence,
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'a renewal that finds the key in other hands counts as one without an answer',
    changes: [
      {
        file: 'upkeep.ts',
        from: '    else this.#held.lose(reply.outcome);\n    const extended',
        to: "    else throw new LockBackendError('the lock could not be extended', { key });\n    const extended",
      },
    ],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'what WAIT answers is not looked at',
    changes: [
      {
        file: 'stores/redis/replicas.ts',
        from: 'if (isGrant(reply) && replicas < minReplicas) {',
        to: 'if (isGrant(reply) && replicas < 0) {',
      },
    ],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'a script that the server has forgotten is written behind WAIT',
    changes: [
      {
        file: 'stores/redis/replicas.ts',
        from: 'client.eval(script.lua, keys, args).then(',
        to: 'client.evalsha(script.sha, keys, args).catch(() => client.eval(script.lua, keys, args)).then(',
      },
    ],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H59',
    without: 'WAIT may speak of another connection than the one that wrote',
    changes: [
      {
        file: 'stores/redis/replicas.ts',
        from: '      if (connection.generation() !== generation) continue;\n',
        to: '',
      },
    ],
    test: 'redis/replicas.test.ts',
  },
  {
    hazard: 'H60',
    without: 'nobody looks at how the server evicts',
    changes: [
      {
        file: 'stores/redis/store.ts',
        from: '    if (acquired?.granted && !this.#isEvictionChecked && warningsWanted()) this.#checkEviction();\n',
        to: '',
      },
    ],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H60',
    without: 'the warning is repeated with each lock',
    changes: [{ file: 'stores/redis/store.ts', from: '    this.#isEvictionChecked = true;\n', to: '' }],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H61',
    without: 'an extension makes a key that is gone anew',
    changes: [
      {
        file: 'scripts/extend.lua',
        from: 'result = math.min(result, 0)',
        to: "redis.call('SET', KEYS[i], ARGV[1], 'PX', math.max(lifetime, 1))",
      },
    ],
    test: 'redis/foreign-keys.test.ts',
  },
  {
    hazard: 'H61',
    without: 'the fence is a counter, and a FLUSHALL sets it back',
    changes: countingFence,
    test: 'redis/foreign-keys.test.ts',
  },
];
