/** H90 to H99: found in use and under attack: other hosts, processes that stand still, signals with many listeners, and overload. */
import { drop, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const foundEdges: readonly Protection[] = [
  {
    hazard: 'H90',
    without: 'each timer is told to let the process end, also where it is a number',
    changes: [piece('H90', '?.()', '()')],
    test: 'process/other-hosts.test.ts',
  },
  {
    hazard: 'H90',
    without: 'a storage that cannot be disabled makes `run` reject after its function ran',
    changes: [write('H90b', '  storage.disable();')],
    test: 'process/other-hosts.test.ts',
  },
  {
    hazard: 'H90',
    without: 'a grant that cannot be handed over is kept, and its call never settles',
    changes: [drop('H90c'), write('H90d', '      throw error;')],
    test: 'process/other-hosts.test.ts',
  },
  {
    hazard: 'H90',
    without: 'calls that wait for the same time share a timer, also of different incoming requests on Workers',
    changes: [piece('H90e', 'if (!hasIncomingRequests) ', '')],
    test: 'edge.test.ts',
  },
  {
    hazard: 'H90',
    without: 'calls of different incoming requests on Workers leave together',
    changes: [piece('H90f', 'hasIncomingRequests ? nextTick : ', '')],
    test: 'edge.test.ts',
  },
  {
    hazard: 'H90',
    without: 'a lease that is renewed needs WeakRef, which Workers before 2025-05-05 lack',
    changes: [write('H90g', '  return new WeakRef(thing);')],
    test: 'edge.test.ts',
  },
  {
    hazard: 'H93',
    without: 'the table is opened where the store is made',
    changes: [piece('H93', /$/, '\n    this.open();')],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H93',
    without: 'a HostLock gives up at the first write that stands still',
    changes: [drop('H93b')],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H93',
    without: 'a timer is set for a time that is past',
    changes: [piece('H93c', 'Math.max(ms, 0)', 'ms')],
    test: 'shared-timers.test.ts',
  },
  {
    hazard: 'H97',
    without: 'the companions of a lock have names that the version before does not know',
    changes: [piece('H97', '}:', '}:2:')],
    test: 'rolling/values.test.ts',
  },
  {
    hazard: 'H98',
    without: 'each wait has a listener of its own',
    changes: [piece('H98', 'worksOf(signal)', 'new AbortWorks()')],
    test: 'on-abort.test.ts',
  },
  {
    hazard: 'H98',
    without: 'an observation that is ended waits for the next change first',
    changes: [drop('H98b')],
    test: 'contract/election.test.ts',
  },
  {
    hazard: 'H99',
    without: 'each of many callers of one key makes an attempt of its own',
    changes: [drop('H99c')],
    test: 'redis/overload.test.ts',
  },
  {
    hazard: 'H99',
    without: 'callers in line leave no time to callers of other processes that poll',
    changes: [when('H99k', true)],
    test: 'acquire.test.ts',
  },
  {
    hazard: 'H72',
    without: 'callers behind a first attempt call a silent Redis busy',
    changes: [drop('H72g')],
    test: 'redis/overload.test.ts',
  },
  {
    hazard: 'H72',
    without: 'a caller blames Redis for a key that is merely busy, because an attempt before it had failed',
    changes: [drop('H72h')],
    test: 'redis/overload.test.ts',
  },
  {
    hazard: 'H7',
    without: 'a granted function waits until thousands of other callers are queued',
    changes: [write('H7c', '    else dissolve();')],
    test: 'redis/overload.test.ts',
  },
  {
    hazard: 'H99',
    without: 'a request whose caller gave up behind a WAIT is sent',
    changes: [when('H99b', false)],
    test: 'redis/replicas-crowd.test.ts',
  },
  {
    hazard: 'H99',
    without: 'each caller has a WAIT of its own',
    changes: [drop('H99')],
    test: 'redis/replicas-crowd.test.ts',
  },
  {
    hazard: 'H99',
    without: 'callers that want too many replicas hold up those that want fewer',
    changes: [piece('H99d', / \$\{minReplicas\}/, '')],
    test: 'redis/replicas-crowd.test.ts',
  },
  {
    hazard: 'H99',
    without: 'a caller with much time holds up one with little',
    changes: [piece('H99d', / \$\{magnitudeMs\}/, '')],
    test: 'redis/replicas-crowd.test.ts',
  },
  {
    hazard: 'H99',
    without: 'all requests of a client are in flight at once',
    changes: [value('H99e', 'true')],
    test: 'redis/overload.test.ts',
  },
  {
    hazard: 'H99',
    without: 'renewals and releases wait behind callers that want a lock',
    changes: [piece('H99f', 'isOfHolder ? this.#ofHolders : ', '')],
    test: 'send-window.test.ts',
  },
  {
    hazard: 'H99',
    without: 'a request that waits for room has its deadline although Redis answers others',
    changes: [write('H99g', '      return onSilence();')],
    test: 'send-window.test.ts',
  },
  {
    hazard: 'H99',
    without: 'room that is given to a request that is not sent is lost',
    changes: [drop('H99h')],
    test: 'send-window.test.ts',
  },
  {
    hazard: 'H99',
    without: 'the time limit of a request counts from its call, also while the event loop is blocked',
    changes: [drop('H99i'), piece('H99j', 'batch.add', 'pending.onSent();\n      batch.add')],
    test: 'redis/overload.test.ts',
  },
];
