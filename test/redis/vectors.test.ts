// docs/wire.md as vectors that any implementation can be checked against: this library meets all, the smallest client meets its
// level, and one that breaks a rule does not.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect } from 'chai';
import { check, ours, vectorsUpTo } from '../../wire/check';
import { situations } from '../../wire/situations';
import { type Client, connect, type RedisServer, startRedis } from '../support/redis';

const smallest = resolve(__dirname, '../../wire/smallest.mjs');

describe('the vectors of the wire', function () {
  this.timeout(120_000); // hundreds of calls, each with a state of its own
  let server: RedisServer;
  let clients: [Client, Client];

  before(async () => {
    server = await startRedis();
  });

  beforeEach(async () => {
    clients = [await connect(server.url), await connect(server.url)];
  });

  afterEach(async () => {
    await clients[0].flushDb();
    for (const each of clients) each.destroy();
  });

  async function notMet(level: number, command: readonly string[]): Promise<string[]> {
    const names: string[] = [];
    await check(vectorsUpTo(level), command, server.url, clients, ({ name }, found) => {
      if (found.length > 0) names.push(`${name}: ${found.join('; ')}`);
    });
    return names;
  }

  it('are met by this library', async () => {
    expect(await notMet(4, ours)).to.deep.equal([]);
  });

  it('of level 1 are met by the smallest client', async () => {
    expect(await notMet(1, [process.execPath, smallest])).to.deep.equal([]);
    expect(await notMet(2, [process.execPath, smallest])).to.not.deep.equal([]);
  });

  for (const [what, rule, broken] of [
    [
      'releases what others hold',
      "elseif holder ~= ARGV[1] then return -1 end\n    return redis.call('DEL'",
      "end\n    return redis.call('DEL'",
    ],
    ['moves an end closer when it renews', "ARGV[3] == 'true' or", 'true or'],
    ['takes what others hold', 'if holder and holder ~= ARGV[1] then return 0 end', ''],
    ['leaves a key without an end', "redis.call('PEXPIRE', KEYS[1], math.max(left, tonumber(ARGV[2])))", ''],
  ] as const) {
    it(`are not met by a client that ${what}`, async () => {
      const text = readFileSync(smallest, 'utf8');
      expect(text).to.contain(rule);
      const names = await notMet(1, [process.execPath, '--input-type=module', '--eval', text.replace(rule, broken)]);
      expect(names).to.not.deep.equal([]);
    });
  }

  it('are never played on a database that is not empty', async () => {
    await clients[0].set('somebody', 'else');
    const refused = await check([], ours, server.url, clients, () => {}).catch((error) => error);
    expect(refused.message).to.contain('not empty');
    expect(await clients[0].get('somebody')).to.equal('else');
  });

  it('hold every situation by hand, as it is described now', () => {
    const known = new Map(vectorsUpTo(4).map((each) => [each.name, each]));
    for (const { name, state, call } of situations) {
      const vector = known.get(name);
      expect({ state: vector?.state, call: vector?.call }, name).to.deep.equal(
        JSON.parse(JSON.stringify({ state, call })),
      );
    }
  });

  it('are described in docs/wire.md: each field of a call', () => {
    const text = readFileSync(join(__dirname, '../../docs/wire.md'), 'utf8');
    const fields = new Set(
      vectorsUpTo(4).flatMap(({ call }) => [...Object.keys(call), ...Object.keys(call.mode ?? {})]),
    );
    for (const field of fields) expect(text, field).to.contain(`\`${field}\``);
  });
});
