/** The list of `npm run protections` fits the sources, the tests and docs/hazards.md. The tests themselves run there. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { altered } from '../support/altered-tree';
import { protections, without } from './list';

const root = join(__dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

describe('npm run protections', () => {
  for (const { hazard, without: name, changes, test } of protections) {
    it(`applies: ${hazard}, ${name}`, () => {
      for (const { file } of changes) {
        const text = read(`src/${file}`);
        expect(altered(file, text, changes)).to.not.equal(text);
      }
      expect(read(`test/${test}`), test).to.match(new RegExp(`\\b${hazard}\\b`));
    });
  }

  it('has every hazard, in order: what protects from it, or why there is nothing to take out', () => {
    const numbers = [...read('docs/hazards.md').matchAll(/^\| (H\d+) \|/gm)].map(([, number]) => number!);
    const listed = new Set([...protections, ...without].map(({ hazard }) => hazard));
    expect(numbers.filter((number) => !listed.has(number))).to.deep.equal([]);
    const positions = protections.map(({ hazard }) => numbers.indexOf(hazard));
    expect(positions).to.deep.equal(positions.toSorted((a, b) => a - b));
    expect(positions).to.not.include(-1);
  });
});
