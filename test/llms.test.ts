// llms.txt: every fact that it tells a coding assistant has a test that would fail without it. A fact is a line of a list; a test is
// named by its file and words of its title.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import redisExpLock from '../src/index';

const root = join(__dirname, '..');
const contract = (name: string): string => `test/contract/${name}.test.ts`;

/** The evidence for each line, by the words that the line begins with. */
const evidence: readonly (readonly [line: string, file: string, title: string])[] = [
  ['`withLock = redisExpLock(', 'test/package/package.test.ts', 'is one library: what require gives, import gives'],
  ['`withLock.run(', contract('run'), 'the lock is held past its lifetime while the function runs'],
  ['`withLock.tryRun(', contract('try-run'), 'busy: a value, and the function never runs; one attempt'],
  ['`withLock.tryLock(', contract('acquire'), 'tryLock: null for busy alone'],
  ['`withLock.promise(', contract('callback'), 'it is not renewed unless asked: autoExtend holds it past its lifetime'],
  ['`withLock(key, callback)`', contract('callback'), 'H68: exactly once, asynchronously'],
  ['`withLock.once(', 'test/process/slots.test.ts', 'each runs exactly once'],
  ['`withLock.cached(', contract('cached'), 'loads once, and serves everybody the same'],
  ['The function comes last', contract('run'), 'comes last, the options before it'],
  ['`timeout` is how long', contract('waiting'), 'and then LockTimeoutError'],
  ['The default lifetime', 'test/llms.test.ts', 'a lock that was given no lifetime ends after 1000 ms'],
  ['Without `timeout` and', contract('callback'), 'without `maxRetries` there is one attempt'],
  ['With `timeout` alone', contract('queue'), 'the next in the queue holds after one message'],
  ['An unknown option', contract('options'), 'H12: an unknown name is refused by every form'],
  ['`retries`, `expiry`', contract('options'), 'is refused, and the message knows'],
  ['The client must be connected', contract('options'), 'a client that nobody connected: a LockBackendError'],
  ['Closing a factory', contract('close'), 'the client stays open'],
  ['Pass `lease.fence`', 'test/process/fence.test.ts', 'the Redis row refuses it and nothing changes'],
  ['Each fence', contract('acquire'), 'a fence is a safe integer and rises with each grant'],
  ['`lease.signal` aborts', contract('run'), 'the signal says so while the function runs'],
  ['`release()` resolves', contract('release'), 'H25: after expiry, with the key free: false'],
  ['`run` rejects with', contract('run'), 'resolved, but the key was deleted: LockLostError with `result`'],
  ['When `fn` rejects', contract('run'), 'comes first; a warning is given'],
  ['Waiting for a lock', contract('self-wait'), 'LockDeadlockError, at once; still held'],
  ['Several keys', contract('acquire'), 'all or nothing: one busy key, and none is taken'],
  ['Tell errors apart', contract('acquire'), 'busy, timed out, lost, out of reach, closed'],
  ['`LockError.is(', 'test/errors.test.ts', 'and its parents know it, across copies'],
  ['An aborted wait', contract('waiting'), 'aborted during the wait: rejects with its reason'],
  ['Clients: ', 'test/redis/clients.test.ts', 'is refused, and the message says what is supported'],
  ['With ioredis', 'test/docs.test.ts', 'what they import from ioredis is its named export'],
  ['`memoryStore()`', 'test/embedded/memory.test.ts', 'each call makes another place'],
  ['A list of clients', 'test/redis/quorum.test.ts', 'a lock is held on all, excludes'],
  ['`redis-exp-lock/redlock`', 'test/shims/mixed.test.ts', 'old and new contenders side by side'],
  ['`redis-exp-lock/nestjs`', 'integrations/nest-suite.ts', '@Locked keeps this, arguments, value and error'],
  ['On Redis alone', 'test/redis/sentinel.test.ts', 'granted twice; the old holder is notified at its next extension'],
];

describe('llms.txt', () => {
  const text = readFileSync(join(root, 'llms.txt'), 'utf8');
  const facts = text.split('\n').flatMap((line) => (line.startsWith('- ') ? [line.slice(2)] : []));

  it('is one page: a title, a summary, headings and facts, and nothing else', () => {
    expect(text).to.match(/^# redis-exp-lock\n\n> .+\n\n## /);
    expect(text.split('\n').length).to.be.below(70);
    const others = text.split('\n').filter((line) => !/^(?:- |## |# |> |$)/.test(line));
    expect(others).to.deep.equal([]);
  });

  for (const fact of facts) {
    it(`“${fact.slice(0, 60)}”: has its test, and that test is there`, () => {
      const own = evidence.filter(([line]) => fact.startsWith(line));
      expect(own, 'evidence').to.have.length(1);
      const [, file, title] = own[0]!;
      const tests = readFileSync(join(root, file), 'utf8');
      // A title stands in a call of `it`, or before one of the scenes that `it` runs together.
      const titles = tests.match(/\b(?:it|describe\w*)\(\s*(['"`])[\s\S]*?\1\s*,|^ +'[^'\n]*': async/gm) ?? [];
      expect(
        titles.some((each) => each.includes(title)),
        `${file}: ${title}`,
      ).to.equal(true);
    });
  }

  it('a lock that was given no lifetime ends after 1000 ms', async () => {
    let nowMs = 0;
    const withLock = redisExpLock({ redis: redisExpLock.memoryStore({ now: () => nowMs }) });
    await withLock.promise('key');
    nowMs = 999;
    expect(await withLock.tryLock('key')).to.equal(null);
    nowMs = 1001;
    expect(await withLock.tryLock('key')).to.not.equal(null);
  });

  it('every piece of evidence is for a fact', () => {
    expect(evidence).to.have.length(facts.length);
  });
});
