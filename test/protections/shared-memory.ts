// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these are templates
/** H48 to H52: shared memory. */
import { drop, piece, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const sharedMemory: readonly Protection[] = [
  {
    hazard: 'H48',
    without: 'an unlock, and the collector, release the lock of the present holder',
    changes: [when('H48', 'row.token !== undefined')],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H48',
    without: 'expire moves the end of the lock of the present holder',
    changes: [drop('H48b')],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H49',
    without: 'the object is free before its key is',
    changes: [
      piece(
        'H49',
        /^/,
        `    this.#holding = undefined;
    collected.unregister(holding);
`,
      ),
    ],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H49',
    without: 'an object that was unlocked unlocks its key once more, from the present holder',
    changes: [drop('H49b'), when('H49c', 'row.token !== undefined')],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H50',
    without: 'a full table drops locks to make room',
    changes: [
      write(
        'H50',
        "    this.#database.prepare('DELETE FROM locks WHERE key IN (SELECT key FROM locks LIMIT 256)').run();",
      ),
    ],
    test: 'embedded/shared-memory.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H50',
    without: 'what is refused is kept all the same',
    changes: [
      piece(
        'H50b',
        /return ([\s\S]*?)if \((.*)\) (.*);([\s\S]*)/,
        `let isMore = false;
    const result = $1isMore = $2;$4
    if (isMore) this.#makeRoom(this.baseMicros + hostClock().micros());
    return result;`,
      ),
    ],
    test: 'embedded/shared-memory.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H51',
    without: 'any value is a key, as text',
    changes: [piece('H51', /throw.*/, 'return fullKey(String(key), prefix);')],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H51',
    without: 'a lifetime of 0 is a lifetime',
    changes: [piece('H51b', '(1)', '(0)')],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H52',
    without: 'the lock of the table is a folder that the dead leave behind',
    changes: [
      piece('H52', /^/, "    patiently(this.#file, () => require('node:fs').mkdirSync(`${this.#file}.lock`));\n"),
      piece('H52b', /$/, " finally {\n      require('node:fs').rmdirSync(`${this.#file}.lock`);\n    }"),
      piece('H52c', /;$/, " || (error as any).code === 'EEXIST';"),
    ],
    test: 'embedded/shared-memory.test.ts',
    node: 'sqlite',
  },
];
