// The records of processes, kept after a process falls silent: the start of each hold, the losses, and the holders whose processes fell
// silent without releasing their locks.

import { type RegisteredHold, recordsOf } from '../../inspect/process-record';
import type { Processes } from '../../store/operator';

/** A holder that lost its lock. */
export interface Loss {
  readonly key: string;
  readonly id: string;
  readonly agoMs: number;
}

export class Records {
  /** The last known holds of each process. */
  #holds = new Map<string, readonly RegisteredHold[]>();
  /** The ids of holders whose processes are silent, by key. */
  readonly #silent = new Map<string, Set<string>>();
  /** The start of each hold, by the id of the holder. */
  #since = new Map<string, number>();
  #losses: readonly Loss[] = [];
  #atMs = 0;

  update(processes: Processes): void {
    const { atMs } = processes;
    const records = recordsOf(processes);
    const reported = new Map(records.map(({ id, held }) => [id, held]));
    for (const [process, held] of this.#holds) if (!reported.has(process)) this.#fellSilent(held);
    this.#holds = reported;
    this.#atMs = atMs;
    const held = [...reported.values()].flat();
    for (const { key, id } of held) this.#silent.get(key)?.delete(id);
    const silent = new Set([...this.#silent.values()].flatMap((ids) => [...ids]));
    const kept = [...this.#since].filter(([id]) => silent.has(id));
    this.#since = new Map([...kept, ...held.map(({ id, since }) => [id, since] as const)]);
    this.#losses = records.flatMap(({ lost = [] }) => lost.map(({ at, ...loss }) => ({ ...loss, agoMs: atMs - at })));
  }

  get losses(): readonly Loss[] {
    return this.#losses;
  }

  /** Keys whose holder's process is silent and has not reported a release. */
  orphans(): Iterable<string> {
    return this.#silent.keys();
  }

  isSilent(key: string, id: string): boolean {
    return this.#silent.get(key)?.has(id) ?? false;
  }

  /** Takes the present holders of a key. Forgets the silent holders of the key if none of them holds it. */
  settle(key: string, holders: readonly { readonly id: string }[]): void {
    const silent = this.#silent.get(key);
    if (silent !== undefined && !holders.some(({ id }) => silent.has(id))) this.#silent.delete(key);
  }

  /** Ms for which a holder has held its lock; undefined if no process has reported it. */
  heldMs(id: string): number | undefined {
    const since = this.#since.get(id);
    return since === undefined ? undefined : Math.max(0, this.#atMs - since);
  }

  #fellSilent(held: readonly RegisteredHold[]): void {
    for (const { key, id } of held) {
      const ids = this.#silent.get(key);
      if (ids === undefined) this.#silent.set(key, new Set([id]));
      else ids.add(id);
    }
  }
}
