// The mutants of the Lua scripts, one after the other: applied as text, compiled into generated.ts, and shown to the tests of their
// kind. Resolves with what became of each. A mutant that cannot be applied is an error.
'use strict';

const { execFileSync } = require('node:child_process');
const { readFileSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { mutants, tests } = require('./lua-mutants.cjs');
const { firstFailure, makeSandbox, root } = require('./sandbox.cjs');

/** The markers of hazards, breaks and short cuts (CONTRIBUTING.md): no mutant is about them. */
const markers = / -- (?:[HBS]\d+[a-z]? ?)+$/gm;

function mutated({ script, from, to, why }) {
  const text = readFileSync(join(root, 'src/store/redis/scripts', `${script}.lua`), 'utf8').replace(markers, '');
  const count = text.split(from).length - 1;
  if (count !== 1) throw new Error(`${script}.lua, ${why}: ${JSON.stringify(from)} is there ${count} times`);
  return text.replace(from, () => to);
}

function runOne(folder, mutant) {
  const file = join(folder, 'src/store/redis/scripts', `${mutant.script}.lua`);
  const original = readFileSync(file, 'utf8');
  writeFileSync(file, mutated(mutant));
  try {
    execFileSync(process.execPath, ['--import', 'tsx', 'scripts/generate-scripts.ts'], { cwd: folder, stdio: 'pipe' });
    const files = tests[mutant.kind].map((name) => join('test', 'redis', `${name}.test.ts`));
    return firstFailure(folder, files);
  } finally {
    writeFileSync(file, original);
  }
}

exports.checkAll = () => mutants.forEach(mutated);

exports.run = (isChosen = () => true) => {
  exports.checkAll();
  const { folder, remove } = makeSandbox();
  try {
    return mutants.filter(isChosen).map((mutant) => {
      const killedBy = runOne(folder, mutant);
      console.log(
        `${killedBy ? 'killed  ' : 'SURVIVED'} ${mutant.script}.lua: ${mutant.why}${killedBy ? ` (${killedBy})` : ''}`,
      );
      return { script: mutant.script, why: mutant.why, ...(killedBy ? { killedBy } : { survived: true }) };
    });
  } finally {
    remove();
  }
};
