/**
 * Root hooks: what the support room started is gone after the last test, so that mocha ends by itself and leaves no process.
 * Listed in .mocharc.json under `require`.
 *
 * Invariant: clients and proxies go before the servers they talk to, so that nothing redials a port that others may take.
 */

import { AsyncResource } from 'node:async_hooks';
import { relative } from 'node:path';
import { type Context, Hook, type RootHookObject, Runnable, type Suite } from 'mocha';
import { stopCountingTimers } from '../contract/outcomes';
import { stopEndpoints } from './endpoint';
import { stopProxies } from './fault-proxy';
import { Missing } from './missing';
import { killChildren } from './processes';
import { closeAll, stopServers } from './redis';

/** The files that this process has run tests of, the present one last. */
const files: string[] = [];

/**
 * Mocha passes them on to other listeners, and is content when there are none. Thrown, they fail the test that runs, which need not be the
 * one that left the promise behind.
 */
function failUnhandled(reason: unknown): never {
  throw new Error(`a rejection that nobody handled, of one of ${files.join(', ')}: ${reason}`, { cause: reason });
}

const { setTimeout } = globalThis;

/** A fake clock that a test leaves behind would stop the timers of every test that follows in this process. */
function expectRealTimers(): void {
  if (globalThis.setTimeout === setTimeout) return;
  globalThis.setTimeout = setTimeout;
  throw new Error('this test left a setTimeout that is not the real one');
}

const { run } = Runnable.prototype;
const lacking = new WeakSet<Suite>();

/**
 * Runs the test or hook in an async context of its own. Mocha may call it where there is none, and what a test enters there would be
 * entered for all code that was waiting before.
 *
 * Marks the test, or those behind the hook, as pending, as `this.skip()` does.
 */
Runnable.prototype.run = function (done) {
  const suite = this.parent!;
  const runAlone = new AsyncResource('test').bind(run);
  runAlone.call(this, (error) => {
    const missing = [error, error?.cause].find((each) => each instanceof Missing);
    if (missing !== undefined) {
      console.log(`pending: ${missing.message}`);
      lacking.add(suite);
      this.pending = true;
      return done();
    }
    // A suite that was not set up cannot be torn down.
    done(lacking.has(suite) && this instanceof Hook ? undefined : error);
  });
};

export const mochaHooks: RootHookObject = {
  beforeAll(this: Context) {
    for (const { file } of this.test!.parent!.suites) files.push(relative(process.cwd(), file ?? ''));
    process.on('unhandledRejection', failUnhandled);
  },
  afterEach: [stopCountingTimers, expectRealTimers],
  async afterAll() {
    closeAll();
    await stopProxies();
    await stopEndpoints();
    await stopServers();
    await killChildren();
    process.off('unhandledRejection', failUnhandled);
  },
};
