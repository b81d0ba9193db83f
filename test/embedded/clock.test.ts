// The clock of a host, on clocks of the test: one in ticks that all processes share, and each process's own.
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import fc from 'fast-check';
import { type Clocks, HostClock, hostClock, tickMs } from '../../src/store/embedded/shared-memory/clock';

/** The real times, and those that a process sees. Reading a clock takes time. */
class World {
  trueMs: number;
  /** The fine clock begins with the process, and stands still while the host sleeps. */
  #startMs: number;
  #sleptMs = 0;
  readonly #costMs: number;

  constructor(trueMs: number, startMs: number, costMs = 0.01) {
    this.trueMs = trueMs;
    this.#startMs = startMs;
    this.#costMs = costMs;
  }

  readonly clocks: Clocks = {
    shared: () => {
      this.trueMs += this.#costMs / 2;
      const readMs = Math.floor(this.trueMs / tickMs) * tickMs;
      this.trueMs += this.#costMs / 2;
      return readMs;
    },
    fine: () => {
      this.trueMs += 0.0001;
      return this.trueMs - this.#startMs - this.#sleptMs;
    },
    wall: () => 1_700_000_000_000 + this.trueMs,
  };

  sleep(ms: number): void {
    this.trueMs += ms;
    this.#sleptMs += ms;
  }
}

describe('the clock of a host', () => {
  it('H89: processes that began at other times read one time, each within its own lag, and never ahead of it', () => {
    const ms = fc.double({ min: 0, max: 1e9, noNaN: true });
    const steps = fc.array(fc.double({ min: 0, max: 5000, noNaN: true }), { maxLength: 20 });
    const cost = fc.double({ min: 0.001, max: 50, noNaN: true });
    fc.assert(
      fc.property(ms, ms, cost, steps, (trueMs, startMs, costMs, advances) => {
        const world = new World(trueMs, startMs, costMs);
        const clock = new HostClock(world.clocks);
        for (const advance of advances) {
          world.trueMs += advance;
          const before = world.trueMs;
          const readMs = clock.micros() / 1000;
          expect(readMs).to.be.at.most(world.trueMs + 0.001);
          expect(readMs + clock.lagMs).to.be.at.least(before - 0.002);
        }
      }),
    );
  });

  it('H89: of every process counts from the start of the kernel, not from its own', function () {
    if (process.platform !== 'linux') this.skip();
    const uptimeMs = (): number => 1000 * Number.parseFloat(readFileSync('/proc/uptime', 'latin1'));
    const clock = hostClock();
    const beforeMs = uptimeMs();
    const readMs = clock.micros() / 1000;
    expect(readMs + clock.lagMs).to.be.at.least(beforeMs - 0.002);
    expect(readMs).to.be.at.most(uptimeMs() + tickMs);
  });

  it('knows the time to a tenth of a ms at once, though the shared clock goes in steps of ten', () => {
    for (const phase of [0, 3, 9.99]) {
      const clock = new HostClock(new World(50_000 + phase, 49_000).clocks);
      expect(clock.lagMs).to.be.within(0, 0.1);
    }
  });

  it('where readings are slow it knows less, and says so: never more than a tick and a reading', () => {
    const clock = new HostClock(new World(50_000, 49_000, 40).clocks);
    expect(clock.lagMs).to.be.within(0.1, 40 + 2 * tickMs);
  });

  it('goes on while the host sleeps, at the first reading after it', () => {
    const world = new World(50_000, 49_000);
    const clock = new HostClock(world.clocks);
    clock.micros();
    world.sleep(60_000);
    expect(clock.micros() / 1000).to.be.within(world.trueMs - 0.2, world.trueMs);
    expect(clock.lagMs).to.be.within(0, 0.1);
  });

  it('never goes back while nobody sleeps', () => {
    const world = new World(50_000, 49_000);
    const clock = new HostClock(world.clocks);
    let last = 0;
    for (let n = 0; n < 5000; n++) {
      world.trueMs += n % 7;
      const micros = clock.micros();
      expect(micros).to.be.at.least(last);
      last = micros;
    }
  });
});
