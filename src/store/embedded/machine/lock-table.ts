// The rows of a table without a server, and the commands that need neither turn nor queue: the text beside a lock, and
// inspection. The verbs are in the machine (mutex-machine.ts).
import type { Slot } from '../../contract';
import type { InspectedLock } from '../../inspected';
import { newsOf, type ProclaimRequest } from '../../values';
import type { Publish } from './command';
import { inspectRow } from './inspection';
import { forgetQueue, hasQueue } from './mutex-queue';
import { type LockRow, MemoryRows, newRow, newShared, type Rows, type Shared } from './row';

type ProclaimCommand = Omit<ProclaimRequest, 'commandTimeoutMs'>;

export class LockTable {
  protected readonly rows: Rows;
  protected readonly publish: Publish;

  constructor(publish: Publish, rows: Rows = new MemoryRows()) {
    this.publish = publish;
    this.rows = rows;
  }

  /** The live holders of a key with a mode. */
  holders(key: string, micros: number): Shared['holders'] {
    const nowMs = Math.floor(micros / 1000);
    return this.shared(key, nowMs).holders.filter((each) => each.endMs > nowMs);
  }

  permitsOut(key: string, micros: number): number {
    return this.holders(key, micros).reduce((sum, each) => sum + each.permits, 0);
  }

  /** The text cached beside a lock; null: none. */
  readValue(key: string, micros: number): string | null {
    const value = this.rows.get(key)?.value;
    return value === undefined || value.endMs <= Math.floor(micros / 1000) ? null : value.text;
  }

  /** Caches a text beside a lock that the token still holds. */
  writeValue(key: string, token: string, text: string, ttlMs: number, micros: number): boolean {
    const nowMs = Math.floor(micros / 1000);
    const row = this.row(key, nowMs);
    if (row.token !== token) return false;
    row.value = { text, endMs: nowMs + ttlMs };
    return true;
  }

  /** Marks the job of a slot as done. False: the lock is no longer `token`'s, or the slot is over. */
  markSlot(key: string, token: string, { start, end }: Slot, micros: number): boolean {
    const nowMs = Math.floor(micros / 1000);
    const row = this.row(key, nowMs);
    if (row.token !== token || end <= nowMs) return false;
    row.slot = { startMs: start, endMs: end };
    return true;
  }

  /** Writes a text beside a lock that the token still holds, and notifies observers; '' removes the text. */
  proclaim({ key, token, text, ttlMs, channel }: ProclaimCommand, micros: number): boolean {
    if (!this.writeValue(key, token, text, ttlMs, micros)) return false;
    if (text === '') this.row(key, Math.floor(micros / 1000)).value = undefined;
    this.publish(channel, newsOf, key);
    return true;
  }

  holder(key: string, micros: number): string | undefined {
    return this.row(key, Math.floor(micros / 1000)).token;
  }

  get fence(): number {
    return this.rows.fence;
  }

  /** The state of a key; its token is that of the holder that ends last. */
  inspect(key: string, micros: number): InspectedLock {
    return inspectRow(this.row(key, Math.floor(micros / 1000)), this.rows.fence, micros);
  }

  /** Keeps a text that is no lock. '' removes it; undefined prolongs it. False: there is nothing to prolong. */
  write(key: string, text: string | undefined, ttlMs: number, micros: number, channel: string, about: string): boolean {
    const kept = text ?? this.readValue(key, micros);
    if (kept === null) return false;
    const nowMs = Math.floor(micros / 1000);
    this.row(key, nowMs).value = kept === '' ? undefined : { text: kept, endMs: nowMs + ttlMs };
    if (text !== undefined) this.publish(channel, about, key);
    return true;
  }

  /** Sets the holder of a key as a client does that knows neither fences nor queues nor modes. */
  put(key: string, token: string | undefined, endMs: number): void {
    Object.assign(this.row(key, 0), { token, endMs, shared: undefined });
  }

  /** The row of a key, without its expired parts. */
  protected row(key: string, nowMs: number): LockRow {
    let row = this.rows.get(key);
    if (row === undefined) {
      row = newRow(key);
      this.rows.set(key, row);
    }
    if (row.endMs <= nowMs) row.token = undefined;
    if (row.queueEndMs <= nowMs && hasQueue(row)) forgetQueue(row);
    return row;
  }

  protected shared(key: string, nowMs: number): Shared {
    const row = this.row(key, nowMs);
    row.shared ??= newShared();
    return row.shared;
  }
}
