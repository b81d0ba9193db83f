/** The list of `npm run protections` fits the sources, the tests and docs/hazards.md. The tests themselves run there. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { breaks } from '../../torture/breaks/list';
import { shortCuts } from '../slow-paths/short-cuts';
import { altered, fileOf, filesByMarker } from '../support/alteration';
import { protections, without } from './list';

const root = join(__dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

describe('npm run protections', () => {
  const files = filesByMarker(join(root, 'src'));

  for (const { hazard, without: name, changes, test } of protections) {
    it(`applies: ${hazard}, ${name}`, () => {
      for (const file of changes.map((change) => fileOf(change, files))) {
        const text = read(`src/${file}`);
        expect(altered(file, text, changes)).to.not.equal(text);
      }
      expect(read(`test/${test}`), test).to.match(new RegExp(`\\b${hazard}\\b`));
    });
  }

  it('is about each marker of a hazard in the sources, and each hazard has one', () => {
    const ofHazards = [...files.keys()].filter((marker) => marker.startsWith('H'));
    const changes = protections.flatMap((each) => each.changes.map((change) => ({ ...change, hazard: each.hazard })));
    const used = changes.flatMap((change) => ('at' in change ? [change] : []));
    expect(ofHazards).to.have.members([...new Set(used.map(({ at }) => at))]);
    expect(used.filter(({ at, hazard }) => at.replace(/[a-z]$/, '') !== hazard)).to.deep.equal([]);
    const missing = protections.filter(({ hazard }) => !ofHazards.includes(hazard));
    expect(missing.map(({ hazard }) => hazard)).to.deep.equal([]);
  });

  it('has no other markers in the sources: breaks and short cuts', () => {
    const others = [...files.keys()].filter((marker) => !marker.startsWith('H'));
    const listed = [...breaks, ...shortCuts].flatMap(({ change }) => ('at' in change ? [change.at] : []));
    expect(others).to.have.members([...new Set(listed.filter((at) => !at.startsWith('H')))]);
  });

  it('has every hazard, in order: what protects from it, or why there is nothing to take out', () => {
    const numbers = [...read('docs/hazards.md').matchAll(/^\| (H\d+) \|/gm)].map(([, number]) => number!);
    const listed = new Set([...protections, ...without].map(({ hazard }) => hazard));
    expect(numbers.filter((number) => !listed.has(number))).to.deep.equal([]);
    const positions = protections.map(({ hazard }) => numbers.indexOf(hazard));
    expect(positions).to.deep.equal(positions.toSorted((a, b) => a - b));
    expect(positions).to.not.include(-1);
  });
});
