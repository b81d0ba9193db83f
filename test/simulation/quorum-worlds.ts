// Many worlds on the same rules, in a process of its own, run by quorum.test.ts: where a test before has used an
// AsyncLocalStorage, every promise costs twice as much from then on.
import { type Rules, simulate } from './quorum';

export interface Worlds {
  readonly rules: Rules;
  readonly seeds: readonly number[];
}

/** The grants in all worlds, or the seed of the world that broke a promise. */
export type Outcome = { readonly grants: number } | { readonly seed: number; readonly broken: string };

async function run({ rules, seeds }: Worlds): Promise<Outcome> {
  let grants = 0;
  for (const seed of seeds) {
    try {
      grants += (await simulate(seed, rules)).grants;
    } catch (error) {
      return { seed, broken: (error as Error).message };
    }
  }
  return { grants };
}

process.on('message', (worlds: Worlds) => {
  void run(worlds).then((outcome) => process.send!(outcome));
});
