/** The list of `npm run protections` fits the sources and the tests. The tests themselves run there. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { altered } from '../support/altered-tree';
import { protections } from './list';

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
});
