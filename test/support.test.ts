/**
 * The support room, tested by itself: a fault that does not happen as named would make every later test prove nothing.
 * Nothing here asserts how long something took.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, connect as dial } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import {
  answer,
  close,
  cutReplyAfter,
  delayReply,
  delayRequest,
  dropReply,
  dropRequest,
  duplicateRequest,
  type FaultProxy,
  holdReply,
  holdRequest,
  replaceReply,
  reset,
  startProxy,
} from './support/fault-proxy';
import { cont, exited, freePort, kill9, startChild, stop, waitFor } from './support/processes';
import {
  type Client,
  type ClientOptions,
  commandStats,
  connect,
  diffCommandStats,
  recordCommands,
  serverBinary,
  sharedRedis,
  startRedis,
  startReplica,
  uniqueKey,
} from './support/redis';

/** A client that does not redial: what became of its one connection stays visible. */
const ONCE: ClientOptions = { socket: { reconnectStrategy: false } };

/** The time within which a busy machine lets a command fail that must fail. */
const failingMs = 30_000;

/** 'ok', 'failed' or 'silent': how a command ended, given time enough for this machine. */
function outcome(command: Promise<unknown>, withinMs = 150): Promise<string> {
  const settled = command.then(
    () => 'ok',
    () => 'failed',
  );
  return Promise.race([settled, sleep(withinMs, 'silent', { ref: false })]);
}

describe('support: servers', () => {
  it('one server serves the whole run, and keys are never shared', async () => {
    const [first, second] = await Promise.all([sharedRedis(), sharedRedis()]);
    expect(first).to.deep.equal(second);
    expect(uniqueKey('a')).not.to.equal(uniqueKey('a'));
    const client = await connect(first.port);
    expect(await client.ping()).to.equal('PONG');
  });

  it('a paused server accepts bytes and executes them when it goes on', async () => {
    const server = await startRedis();
    const client = await server.connect();
    await server.pause();
    const late = client.set('k', 'v');
    expect(await outcome(late)).to.equal('silent');
    await server.resume();
    expect(await late).to.equal('OK');
    await server.stop();
  });

  it('a killed server comes back on its port, empty without an append-only file', async () => {
    const server = await startRedis();
    const client = await server.connect();
    await client.set('k', 'v');
    const { pid } = server;
    await server.kill();
    await server.restart();
    expect(server.pid).not.to.equal(pid);
    await waitFor(() => client.isReady);
    expect(await client.get('k')).to.equal(null);
    await server.stop();
  });

  it('a killed server comes back with its data with an append-only file synced always', async () => {
    const server = await startRedis({ appendonly: 'always' });
    await server.command('SET', 'k', 'v');
    await server.kill();
    await server.restart();
    expect(await server.command('GET', 'k')).to.equal('v');
    await server.stop();
  });

  it('a server that cannot start says why', async () => {
    await serverBinary();
    const refused = await startRedis({ args: ['--maxmemory', 'nonsense'] }).catch((error: Error) => error);
    expect(String(refused)).to.match(/did not start.*maxmemory/s);
  });

  it('an admin command works after every connection was cut, and on a server that takes no more clients', async () => {
    const server = await startRedis();
    const client = await server.connect(ONCE);
    expect(await server.command('DEBUG', 'SLEEP', 0)).to.equal('OK');
    await client.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal']);
    expect(await server.command('PING')).to.equal('PONG');
    await server.command('CONFIG', 'SET', 'maxclients', 1);
    expect(await outcome(server.connect(ONCE), failingMs)).to.equal('failed');
    expect(await server.command('PING')).to.equal('PONG');
    await server.stop();
  });

  it('a replica follows its master', async () => {
    const master = await startRedis();
    const replica = await startReplica(master);
    await master.command('SET', 'k', 'v');
    expect(await master.command('WAIT', 1, 20_000)).to.equal(1);
    expect(await replica.command('GET', 'k')).to.equal('v');
    await replica.stop();
    await master.stop();
  });
});

