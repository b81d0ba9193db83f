// Situations that every implementation of the wire must know, by hand.
import type { Call, Mode, State, StoredSet, StoredString, Vector } from './vector';

/** A token with the mark of this library: the first four digits of its uuid are also the last. */
export function token(n: number): string {
  return `a${n}b${n}0000-0000-4000-8000-00000000a${n}b${n}`;
}

const [me, other, third] = [token(1), token(2), token(3)];
const counter = 'redis-exp-lock:fence';
const fence: State = { [counter]: { type: 'string', value: '{us+3600000000}', ttl: null } };
const soon = '{ms+60000}';

const held = (by: string, ttl: number | null = 40_000): StoredString => ({ type: 'string', value: by, ttl });
const set = (members: StoredSet['members'], ttl: number | null = 10_000): StoredSet => ({ type: 'zset', members, ttl });
const entry = (
  by: string,
  { deadline = '{ms+2000}', id = '7', lifetime = 40_000, fences = 1, channel = 'c1' } = {},
): string => `1 ${deadline} ${id} ${lifetime} ${fences} ${channel} ${by}`;
const member = (by: string, { kind = 'r', permits = 1, fence: its = '{us+3599000000}', group = '' } = {}): string =>
  `1 ${kind} ${permits} 0 ${its} ${by.length} ${by}${group}`;
const waiter = (
  by: string,
  { deadline = '{ms+2000}', id = '7', kind = 'w', permits = 1, prefer = 'w', channel = 'c1', group = '' } = {},
): string => `2 ${deadline} ${id} ${kind} ${permits} ${prefer} ${channel} ${by.length} ${by}${group}`;

type Acquire = Extract<Call, { do: 'acquire' }>;
const acquire = (more: Partial<Acquire> = {}): Acquire => ({
  do: 'acquire',
  keys: ['k'],
  token: me,
  lifetime: 40_000,
  notAfter: soon,
  fences: 0,
  ...more,
});
const release = (more: Partial<Extract<Call, { do: 'release' }>> = {}): Call => ({
  do: 'release',
  keys: ['k'],
  token: me,
  ticket: 0,
  yield: 50,
  ...more,
});
const extend = (more: Partial<Extract<Call, { do: 'extend' }>> = {}): Call => ({
  do: 'extend',
  keys: ['k'],
  token: me,
  lifetime: 80_000,
  exact: false,
  notAfter: soon,
  ...more,
});
const queued = { fences: 1, place: { channel: 'c2', id: '9', ticket: 0 } } as const;
const mode = (kind: Mode['kind'], more: Partial<Mode> = {}): Mode => ({
  kind,
  prefer: 'writer',
  group: '',
  permits: 1,
  most: kind === 'permits' ? 3 : 0,
  ...more,
});

interface Situation {
  readonly name: string;
  readonly level: Vector['level'];
  readonly state: State;
  readonly call: Call;
}

const of = (level: Vector['level'], list: readonly (readonly [string, State, Call])[]): Situation[] =>
  list.map(([name, state, call]) => ({ name, level, state, call }));

