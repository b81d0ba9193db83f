/**
 * Every short cut of the scripts and the client: a second way to the same reply, which is there to be faster. Each is taken out at
 * its marker. What is then left must answer the same.
 */
import { type Alteration, drop, operand, piece, value, when } from '../support/alteration';

export interface ShortCut {
  readonly name: string;
  readonly change: Alteration;
}

export const shortCuts: readonly ShortCut[] = [
  {
    name: 'acquire: one free lock without a queue',
    change: when('S1', false),
  },
  {
    name: 'release: one lock without a queue',
    change: when('S2', false),
  },
  {
    name: 'release: locks without a queue',
    change: when('S3', false),
  },
  {
    name: 'acquire-shared: a reader that joins readers',
    change: when('S4', false),
  },
  {
    name: 'acquire-shared: a reader behind readers, or behind a writer',
    change: when('S33', false),
  },
  {
    name: 'release-shared: the member that the holder knows',
    change: value('S5', 'nil'),
  },
  {
    name: 'release-shared: a reader of many',
    change: when('S6', false),
  },
  {
    name: 'extend-shared: the member that the holder knows',
    change: value('S7', 'nil'),
  },
  {
    name: 'keys that several may hold: only the front is read',
    change: value('S8', '1000000'),
  },
  {
    name: 'the plain batch',
    change: operand('S9', 1, true),
  },
  {
    name: 'batches',
    change: value('S10', '1'),
  },
  {
    name: 'batches of keys that several may hold',
    change: value('S11', '1'),
  },
  {
    name: 'a plain acquire goes straight',
    change: value('S12', 'false'),
  },
  {
    name: 'scripts by their SHA',
    change: when('S13', true),
  },
  {
    name: 'hand-offs within a process, among others',
    change: value('S14', '0'),
  },
  {
    name: 'hand-offs within a process, alone',
    change: value('S15', '0'),
  },
  {
    name: 'a message grants',
    change: when('S16', true),
  },
  {
    name: 'an acquire without a promise',
    change: when('S18', false),
  },
  {
    name: 'a release without a promise',
    change: when('S19', true),
  },
  {
    name: 'the lifetime that was checked last',
    change: when('S20', true),
  },
  {
    name: 'the fence counter, read once',
    change: when('S21', true),
  },
  {
    name: 'a timer that is left for the next request',
    change: value('S22', 'false'),
  },
  {
    name: 'node-redis is sent words',
    change: value('S23', 'true'),
  },
  {
    name: 'one moment for all that leave together',
    change: piece('S24', '??=', '='),
  },
  {
    name: 'a release and the next request in one command',
    change: piece(
      'S25',
      /if \(!(.*)\) return (.*);/,
      `const mayRequest = $1;
    const reply = $2;
    if (mayRequest) this.#request();
    return reply;`,
    ),
  },
  {
    name: 'one timer for all that is due at about the same time',
    change: value('S26', 'exactMs'),
  },
  {
    name: 'readers of a process share a member, before its grant and after',
    change: value('S27', '0'),
  },
  {
    name: 'permits are handed off within a process',
    change: when('S28', true),
  },
  {
    name: 'random bytes for many tokens',
    change: piece('S29', '4096', '16'),
  },
  {
    name: 'the settings of the last call',
    change: drop('S30'),
  },
  {
    name: 'ioredis commands are made without flattening',
    change: when('S31', true),
  },
  {
    name: 'queue: the end of the queue is moved once a second',
    change: when('S32', true),
  },
];

/** The alterations that turn all short cuts off. */
export const withoutShortCuts: readonly Alteration[] = shortCuts.map(({ change }) => change);