describe('support: what a server was asked to do', () => {
  it('a recording holds every command in order, names the client, and distinguishes script calls from client calls', async () => {
    const server = await sharedRedis();
    const client = await connect(server.url);
    const key = uniqueKey('quote " and\nnewline é');
    const recording = await recordCommands(server);
    await client.set(key, '1');
    await client.eval("return redis.call('incr', KEYS[1])", { keys: [key], arguments: [] });
    const seen = (await recording.stop()).filter(({ args }) => args.includes(key));

    expect(seen.map(({ args, lua }) => [args[0]!.toLowerCase(), lua])).to.deep.equal([
      ['set', false],
      ['eval', false],
      ['incr', true],
    ]);
    expect(new Set(seen.map((command) => command.client)).size).to.equal(1);
    expect(seen[0]!.args).to.deep.equal(['SET', key, '1']);
  });

  it('command statistics say how often each command was called in between', async () => {
    const server = await startRedis();
    const client = await server.connect();
    const before = await commandStats(client);
    await client.set('k', 'v');
    await client.eval("return redis.call('get', 'k') .. redis.call('get', 'k')", { keys: ['k'], arguments: [] });
    expect(diffCommandStats(before, await commandStats(client))).to.deep.equal({ set: 1, eval: 1, get: 2 });
    await server.stop();
  });
});

