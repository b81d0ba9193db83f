// A wait that ends early when another part of the program rings.
import { timers } from './clock';
import { type Alarm, clearAlarm } from './timers';

/** A bell for one waiting function. If it rings while nobody waits, the next wait ends at once. */
export class Bell {
  #isRung = false;
  #wake: () => void = () => {};

  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  /** Waits until the bell rings, for `ms` at most. Resolves with true if it rang. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#isRung) {
      let alarm: Alarm | undefined;
      await new Promise<void>((resolve) => {
        alarm = timers.set(resolve, ms);
        this.#wake = resolve;
      });
      clearAlarm(alarm);
    }
    const isRung = this.#isRung;
    this.#isRung = false;
    return isRung;
  }
}
