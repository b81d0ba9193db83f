// Runs random-faults.suite.ts in a process of its own. It ends when the library has no timer left, and in the process of earlier files
// what they left behind, such as releases of abandoned tokens, shares timers with it.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { expect } from 'chai';
import { exited, track } from '../support/processes';
import { randomFactor } from '../support/random-runs';

const root = join(__dirname, '..', '..');

describe('random rounds with faults, in a process of their own', function () {
  this.timeout(200_000 * randomFactor); // as many rounds as are asked for

  it('no two valid holders at once, fences rise, and nothing is left behind (H2, H3, H8, H16, H22, H36)', async () => {
    const args = ['node_modules/mocha/bin/mocha.js', '--no-parallel', 'test/redis/random-faults.suite.ts'];
    const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    track(child);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
    expect((await exited(child)).code, output).to.equal(0);
    expect(output).to.include('1 passed, 0 failed');
  });
});
