// The faults that each library meets, and the checks. `holds` says whether the promise in the title was kept; `undefined` where the row
// is a figure and there is nothing to keep.
import { close } from '../test/support/fault-proxy';
import { cont, kill9, stop } from '../test/support/processes';
import { lifetime, now, type Stage, sleep, type User, within } from './stage';

export interface Outcome {
  readonly holds?: boolean;
  readonly text: string;
}

export interface Fault {
  readonly title: string;
  readonly how: string;
  /** Every library frees what a dead client held, and can be counted: there the naive lock need not fail. */
  readonly figure?: boolean;
  run(stage: Stage): Promise<Outcome>;
}

const ms = (from: number, to: number): string => `${Math.max(0, Math.round(to - from))} ms`;

/** Waits until the holder is notified that it lost the lock, for two lifetimes at most: no other library says when that must be. */
async function notified(holder: User, since: number): Promise<Outcome> {
  const end = now() + 2 * lifetime;
  while (holder.lostAt === undefined && now() < end) await sleep(10);
  const { lostAt } = holder;
  if (lostAt === undefined) return { holds: false, text: 'not notified' };
  return {
    holds: true,
    text: `notified ${lostAt < since ? 'before the other had it' : `after ${ms(since, lostAt)}`}`,
  };
}

/** Proxy rule: the reply to a command that wrote the key never arrives; the connection ends instead. */
const onKey = (user: User) => (args: readonly string[]) =>
  args.slice(1).includes(user.redisKey) && !/^(SUBSCRIBE|GET)$/i.test(args[0]!);

/** A holder that is stopped for longer than its lifetime while another takes the lock. Both fences, and when it went on. */
async function stopped(stage: Stage) {
  const [holder, next] = await Promise.all([stage.user(), stage.user()]);
  const first = await holder.ask('hold');
  await stop(holder.process);
  const second = await next.acquire(60_000);
  if (second.error) throw new Error(second.error);
  const mine = await stage.pin(next);
  const wokenAt = now();
  await cont(holder.process);
  return { holder, next, first, second, mine, wokenAt };
}

