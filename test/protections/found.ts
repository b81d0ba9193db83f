// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these are templates
/** H73 to H79: found in use and under attack: shared memory, factories, secrets, foreign keys. */
import { drop, operand, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const found: readonly Protection[] = [
  {
    hazard: 'H73',
    without: 'each attempt at a write waits for as long as SQLite would',
    changes: [piece('H73', '= 0', '= 5000')],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H73',
    without: 'a caller that waited in vain gets no error that says that another writes',
    changes: [piece('H73b', /throw .*/, 'throw error;')],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H74',
    without: 'a command is no transaction',
    changes: [
      piece('H74', /'.*'/, "'SELECT 1'"),
      piece('H74b', /'.*'/, "'SELECT 1'"),
      piece('H74c', /'.*'/, "'SELECT 1'"),
    ],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H74',
    without: 'the errors of SQLite are thrown as they are',
    changes: [write('H74d', '      throw error;')],
    test: 'embedded/kills.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H75',
    without: 'the loads of one factory are shared by key alone, whatever their store',
    changes: [piece('H75', 'store', 'scope as any')],
    test: 'contract/cached.test.ts',
  },
  {
    hazard: 'H75',
    without: 'a value is loaded and kept by key alone, whatever its prefix',
    changes: [piece('H75b', 'settings', "{ ...settings, prefix: '' }")],
    test: 'contract/cached.test.ts',
  },
  {
    hazard: 'H75',
    without: 'stores of one kind have their queues in common',
    changes: [value('H75c', '(store: any) => ((Queues as any)[store.kind] ??= new Queues(store, store.channels))')],
    test: 'embedded/many-stores.test.ts',
  },
  {
    hazard: 'H75',
    without: 'a queue has callers of every owner',
    changes: [operand('H75d', 4, true)],
    test: 'embedded/many-stores.test.ts',
  },
  {
    hazard: 'H76',
    without: 'an answer counts although the lock was lost meanwhile',
    changes: [when('H76', '!held.ended')],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H76',
    without: 'what became of a change of a lost lock stays in Redis',
    changes: [drop('H76b')],
    test: 'acquire-shared.test.ts',
  },
  {
    hazard: 'H76',
    without: 'a change that was given up of a lost lock stays in Redis',
    changes: [drop('H76c')],
    test: 'contract/rw-lock.test.ts',
  },
  {
    hazard: 'H77',
    without: 'a factory keeps its stores',
    changes: [piece('H77', /weakly\((\w+)\)/, '{ deref: () => $1 }')],
    test: 'redis/many-clients.test.ts',
  },
  {
    hazard: 'H77',
    without: 'a factory keeps the last options, a client and a signal among them',
    changes: [when('H77b', true)],
    test: 'last-options.test.ts',
  },
  {
    hazard: 'H77',
    without: 'a connection of ours goes on dialling when its client was closed',
    changes: [drop('H77c')],
    test: 'redis/clients.test.ts',
  },
  {
    hazard: 'H78',
    without: 'the errors of clients are kept as the cause',
    changes: [write('H78', '  return error as any;')],
    test: 'redis/secrets.test.ts',
  },
  {
    hazard: 'H78',
    without: 'whatever hangs on an error of a client is kept',
    changes: [value('H78b', 'value')],
    test: 'redis/secrets.test.ts',
  },
  {
    hazard: 'H78',
    without: 'the texts of errors are kept as they are',
    changes: [value('H78c', 'text')],
    test: 'redis/secrets.test.ts',
  },
  {
    hazard: 'H78',
    without: 'events name the token',
    changes: [piece('H78d', ' }', ', token: held.token }')],
    test: 'redis/secrets.test.ts',
  },
  {
    hazard: 'H79',
    without: 'a foreign member is no error',
    changes: [drop('H79')],
    test: 'redis/foreign-members.test.ts',
  },
  {
    hazard: 'H79',
    without: 'a foreign member beside a reader is no error for the next reader',
    changes: [drop('H79b')],
    test: 'redis/foreign-members.test.ts',
  },
  {
    hazard: 'H79',
    without: 'all members that seem to have ended are purged',
    changes: [operand('H79c', 1, false)],
    test: 'redis/foreign-members.test.ts',
  },
  {
    hazard: 'H79',
    without: 'the set of another library expires with our last member',
    changes: [when('H79d', true)],
    test: 'redis/foreign-members.test.ts',
  },
  {
    hazard: 'H79',
    without: 'in memory, a key that several hold is free for one alone',
    changes: [drop('H79e')],
    test: 'embedded/mutex-machine.test.ts',
  },
];
