/** The keys that may be left at a place when all processes have ended: none of those that ended in order; of the others only keys that expire. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../test/support/redis';
import type { Place } from './places';
import type { Member } from './team';

const maxLifetimeMs = 900;

/** The time for which a key may still be there, by the end of its name. */
const longestMs: readonly [RegExp, number][] = [
  [/:queue\.?$/, 10_000],
  [/:limit\.?$/, 3_700_000],
  [/:slot\.?$/, 1000],
  // The value of a leader that was killed or lost its lock names a token that nobody holds, so it says nothing to anybody.
  [/^\{leader\}:value$/, maxLifetimeMs + 3_600_000],
  [/:value\.?$/, 1000],
  [/^/, maxLifetimeMs],
];

export async function leftovers(place: Place, members: readonly Member[]): Promise<string[]> {
  const servers = await place.masters();
  // Locks that were forgotten, or lost to a step of the clock, are released by nobody: they end with their lifetime.
  if (servers.length > 0) await sleep(maxLifetimeMs + 100);
  const finished = members.filter(({ end }) => end === 'finished').map(({ name }) => name);
  const all = await Promise.all(servers.map((server) => leftAt(server, finished)));
  return all.flat();
}

async function leftAt(server: RedisServer, finished: readonly string[]): Promise<string[]> {
  const left: string[] = [];
  for (const name of await server.command<string[]>('KEYS', '*')) {
    if (name.startsWith('redis-exp-lock:fence')) continue;
    const ms = await server.command<number>('PTTL', name);
    const [, most] = longestMs.find(([ending]) => ending.test(name))!;
    if (ms === -1 || ms > most) left.push(`${name} ends ${ms === -1 ? 'never' : `in ${ms} ms`}`);
    // No other holder reads what a change in place has left there.
    const text = name.includes(':limit') ? [] : await contentOf(server, name);
    const whose = finished.filter((each) => text.some((member) => member.includes(`${each}_`)));
    if (whose.length > 0)
      left.push(`${name} still has ${text.join(', ')}, although ${whose.join(', ')} ended in order`);
  }
  return left;
}

async function contentOf(server: RedisServer, name: string): Promise<string[]> {
  const type = await server.command<string>('TYPE', name);
  if (type === 'zset') return server.command('ZRANGE', name, 0, -1);
  return type === 'string' ? [String(await server.command('GET', name))] : [];
}