export const faults: Readonly<Record<string, Fault>> = {
  'stopped-holder': {
    title: 'A holder is stopped past its lifetime and comes back: it is notified',
    how: 'SIGSTOP while it holds, another process takes the lock, SIGCONT; time from SIGCONT, for two lifetimes at most. Then it ends its work, and the key is checked',
    async run(stage) {
      const { holder, next, mine, wokenAt } = await stopped(stage);
      const outcome = await notified(holder, wokenAt);
      await within(holder.ask('finish'), 500);
      await sleep(300);
      const isKept = (await stage.value(next)) === mine;
      return isKept ? outcome : { holds: false, text: `${outcome.text}; deletes the other’s lock` };
    },
  },
  'stale-write': {
    title: 'A write of that holder can be refused by its fence',
    how: 'as above; its fence is compared with the next holder’s',
    async run(stage) {
      const { first, second } = await stopped(stage);
      if (first.fence === undefined || second.fence === undefined) return { holds: false, text: 'no fence' };
      const holds = second.fence > first.fence;
      return { holds, text: holds ? 'the next fence is larger' : `fence ${second.fence} after ${first.fence}` };
    },
  },
  'release-after-expiry': {
    title: 'A release after expiry leaves the next holder’s lock alone',
    how: 'no renewal; the lock expires, another process takes it, the first one releases',
    async run(stage) {
      const [holder, next] = await Promise.all([stage.user(), stage.user()]);
      await holder.acquire();
      if ((await stage.value(holder)) === null) throw new Error(`not the key of ${stage.library}: ${holder.redisKey}`);
      await stage.freed(holder);
      await next.acquire();
      const mine = await stage.pin(next);
      const { error } = await holder.ask('release');
      const holds = (await stage.value(next)) === mine;
      return { holds, text: `${holds ? 'left alone' : 'deleted'}${error ? '; the release rejects' : ''}` };
    },
  },
  'lost-acquire-reply': {
    title: 'The reply to an acquire is lost: the caller is not shut out by its own lock',
    how: 'the server executes, the connection ends in place of the reply; time until the caller has the lock, or the key is free',
    async run(stage) {
      const user = await stage.user(stage.proxy.url);
      stage.proxy.rule({ match: onKey(user), times: 1 }, close('after'));
      const start = now();
      const { error, at } = await user.acquire(3 * lifetime);
      if (error) {
        await stage.freed(user);
        const free = now() - start;
        return {
          holds: free < lifetime / 2,
          text: `rejects after ${ms(start, at)}; the key is free after ${ms(start, now())}`,
        };
      }
      return { holds: at - start < lifetime / 2, text: `held after ${ms(start, at)}` };
    },
  },
  'lost-release-reply': {
    title: 'The reply to a release is lost: nobody else’s lock is deleted',
    how: 'the server executes, another process takes the lock, then the connection ends in place of the reply; the key is checked a second later',
    async run(stage) {
      const [holder, next] = await Promise.all([stage.user(stage.proxy.url), stage.user()]);
      await holder.acquire();
      stage.proxy.rule({ match: onKey(holder), times: 1 }, close('after'));
      let mine: string | null = null;
      const taken = new Promise<void>((resolve) => {
        stage.proxy.afterAnswer({ match: onKey(holder), nth: 1 }, async () => {
          await next.acquire();
          mine = await stage.pin(next);
          resolve();
        });
      });
      const released = holder.ask('release');
      await taken;
      const answer = await within(released, 1000);
      await sleep(500);
      const holds = mine !== null && (await stage.value(next)) === mine;
      const notified =
        answer === undefined ? 'no answer within 1 s' : answer.error ? 'the release rejects' : 'the release resolves';
      return { holds, text: `${holds ? 'left alone' : 'deleted'}; ${notified}` };
    },
  },
  'server-restart': {
    title: 'The server restarts with empty memory and the lock is granted again: the first holder is notified',
    how: 'kill −9 and restart while it holds; another process takes the lock; time for which both held it, for two lifetimes at most',
    async run(stage) {
      const holder = await stage.user();
      await holder.ask('hold');
      await stage.server.kill();
      await stage.server.restart();
      const next = await stage.user();
      const { at, error } = await next.acquire(60_000);
      if (error) return { text: `not granted again: ${error}` };
      const outcome = await notified(holder, at);
      return { ...outcome, text: outcome.text.replace('notified after', 'both held it for') };
    },
  },
  'deleted-key': {
    title: 'An operator deletes the key: the holder is notified',
    how: 'DEL while it holds, another process takes the lock; time from DEL, for two lifetimes at most',
    async run(stage) {
      const [holder, next] = await Promise.all([stage.user(), stage.user()]);
      await holder.ask('hold');
      const start = now();
      await stage.server.command('DEL', holder.redisKey);
      await next.acquire();
      return notified(holder, start);
    },
  },
  'extend-taken': {
    title: 'Extending a lock that another has taken is refused, and changes nothing',
    how: 'DEL, another process takes the lock, the first one extends to a minute',
    async run(stage) {
      const [holder, next] = await Promise.all([stage.user(), stage.user()]);
      await holder.acquire();
      await stage.server.command('DEL', holder.redisKey);
      await next.acquire();
      const mine = await stage.value(next);
      await stage.server.command('PEXPIRE', next.redisKey, 30_000);
      const { error, none } = await holder.ask('extend', { ms: 60_000 });
      if (none) return { text: 'has no extend' };
      const isSame = (await stage.value(next)) === mine && (await stage.end(next)) <= 30_000;
      if (!isSame) return { holds: false, text: 'the other’s lock is extended' };
      return error
        ? { holds: true, text: 'refused' }
        : { holds: false, text: 'resolves; the other’s lock is as it was' };
    },
  },
  'late-request': {
    title: 'An acquire that gave up while the server stood still leaves no lock behind',
    how: 'SIGSTOP the server for 2 s, acquire with a limit of 500 ms, SIGCONT; the key is checked after another 500 ms',
    async run(stage) {
      const user = await stage.user();
      await stage.server.pause();
      const start = now();
      const acquiring = user.acquire(500);
      const early = await within(acquiring, 2000);
      await stage.server.resume();
      const answer = early ?? (await within(acquiring, 500));
      await sleep(500);
      const isHeld = (await stage.value(user)) !== null;
      const said = early
        ? `rejects after ${ms(start, early.at)}`
        : `no answer until the server goes on${answer?.error ? '' : ', then the lock'}`;
      return {
        holds: early?.error !== undefined && !isHeld,
        text: `${said}; ${isHeld ? 'the key is there' : 'no key'}`,
      };
    },
  },
  'client-killed': {
    title: `A holder is killed: time until a waiter has the lock (lifetime ${lifetime} ms)`,
    how: 'kill −9 while it holds and another process waits',
    figure: true,
    async run(stage) {
      const [holder, next] = await Promise.all([stage.user(), stage.user()]);
      await holder.ask('hold');
      const waiting = next.acquire(60_000);
      await sleep(300);
      const start = now();
      await kill9(holder.process);
      const { at, error } = await waiting;
      return { text: error ? `rejects after ${ms(start, at)}: ${error}` : ms(start, at) };
    },
  },
  crowd: {
    title: '100 waiters in one process, each holds for 1 ms: longest wait, most overtakings, commands per lock',
    how: 'commands are those that the client sent; an overtaking is a later caller served before',
    figure: true,
    async run(stage) {
      const user = await stage.user(stage.proxy.url);
      const before = stage.proxy.commands.length;
      const answer = await within(user.ask('crowd', { size: 100 }), 60_000);
      const { turns, error } = answer ?? { error: 'not all served within 60 s' };
      if (!turns) return { text: String(error) };
      const overtaken = turns.map(({ n }, i) => turns.slice(0, i).filter((other) => other.n > n).length);
      const commands = (stage.proxy.commands.length - before) / turns.length;
      return { text: `${Math.round(turns.at(-1)!.ms)} ms, ${Math.max(...overtaken)}, ${commands.toFixed(1)}` };
    },
  },
};
