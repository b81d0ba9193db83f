// The rows of a table without a server, and what needs neither turn nor queue: what is kept beside a lock, and what there is to
// know of it. The verbs are those of the machine (mutex-machine.ts).
import { newsOf, type ProclaimRequest, type Slot } from '../contract';
import type { Publish } from './command';
import { type InspectedRow, inspectRow } from './inspection';
import { forgetQueue, hasQueue } from './mutex-queue';
import { type LockRow, newRow, newShared, type Rows, type Shared } from './row';
import { permitsOut } from './shared-machine';

type ProclaimCommand = Omit<ProclaimRequest, 'commandTimeoutMs'>;

export class LockTable {
  protected readonly rows: Rows;
  protected readonly publish: Publish;

  constructor(publish: Publish, rows: Rows) {
    this.publish = publish;
    this.rows = rows;
  }

  /** The holders of a key that several may hold, and until when. */
  holders(key: string, micros: number): Shared['holders'] {
    const nowMs = Math.floor(micros / 1000);
    return this.shared(key, nowMs).holders.filter((each) => each.endMs > nowMs);
  }

  /** How many permits of a semaphore are out. */
  permitsOut(key: string, micros: number): number {
    return permitsOut(this.shared(key, Math.floor(micros / 1000)), micros);
  }

  /** What is cached beside a lock; null: nothing. */
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

  /** From now on the job of a slot counts as done. False: the lock is no longer `token`'s, or the slot is over. */
  markSlot(key: string, token: string, { start, end }: Slot, micros: number): boolean {
    const nowMs = Math.floor(micros / 1000);
    const row = this.row(key, nowMs);
    if (row.token !== token || end <= nowMs) return false;
    row.slot = { startMs: start, endMs: end };
    return true;
  }

  /** Writes a text beside a lock that the token still holds, and tells those that observe it; '' takes it back. */
  proclaim({ key, token, text, ttlMs, channel }: ProclaimCommand, micros: number): boolean {
    if (!this.writeValue(key, token, text, ttlMs, micros)) return false;
    if (text === '') this.row(key, Math.floor(micros / 1000)).value = undefined;
    this.publish(channel, newsOf, key);
    return true;
  }

  /** The token that holds a key. */
  holder(key: string, micros: number): string | undefined {
    return this.row(key, Math.floor(micros / 1000)).token;
  }

  /** The last fence minted for any key; 0 where none is remembered. */
  get fence(): number {
    return this.rows.fence;
  }

  /** What there is to know of a key: of several holders, the one that ends last. */
  inspect(key: string, micros: number): InspectedRow {
    return inspectRow(this.row(key, Math.floor(micros / 1000)), this.rows.fence, micros);
  }

  /** Keeps a text that is no lock; '': no longer; undefined: for longer. False: there is nothing to keep for longer. */
  write(key: string, text: string | undefined, ttlMs: number, micros: number, channel: string, about: string): boolean {
    const kept = this.readValue(key, micros);
    if (text === undefined && kept === null) return false;
    const row = this.row(key, Math.floor(micros / 1000));
    const endMs = Math.floor(micros / 1000) + ttlMs;
    row.value = text === '' ? undefined : { text: text ?? kept!, endMs };
    if (text !== undefined) this.publish(channel, about, key);
    return true;
  }

  /** What a client does to a key that knows nothing of fences and queues, nor of several holders. */
  put(key: string, token: string | undefined, endMs: number): void {
    Object.assign(this.row(key, 0), { token, endMs, shared: undefined });
  }

  /** The row of a key, without what has ended meanwhile. */
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
