import { uniqueKey } from './redis';

/** A suite of tests that mostly wait for time to pass: all begin with the first, each with a key of its own. */
export function describeAtOnce(title: string, tests: Readonly<Record<string, (key: string) => Promise<void>>>): void {
  describe(title, () => {
    const running = new Map<string, Promise<void>>();
    before(() => {
      for (const [name, test] of Object.entries(tests)) running.set(name, test(uniqueKey()));
      for (const each of running.values()) each.catch(() => {}); // the test of that name fails
    });
    for (const name of Object.keys(tests)) it(name, () => running.get(name));
  });
}
