/** A line that moves on a terminal; in a pipe a line for each round. */
import type { RoundReport } from './round';

export class Progress {
  readonly #startedMs = performance.now();
  readonly #ms: number;
  readonly #moves = process.stdout.isTTY === true;
  #round = '';
  #grants = 0;

  constructor(ms: number) {
    this.#ms = ms;
  }

  round(number: number, store: string, seed: number): void {
    this.#round = `round ${number + 1}, ${store}, seed ${seed}`;
    this.#show('');
  }

  fault(what: string): void {
    this.#show(what);
  }

  over({ grants, faults, operations, violations, excused, longestIdleMs }: RoundReport): void {
    const sum = (counts: Readonly<Record<string, number>>): number => Object.values(counts).reduce((a, b) => a + b, 0);
    this.#grants += sum(grants);
    const parts = [`${operations} calls`, `${sum(grants)} grants`, `${sum(faults)} faults`];
    if (longestIdleMs > 0) parts.push(`idle ${longestIdleMs.toFixed(0)} ms`);
    if (excused > 0) parts.push(`${excused} excused by a failover`);
    parts.push(violations.length === 0 ? 'ok' : `${violations.length} BROKEN`);
    this.#clear();
    console.log(`${this.#round}: ${parts.join(', ')}`);
  }

  trouble({ message }: Error): void {
    this.#clear();
    console.log(`${this.#round}: could not be run: ${message.split('\n')[0]}`);
  }

  end(): void {
    this.#clear();
  }

  #show(what: string): void {
    if (!this.#moves) return;
    const passedMs = performance.now() - this.#startedMs;
    const share = Math.min(passedMs / this.#ms, 1);
    const bar = '#'.repeat(Math.round(share * 20)).padEnd(20, '.');
    const text = `${bar} ${(passedMs / 60_000).toFixed(1)}/${(this.#ms / 60_000).toFixed(1)} min  ${this.#round}  ${this.#grants} grants  ${what}`;
    process.stdout.write(`\r\x1b[K${text.slice(0, (process.stdout.columns ?? 80) - 1)}`);
  }

  #clear(): void {
    if (this.#moves) process.stdout.write('\r\x1b[K');
  }
}
