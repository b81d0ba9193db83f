// The rights of docs/operations.md, each tried without being used: by ACL DRYRUN, or by a script where that is not permitted.
import { companionOf, fenceKey } from '../../core/keys';
import { isOfRegistry, processesKey, processKey } from '../../store/operator';
import type { Finding, SendWords } from './finding';

interface Right {
  readonly command: readonly string[];
  /** What is missing without it, where locks work all the same. */
  readonly onlyFor?: string;
}

const channel = 'redis-exp-lock:1:doctor';

function rightsFor(prefix: string): Right[] {
  const key = `${prefix}redis-exp-lock-doctor`;
  const queue = companionOf(key, 'queue');
  const each = (...commands: string[]): Right[] => commands.map((command) => ({ command: command.split(' ') }));
  const words = (...command: string[]): Right => ({ command });
  return [
    words('EVALSHA', '0'.repeat(40), '1', key),
    words('EVAL', 'return 1', '1', key),
    ...each('TIME'),
    words('GET', key),
    words('SET', fenceKey, '1'),
    words('SETNX', key, '1'),
    words('DEL', key),
    words('PEXPIRE', key, '1000'),
    words('PTTL', key),
    words('ZCARD', queue),
    words('ZCOUNT', queue, '0', '1'),
    words('ZADD', queue, '1', 'a'),
    words('ZREM', queue, 'a'),
    words('ZRANGE', queue, '0', '1'),
    words('ZRANGEBYSCORE', queue, '0', '1'),
    words('PUBLISH', channel, 'a'),
    words('SUBSCRIBE', channel),
    words('UNSUBSCRIBE', channel),
    words('ZSCORE', key, 'a'),
    words('ZREMRANGEBYSCORE', key, '0', '1'),
    words('GET', processKey('doctor')),
    words('SET', processKey('doctor'), '1'),
    words('ZADD', processesKey, '1', 'a'),
    words('SCAN', '0'),
    { command: ['PERSIST', key], onlyFor: 'lifetime: null' },
    { command: ['WAIT', '0', '1'], onlyFor: 'minReplicas' },
    { command: ['CONFIG', 'GET', 'maxmemory-policy'], onlyFor: 'the warning that locks may be evicted' },
  ];
}

/** Since 7.0; before that nothing can be said. */
export async function checkRights(send: SendWords, prefix: string): Promise<Finding[]> {
  const isPermitted = await probe(send);
  if (isPermitted === undefined)
    return [{ check: 'rights', status: 'ok', remedy: 'Redis before 7.0 does not tell them' }];
  return Promise.all(
    rightsFor(prefix).map(async ({ command, onlyFor }) => {
      const check = `right ${nameOf(command)}`;
      if (await isPermitted(command)) return { check, status: 'ok' as const, remedy: '' };
      if (onlyFor !== undefined) return { check, status: 'ok' as const, remedy: `missing, needed only for ${onlyFor}` };
      const remedy = ['ACL SETUSER <user>', `+${command[0]!.toLowerCase()}`, ...patternOf(command, prefix)].join(' ');
      return { check, status: 'fail' as const, remedy };
    }),
  );
}

/** The keys or channels of docs/operations.md that a command needs besides the right to run it. */
function patternOf(command: readonly string[], prefix: string): string[] {
  const of = nameIn(command);
  if (of === undefined) return [];
  if (of === channel) return [`'&redis-exp-lock:*'`];
  if (of === fenceKey) return [`'~${fenceKey}*'`];
  if (isOfRegistry(of)) return [`'~redis-exp-lock:1:process*'`];
  return [of.startsWith(prefix) ? `'~${prefix}*'` : `'~{${prefix}*'`];
}

type Probe = (command: readonly string[]) => Promise<boolean>;

async function probe(send: SendWords): Promise<Probe | undefined> {
  try {
    const user = String(await send(['ACL', 'WHOAMI']));
    await send(['ACL', 'DRYRUN', user, 'PING']);
    return async (command) => String(await send(['ACL', 'DRYRUN', user, ...command])) === 'OK';
  } catch {
    return byScript(send);
  }
}

/** What a user may ask about itself without a right to ACL. */
async function byScript(send: SendWords): Promise<Probe | undefined> {
  const script = 'return redis.acl_check_cmd and (redis.acl_check_cmd(unpack(ARGV)) and 1 or 0) or -1';
  const ask = (command: readonly string[]): Promise<unknown> => send(['EVAL', script, '0', ...command]);
  const isKnown = await ask(['PING']).catch(() => 0);
  if (Number(isKnown) === -1) return undefined;
  return async (command) => Number(await ask(command).catch(() => 0)) === 1;
}

function nameIn(command: readonly string[]): string | undefined {
  return command.find((each) => each.includes('redis-exp-lock'));
}

function nameOf(command: readonly string[]): string {
  const [name] = command;
  const of = nameIn(command);
  const what = name === 'CONFIG' ? 'config|get' : name!.toLowerCase();
  return of === undefined ? `+${what}` : `+${what} ${of}`;
}
