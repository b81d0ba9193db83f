// The rights of docs/operations.md by feature. Each is tried without an effect: by ACL DRYRUN, or by a script if DRYRUN is not permitted.
import { companionOf, fenceKey } from '../../core/keys';
import { refusesScripts } from '../../store/backend-errors';
import { processesKey, processKey } from '../../store/operator';
import type { SendWords } from '../../store/redis/client';
import { patternOf } from '../../store/redis/scan';
import { type Finding, fail, ok, warn } from './checks';
import { usage } from './exit';

interface FeatureRights {
  /** Another feature whose rights this feature needs. */
  readonly needs?: Feature;
  /** Set if a user with a part of the rights is assumed to need all of them. */
  readonly isWhole?: true;
  /** The commands that are tried. `$key` and similar words stand for a place. */
  readonly rights: readonly string[];
}

type Feature = 'lock' | 'batch' | 'queue' | 'rwlock' | 'register' | 'endless' | 'min-replicas' | 'eviction' | 'quorum';

const features: Readonly<Record<Feature, FeatureRights>> = {
  lock: {
    rights: [
      ...['EVAL return 1 $key', 'EVALSHA return 1 $key', 'TIME', 'GET $key', 'SET $fence 1', 'SETNX $key 1'],
      ...['DEL $key', 'PEXPIRE $key 1000', 'PTTL $key', 'ZCARD $queue', 'ZCOUNT $queue 0 1'],
    ],
  },
  batch: { needs: 'lock', rights: ['MGET $key', 'EXISTS $key'] },
  queue: {
    needs: 'lock',
    isWhole: true,
    rights: [
      ...['ZADD $queue 1 a', 'ZREM $queue a', 'ZRANGE $queue 0 1', 'ZRANGEBYSCORE $queue 0 1'],
      ...['PUBLISH $channel a', 'SUBSCRIBE $channel', 'UNSUBSCRIBE $channel'],
    ],
  },
  rwlock: { needs: 'queue', isWhole: true, rights: ['ZSCORE $key a', 'ZREMRANGEBYSCORE $key 0 1'] },
  register: { needs: 'rwlock', rights: ['GET $process', 'SET $process 1', 'ZADD $processes 1 a', 'SCAN 0'] },
  endless: { needs: 'lock', rights: ['PERSIST $key'] },
  'min-replicas': { needs: 'lock', rights: ['WAIT 0 1'] },
  eviction: { needs: 'lock', rights: ['CONFIG GET maxmemory-policy'] },
  quorum: { needs: 'lock', rights: ['INFO server'] },
};
/** Commands that a server may lack: what happens then. Without another one, its feature fails. */
const substitutes: Readonly<Record<string, string>> = {
  MGET: 'the calls of a tick run one by one',
  EXISTS: 'the calls of a tick run one by one',
  PUBLISH: 'a waiting process gets the lock up to a second after its release',
  SUBSCRIBE: 'waiting polls',
  CONFIG: 'no warning of a policy that evicts',
  INFO: 'a quorum notices neither a restart nor a second name of a server',
};
const names = Object.keys(features) as Feature[];
/** Further names of features, for `--for`. */
const aliases: Readonly<Record<string, Feature>> = { semaphore: 'rwlock', list: 'register', free: 'register' };

export interface RequestedRights {
  readonly prefix: string;
  readonly user: string;
  /** The features to check; undefined: locks, and the features for which the user has a part of the rights. */
  readonly features: ReadonlySet<Feature> | undefined;
}

/** The features of `--for`, and the features that these need. @throws {Exit} an unknown feature. */
export function featuresOf(text: string | undefined): RequestedRights['features'] {
  return text === undefined ? undefined : withNeeded(text.split(',').map(featureOf));
}

function featureOf(text: string): Feature {
  const name = Object.hasOwn(aliases, text) ? aliases[text]! : text;
  if (!Object.hasOwn(features, name)) {
    throw usage(`doctor: --for takes ${[...names, ...Object.keys(aliases)].join(', ')}; not ${JSON.stringify(text)}`);
  }
  return name as Feature;
}

function withNeeded(some: readonly Feature[]): Set<Feature> {
  const all = new Set(some);
  for (const name of all) if (features[name].needs !== undefined) all.add(features[name].needs);
  return new Set(names.filter((name) => all.has(name)));
}

/** The keys and channels that rights name, each with the quoted pattern that permits it. */
type RightPlaces = Readonly<Record<string, { readonly name: string; readonly pattern: string }>>;

function placesAt(prefix: string): RightPlaces {
  const key = `${prefix}redis-exp-lock-doctor`;
  const queue = companionOf(key, 'queue');
  const pattern = patternOf(prefix);
  const own = `'~${pattern}'`;
  const registry = "'~redis-exp-lock:1:process*'";
  return {
    $key: { name: key, pattern: own },
    $queue: { name: queue, pattern: queue.startsWith(prefix) ? own : `'~{${pattern}'` },
    $fence: { name: fenceKey, pattern: `'~${fenceKey}*'` },
    $process: { name: processKey('doctor'), pattern: registry },
    $processes: { name: processesKey, pattern: registry },
    $channel: { name: 'redis-exp-lock:1:doctor', pattern: "'&redis-exp-lock:*'" },
  };
}

type Has = (right: string) => boolean;

