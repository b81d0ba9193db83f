// H83: a message grants the lock, and one extension confirms it. What the message, that extension and its answer may suffer. It
// depends on no client: one is tried.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { isAcquire, isExtension, isRelease, lossOf, rejectionOf } from '../redis/holding';
import { dropReply, holdRequest } from '../support/fault-proxy';
import { waitFor } from '../support/processes';
import { pending } from './outcomes';
import { type Connection, places } from './places';
import { type Lease, Scene } from './queue-scene';

describe('H83: queued, granted by a message', () => {
  const here = places[0]!.create();
  before(() => here.open());
  after(() => here.close());
  const scene = new Scene(here);

  /** What is left after a confirmation is more than the two seconds before it, also if a busy machine holds up its answer. */
  const lasting = { lifetime: 60_000, timeout: 40_000 };
  let held: Lease;
  let connection: Connection;
  let waiting: Promise<Lease>;
  /** A moment before the waiter's first request. */
  let askedMs: number;
  /** The messages that the waiter's channel received, and the function that ends listening. */
  let told: string[];
  let channel: string;
  let deafen: () => Promise<void>;

  beforeEach(async () => {
    held = await scene.lock(here.redis, lasting).promise(scene.key);
    connection = await here.connection();
    const others = await scene.openChannels();
    askedMs = performance.now();
    waiting = scene.lock(connection.redis, lasting).promise(scene.key);
    await scene.queued(1);
    // Not the one on which all hear of locks that were freed by hand.
    [channel = ''] = (await scene.openChannels()).filter((each) => !others.includes(each) && !each.endsWith(':freed'));
    told = [];
    const ear = scene.direct.duplicate();
    await ear.connect();
    await ear.subscribe(channel, (text) => told.push(text));
    deafen = async () => ear.destroy();
  });

  afterEach(() => deafen());

  const requests = (): number => connection.proxy.commands.filter(({ args }) => isAcquire(args)).length;

  it('the waiter holds before Redis has answered anything, and for its whole lifetime once it has', async () => {
    const extension = holdRequest();
    connection.proxy.rule({ match: isExtension }, extension);
    const before = requests();
    expect(await held.release()).to.equal(true);
    const lease = await waiting;
    expect(requests(), 'requested again').to.equal(before);
    expect(lease.fence).to.be.greaterThan(held.fence);
    const leftMs = lease.remaining();
    expect(leftMs).to.be.within(1, 2_000);
    // Two seconds from the request that was answered last.
    expect(leftMs + performance.now() - askedMs).to.be.at.least(1_990);
    expect(await here.holder(scene.key)).to.equal(lease.token);
    await extension.arrived;
    expect(await here.leftMs(scene.key)).to.be.at.least(Math.floor(lease.remaining()));
    extension.release();
    await waitFor(() => lease.remaining() > 20_000, { what: 'the confirmation' });
    expect(await here.leftMs(scene.key)).to.be.greaterThan(20_000);
    expect(await lease.release()).to.equal(true);
    await scene.nothingLeft();
  });

  it('its message names the lock, the fence, and a nonce that is another one with each request', async () => {
    const before = requests();
    await scene.direct.publish(channel, `1 ${scene.key}`);
    await waitFor(() => requests() > before, { what: 'the request of a woken waiter' });
    await connection.calls(); // that request was answered: its nonce is the one to grant with
    await held.release();
    const lease = await waiting;
    await waitFor(() => told.length === 2, { what: 'both messages' });
    const [, nonce, fence, key] = /^\d+\.([\w-]{22})=(\d+) (.+)$/.exec(told.at(-1)!)!;
    expect([Number(fence), key]).to.deep.equal([lease.fence, scene.key]);
    expect(told.at(-1)).to.not.include(lease.token);
    const nonces = new Set(
      connection.proxy.commands.flatMap(({ args }) => args.filter((arg) => /^\d+\.[\w-]{22}$/.test(arg))),
    );
    expect(nonces.size, 'the first attempt queues nobody')
      .to.equal(requests() - 1)
      .and.to.be.at.least(2);
    expect([...nonces].pop()).to.match(new RegExp(`${nonce}$`));
    await lease.release();
  });

  it('the same message once more, or after the release: nothing', async () => {
    await held.release();
    const lease = await waiting;
    await waitFor(() => told.length === 1, { what: 'the message' });
    await scene.direct.publish(channel, told[0]!);
    await waitFor(() => told.length === 2);
    const before = requests();
    expect(await lease.release()).to.equal(true);
    await scene.direct.publish(channel, told[0]!);
    await sleep(20);
    expect(requests()).to.equal(before);
    await scene.nothingLeft();
  });

  it('a message that somebody makes up grants nothing: it causes a request at most', async () => {
    const position = connection.proxy.commands.flatMap(({ args }) => args).find((arg) => /^\d+\.[\w-]{22}$/.test(arg))!;
    const [id, nonce] = position.split('.');
    const wrong = nonce!.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'));
    const words = [
      `${id}.${wrong}=7`,
      `${id}.=7`,
      `${id}=7`,
      `${position}=`,
      `${position}=-1`,
      `${position}=1e9`,
      position,
      id,
    ];
    for (const word of words) await scene.direct.publish(channel, `${word} ${scene.key}`);
    await scene.direct.publish(channel, `${position}=7 ${scene.key}:other`);
    await waitFor(() => told.length === words.length + 1);
    await sleep(20);
    expect(await pending(waiting)).to.equal(true);
    expect(await here.holder(scene.key)).to.equal(held.token);
    await held.release();
    expect(await (await waiting).release()).to.equal(true);
    await scene.nothingLeft();
  });

  it('for one that has given up, and whose release is still on its way: released at once', async () => {
    const other = await here.connection();
    const giveUp = new AbortController();
    const leaving = scene.lock(other.redis, { commandTimeout: 30_000 }).promise(scene.key, { signal: giveUp.signal });
    await scene.queued(2);
    const release = holdRequest();
    other.proxy.rule({ match: isRelease, nth: 1 }, release);
    giveUp.abort(new Error('enough'));
    await rejectionOf(leaving);
    await release.arrived;
    await held.release();
    await (await waiting).release();
    const isReleased = () => other.proxy.count(isRelease) === 2;
    await waitFor(isReleased, { timeoutMs: 10_000, what: 'a release upon the message' }).finally(release.release);
    await scene.nothingLeft();
  });

  it('a release before the confirmation goes behind it, and is answered', async () => {
    const extension = holdRequest();
    connection.proxy.rule({ match: isExtension }, extension);
    await held.release();
    const lease = await waiting;
    await extension.arrived;
    const releasing = lease.release();
    extension.release();
    expect(await releasing).to.equal(true);
    await scene.nothingLeft();
  });

  it('a release in the same tick: the confirmation is not sent', async () => {
    const released = waiting.then((lease) => lease.release());
    await held.release();
    expect(await released).to.equal(true);
    await scene.nothingLeft();
    expect(connection.proxy.count(isExtension)).to.equal(0);
  });

  it('the next of the same process does not have it before the confirmation', async () => {
    const second = scene.lock(connection.redis, lasting).promise(scene.key);
    const extension = holdRequest();
    connection.proxy.rule({ match: isExtension }, extension);
    await held.release();
    const lease = await waiting;
    await extension.arrived;
    const releasing = lease.release();
    await sleep(20);
    expect(await pending(second)).to.equal(true);
    extension.release();
    expect(await releasing).to.equal(true);
    const next = await second;
    expect(next.token).to.not.equal(lease.token);
    expect(next.fence).to.be.greaterThan(lease.fence);
    expect(await next.release()).to.equal(true);
  });

  it('"no longer yours": the lease is lost, and says so', async () => {
    const extension = holdRequest();
    connection.proxy.rule({ match: isExtension }, extension);
    await held.release();
    const lease = await waiting;
    await extension.arrived;
    await here.seize(scene.key);
    extension.release();
    expect((await lossOf(lease)).reason).to.equal('taken');
    expect(await lease.release()).to.equal(false);
  });

  it('an answer that is lost: the confirmation is repeated on the next connection', async () => {
    connection.proxy.rule({ match: isExtension, nth: 1 }, dropReply());
    await held.release();
    const lease = await waiting;
    await waitFor(() => connection.proxy.count(isExtension) === 1);
    await connection.heal();
    await waitFor(() => lease.remaining() > 20_000, { what: 'the confirmation' });
    expect(await lease.release()).to.equal(true);
  });

  it('detached before the confirmation, it keeps its lifetime', async () => {
    await held.release();
    const { token } = (await waiting).detach();
    await waitFor(async () => (await here.leftMs(scene.key)) > 20_000, { what: 'the whole lifetime' });
    expect(await here.holder(scene.key)).to.equal(token);
    await here.remove(scene.key);
  });
});
