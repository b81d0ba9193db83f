// Node, Bun and Deno at one table.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { bun, deno, node } from '../scripts/runtimes.cjs';
import { noEngine } from '../test/embedded/engine';
import { ownRuntimeFolder } from '../test/embedded/folder';
import { isInner } from '../test/embedded/other-node';
import { exited, kill9, type NodeChild, startChild, waitFor } from '../test/support/processes';

describe('shared memory across runtimes', () => {
  const runtime = ownRuntimeFolder();
  const script = join(__dirname, '../test/embedded/children/stress.ts');
  const runtimes: Record<string, string | undefined> = {
    ...(noEngine === undefined && { [`Node ${process.version}`]: process.execPath }),
    'Node 22': node(22),
    'Node 24': node(24),
    'Node 26': node(26),
    Bun: bun(),
    Deno: deno(),
  };
  const here = Object.entries(runtimes).filter((each): each is [string, string] => each[1] !== undefined);

  function start(name: string, program: string, ...args: string[]): NodeChild {
    const execArgv = name === 'Deno' ? ['run', '--allow-all', '--no-config'] : [];
    return startChild(script, args, { execPath: program, execArgv });
  }

  if (!isInner) {
    for (const [name, program] of Object.entries(runtimes)) {
      if (program === undefined)
        it(`pending: ${name} has no package for ${process.platform} on ${process.arch}, or it is not installed`);
    }

    it(`H89: one clock and one table for ${here.map(([name]) => name).join(', ')}: what one holds the others see, for as long`, async () => {
      const all: { name: string; child: NodeChild }[] = [];
      // One after the other, so that clocks that begin with a process are seconds apart.
      for (const [name, program] of here) {
        const child = start(name, program, 'obey', 'clocks');
        expect(await child.receive(), child.output()).to.equal('ready');
        all.push({ name, child });
      }
      const tell = (child: NodeChild, order: string, key: string, lifetime?: number): Promise<any> => {
        child.send({ order, key, lifetime });
        return child.receive();
      };
      let fence = 0;
      for (const { name, child } of all) {
        const key = `of ${name}`;
        const taken = await tell(child, 'take', key, 5000);
        expect(taken.fence, name).to.be.greaterThan(fence);
        fence = taken.fence;
        for (const other of all) {
          const { remaining, locked, lagMs } = await tell(other.child, 'inspect', key);
          expect({ by: other.name, locked }).to.deep.equal({ by: other.name, locked: true });
          expect(remaining, `of ${name} by ${other.name}`).to.be.within(2000, 5000 + lagMs + 0.01);
          if (other.child !== child)
            expect(await tell(other.child, 'take', key), `${name}, then ${other.name}`).to.equal(null);
        }
        // One that waits in another runtime is woken by the release.
        const next = all.find((other) => other.child !== child)!;
        const waiting = tell(next.child, 'wait', key);
        await waitFor(
          async () =>
            (await tell(all.at(-1)!.child === next.child ? child : all.at(-1)!.child, 'inspect', key)).waiters === 1,
        );
        expect(await tell(child, 'release', key)).to.equal(true);
        fence = (await waiting).fence;
        expect(fence).to.be.greaterThan(taken.fence);
      }
      for (const { child } of all) await kill9(child);
    });

    it('H89: all of them add to one number, and lose nothing', async () => {
      const file = join(runtime(), 'count.txt');
      writeFileSync(file, '0 0\n');
      const all = here.map(([name, program]) => start(name, program, 'add', 'add', file, '100'));
      for (const each of all) expect(await each.receive(), each.output()).to.equal('done');
      for (const each of all) expect(await exited(each), each.output()).to.deep.equal({ code: 0, signal: null });
      for (const each of all) expect(each.output()).to.equal('');
      const lines = readFileSync(file, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => line.split(' ').map(Number));
      expect(lines.map(([number]) => number)).to.deep.equal(lines.map((_, n) => n));
      expect(lines).to.have.length(1 + 100 * all.length);
      for (const [n, [, fence]] of lines.slice(1).entries()) expect(fence).to.be.greaterThan(lines[n]![1]!);
    });
  }
});
