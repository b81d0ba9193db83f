/**
 * Random commands for a store, of every mode and those of a queue among them; and a run of them, whose answers are comparable:
 * fences and tickets are clock readings, so that their order is told and not their values; ends are told to some seconds.
 */
import fc from 'fast-check';
import { idOf, newToken } from '../../src/core/token';
import type { AcquireReply, AcquireRequest, HeldMode, Mode, ReleaseRequest, Store } from '../../src/store/contract';
import { type Slots, slotAt } from '../../src/store/slots';
import { uniqueKey } from '../support/redis';

export type Command =
  | {
      readonly do: 'acquire';
      readonly who: number;
      readonly keys: number[];
      readonly lifetime: number;
      readonly fences: number;
      readonly stands: boolean;
    }
  | {
      readonly do: 'extend';
      readonly who: number;
      readonly keys: number[];
      readonly lifetime: number;
      readonly exact: boolean;
    }
  | { readonly do: 'release'; readonly who: number; readonly keys: number[]; readonly ticket: number }
  | {
      readonly do: 'pass';
      readonly who: number;
      readonly next: number;
      readonly key: number;
      readonly lifetime: number;
      readonly fences: number;
    }
  | { readonly do: 'inspect'; readonly key: number }
  | { readonly do: 'free'; readonly who: number; readonly key: number }
  | {
      readonly do: 'acquire member';
      readonly who: number;
      readonly lifetime: number;
      readonly stands: boolean;
      readonly changes: boolean;
      readonly mode: Mode;
      /** The reader whose member this reader has shared, beside which it asks for its own. */
      readonly beside: number | undefined;
    }
  | {
      readonly do: 'extend member';
      readonly who: number;
      readonly lifetime: number;
      readonly exact: boolean;
      readonly mode: Mode;
    }
  | { readonly do: 'release member'; readonly who: number; readonly ticket: number; readonly mode: Mode }
  | { readonly do: 'count permits' }
  | { readonly do: 'write value'; readonly who: number; readonly key: number; readonly text: string }
  | { readonly do: 'read value'; readonly key: number }
  | {
      readonly do: 'acquire once';
      readonly who: number;
      readonly key: number;
      readonly lifetime: number;
      readonly slots: Slots;
    }
  | { readonly do: 'release done'; readonly who: number; readonly key: number; readonly everyMs: number };

const people = 5;
/** Mutexes; and one that several may hold. */
const mutexes = 2;
const memberKey = 2;
const keyCount = 3;
const commandTimeoutMs = 5_000;
/** Far apart, so that the same end is told from another whatever the machine is doing meanwhile. */
const lifetime = fc.integer({ min: 1, max: 5 }).map((n) => n * 40_000);
const fences = fc.constantFrom(0, 1, 65);
const who = fc.nat({ max: people - 1 });
const key = fc.nat({ max: mutexes - 1 });
const keys = fc.oneof(
  { weight: 5, arbitrary: key.map((one) => [one]) },
  { weight: 1, arbitrary: fc.constant<number[]>([0, 1]) },
);
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ do: fc.constant('acquire' as const), who, keys, lifetime, fences, stands: fc.boolean() }),
  fc.record({
    do: fc.constant('acquire' as const),
    who,
    keys: key.map((one) => [one]),
    lifetime,
    fences,
    stands: fc.constant(true),
  }),
  fc.record({ do: fc.constant('extend' as const), who, keys, lifetime, exact: fc.boolean() }),
  fc.record({ do: fc.constant('release' as const), who, keys, ticket: fc.constantFrom(0, -1) }),
  fc.record({ do: fc.constant('pass' as const), who, next: who, key, lifetime, fences }),
  fc.record({ do: fc.constant('inspect' as const), key }),
  fc.record({ do: fc.constant('free' as const), who, key }),
  fc.record({ do: fc.constant('write value' as const), who, key, text: fc.constantFrom('', '"ü"', '{"a":1}') }),
  fc.record({ do: fc.constant('read value' as const), key }),
);

/** Slots that never end while a test runs; those of two lengths are different slots of one key. */
const everyMs = fc.constantFrom(1, 2).map((n) => n * 10 * 365 * 86_400_000);
const slots = fc.record({ everyMs, offsetMs: fc.constantFrom(0, -86_400_000), marks: fc.boolean() });
const ofSlots = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('acquire once' as const), who, key, lifetime, slots }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('release done' as const), who, key, everyMs }) },
  { weight: 3, arbitrary: command },
);

