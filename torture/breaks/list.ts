/** Deliberate breaks of the sources, each of which torture or the simulation must catch within its minute, and by what it says. */

import { type Alteration, operand, piece, value, when } from '../../test/support/alteration';

export interface Break {
  readonly name: string;
  readonly change: Alteration;
  /** The store to torture, or the simulated world to run. */
  readonly caughtAt: { readonly store: string } | { readonly world: string };
  /** The message that proves that the break was caught for the right reason. */
  readonly says: RegExp;
}

const exclusion = /\(mutex\)|\(fence\)/;
const exclusionOfAnyKind = /\(mutex\)|\(fence\)|\(readers-writer\)|\(semaphore\)/;
const holdIt = /hold it|fence/;

export const breaks: readonly Break[] = [
  {
    name: 'a release does not compare the token',
    change: piece('B1', /(\w+) == \w+/, '$1'),
    caughtAt: { store: 'redis' },
    says: exclusion,
  },
  {
    name: 'a release with a queue does not compare the token',
    change: operand('H25', 3, true),
    caughtAt: { store: 'redis' },
    says: exclusion,
  },
  {
    name: 'the validity counts from the reply',
    change: piece('H6', 'sent', 'now()'),
    caughtAt: { store: 'redis' },
    says: exclusionOfAnyKind,
  },
  {
    name: 'a lock is valid beyond the lifetime',
    change: piece('B2', '1 -', '2 -'),
    caughtAt: { store: 'redis' },
    says: exclusionOfAnyKind,
  },
  {
    name: 'fences do not rise',
    change: piece('H59b', ' + 1, micros', ', 1'),
    caughtAt: { store: 'redis' },
    says: /\(fence\)/,
  },
  {
    name: 'a hand-off within the process keeps the fence',
    change: value('B3', 'held.fence'),
    caughtAt: { store: 'redis' },
    says: /\(fence\)/,
  },
  {
    name: 'readers of all groups share',
    change: piece('H42', / and [^()]*(?=\))/, ''),
    caughtAt: { store: 'redis' },
    says: /\(readers-writer\)/,
  },
  {
    name: 'a semaphore does not count what is requested',
    change: piece('B4', '+ each.permits <=', '<'),
    caughtAt: { store: 'redis' },
    says: /\(semaphore\)/,
  },
  {
    name: 'an upgrade does not wait for other readers',
    change: piece('B5', /= /, '= upgrade or '),
    caughtAt: { store: 'redis' },
    says: /\(readers-writer\)|\(fence\)/,
  },
  {
    name: 'a slot that is done is run again',
    change: piece('H85b', '>=', '>'),
    caughtAt: { store: 'redis' },
    says: /\(once\)/,
  },
  {
    name: 'a quorum is content with less than a majority',
    change: piece('B6', ' + 1', ''),
    caughtAt: { store: 'quorum' },
    says: exclusion,
  },
  {
    name: 'in shared memory a release does not compare the token',
    change: when('H48', 'row.token !== undefined'),
    caughtAt: { store: 'shared-memory' },
    says: exclusion,
  },
  {
    name: 'a queue never requests again by itself',
    change: value(
      'H28',
      `() => {
    this.#timer = undefined;
  }`,
    ),
    caughtAt: { world: 'the network loses, delays and repeats' },
    says: /nothing will ever happen again/,
  },
  {
    name: 'a message counts whatever request it names',
    change: operand('H83', 2, false),
    caughtAt: { world: 'messages are late, doubled and forged' },
    says: holdIt,
  },
  {
    name: 'a grant by message is not provisional',
    change: piece('H83d', ', provisionalMs', ''),
    caughtAt: { world: 'long holds' },
    says: holdIt,
  },
];
