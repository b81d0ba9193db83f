// The demands of the library on the process around it.
import { expect } from 'chai';
import { thrown } from './contract/outcomes';

describe('the environment', () => {
  /** Loads a module anew while reading NODE_ENV throws, as Deno does without a permission. */
  function loadWithoutRights(path: string): any {
    const file = require.resolve(path);
    const { env } = process;
    const loaded = require.cache[file];
    const get = (target: NodeJS.ProcessEnv, name: string): string | undefined => {
      if (name === 'NODE_ENV') throw new Error('NotCapable: Requires env access');
      return target[name]; // what compiles this file reads others
    };
    delete require.cache[file];
    process.env = new Proxy(env, { get });
    try {
      expect(thrown(() => process.env.NODE_ENV)).to.be.instanceOf(Error);
      return require(file);
    } finally {
      process.env = env;
      require.cache[file] = loaded;
    }
  }

  it('loads where the environment may not be read, and is no development process then', () => {
    const events = loadWithoutRights('../src/core/events');
    expect(events.warningsWanted()).to.equal(false);
  });
});
