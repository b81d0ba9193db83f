/**
 * The readers-writer lock whose faults HAZARDS lists (H37 to H45), rebuilt from that list as small as its faults allow: a lock
 * with one TTL, a counter of readers, and a flag that a writer waits. For tests that show what goes wrong with it.
 */
import { v4 as uuid } from 'uuid';
import type { Client } from './redis';

/** KEYS: lock, readers, intent. ARGV: token, TTL, whether writers go first. */
const readLock = `
if ARGV[3] ~= 0 and redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local readers = tonumber(redis.call('GET', KEYS[2]) or '0')
if readers == 0 and not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('INCR', KEYS[2])
return 1`;

const readUnlock = `
if redis.call('DECR', KEYS[2]) == 0 and redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

const writeLock = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] and not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('SET', KEYS[3], 1)
  return 0
end
redis.call('DEL', KEYS[2], KEYS[3])
return 1`;

const writeUnlock = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

const refresh = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;

/** The same for all readers. */
const readerToken = 'reader';

export class GoOriginal {
  readonly #client: Client;
  readonly #keys: string[];
  readonly #prefersWriter: boolean;
  readonly #writerToken = uuid();

  constructor(client: Client, key: string, prefersWriter: boolean) {
    this.#client = client;
    this.#keys = [key, `${key}:readers`, `${key}:intent`];
    this.#prefersWriter = prefersWriter;
  }

  /** Makes one attempt. */
  async readLock(ttlMs: number): Promise<boolean> {
    return (await this.#run(readLock, readerToken, ttlMs, this.#prefersWriter ? 1 : 0)) === 1;
  }

  async readUnlock(): Promise<void> {
    await this.#run(readUnlock, readerToken);
  }

  /** Makes one attempt; a failed one leaves the intent behind. */
  async writeLock(ttlMs: number): Promise<boolean> {
    return (await this.#run(writeLock, this.#writerToken, ttlMs)) === 1;
  }

  async writeUnlock(): Promise<void> {
    await this.#run(writeUnlock, this.#writerToken);
  }

  /** Refreshes the writer's lock; its answer is not looked at. */
  async refreshWriter(ttlMs: number): Promise<void> {
    await this.#run(refresh, this.#writerToken, ttlMs);
  }

  #run(lua: string, ...args: (string | number)[]): Promise<unknown> {
    return this.#client.eval(lua, { keys: this.#keys, arguments: args.map(String) });
  }
}
