// docs/hazards.md explains every `H…` number that a test names, and names a test for each that has one. When tests move:
// `UPDATE_HAZARDS=1 npx mocha test/hazards.test.ts` writes the files of the last column anew, where they are wrong.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';

const root = join(__dirname, '..');
const page = join(root, 'docs', 'hazards.md');
const none = '–';

/** The number of times that each hazard is named, by test file. */
const named = new Map<string, Map<string, number>>();
for (const file of readdirSync(__dirname, { recursive: true, encoding: 'utf8' }).sort()) {
  if (!file.endsWith('.test.ts') || file === 'hazards.test.ts') continue;
  for (const [number] of readFileSync(join(__dirname, file), 'utf8').matchAll(/\bH[1-9]\d*\b/g)) {
    const files = named.get(number) ?? new Map<string, number>();
    named.set(number, files.set(file, (files.get(file) ?? 0) + 1));
  }
}

/** The file itself where it names the number; else the one that names it most often. */
function evidence(number: string, written: string): string {
  const files = named.get(number);
  if (files === undefined) return none;
  if (files.has(written)) return written;
  return [...files].reduce((most, each) => (each[1] > most[1] ? each : most))[0];
}

const row = /^(\| (H\d+) \| (.+) \| )(?:`(.+)`|–)( \|)$/gm;

function shown(file: string): string {
  return file === none ? none : `\`${file}\``;
}

describe('docs/hazards.md', () => {
  if (process.env.UPDATE_HAZARDS) {
    const text = readFileSync(page, 'utf8');
    const updated = text.replace(row, (_, before, number, __, file, after) => {
      return before + shown(evidence(number, file ?? none)) + after;
    });
    writeFileSync(page, updated);
  }
  const rows = [...readFileSync(page, 'utf8').matchAll(row)];
  const numbers = rows.map(([, , number]) => number);

  it('explains them in order, each once and in words of its own', () => {
    const values = numbers.map((number) => Number(number!.slice(1)));
    expect(values).to.deep.equal([...new Set(values)].toSorted((a, b) => a - b));
    const texts = rows.map(([, , , text]) => text!);
    expect(texts.filter((text) => text.length < 30)).to.deep.equal([]);
    expect(new Set(texts)).to.have.property('size', texts.length);
  });

  it('explains every number that a test names', () => {
    expect([...named.keys()].filter((number) => !numbers.includes(number))).to.deep.equal([]);
  });

  it('names a test for each number that has one, and that test names the number', () => {
    const wrong = rows.flatMap(([, , number, , file = none]) => {
      const right = evidence(number!, file);
      return right === file ? [] : [`${number}: ${right}, not ${file}`];
    });
    expect(wrong, 'UPDATE_HAZARDS=1 writes them').to.deep.equal([]);
  });
});