describe('support: fault proxy', () => {
  let direct: Client;
  let port: number;
  let proxy: FaultProxy;
  let client: Client;
  let key: string;

  before(async () => {
    ({ port } = await sharedRedis());
    direct = await connect(port);
  });

  beforeEach(async () => {
    proxy = await startProxy(port);
    client = await connect(proxy.url, ONCE);
    key = uniqueKey('proxy');
  });

  afterEach(async () => {
    if (client.isOpen) client.destroy();
    await proxy.stop();
  });

  for (const RESP of [2, 3] as const) {
    it(`pipelined commands, 1 MiB values, nested replies, errors and messages pass unharmed (RESP${RESP})`, async () => {
      const through = await connect(proxy.url, { RESP });
      const large = Buffer.alloc(1 << 20, 'redis\r\n$5\r\n').toString('latin1');
      const sent = Array.from({ length: 300 }, (_, i) => through.rPush(key, String(i)));
      expect(await Promise.all(sent)).to.deep.equal(sent.map((_, i) => i + 1));
      await through.set(`${key}:large`, large);
      expect((await through.get(`${key}:large`)) === large).to.equal(true);
      expect(await through.lRange(key, 0, -1)).to.have.length(300);
      expect(await through.get(`${key}:none`)).to.equal(null);

      await through.hSet(`${key}:hash`, { a: '1', b: '2' });
      await through.zAdd(`${key}:zset`, { value: 'm', score: 1.5 });
      expect({ ...(await through.hGetAll(`${key}:hash`)) }).to.deep.equal({ a: '1', b: '2' });
      expect(await through.zScore(`${key}:zset`, 'm')).to.equal(1.5);
      expect(JSON.stringify(await through.sendCommand(['COMMAND', 'INFO', 'get']))).to.contain('readonly');
      expect(String(await through.incr(`${key}:hash`).catch(String))).to.match(/WRONGTYPE/);

      const subscriber = await connect(proxy.url, { RESP });
      const heard: string[] = [];
      await subscriber.subscribe([`${key}:1`, `${key}:2`], (message, channel) => heard.push(`${channel} ${message}`));
      await through.publish(`${key}:2`, large);
      await through.publish(`${key}:1`, 'x');
      await waitFor(() => heard.length === 2);
      expect(heard.join() === `${key}:2 ${large},${key}:1 x`).to.equal(true);
      await subscriber.unsubscribe(`${key}:2`);
      expect((await subscriber.ping()).toUpperCase()).to.equal('PONG');
    });
  }

  it('values that arrive in pieces, cut anywhere, are put together: replies', async () => {
    const front = await startProxy(proxy.port);
    const through = await connect(front.url, ONCE);
    await direct.hSet(key, { a: '', b: '\r\n', c: 'x'.repeat(50) });
    proxy.dribble(3, 0);
    const seen = front.seen({ match: 'HGETALL' });
    const fields = await through.hGetAll(key);
    expect({ ...fields }).to.deep.equal({ a: '', b: '\r\n', c: 'x'.repeat(50) });
    expect(String((await seen).reply)).to.match(/^%3\r\n.*x\r\n$/s);
    await front.stop();
  });

  it('values that arrive in pieces, cut anywhere, are put together: commands', async () => {
    const socket = dial(proxy.port, '127.0.0.1');
    let heard = '';
    socket.setNoDelay().on('data', (chunk) => {
      heard += chunk;
    });
    for (const byte of `PING\r\n\r\n*2\r\n$4\r\nECHO\r\n$6\r\n\r\n$1\r\n\r\n`) {
      socket.write(byte);
      await setImmediate();
    }
    await waitFor(() => heard === '+PONG\r\n$6\r\n\r\n$1\r\n\r\n');
    expect(proxy.commands.filter(({ connection }) => connection === 2).map(({ args }) => args)).to.deep.equal([
      ['PING'],
      ['ECHO', '\r\n$1\r\n'],
    ]);
    socket.destroy();
  });

  it('commands and connections are listed, whatever became of them', async () => {
    proxy.rule({ match: 'set' }, dropRequest());
    client.set(key, 'v').catch(() => {});
    await waitFor(() => proxy.count('SET') === 1);
    const command = proxy.commands.find(({ name }) => name === 'SET')!;
    expect(command).to.deep.equal({ name: 'SET', args: ['SET', key, 'v'], connection: 1, n: 1 });
    await connect(proxy.url);
    expect(proxy.connections).to.equal(2);
    expect(proxy.open).to.equal(2);
  });

  it('dropReply: the server executed, the client never hears, nor does it get a later reply in its place', async () => {
    proxy.rule({ match: 'INCR' }, dropReply());
    const seen = proxy.seen({ match: 'INCR' });
    const lost = client.incr(key);
    expect(String((await seen).reply)).to.equal(':1\r\n');
    expect(await direct.get(key)).to.equal('1');
    const later = client.set(`${key}:later`, 'v');
    expect(await outcome(Promise.race([lost, later]))).to.equal('silent');
    expect(await direct.get(`${key}:later`)).to.equal('v');
    later.catch(() => {});
  });

  it('dropRequest: the server never sees the command, nor a later one on the connection', async () => {
    proxy.rule({ match: 'INCR' }, dropRequest());
    expect(await outcome(Promise.race([client.incr(key), client.set(`${key}:later`, 'v')]))).to.equal('silent');
    expect(await direct.exists([key, `${key}:later`])).to.equal(0);
  });

  it('holdRequest: the command runs when it is let go, even after its sender is gone (H3)', async () => {
    const held = holdRequest();
    proxy.rule({ match: 'INCR' }, held);
    const lost = outcome(client.incr(key));
    expect((await held.arrived).args).to.deep.equal(['INCR', key]);
    client.destroy();
    expect(await lost).to.equal('failed');
    expect(await direct.exists(key)).to.equal(0);
    held.release();
    await waitFor(() => direct.exists(key));
  });

  it('delayRequest: the command runs later, and those behind it no earlier', async () => {
    proxy.rule({ match: 'INCR', nth: 1 }, delayRequest(100));
    const both = Promise.all([client.incr(key), client.incr(key)]);
    await waitFor(() => proxy.count('INCR') === 2);
    expect(await both).to.deep.equal([1, 2]);
  });

  it('delayReply: executed at once, heard later, and in order', async () => {
    proxy.rule({ match: 'INCR', times: 1 }, delayReply(100));
    const seen = proxy.seen({ match: 'INCR' });
    const both = Promise.all([client.incr(key), client.get(key)]);
    await seen;
    expect(await direct.get(key)).to.equal('1');
    expect(await both).to.deep.equal([1, '1']);
  });

  it('duplicateRequest: executed twice, answered once', async () => {
    proxy.rule({ match: 'INCR' }, duplicateRequest());
    expect(await Promise.all([client.incr(key), client.get(key)])).to.deep.equal([1, '2']);
  });

  it('cutReplyAfter: the client gets the first bytes and the end of the connection', async () => {
    proxy.rule({ match: 'ECHO' }, cutReplyAfter(7));
    const broken = client.echo('hello');
    expect(await outcome(broken, failingMs)).to.equal('failed');
    await waitFor(() => !client.isReady);
    await waitFor(() => proxy.open === 0);
  });

  it('reset and close: the connection ends after the server executed, or before', async () => {
    for (const [end, executed] of [
      [reset(), '1'],
      [reset('before'), null],
      [close(), '1'],
      [close('before'), null],
    ] as const) {
      const rule = proxy.rule({ match: 'INCR' }, end);
      const victim = await connect(proxy.url, ONCE);
      expect(await outcome(victim.incr(key), failingMs)).to.equal('failed');
      expect(await direct.get(key)).to.equal(executed);
      await direct.del(key);
      rule.remove();
    }
  });

  it('reset is an RST: the other side reads ECONNRESET', async () => {
    const errors: string[] = [];
    client.on('error', (error) => errors.push(error.code));
    proxy.resetAll();
    await waitFor(() => errors.includes('ECONNRESET'));
  });

  it('holdReply: nothing is heard on the connection until it is released', async () => {
    const held = holdReply();
    proxy.rule({ match: 'INCR', nth: 1 }, held);
    const first = client.incr(key);
    const second = client.incr(key);
    expect(String(await held.arrived)).to.equal(':1\r\n');
    expect(await outcome(Promise.race([first, second]))).to.equal('silent');
    expect(await direct.get(key)).to.equal('2');
    held.release();
    expect(await Promise.all([first, second])).to.deep.equal([1, 2]);
  });

  it('replaceReply: executed, but the client gets another reply (H5)', async () => {
    proxy.rule({ match: 'INCR', nth: 1 }, replaceReply('+QUEUED\r\n'));
    expect(await Promise.all([client.incr(key), client.incr(key)])).to.deep.equal(['QUEUED', 2]);
  });

  it('answer: the server is not asked, and the order of replies stays', async () => {
    proxy.rule({ match: 'INCR', nth: 2 }, answer('-LOADING in progress\r\n'));
    const replies = await Promise.allSettled([client.incr(key), client.incr(key), client.incr(key)]);
    expect(replies.map((reply) => (reply.status === 'fulfilled' ? reply.value : String(reply.reason)))).to.deep.equal([
      1,
      'Error: LOADING in progress',
      2,
    ]);
  });

  it('the confirmation of a subscription is its reply, messages are nobody’s', async () => {
    const held = holdReply();
    proxy.rule({ match: 'SUBSCRIBE' }, held);
    const subscribed = client.subscribe([key, `${key}:2`], () => {});
    expect(String(await held.arrived)).to.contain(`${key}:2`); // one confirmation per channel: all of them are the reply
    expect(await direct.publish(key, 'the server has it')).to.equal(1);
    expect(await outcome(subscribed)).to.equal('silent');
    held.release();
    await subscribed;
  });

  for (const [protocol, mark] of [
    ['RESP2', '*'],
    ['RESP3', '>'],
  ]) {
    it(`a message that comes before a reply is not taken for it (${protocol})`, async () => {
      const confirmation = `${mark}3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n`;
      const message = `${mark}3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n`;
      const script = `${confirmation}${message}*2\r\n$4\r\npong\r\n$0\r\n\r\n`;
      // A server of our own: a real one leaves to chance whether the message comes first.
      const scripted = createServer((socket) => socket.once('data', () => socket.write(script))).unref();
      const scriptedPort = await freePort();
      await new Promise<void>((resolve) => scripted.listen(scriptedPort, '127.0.0.1', resolve));
      const front = await startProxy(scriptedPort);
      front.rule({ match: 'PING' }, replaceReply('+mine\r\n'));

      let heard = '';
      const socket = dial(front.port, '127.0.0.1').on('data', (chunk) => {
        heard += chunk;
      });
      socket.write('SUBSCRIBE a\r\nPING\r\n');
      await waitFor(() => heard === `${confirmation}${message}+mine\r\n`);
      socket.destroy();
      await front.stop();
      scripted.close();
    });
  }

  it('rules match by name, by script or by arguments, the nth time and a limited number of times', async () => {
    const lua = (n: number) => client.eval(`return ${n}`);
    proxy.rule({ match: 'script', nth: 2, times: 2 }, replaceReply(':0\r\n'));
    proxy.rule({ match: (args) => args[1] === 'three' }, replaceReply('+3\r\n'));
    expect(await Promise.all([lua(1), lua(2), lua(3), lua(4)])).to.deep.equal([1, 0, 0, 4]);
    expect(await Promise.all([client.echo('two'), client.echo('three')])).to.deep.equal(['two', '3']);

    const asked = proxy.onCommand(({ name }, n) =>
      name === 'INCR' && n % 2 === 0 ? replaceReply('+even\r\n') : undefined,
    );
    expect(await Promise.all([client.incr(key), client.incr(key), client.incr(key)])).to.deep.equal([1, 'even', 3]);
    asked.remove();
    expect(await client.incr(key)).to.equal(4);
  });

  it('afterAnswer runs between the server’s answer and the client’s hearing of it', async () => {
    const order: string[] = [];
    proxy.afterAnswer({ match: 'INCR', nth: 2 }, async (command, reply) => {
      await direct.set(`${key}:meanwhile`, 'v');
      order.push(`${command.name} ${command.n} ${reply}`.trim());
    });
    await client.incr(key);
    await client.incr(key).then((n) => order.push(`heard ${n}`));
    expect(order).to.deep.equal(['INCR 2 :2', 'heard 2']);
    expect(await direct.get(`${key}:meanwhile`)).to.equal('v');
  });

  it('blackHole: nothing travels, new connections included, until healed', async () => {
    proxy.blackHole();
    expect(await outcome(client.incr(key))).to.equal('silent');
    expect(await outcome(connect(proxy.url, ONCE))).to.equal('silent');
    expect(await direct.exists(key)).to.equal(0);
    proxy.heal();
    await waitFor(() => !client.isReady); // lost bytes cannot be mended: reset
    const next = await connect(proxy.url);
    expect(await next.incr(key)).to.equal(1);
  });

  it('halfOpen: the server executes, the client hears nothing until healed', async () => {
    proxy.halfOpen();
    const seen = proxy.seen({ match: 'INCR' });
    const lost = client.incr(key);
    await seen;
    expect(await outcome(lost)).to.equal('silent');
    expect(await direct.get(key)).to.equal('1');
    proxy.heal();
    await waitFor(() => !client.isReady);
  });

  it('dribble: replies arrive in tiny pieces and whole', async () => {
    proxy.dribble(1, 1);
    expect(await Promise.all([client.echo('in small pieces'), client.incr(key)])).to.deep.equal(['in small pieces', 1]);
    proxy.heal();
    expect(await client.incr(key)).to.equal(2); // nothing was lost: the connection lives on
  });

  it('refuse: new connections end at once, the open one lives on', async () => {
    proxy.refuse();
    expect(await outcome(connect(proxy.url, ONCE), failingMs)).to.equal('failed');
    expect(await client.incr(key)).to.equal(1);
    proxy.heal();
    expect(await (await connect(proxy.url)).incr(key)).to.equal(2);
  });

  it('the end of the server ends the client’s connection', async () => {
    const server = await startRedis();
    const front = await startProxy(server.port);
    const victim = await connect(front.url, ONCE);
    await server.kill();
    await waitFor(() => !victim.isReady);
    await front.stop();
    await server.stop();
  });
});

