// The Lua files are the source, generated.ts is what runs: they say the same, and a header that lies does not get through.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { generate, parse, strip, withNumbers } from '../../scripts/generate-scripts';
import * as protocol from '../../src/store/protocol';
import * as generated from '../../src/store/redis/scripts/generated';

const root = join(__dirname, '..', '..');
const folder = join(root, 'src/store/redis/scripts');
const texts = new Map(
  readdirSync(folder)
    .filter((file) => file.endsWith('.lua'))
    .map((file) => [file, withNumbers(readFileSync(join(folder, file), 'utf8'))]),
);
/** The scripts that are sent as they are; the other files are parts of these. */
const files = [...texts].filter(([, text]) => !/^-- (PART|WITHIN) /m.test(text)).map(([file]) => file);

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

/** Files are named in kebab-case. */
function fileOf(name: string): string {
  return `${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}.lua`;
}

/** A script without comments: no string of a script contains two minus signs. */
function bare(text: string): string {
  const lines = text.split('\n').map((line) => line.split('--')[0]!.trim());
  return lines.filter((line) => line !== '').join('\n');
}

/** A script as its file and the parts that it names say it. */
function asWritten(name: string): string {
  const others = new Map([...texts].map(([file, text]) => [file.slice(0, -'.lua'.length), text]));
  return parse(fileOf(name).slice(0, -'.lua'.length), texts.get(fileOf(name))!, others).body;
}

describe('scripts', () => {
  it('generated.ts is what the .lua files make: it has not drifted', () => {
    const biome = join(root, 'node_modules', '.bin', 'biome');
    const formatted = execFileSync(biome, ['format', '--stdin-file-path=src/store/redis/scripts/generated.ts'], {
      cwd: root,
      input: generate(),
      encoding: 'utf8',
    });
    expect(readFileSync(join(folder, 'generated.ts'), 'utf8')).to.equal(formatted);
  });

  it('every .lua file is there, without its comments, under the SHA-1 that Redis will know it by', () => {
    expect(generated.scripts.map(({ name }) => fileOf(name))).to.have.members(files);
    for (const { name, lua, sha } of generated.scripts) {
      const written = asWritten(name);
      const text = texts.get(fileOf(name))!;
      const named = (parts: string): string =>
        parts
          .split(' ')
          .map((part) => texts.get(`${part}.lua`)!)
          .join('\n');
      const used = [...text.matchAll(/^-- USES +(.*)$/gm)].map(([, names]) => bare(named(names!)));
      const own = bare(text.replace(/^-- THEN +(.*)$/m, (_, names) => named(names)));
      // The scripts that a script uses or includes stand before its own text.
      if (!text.includes('\n-- INCLUDE ')) expect(written, name).to.equal([...used, own].join('\n'));
      expect(written.endsWith(own), name).to.equal(true);
      expect(written).not.to.match(/--/);
      expect(lua, name).to.equal(written);
      expect(sha).to.equal(createHash('sha1').update(lua).digest('hex'));
    }
  });

  it('comments and indentation go, and nothing else does: not two minus signs in a string', () => {
    const program = "-- why\n\nif one then -- a marker\n  return '--', 1 - -1, 'it\\'s -- one' -- two\nend\n";
    expect(strip(program)).to.equal("if one then\nreturn '--', 1 - -1, 'it\\'s -- one'\nend");
  });

  it('no script makes up the name of a key: each comes from KEYS, by an index or under its parameter’s name', () => {
    for (const { name } of generated.scripts) {
      for (const [command] of asWritten(name).matchAll(/\b(?:redis\.call|call|attempt)\('[A-Z]+'[^)]*\)/g)) {
        if (command.includes("'TIME'") || command.includes("'PUBLISH'")) continue;
        expect(command, name).to.match(
          /(?:call|attempt)\('[A-Z]+', (KEYS\[|unpack\((names|ours)\b|names\[|(lock|fence|queue|limit|slot|key)\b|locks\[i\])/,
        );
      }
    }
  });

  it('a number of the protocol is written in protocol.ts alone; Lua has its name', () => {
    expect(withNumbers('x >= protocol.handOffs')).to.equal('x >= 64');
    for (const name of ['nothing', 'pollEveryMs', 'limits', 'constructor']) {
      expect(() => withNumbers(`x >= protocol.${name}`), name).to.throw(`protocol.${name}: no number`);
    }
    const numbers = [...Object.values(protocol), ...Object.values(protocol.limits)].filter(
      (each) => Number(each) >= 2000,
    );
    expect(numbers).to.include(Number.MAX_SAFE_INTEGER);
    for (const file of texts.keys()) {
      const written = bare(readFileSync(join(folder, file), 'utf8')).match(/\b\d+\b/g) ?? [];
      expect(
        written.filter((each) => numbers.includes(Number(each))),
        file,
      ).to.deep.equal([]);
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
    [
      'an ARGV that the header does not declare',
      /-- ARGV {3}rest.*\n/,
      '-- \nlocal x = ARGV[2]\n',
      /ARGV\[2\] is not declared/,
    ],
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
