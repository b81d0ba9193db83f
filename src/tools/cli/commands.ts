// The commands, and their help.
import type { CommandLine, Shape } from './command-line';
import { doctor } from './doctor';
import { serve } from './serve';
import { elect, once, run } from './under-lock';
import { ls, release, show, top } from './watch';

export interface Command extends Shape {
  readonly usage: string;
  readonly about: string;
  readonly details: string;
  readonly examples: readonly string[];
  /** Runs the command. @returns the exit code. @throws {Exit} */
  readonly run: (line: CommandLine) => Promise<number>;
}

const ofChild = `  --ttl 10s          the lock is renewed at a third of this; without renewals it ends then
  --kill-after 5s    after the loss of the lock: TERM at once, KILL after this
  --foreground       leave the command in the terminal's process group
kill -9 of redis-exp-lock itself leaves the command running without a lock: have a supervisor end both, and compare LOCK_FENCE in what is written.`;

export const commands: Readonly<Record<string, Command>> = {
  run: {
    options: ['wait', 'no-wait', 'ttl', 'shared', 'permits', 'busy-code', 'kill-after', 'foreground'],
    operands: [1, 100],
    runs: true,
    usage:
      'run [-w 30s | -n] [--ttl 10s] [--shared] [--permits 1/3] [-E 75] [--kill-after 5s] [--foreground] KEY… -- command args…',
    about: 'run a command under a lock',
    details: `  -w, --wait 30s     wait no longer; without -w and -n for as long as it takes
  -n, --no-wait      do not wait
  --shared           share the key with others that ask for it with --shared
  --permits 1/3      one of three permits
  -E, --busy-code 75 exit code when the lock is busy
${ofChild}
The command sees LOCK_KEY, LOCK_FENCE and LOCK_OWNER. Exit: the command's own code, 128 + its signal, 126 and 127 as a shell;
75 busy, 76 the lock was lost, 69 Redis cannot be reached.`,
    examples: [
      'redis-exp-lock run -n nightly-report -- ./report.sh',
      'redis-exp-lock run -w 30s --permits 2/5 import -- node import.js',
    ],
    run,
  },
  once: {
    options: ['every', 'offset', 'ttl', 'kill-after', 'foreground'],
    operands: [1, 1],
    runs: true,
    usage: 'once --every 1d [--offset 3h] [--ttl 10s] [--kill-after 5s] [--foreground] KEY -- command args…',
    about: 'run a command once a slot, over all hosts',
    details: `  --every 1d         how long a slot is, by the server's clock
  --offset 3h        when slots begin: here at 03:00 UTC
${ofChild}
Where the slot's job has run, or runs, it exits with 0 and a note.`,
    examples: ['redis-exp-lock once --every 1d --offset 3h backup -- ./backup.sh'],
    run: once,
  },
  elect: {
    options: ['ttl', 'kill-after', 'foreground'],
    operands: [1, 1],
    runs: true,
    usage: 'elect [--ttl 10s] [--kill-after 5s] [--foreground] NAME -- command args…',
    about: 'run a command on one host at a time, for as long as it leads',
    details: `${ofChild}
The command is ended when leadership is lost, and run anew in the next term. It exits when the command ends by itself.`,
    examples: ['redis-exp-lock elect scheduler -- node scheduler.js'],
    run: elect,
  },
  ls: {
    options: ['scan', 'json'],
    operands: [0, 1],
    usage: 'ls [PREFIX] [--scan] [--json]',
    about: 'list the locks',
    details: `  --scan             look at every key: slowly, with at most 2 % of the server's time
  --json             one object a line; the last is the coverage
Without --scan: what processes with \`register: true\`, and these commands, hold and wait for.`,
    examples: ['redis-exp-lock ls app:', 'redis-exp-lock ls app: --scan --json | jq .key'],
    run: ls,
  },
  show: {
    options: ['json'],
    operands: [1, 1],
    usage: 'show KEY [--json]',
    about: 'one lock: its holders and its queue',
    details: '  --json             one object',
    examples: ['redis-exp-lock show app:invoice:17'],
    run: show,
  },
  release: {
    options: ['id', 'yes', 'force'],
    operands: [1, 1],
    usage: 'release KEY --id ID | --force [--yes]',
    about: 'take a lock away from its holder',
    details: `  --id ID            the holder's id, as show prints it: nothing happens where another one has the lock by now
  --force            all its holders, without an id
  --yes              do not ask to type the key; needed without a terminal
Prints {key, id, released}; exits with 1 where nothing was released.`,
    examples: ['redis-exp-lock release app:invoice:17 --id 5f3ac91b'],
    run: release,
  },
  top: {
    options: ['scan'],
    operands: [0, 1],
    usage: 'top [PREFIX] [--scan]',
    about: 'watch the locks, those with trouble first',
    details: `  --scan             look at every key, as ls --scan does
  q                  ends it`,
    examples: ['redis-exp-lock top app:'],
    run: top,
  },
  doctor: {
    options: ['for', 'json'],
    operands: [0, 0],
    usage: 'doctor [--for queue,rwlock] [--json]',
    about: 'what may go wrong with locks on this server',
    details: `  --for queue,…      what the user is for: lock, queue, rwlock, semaphore, register, list, free, endless, min-replicas, eviction;
                     one line of ACL SETUSER has the rights. Without it: locks, and what the user has a part of the rights for
  --json             one object a line: {check, status, remedy}
Exit: 0, 1 with a warning, 2 with a failure. --prefix says where the locks are.`,
    examples: ['redis-exp-lock doctor --prefix app:', 'redis-exp-lock doctor --prefix app: --for queue,rwlock'],
    run: doctor,
  },
  serve: {
    options: ['port', 'actions'],
    operands: [0, 0],
    usage: 'serve [--port 7400] [--actions]',
    about: 'the live page, for this host',
    details: `  --port 7400        0: any
  --actions          locks can be taken away on the page`,
    examples: ['redis-exp-lock serve --prefix app:'],
    run: serve,
  },
};
