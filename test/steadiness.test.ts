// The rules of CONTRIBUTING.md for tests on a busy machine, as far as a line shows that it breaks one. A comment on the line, or on the
// one above it, is the reason why it may.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';

interface Rule {
  readonly refuses: RegExp;
  readonly example: string;
  readonly files?: RegExp;
}

const rules: Readonly<Record<string, Rule>> = {
  'a limit of its own has its reason beside it': {
    refuses: /\bthis\.timeout\(|\}\)\.timeout\(/,
    example: 'this.timeout(90_000);',
  },
  'a call that needs its reply has a second at least; unansweredMs is for one that nothing answers': {
    refuses: /\bcommandTimeout(?::| =) *\d{1,3}\b/,
    example: 'withLock.promise(key, { commandTimeout: 300 })',
  },
  'a lock that outlives a message between processes lasts a second at least': {
    files: /^(?:process|shims)\//,
    refuses: /\b(?:lifetime|lockTimeout)(?:Ms)?(?::| =) *[1-9]\d{0,2}\b/,
    example: 'order(child, { take: key, options: { lifetime: 700 } })',
  },
  'no duration that a busy machine draws out has an upper limit': {
    refuses: /expect\(.*\b(?:now|nowMs)\(\) - .*\b(?:below|lessThan|most|within|closeTo)\(/,
    example: 'expect(performance.now() - startMs).to.be.below(oneDelayMs);',
  },
  'nothing that has to happen has less than ten seconds': {
    refuses: /Promise\.race\(.*\bsleep\((?:\d_\d{3}|\d{1,4})\b|\btimeoutMs: (?:\d_\d{3}|\d{1,4})\b/,
    example: "Promise.race([closed, sleep(5_000, 'still closing')])",
  },
};

/** The tests that own time: no machine makes them pass. */
const onFakeClocks =
  /^(?:simulation|runtimes)\/|^(?:acquire|acquire-shared|attempts|held-lock|last-options|queue|renewal|steadiness)\.test\.ts$/;
const files = readdirSync(__dirname, { recursive: true, encoding: 'utf8' }).filter(
  (file) => /\.[cm]?ts$/.test(file) && !file.includes('node_modules') && !onFakeClocks.test(file),
);

function broken({ refuses }: Rule, lines: readonly string[]): number[] {
  const hasReason = (n: number): boolean =>
    /\/\/|^ *\*|\/\*\*/.test(`${lines[n]}\n${lines[n - 1] ?? ''}`.replaceAll('://', ''));
  return lines.flatMap((line, n) => (refuses.test(line) && !hasReason(n) ? [n + 1] : []));
}

describe('tests on a busy machine', () => {
  for (const [what, rule] of Object.entries(rules)) {
    it(what, () => {
      expect(broken(rule, [rule.example]), 'the rule knows what it refuses').to.deep.equal([1]);
      expect(broken(rule, ['// the reason', rule.example])).to.deep.equal([]);
      const found = files
        .filter((file) => rule.files?.test(file) ?? true)
        .flatMap((file) =>
          broken(rule, readFileSync(join(__dirname, file), 'utf8').split('\n')).map((n) => `test/${file}:${n}`),
        );
      expect(found).to.deep.equal([]);
    });
  }
});
