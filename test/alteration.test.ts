/** The alterations that the lists of protections, breaks and short cuts make to marked code: one that misses would prove nothing. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import {
  type Alteration,
  altered,
  drop,
  fileOf,
  filesByMarker,
  operand,
  piece,
  value,
  when,
  write,
} from './support/alteration';

const typescript = `function f(a, b) {
  // H1
  if (a && (b || a.c)) {
    go(a);
  } else stop();
  const d = a ? b : f(b, a); // H2 S1
  return b; // H2b
}
`;
const lua = `if a == ')' and b or c then -- H1
  go(a)
elseif b then -- H2
  stop()
end
local d = b -- H3
`;

const cases: readonly (readonly [name: string, file: string, change: Alteration, from: string, to: string])[] = [
  [
    'a statement goes, with what closes it',
    'x.ts',
    drop('H1'),
    '  if (a && (b || a.c)) {\n    go(a);\n  } else stop();\n',
    '',
  ],
  ['a condition is never met', 'x.ts', when('H1', false), 'a && (b || a.c)', 'false && (a && (b || a.c))'],
  ['a condition of a value', 'x.ts', when('H2', 'b'), '= a ?', '= b ?'],
  ['an operand, brackets and all', 'x.ts', operand('H1', 2, true), '(b || a.c)', '(true || ((b || a.c)))'],
  ['a value', 'x.ts', value('H2', 'a'), 'a ? b : f(b, a)', 'a'],
  ['a value that is returned', 'x.ts', value('H2b', 'a'), 'return b', 'return a'],
  ['a piece', 'x.ts', piece('S1', /f\((.*), (.*)\)/, 'f($2, $1)'), 'f(b, a)', 'f(a, b)'],
  ['other code', 'x.ts', write('H2b', '  stop();'), '  return b;', '  stop();'],
  ['text without a marker', 'x.ts', { file: 'x.ts', from: 'return b;\n', to: '' }, 'return b;\n', ''],
  ['Lua: a condition', 'x.lua', when('H2', true), 'elseif b then', 'elseif true or (b) then'],
  ['Lua: an operand', 'x.lua', operand('H1', 1, false), "a == ')' and", "(false and (a == ')')) and"],
  ['Lua: a value', 'x.lua', value('H3', 'c'), '= b', '= c'],
];

describe('alterations at markers', () => {
  const textOf = (file: string): string => (file === 'x.ts' ? typescript : lua);

  for (const [name, file, change, from, to] of cases) {
    it(name, () => {
      const bare = altered(file, textOf(file), []);
      expect(bare).not.to.match(/\b[HS]\d/);
      expect(bare.split(from).length).to.equal(2);
      expect(altered(file, textOf(file), [change])).to.equal(bare.replace(from, () => to));
    });
  }

  it('one that changes nothing, or uses a name that is not there, is an error', () => {
    expect(() => altered('x.ts', typescript, [piece('H2', 'gone', '')])).to.throw('H2 changes nothing');
    expect(() => altered('x.ts', typescript, [operand('H1', 3, true)])).to.throw('2 operands');
    expect(() => altered('x.ts', typescript, [value('H2', 'renamed')])).to.throw('renamed');
    expect(() => altered('x.ts', typescript, [{ file: 'x.ts', from: 'gone', to: '' }])).to.throw('gone');
  });

  it('a marker that is not there, or is twice, is an error', () => {
    const src = mkdtempSync(join(tmpdir(), 'redis-exp-lock-markers-'));
    try {
      mkdirSync(join(src, 'a'));
      writeFileSync(join(src, 'a', 'x.ts'), typescript);
      expect(fileOf(drop('S1'), filesByMarker(src))).to.equal('a/x.ts');
      expect(() => fileOf(drop('H3'), filesByMarker(src))).to.throw('no marker H3');
      writeFileSync(join(src, 'x.lua'), lua);
      expect(() => filesByMarker(src)).to.throw('H1 more than once');
    } finally {
      rmSync(src, { recursive: true });
    }
  });
});
