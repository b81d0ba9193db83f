/** H48 to H52: shared memory. */
import type { Protection } from './protection';

export const sharedMemory: readonly Protection[] = [
  {
    hazard: 'H48',
    without: 'an unlock, and the collector, release the lock of the present holder',
    changes: [
      {
        file: 'stores/embedded/mutex-machine.ts',
        from: "const result = row.token === token ? 'released' : row.token === undefined ? 'missing' : 'taken';",
        to: "const result = row.token === undefined ? 'missing' : 'released';",
      },
    ],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H48',
    without: 'expire moves the end of the lock of the present holder',
    changes: [
      {
        file: 'stores/embedded/mutex-machine.ts',
        from: "    if (rows.some((row) => row.token !== undefined && row.token !== token)) return 'taken';\n",
        to: '',
      },
    ],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H49',
    without: 'the object is free before its key is',
    changes: [
      {
        file: 'host-lock.ts',
        from: '    const released = await release(holding);\n    this.#forget(holding);\n    return released;\n',
        to: '    this.#forget(holding);\n    return release(holding);\n',
      },
    ],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H49',
    without: 'an object that was unlocked unlocks its key once more, from the present holder',
    changes: [
      {
        file: 'host-lock.ts',
        from: '    if (this.#holding === holding) this.#holding = undefined;\n',
        to: '',
      },
      {
        file: 'stores/embedded/mutex-machine.ts',
        from: "const result = row.token === token ? 'released' : row.token === undefined ? 'missing' : 'taken';",
        to: "const result = row.token === undefined ? 'missing' : 'released';",
      },
    ],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H50',
    without: 'a full table drops locks to make room',
    changes: [
      {
        file: 'stores/embedded/table-file.ts',
        from: "    throw new LockBackendError(message, { redisCode: 'FULL' });\n",
        to: "    this.#database.prepare('DELETE FROM locks WHERE key IN (SELECT key FROM locks LIMIT 256)').run();\n",
      },
    ],
    test: 'embedded/shared-memory.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H50',
    without: 'what is refused is kept all the same',
    changes: [
      {
        file: 'stores/embedded/table-file.ts',
        from: '    return this.#database.transaction(() => {\n      this.rows.begin();\n',
        to: '    let isMore = false;\n    const result = this.#database.transaction(() => {\n      this.rows.begin();\n',
      },
      {
        file: 'stores/embedded/table-file.ts',
        from: '      if (this.rows.write(micros)) this.#makeRoom(micros);\n      return done;\n    });\n',
        to: '      isMore = this.rows.write(micros);\n      return done;\n    });\n    if (isMore) this.#makeRoom(this.micros());\n    return result;\n',
      },
    ],
    test: 'embedded/shared-memory.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H51',
    without: 'any value is a key, as text',
    changes: [
      {
        file: 'keys.ts',
        from: "if (typeof key !== 'string') throw optionError('key', 'a string', key);",
        to: "if (typeof key !== 'string') return lockKey(String(key), prefix);",
      },
    ],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H51',
    without: 'a lifetime of 0 is a lifetime',
    changes: [
      {
        file: 'options.ts',
        from: 'export const lifetimeRule: Rule = { ...integer(1),',
        to: 'export const lifetimeRule: Rule = { ...integer(0),',
      },
    ],
    test: 'embedded/host-lock.test.ts',
    node: 'sqlite',
  },
  {
    hazard: 'H52',
    without: 'the lock of the table is a folder that the dead leave behind',
    changes: [
      {
        file: 'stores/embedded/sqlite.ts',
        from: "import { createRequire } from 'node:module';\n",
        to: "import { mkdirSync, rmdirSync } from 'node:fs';\nimport { createRequire } from 'node:module';\nconst suffix = '.lock';\n",
      },
      {
        file: 'stores/embedded/sqlite.ts',
        from: '    patiently(this.#file, () => this.#begin.run());\n    try {\n',
        to: '    patiently(this.#file, () => mkdirSync(this.#file + suffix));\n    try {\n      patiently(this.#file, () => this.#begin.run());\n',
      },
      {
        file: 'stores/embedded/sqlite.ts',
        from: '      this.#undo();\n      throw error;\n    }\n',
        to: '      this.#undo();\n      throw error;\n    } finally {\n      rmdirSync(this.#file + suffix);\n    }\n',
      },
      {
        file: 'stores/embedded/sqlite.ts',
        from: "return ['BUSY', 'LOCKED', 'PROTOCOL'].includes(resultOf(error) ?? '');",
        to: "return ['BUSY', 'LOCKED', 'PROTOCOL'].includes(resultOf(error) ?? '') || (error as { code?: unknown }).code === 'EEXIST';",
      },
    ],
    test: 'embedded/shared-memory.test.ts',
    node: 'sqlite',
  },
];