/** Checks the rights. Needs Redis 7.0. */
export async function checkRights(send: SendWords, asked: RequestedRights): Promise<Finding[]> {
  const places = placesAt(asked.prefix);
  const verdictOf = await probe(send);
  if (verdictOf === undefined) {
    const advice = asked.features ? `; ${ownUser(rightsOf(asked.features), places)}` : '';
    return [ok('rights', `Redis before 7.0 does not tell them${advice}`)];
  }
  const trials = [...rightsOf(names), ...Object.keys(places).flatMap(trialsOf)];
  const tried = trials.map(async (right) => {
    return [right, await verdictOf(right.split(' ').map((word) => places[word]?.name ?? word))] as const;
  });
  const found = new Map(await Promise.all(tried));
  const has: Has = (right) => found.get(right) === 'permitted';
  const rightsThatAre = (verdict: RightVerdict, name: Feature): string[] =>
    features[name].rights.filter((right) => found.get(right) === verdict);
  const lacksOf = (name: Feature): string[] =>
    rightsThatAre('refused', name).flatMap((right) => missingWords(right, places, has));
  const isExpected = (name: Feature): boolean =>
    name === 'lock' || (features[name].isWhole === true && features[name].rights.some(has));
  const wanted = asked.features ?? withNeeded(names.filter(isExpected));
  const rows = names.map((name) => {
    return row(name, new Set(lacksOf(name)), rightsThatAre('absent', name).map(nameOf), wanted.has(name));
  });
  const missing = new Set([...wanted].flatMap(lacksOf));
  if (missing.size > 0) {
    const advice = missing.has("'~*'") ? 'if the locks have a prefix, give --prefix; else ' : '';
    rows.push(fail('rights', `${advice}ACL SETUSER ${asked.user} ${[...missing].join(' ')}`));
  } else if (asked.features) {
    rows.push(ok('rights', ownUser(rightsOf(asked.features).filter(has), places)));
  }
  return rows;
}

function row(name: Feature, lacks: ReadonlySet<string>, absent: readonly string[], isWanted: boolean): Finding {
  const others = Object.keys(aliases).filter((each) => aliases[each] === name);
  const check = `rights: ${[name, ...others].join(', ')}`;
  if (lacks.size > 0) {
    if (!isWanted) return ok(check, `not permitted; where it is needed: doctor --for ${name}`);
    return fail(check, `not permitted: ${[...lacks].join(' ')}`);
  }
  const [first] = absent;
  if (first === undefined) return ok(check);
  const missing = `this server has no ${absent.join(', ')}`;
  if (absent.some((command) => !(command in substitutes))) return (isWanted ? fail : ok)(check, missing);
  return (isWanted ? warn : ok)(check, `${missing}: ${substitutes[first]}`);
}

/** The words of ACL SETUSER for one right, without words that are permitted already: a pattern beside `~*` or `&*` is an error. */
function missingWords(right: string, places: RightPlaces, has: Has): string[] {
  const command = commandOf(right);
  const place = placeIn(right);
  if (place === undefined) return [command];
  const { pattern } = places[place]!;
  const isKnown = rightsOf(names).some((each) => commandOf(each) === command && has(each));
  const isOpen = trialsOf(place).some(has);
  if (isKnown === isOpen) return [command, pattern];
  return isKnown ? [pattern] : [command];
}

/** The line that makes a user with these rights only. */
function ownUser(rights: readonly string[], places: RightPlaces): string {
  const patterns = new Set(rights.flatMap((right) => places[placeIn(right) ?? '']?.pattern ?? []));
  const commands = new Set(['+hello', '+auth', '+ping', ...rights.map(commandOf)]);
  const words = ["on '>password' resetchannels", ...patterns, '-@all', ...commands];
  return `a user for this alone: ACL SETUSER <user> ${words.join(' ')}`;
}

function rightsOf(some: Iterable<Feature>): string[] {
  return [...some].flatMap((name) => features[name].rights);
}

function placeIn(right: string): string | undefined {
  return right.split(' ').find((word) => word.startsWith('$'));
}

/** Commands each of which alone shows that a place is permitted. */
function trialsOf(place: string): string[] {
  if (place === '$channel') return [`PUBLISH ${place} a`, `SUBSCRIBE ${place}`, `SPUBLISH ${place} a`];
  return [`EVAL return 1 ${place}`, `DEL ${place}`, `PEXPIRE ${place} 1000`, `ZADD ${place} 1 a`];
}

function nameOf(right: string): string {
  return right.split(' ')[0]!;
}

function commandOf(right: string): string {
  const name = nameOf(right);
  return name === 'CONFIG' ? '+config|get' : `+${name.toLowerCase()}`;
}

/** The server does not have an absent command. */
type RightVerdict = 'permitted' | 'refused' | 'absent';

type Probe = (command: readonly string[]) => Promise<RightVerdict>;

const script = "return redis.acl_check_cmd and (redis.acl_check_cmd(unpack(ARGV)) and 'OK' or 'refused') or 'unknown'";

/** Resolves to undefined if the server tells no rights. The script is for users without a right to ACL. */
async function probe(send: SendWords): Promise<Probe | undefined> {
  const user = String(await send(['ACL', 'WHOAMI']).catch(() => ''));
  const byAcl = ['ACL', 'DRYRUN', user];
  const isAclOpen = (await send([...byAcl, 'PING']).catch(() => undefined)) !== undefined;
  if (isAclOpen) return probeBy(send, byAcl);
  const byScript = ['EVAL', script, '0'];
  const ofPing = await send([...byScript, 'PING']).catch(({ message }: Error) => refusesScripts(message) && 'absent');
  // Nothing can be tried.
  if (ofPing === 'absent') return async ([name]) => (name === 'EVAL' ? 'absent' : 'permitted');
  return ofPing === 'unknown' ? undefined : probeBy(send, byScript);
}

function probeBy(send: SendWords, words: readonly string[]): Probe {
  return (command) =>
    send([...words, ...command]).then(
      (reply) => (String(reply) === 'OK' ? 'permitted' : 'refused'),
      ({ message }: Error) => (/not found|invalid command/i.test(message) ? 'absent' : 'refused'),
    );
}
