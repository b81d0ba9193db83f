// The versions of servers, runtimes and clients: one list, which README.md shows, `doctor` reads, and the installed packages follow.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { support, supportOf, type TestedBy } from '../src/tools/tested-versions';

const root = join(__dirname, '..');
const manifestOf = (folder: string): any => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
const { devDependencies, peerDependencies, engines } = manifestOf('.');
const commands: readonly TestedBy[] = ['npm test', 'npm run integrations', 'by hand'];
const isTestedBy = (name: string, command: TestedBy, version: string): boolean =>
  (support[name]!.tested[command] ?? []).some((each) => `${version}.`.startsWith(`${each}.`));

describe('the versions that are tested', () => {
  it('README.md shows them all', () => {
    const rows = Object.entries(support).map(([name, { tested, from, before }]) => {
      const expected = from === undefined ? '' : before === undefined ? `${from} and later` : `>=${from} <${before}`;
      const cells = [...commands.map((command) => (tested[command] ?? []).join(', ')), expected];
      return `| ${[name, ...cells].join(' | ')} |`.replace(/ {2,}/g, ' ');
    });
    const [, table] = /^## What it is tested with\n\n(?:\|.*\n){2}((?:\|.*\n)*)/m.exec(
      readFileSync(join(root, 'README.md'), 'utf8'),
    )!;
    expect(table!.trimEnd().split('\n')).to.deep.equal(rows);
  });

  it('the clients are those that are installed for the tests, and what package.json asks of them', () => {
    const clients = Object.keys(support).filter((name) => name in peerDependencies);
    expect(clients).to.have.length(5);
    for (const name of clients) {
      const { from, before } = support[name]!;
      expect(peerDependencies[name], name).to.equal(`>=${from} <${before}`);
      const installed = Object.keys(devDependencies).filter((each) => each === name || each.startsWith(`${name}-`));
      const others = installed.filter((each) => each === name || devDependencies[each].startsWith(`npm:${name}@`));
      for (const each of others) {
        const { version } = manifestOf(`node_modules/${each}`);
        const isTested = isTestedBy(name, 'npm test', version) || isTestedBy(name, 'npm run integrations', version);
        expect(isTested, `${name} ${version}`).to.equal(true);
      }
    }
  });

  it('the runtimes are those that are installed for the tests', () => {
    expect(engines.node).to.equal(`>=${support.Node!.from}`);
    const optional = ['test/runtimes', 'integrations'].map((folder) => manifestOf(folder).optionalDependencies);
    const wanted = optional.flatMap((each) => Object.entries<string>(each)).filter(([name]) => /x64/.test(name));
    expect(wanted).to.have.length(5);
    for (const [name, range] of wanted) {
      const runtime = /bun/.test(name) ? 'Bun' : /deno/.test(name) ? 'Deno' : 'Node';
      const version = range.replace(/^.*\^/, '');
      expect(isTestedBy(runtime, 'npm run integrations', version), `${runtime} ${version}`).to.equal(true);
    }
  });

  it('doctor knows a tested version from one that is expected to work, and from any other', () => {
    const known = {
      'Redis 7.0.15': 'tested',
      'Redis 7.2.4': 'expected to work',
      'Redis 7.01.1': 'expected to work',
      'Redis 6.0.16': 'not tested',
      'Redis 10.0.0': 'expected to work',
      'Valkey 8.1.1': 'tested',
      'Redict 7.4.0': 'not tested',
      'Dragonfly 1.30': 'not tested',
      'Node 26.10.0': 'tested',
      'Node 23.1.0': 'expected to work',
      'redis 6.3.1': 'tested',
      'redis 3.1.2': 'not tested',
      'redis 7.0.0': 'not tested',
      'iovalkey 0.4.0': 'expected to work',
    };
    for (const [text, expected] of Object.entries(known)) {
      const [name, version] = text.split(' ') as [string, string];
      expect(supportOf(name, version), text).to.equal(expected);
    }
  });
});