/** As `RWLock` asks, and as `Semaphore` does; and now and then as the other one. */
const prefer = fc.constantFrom('writer' as const, 'reader' as const, 'fair' as const);
const reads = fc.record({ prefer, group: fc.constantFrom('', 'a b') }).map((each) => modeOf('shared', each));
const readsOrWrites = fc.oneof(
  reads,
  fc.record({ prefer }).map((each) => modeOf('exclusive', each)),
);
const counted = fc
  .record({ permits: fc.integer({ min: 1, max: 3 }), total: fc.constantFrom(3, 3, 3, 4) })
  .map((each) => modeOf('counted', each));

function modeOf(kind: Mode['kind'], how: Partial<Mode>): Mode {
  return { kind, prefer: 'fair', group: '', permits: 1, total: 0, step: 0, ...how };
}

function ofMembers(mode: fc.Arbitrary<Mode>): fc.Arbitrary<Command> {
  const terms = { who, lifetime, stands: fc.boolean(), mode };
  const changes = fc.integer({ min: 0, max: 3 }).map((n) => n === 0);
  const beside = fc.constant(undefined);
  return fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant('acquire member' as const), ...terms, changes, beside }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('extend member' as const), who, lifetime, exact: fc.boolean(), mode }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('release member' as const), who, ticket: fc.constantFrom(0, -1), mode }),
    },
    { weight: 1, arbitrary: fc.constant({ do: 'count permits' as const }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('inspect' as const), key: fc.constant(memberKey) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('free' as const), who, key: fc.constant(memberKey) }) },
  );
}

/** Readers that leave a member that they have shared. */
const parting = fc.record({
  do: fc.constant('acquire member' as const),
  who,
  lifetime,
  stands: fc.constant(false),
  changes: fc.constant(false),
  mode: reads,
  beside: who,
});

/** Numbers that are readings of a clock, by their order: the first one seen is 1, the next new one 2. */
class Order {
  readonly #seen = new Map<number, number>();

  of(value: number): number {
    if (value === 0) return 0;
    if (!this.#seen.has(value)) this.#seen.set(value, this.#seen.size + 1);
    return this.#seen.get(value)!;
  }
}

/** The fences of one key: what is told of one that `by` was granted, or that is the last one. */
interface Fences {
  of(fence: number, by?: number): unknown;
}

/**
 * Fences where calls of a tick leave together: a call that grants nothing new may use one up. What they promise is told: that a
 * new holder has a larger one than the holder before, and that none exceeds the counter.
 */
export class RisingFences implements Fences {
  #last = 0;
  #rank = 0;
  #by: number | undefined;