export const situations: readonly Situation[] = [
  ...of(1, [
    ['a free key is taken for its lifetime', {}, acquire()],
    ['a held key is left alone', { k: held(other) }, acquire()],
    ['a key without an end is held as well', { k: held(other, null) }, acquire()],
    ['a key that holds the own token is a grant, and its end is not moved closer', { k: held(me, 80_000) }, acquire()],
    ['a key that holds the own token gets a later end', { k: held(me, 10_000) }, acquire()],
    ['a key of another type is an error', { k: set([['member', 1]]) }, acquire()],
    ['the own lock is released', { k: held(me) }, release()],
    ['the lock of another holder is not released', { k: held(other) }, release()],
    ['a lock that is gone is not released', {}, release()],
    ['the own lock gets a later end', { k: held(me, 10_000) }, extend()],
    ['a renewal never moves the end closer', { k: held(me, 90_000) }, extend()],
    ['an exact extension may move the end closer', { k: held(me, 90_000) }, extend({ exact: true, lifetime: 5_000 })],
    ['the lock of another holder is not extended', { k: held(other) }, extend()],
    ['a lock that is gone is not made anew by an extension', {}, extend()],
  ]),
  ...of(2, [
    ['a fence is the last one and 1, if the counter is ahead of the clock', fence, acquire({ fences: 1 })],
    ['a fence is the clock in µs, if that is more', { [counter]: held('17', null) }, acquire({ fences: 1 })],
    ['without a counter the fence is the clock', {}, acquire({ fences: 1 })],
    ['a request that is repeated gets the last fence', { ...fence, k: held(me) }, acquire({ fences: 1 })],
    [
      'a counter that is no number is an error, and nothing is taken',
      { [counter]: held('x', null) },
      acquire({ fences: 1 }),
    ],
    [
      'a counter more than a day ahead is an error',
      { [counter]: held('{us+90000000000}', null) },
      acquire({ fences: 1 }),
    ],
    ['a request after notAfter changes nothing', fence, acquire({ fences: 1, notAfter: '{ms-1000}' })],
    ['an extension after notAfter changes nothing', { k: held(me, 10_000) }, extend({ notAfter: '{ms-1000}' })],
    ['two free keys are taken under one fence', fence, acquire({ keys: ['k', 'l'], fences: 1 })],
    ['of two keys, one is held: none is taken', { ...fence, l: held(other) }, acquire({ keys: ['k', 'l'], fences: 1 })],
    ['of two keys, the own one is released', { k: held(me), l: held(other) }, release({ keys: ['k', 'l'] })],
  ]),
  ...of(3, [
    ['a caller is queued behind a holder', { ...fence, k: held(other) }, acquire(queued)],
    [
      'a caller is queued behind another one',
      { ...fence, k: held(other), '{k}:queue': set([[entry(third), '{us-5000}']]) },
      acquire(queued),
    ],
    [
      'an entry is renewed under its ticket',
      { ...fence, k: held(other), '{k}:queue': set([[entry(me), '{us-5000}']]) },
      acquire({ ...queued, place: { ...queued.place, ticket: '{us-5000}' } }),
    ],
    [
      'a release hands the lock off to the first entry, with a message',
      {
        ...fence,
        k: held(me),
        '{k}:queue': set([
          [entry(other), '{us-5000}'],
          [entry(third, { id: '8' }), '{us-4000}'],
        ]),
      },
      release(),
    ],
    [
      'an expired entry is skipped and removed',
      {
        ...fence,
        k: held(me),
        '{k}:queue': set([
          [entry(other, { deadline: '{ms-1}' }), '{us-5000}'],
          [entry(third, { id: '8' }), '{us-4000}'],
        ]),
      },
      release(),
    ],
    [
      'an entry whose deadline is too far away is damaged',
      { ...fence, k: held(me), '{k}:queue': set([[entry(other, { deadline: '{ms+99000}' }), '{us-5000}']]) },
      release(),
    ],
    [
      'the last expired entry takes its queue along',
      { ...fence, k: held(me), '{k}:queue': set([[entry(other, { deadline: '{ms-1}' }), '{us-5000}']]) },
      release(),
    ],
    [
      'a caller that is not queued never passes a live entry of a free key',
      { ...fence, '{k}:queue': set([[entry(other), '{us-5000}']]) },
      acquire({ fences: 1 }),
    ],
    [
      'the first entry is granted its own request',
      { ...fence, '{k}:queue': set([[entry(me), '{us-5000}']]) },
      acquire({ ...queued, place: { ...queued.place, ticket: '{us-5000}' } }),
    ],
    [
      'after 64 hand-offs the key yields, and the first entry is woken',
      {
        ...fence,
        k: held(me),
        '{k}:queue': set([
          ['passes', -64],
          [entry(other), '{us-5000}'],
        ]),
      },
      release(),
    ],
    [
      'a polling caller leaves its mark beside a queue',
      { ...fence, k: held(other), '{k}:queue': set([[entry(third), '{us-5000}']]) },
      acquire({ fences: 1, pause: 20 }),
    ],
    [
      'an entry of another version is an error',
      { ...fence, k: held(other), '{k}:queue': set([[`9${entry(third).slice(1)}`, '{us-5000}']]) },
      acquire({ ...queued, place: { ...queued.place, ticket: '{us-5000}' } }),
    ],
    [
      'a release for a token that is queued removes its entry',
      {
        ...fence,
        k: held(other),
        '{k}:queue': set([
          [entry(me), '{us-5000}'],
          [entry(third, { id: '8' }), '{us-4000}'],
        ]),
      },
      release({ ticket: '{us-5000}' }),
    ],
  ]),
  ...of(4, [
    ['a reader is the first holder', fence, acquire({ fences: 1, mode: mode('reader') })],
    [
      'readers of one group share a fence',
      { ...fence, k: set([[member(other), '{ms+20000}']], 20_000) },
      acquire({ fences: 1, mode: mode('reader') }),
    ],
    [
      'readers of another group wait',
      { ...fence, k: set([[member(other, { group: 'x' }), '{ms+20000}']], 20_000) },
      acquire({ fences: 1, mode: mode('reader') }),
    ],
    [
      'a writer waits for readers, in the queue',
      { ...fence, k: set([[member(other), '{ms+20000}']], 20_000) },
      acquire({ ...queued, mode: mode('writer') }),
    ],
    [
      'a reader does not pass a writer that waits',
      {
        ...fence,
        k: set([[member(other), '{ms+20000}']], 20_000),
        '{k}:queue': set([[waiter(third), '{us-500000000005000}']]),
      },
      acquire({ fences: 1, mode: mode('reader') }),
    ],
    [
      'a holder past its own end holds nothing',
      { ...fence, k: set([[member(other, { kind: 'w' }), '{ms-1}']], 20_000) },
      acquire({ fences: 1, mode: mode('writer') }),
    ],
    [
      'the release of the last reader wakes the writer that waits',
      {
        ...fence,
        k: set([[member(me), '{ms+20000}']], 20_000),
        '{k}:queue': set([[waiter(third), '{us-500000000005000}']]),
      },
      release({ mode: mode('reader') }),
    ],
    [
      'permits are granted up to the limit',
      {
        ...fence,
        k: set([[member(other, { kind: 'p', permits: 2 }), '{ms+20000}']], 20_000),
        '{k}:limit': held('3', 3_620_000),
      },
      acquire({ fences: 1, mode: mode('permits') }),
    ],
    [
      'permits beyond the limit wait',
      {
        ...fence,
        k: set([[member(other, { kind: 'p', permits: 2 }), '{ms+20000}']], 20_000),
        '{k}:limit': held('3', 3_620_000),
      },
      acquire({ fences: 1, mode: mode('permits', { permits: 2 }) }),
    ],
    [
      'another number of permits is an error while the semaphore is held',
      {
        ...fence,
        k: set([[member(other, { kind: 'p', permits: 2 }), '{ms+20000}']], 20_000),
        '{k}:limit': held('3', 3_620_000),
      },
      acquire({ fences: 1, mode: mode('permits', { most: 4 }) }),
    ],
    [
      'a member that is no holder is an error, and stays',
      { ...fence, k: set([['somebody', '{ms+20000}']], 20_000) },
      acquire({ fences: 1, mode: mode('reader') }),
    ],
    [
      'a renewal of a holder never moves its end closer',
      { ...fence, k: set([[member(me), '{ms+90000}']], 90_000) },
      extend({ mode: mode('reader') }),
    ],
    ['a holder that is gone is not made anew by an extension', fence, extend({ mode: mode('reader') })],
    [
      'a release takes one holder of two',
      {
        ...fence,
        k: set(
          [
            [member(me), '{ms+20000}'],
            [member(other), '{ms+30000}'],
          ],
          30_000,
        ),
      },
      release({ mode: mode('reader') }),
    ],
  ]),
];
