// How long readers of one lock object join each other, by a clock that the test sets.
import { expect } from 'chai';
import type { Granted, SharingHolder } from '../src/hold/kept-lock';
import type { Fetch, ShareWaiter } from '../src/queue/group';
import { maxJoins, turnMs, windowMs } from '../src/queue/policy';
import { Position } from '../src/queue/queue';
import { Readers } from '../src/queue/readers';
import type { Grant, Mode, Store } from '../src/store/contract';

const fetch: Fetch = { giveUp: () => {} };
const never = (): never => expect.fail('nothing is sent');

/** Readers of one lock object, and the clock that they go by. */
class Scene {
  nowMs = 1000;
  readonly granted: Granted[] = [];
  readonly held: SharingHolder[] = [];
  readonly readers: Readers;
  /** The reply to a release of the member. */
  release: () => unknown = never;

  constructor(prefer: Mode['prefer'], lifetimeMs = 10_000) {
    const mode: Mode = { kind: 'shared', prefer, group: '', permits: 1, total: 1, step: 0 };
    const terms = { key: 'k', lifetimeMs, fencing: true, owner: undefined, mode };
    const release = (): unknown => this.release();
    const store = { clock: { nowMs: () => this.nowMs }, acquire: never, extend: never, abandon: never, release };
    this.readers = new Readers(terms, store as unknown as Store);
  }

  /** Lets a reader join, whose grant takes `eachMs`. */
  join(eachMs = 0): void {
    const granted = (grant: Granted): SharingHolder => {
      this.nowMs += eachMs;
      this.granted.push(grant);
      const releaseRequest = (): object => ({ held: { mode: this.readers.mode } });
      const held = { check: () => true, parted: () => {}, releaseRequest } as unknown as SharingHolder;
      this.held.push(held);
      return held;
    };
    const waiter = { granted, fetch: () => fetch, troubled: () => {} };
    this.readers.join(new Position(this.readers, waiter as unknown as ShareWaiter));
  }

  grant(): void {
    const sent = { monoMs: this.nowMs, wallMs: this.nowMs };
    this.readers.take({ token: 'first', fence: 7, sent } satisfies Grant, 0, fetch);
  }

  /** Grants the group its member after a wait. */
  waitAndRead(): void {
    this.join();
    this.readers.troubled(undefined);
    this.nowMs += 50;
    this.grant();
  }
}

describe('readers that join', () => {
  for (const prefer of ['writer', 'fair', 'reader'] as const) {
    describe(`'${prefer}'`, () => {
      it('a limited number after the grant, each under the fence of all and a token of its own', () => {
        const scene = new Scene(prefer);
        scene.waitAndRead();
        for (let n = 0; n < maxJoins; n += 1) {
          expect(scene.readers.accepts(), `${n}`).to.equal(true);
          scene.join();
        }
        expect(scene.readers.accepts()).to.equal(false);
        expect(new Set(scene.granted.map(({ fence }) => fence))).to.deep.equal(new Set([7]));
        expect(new Set(scene.granted.map(({ token }) => token)).size).to.equal(1 + maxJoins);
      });

      it('H84: joins do not lengthen the window, whoever waits: a writer waits no longer for them', () => {
        const scene = new Scene(prefer);
        scene.waitAndRead();
        scene.readers.close();
        for (const laterMs of [turnMs / 2, turnMs / 2 - 0.1]) {
          scene.nowMs += laterMs;
          expect(scene.readers.accepts()).to.equal(true);
          scene.join();
        }
        scene.nowMs += 0.1;
        expect(scene.readers.accepts()).to.equal(false);
      });

      it('H84: not what the last of them is releasing, has lost, or has for itself, however soon', async () => {
        const ends: ((scene: Scene, held: SharingHolder, n: number) => unknown)[] = [
          (scene, held, n) => void scene.granted[n]!.member!.release(held),
          (scene, held, n) => scene.granted[n]!.member!.lost(held),
          (scene, held, n) => scene.granted[n]!.member!.part(held),
        ];
        for (const [n, end] of ends.entries()) {
          const scene = new Scene(prefer);
          scene.join();
          scene.grant();
          scene.join();
          const [first, last] = scene.held as [SharingHolder, SharingHolder];
          await scene.granted[0]!.member!.release(first);
          expect(scene.readers.accepts(), 'one of them still reads').to.equal(true);
          scene.release = () => new Promise(() => {});
          await end(scene, last, 1);
          expect(scene.readers.accepts(), `${n}`).to.equal(false);
        }
      });

      it('for as long where there are many, each of which takes a while', () => {
        const scene = new Scene(prefer);
        for (let n = 0; n < 16; n += 1) scene.join(windowMs / 8);
        scene.grant();
        scene.nowMs += windowMs - 0.1;
        expect(scene.readers.accepts()).to.equal(true);
        scene.nowMs += 0.1;
        expect(scene.readers.accepts()).to.equal(false);
      });

      it('not one that comes after a writer of the same lock object, where they wait for the grant', () => {
        const scene = new Scene(prefer);
        scene.join();
        scene.readers.close();
        expect(scene.readers.accepts()).to.equal(false);
        scene.grant();
        expect(scene.readers.accepts()).to.equal(false);
      });

      it(`a writer of the same lock object that waits ${prefer === 'reader' ? 'is passed by' : 'ends it for'} further readers`, () => {
        const [before, after] = [new Scene(prefer), new Scene(prefer)];
        before.join();
        before.readers.writerWaits();
        after.join();
        after.grant();
        after.readers.writerWaits();
        const stillJoin = prefer === 'reader';
        expect(before.readers.accepts(), 'further readers join before the grant').to.equal(stillJoin);
        expect(after.readers.accepts(), 'further readers join after the grant').to.equal(stillJoin);
      });

      it('nor where they were granted it at once: that is open for less long, too', () => {
        const [scene, late] = [new Scene(prefer), new Scene(prefer)];
        late.join();
        late.grant();
        late.nowMs += windowMs;
        expect(late.readers.accepts()).to.equal(false);
        scene.join();
        scene.grant();
        expect(scene.readers.accepts()).to.equal(true);
        scene.readers.close();
        expect(scene.readers.accepts()).to.equal(false);
      });

      it('for a third of the lifetime, where that is shorter', () => {
        const scene = new Scene(prefer, turnMs);
        scene.waitAndRead();
        scene.nowMs += turnMs / 3;
        expect(scene.readers.accepts()).to.equal(false);
      });
    });
  }
});