describe('support: child processes', () => {
  let dir: string;
  let script: string;

  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'redis-exp-lock-child-'));
    script = join(dir, 'child.ts');
    writeFileSync(
      script,
      `const [name]: string[] = process.argv.slice(2);
       process.on('message', (message: { add: number[] }) => {
         if (!message.add) throw new Error('told to fail');
         process.send!({ name, sum: message.add.reduce((a, b) => a + b, 0) });
       });
       process.send!('ready');`,
    );
  });

  after(() => rmSync(dir, { recursive: true }));

  it('a child answers in TypeScript; frozen it is silent, thawed it goes on, killed it is gone', async () => {
    const child = startChild(script, ['adder']);
    expect(await child.receive()).to.equal('ready');
    await stop(child);
    child.send({ add: [1, 2] });
    const reply = child.receive();
    expect(await outcome(reply)).to.equal('silent');
    await cont(child);
    expect(await reply).to.deep.equal({ name: 'adder', sum: 3 });
    await stop(child);
    await kill9(child);
    expect(await exited(child)).to.deep.equal({ code: null, signal: 'SIGKILL' });
  });

  it('a child whose proxy resets a connection that is ending ends by itself', async () => {
    const resets = join(dir, 'resets.ts');
    writeFileSync(
      resets,
      `import { connect } from 'node:net';
       import { startProxy } from ${JSON.stringify(join(__dirname, 'support/fault-proxy'))};
       void startProxy(Number(process.argv[2])).then((proxy) => {
         proxy.rule({ match: 'PING' }, {
           reply(link, reply) {
             link.cut(reply);
             link.reset();
           },
         });
         const client = connect(proxy.port, '127.0.0.1', () => client.write('PING\\r\\n'));
         client.resume().on('error', () => {}).on('close', async () => {
           await proxy.stop();
           process.disconnect();
         });
       });`,
    );
    const { port } = await sharedRedis();
    expect(await exited(startChild(resets, [String(port)]))).to.deep.equal({ code: 0, signal: null });
  });

  it('waiting for a message of a child that died rejects with its last words', async () => {
    const child = startChild(script);
    await child.receive();
    child.send({});
    const error = await child.receive().catch((reason: Error) => reason);
    expect(String(error)).to.match(/ended \(1\).*told to fail/s);
  });

  it('waiting for what never comes ends with a name', async () => {
    const error = await waitFor(() => false, { timeoutMs: 20, what: 'a miracle' }).catch((reason: Error) => reason); // it never comes
    expect(String(error)).to.contain('a miracle');
  });
});
