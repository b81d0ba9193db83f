// The Lua files are the source, generated.ts is what runs: they say the same, and a header that lies does not get through.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { generate, parse } from '../../scripts/generate-scripts';
import * as generated from '../../src/scripts/generated';

const root = join(__dirname, '..', '..');
const folder = join(root, 'src', 'scripts');
const files = readdirSync(folder).filter((file) => file.endsWith('.lua'));

/** A script that is as it should be; each test makes one thing of it wrong. */
const sound = [
  '-- demo: show what a header is.',
  '-- KEYS   lock    string: the holder’s token',
  '-- ARGV   token   who asks',
  '-- ARGV   rest[]  whatever else',
  '-- REPLY  1 always',
  "redis.call('SET', KEYS[1], ARGV[1])",
  'return 1',
].join('\n');

describe('scripts', () => {
  it('generated.ts is what the .lua files make: it has not drifted', () => {
    const biome = join(root, 'node_modules', '.bin', 'biome');
    const formatted = execFileSync(biome, ['format', '--stdin-file-path=src/scripts/generated.ts'], {
      cwd: root,
      input: generate(),
      encoding: 'utf8',
    });
    expect(readFileSync(join(folder, 'generated.ts'), 'utf8')).to.equal(formatted);
  });

  it('every .lua file is there, without its comments, under the SHA-1 that Redis will know it by', () => {
    expect(generated.scripts.map(({ name }) => `${name}.lua`)).to.have.members(files);
    for (const { name, lua, sha } of generated.scripts) {
      const body = readFileSync(join(folder, `${name}.lua`), 'utf8')
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '' && !line.startsWith('--'));
      // What a script includes stands before its own text.
      expect(lua.endsWith(body.join('\n')), name).to.equal(true);
      if (!lua.startsWith('local scripts')) expect(lua).to.equal(body.join('\n'));
      expect(sha).to.equal(createHash('sha1').update(lua).digest('hex'));
    }
  });

  it('no script names a key that it was not given', () => {
    for (const { name, lua } of generated.scripts) {
      for (const [call] of lua.matchAll(/redis\.p?call\([^)]*\)/g)) {
        if (call.includes("'TIME'") || call.includes("'PUBLISH'") || call.includes('unpack(')) continue;
        expect(call, name).to.match(/^redis\.p?call\('[A-Z]+', (KEYS\[|key\b|own\[1\])/);
      }
    }
  });

  it('a sound header is read: keys, arguments, which of them are lists, and the reply', () => {
    const source = parse('demo', sound);
    expect(source.summary).to.equal('show what a header is.');
    expect(source.keys.map(({ name, list }) => ({ name, list }))).to.deep.equal([{ name: 'lock', list: false }]);
    expect(source.args.map(({ name, list }) => ({ name, list }))).to.deep.equal([
      { name: 'token', list: false },
      { name: 'rest', list: true },
    ]);
    expect(source.reply).to.equal('1 always');
    expect(source.body).not.to.contain('--');
  });

  const lies: [what: string, from: string | RegExp, to: string, message: RegExp][] = [
    ['an ARGV that the header does not declare', 'return 1', 'return ARGV[2]', /ARGV\[2\] is not declared/],
    ['a KEYS that the header does not declare', 'return 1', 'return KEYS[2]', /KEYS\[2\] is not declared/],
    ['an index below the first', 'return 1', 'return KEYS[0]', /KEYS\[0\] is not declared/],
    ['a key that the body never uses', 'KEYS[1]', "'k'", /KEYS lock is declared.*never used/],
    ['an argument that the body never uses', 'ARGV[1]', "'t'", /ARGV token is declared.*never used/],
    ['no key declared, and one used', /-- KEYS.*\n/, '', /KEYS\[1\] is not declared/],
    ['no REPLY', /-- REPLY.*\n/, '', /REPLY/],
    ['no summary', /-- demo.*\n/, '', /header needs/],
    ['the summary of another script', '-- demo:', '-- other:', /header needs/],
    ['a parameter without a name', '-- ARGV   token   who asks', '-- ARGV   []  who asks', /needs a name/],
    ['a parameter without a word about it', '-- ARGV   token   who asks', '-- ARGV   token', /needs a name/],
  ];
  for (const [what, from, to, message] of lies) {
    it(`a header that lies fails: ${what}`, () => {
      const lie = sound.replace(from, to);
      expect(lie).not.to.equal(sound);
      expect(() => parse('demo', lie)).to.throw(message);
    });
  }
});