  of(fence: number, by?: number): unknown {
    const isSame = by !== undefined && by === this.#by;
    if (by !== undefined) this.#by = by; // also one that asked for no fence
    if (fence === 0) return 0;
    // These commands ask for another number of fences each time, and are given the first of the last ones.
    if (isSame) return this.#rank;
    if (fence < this.#last) return 'too small';
    if (by === undefined) return 'a counter';
    if (fence > this.#last) this.#rank += 1;
    this.#last = fence;
    return this.#rank;
  }
}

/** A run of commands in one place. */
export class Run {
  readonly #store: Store;
  readonly #channel: string;
  readonly #keys = Array.from({ length: keyCount }, () => uniqueKey());
  readonly #tokens = Array.from({ length: people }, (_, n) => newToken(n === 0 ? undefined : `owner ${n}`));
  readonly #tickets = new Map<string, number>();
  /** The number of changes that each holder has asked for. */
  readonly #steps = new Map<number, number>();
  /** The mode in which each caller holds the key that several may hold. */
  readonly #held = new Map<number, HeldMode>();
  /** The fences of each key: requests that leave together are answered in any order. */
  readonly #fences: readonly Fences[];
  readonly #order = Array.from({ length: keyCount }, () => new Order());

  /** @param Ranks How fences are told. */
  constructor(store: Store, channel: string, Ranks: new () => Fences = Order) {
    this.#fences = Array.from({ length: keyCount }, (_, n) => (n === memberKey ? new Order() : new Ranks()));
    this.#store = store;
    this.#channel = channel;
  }

  async answer(each: Command): Promise<unknown> {
    switch (each.do) {
      case 'acquire': {
        const stands = each.stands && each.keys.length === 1;
        const request = this.#acquire(each, each.who, each.keys, stands);
        return this.#told(each.who, each.keys, stands, await this.#store.acquire(request));
      }
      case 'extend': {
        const until = { validUntilMs: performance.now() + 60_000, begin: () => true };
        const request = { ...this.#claim(each.who, each.keys), lifetimeMs: each.lifetime, exact: each.exact, ...until };
        return (await this.#store.extend(request)).outcome;
      }
      case 'release':
        return this.#store.release(this.#release(each.who, each.keys, each.ticket));
      case 'pass': {
        const release = this.#release(each.who, [each.key], 0);
        const acquire = this.#acquire(each, each.next, [each.key], true);
        const [result, next] = await this.#store.releaseAndAcquire!(release, acquire);
        return [result, this.#told(each.next, [each.key], true, next)];
      }
      case 'inspect': {
        const { remaining, fence, holders, queue, ...state } = await this.#store.inspect(
          this.#keys[each.key]!,
          commandTimeoutMs,
        );
        // With several holders, the store names the one that ends last, and two may end in the same millisecond.
        if (state.mode === 'read' || state.mode === 'permits') state.owner = 'one of them';
        const held = holders.map((one) => ({ ...one, id: this.#whoseId(one.id), remaining: coarse(one.remaining) }));
        return {
          ...state,
          remaining: coarse(remaining),
          fence: this.#fences[each.key]!.of(fence),
          holders: held.sort((a, b) => a.id - b.id),
          queue: queue.map((one) => ({ ...one, waitingMs: coarse(one.waitingMs) })),
        };
      }
      case 'free':
        if (each.key === memberKey) this.#held.delete(each.who);
        return this.#store.operator.free(this.#keys[each.key]!, idOf(this.#tokens[each.who]!), commandTimeoutMs);
      case 'acquire member': {
        const { who: by, mode, stands } = each;
        // A token asks for the same each time, and not anew once it was changed in place.
        if (!each.changes && this.#steps.has(by)) return undefined;
        const step = each.changes ? (this.#steps.get(by) ?? 0) + 1 : 0;
        if (each.changes) this.#steps.set(by, step);
        const terms = { lifetime: each.lifetime, fences: by === 0 ? 0 : 1 };
        const beside = this.#beside(each);
        const request = { ...this.#acquire(terms, by, [memberKey], stands), mode: { ...mode, step }, beside };
        return this.#store.acquire(request).then(
          (reply) => {
            if (reply.granted) this.#holds(each, { mode: { ...mode, step }, fence: reply.fence });
            return this.#told(by, [memberKey], stands, reply);
          },
          (error) => error.redisCode,
        );
      }
      case 'extend member': {
        const until = { validUntilMs: performance.now() + 60_000, begin: () => true };
        const held = { mode: each.mode, fence: 7 };
        const claim = this.#claim(each.who, [memberKey]);
        const request = { ...claim, lifetimeMs: each.lifetime, exact: each.exact, ...until, held };
        return (await this.#store.extend(request)).outcome;
      }
      case 'release member': {
        this.#steps.delete(each.who);
        this.#held.delete(each.who);
        const held = { mode: each.mode, fence: 7 };
        return this.#store.release({ ...this.#release(each.who, [memberKey], each.ticket), held });
      }
      case 'count permits':
        return this.#store.operator.permitsOut(this.#keys[memberKey]!, commandTimeoutMs);
      case 'write value': {
        const { token } = this.#claim(each.who, [each.key]);
        const { text } = each;
        return this.#store.values!.write({ key: this.#keys[each.key]!, token, text, ttlMs: 60_000, commandTimeoutMs });
      }
      case 'acquire once': {
        const request = this.#acquire({ lifetime: each.lifetime, fences: 1 }, each.who, [each.key], false);
        const reply = await this.#store.acquire({ ...request, slots: each.slots });
        const isDone = !reply.granted && reply.isDone;
        return [reply.slot, isDone, isDone || this.#told(each.who, [each.key], false, reply)];
      }
      case 'release done': {
        const done = slotAt(Date.now(), { everyMs: each.everyMs, offsetMs: 0, marks: false });
        return this.#store.release({ ...this.#release(each.who, [each.key], 0), done });
      }
      case 'read value':
        return this.#store.values!.read(this.#keys[each.key]!, commandTimeoutMs);
    }
  }

  /** Keys by their number, for messages. */
  nameOf(text: string): string {
    const named = text.replace(/=[1-9]\d* /, '=fence ');
    return this.#keys.reduce((text, each, n) => text.replace(each, `key ${n}`), named);
  }

  owns(text: string): boolean {
    return this.#keys.some((each) => text.includes(each));
  }

  /** A holder that asks again holds what it held; a change to a reader keeps the group. */
  #holds({ who, changes }: Command & { do: 'acquire member' }, { mode, fence }: HeldMode): void {
    const before = this.#held.get(who);
    if (before !== undefined && !changes) return;
    const group = before !== undefined && mode.kind === 'shared' ? before.mode.group : mode.group;
    this.#held.set(who, { mode: { ...mode, group }, fence });
  }

  /** The member that the caller has shared, if it may share: a reader that is not queued, with a holder of its group. */
  #beside({ who, mode, stands, changes, beside = who }: Command & { do: 'acquire member' }): AcquireRequest['beside'] {
    const held = this.#held.get(beside);
    if (held === undefined || beside === who || stands || changes || mode.kind !== 'shared') return undefined;
    return held.mode.group === mode.group ? { token: this.#tokens[beside]!, held } : undefined;
  }

  #whoseId(id: string): number {
    return this.#tokens.findIndex((token) => idOf(token) === id);
  }

  #claim(by: number, which: readonly number[]) {
    const names = which.map((n) => this.#keys[n]!);
    return { keys: names.length === 1 ? names[0]! : names, token: this.#tokens[by]!, commandTimeoutMs };
  }

  #acquire(
    { lifetime: lifetimeMs, fences: count }: { lifetime: number; fences: number },
    by: number,
    which: readonly number[],
    stands: boolean,
  ): AcquireRequest {
    const queueAs = { channel: this.#channel, id: String(by), ticket: this.#tickets.get(`${by} ${which[0]}`) ?? 0 };
    const terms = { lifetimeMs, fences: count, minReplicas: 0, begin: () => true };
    return { ...this.#claim(by, which), ...terms, queueAs: stands ? queueAs : undefined };
  }

  #release(by: number, which: readonly number[], ticket: number): ReleaseRequest {
    if (ticket !== 0) for (const n of which) this.#tickets.delete(`${by} ${n}`);
    return { ...this.#claim(by, which), ticket, yieldMs: 5 };
  }

  #told(by: number, which: readonly number[], stands: boolean, reply: AcquireReply): unknown {
    // How many others wait is told to queued callers only.
    if (reply.granted) {
      const [fence] = which.map((n) => this.#fences[n]!.of(reply.fence, by));
      return { fence, others: stands ? reply.others : 0 };
    }
    const { position, impossible } = reply;
    if (impossible) return impossible;
    if (position) this.#tickets.set(`${by} ${which[0]}`, position.ticket);
    return {
      left: coarse(reply.leftMs),
      position: position && {
        before: position.before,
        outside: position.outside,
        ticket: this.#order[which[0]!]!.of(position.ticket),
      },
    };
  }
}

function coarse(ms: number): number {
  return Math.round(ms / 20_000);
}

/** The commands of one world, by what they are about. */
export const worlds: readonly [what: string, commands: fc.Arbitrary<Command>][] = [
  ['a mutex and what is cached beside it', command],
  ['jobs that run once a slot', ofSlots],
  [
    'readers and writers',
    fc.oneof({ weight: 4, arbitrary: ofMembers(readsOrWrites) }, { weight: 1, arbitrary: parting }),
  ],
  ['permits', ofMembers(counted)],
  ['a key that is asked for in every way', fc.oneof(ofMembers(readsOrWrites), ofMembers(counted))],
];

/** The keys that a command is about, by their number; all, where it tells what the others have come to. */
export function keysOf(each: Command): readonly number[] {
  if (each.do === 'inspect') return [0, 1, memberKey];
  if ('keys' in each) return each.keys;
  return 'key' in each ? [each.key] : [memberKey];
}
