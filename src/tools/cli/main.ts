// The program: from the command line to an exit code. A failure is one line on stderr, and the process ends when all output is written.
import { createRequire } from 'node:module';
import { check, parse, type Typed } from './command-line';
import { type Command, commands } from './commands';
import { exitOf, usage } from './exit';
import { note, print } from './text';

const globalHelp = `  --url URL          default: REDIS_URL, or redis://127.0.0.1:6379
  --shared-memory N  the locks of sharedMemoryStore(N) on this host, in place of a Redis
  --prefix TEXT      put before every key
  -q, --quiet        no notes; -v, --verbose: more of them
  --                 no options after this: show -- -key; run -- -key -- ./job.sh
  --help, --version`;

export async function main(argv: readonly string[]): Promise<void> {
  // `print` learns of the errors of stdout. An error of stderr can be told to nobody.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const code = await perform(argv);
  process.stderr.write('', () => process.exit(code));
}

/** Runs the program up to the end of the process. Resolves with the exit code. */
export async function perform(argv: readonly string[]): Promise<number> {
  try {
    return await execute(parse(argv));
  } catch (error) {
    const exit = exitOf(error);
    if (exit.message !== '') note(exit.message.replace(/\s*\n\s*/g, ' '));
    return exit.code;
  }
}

async function execute(line: Typed): Promise<number> {
  const { values } = line;
  const isHelp = values.help === true || line.name === 'help';
  const name = line.name === 'help' ? line.operands[0] : line.name;
  if (values.version) return said(createRequire(__filename)('redis-exp-lock/package.json').version);
  const command = name === undefined || !Object.hasOwn(commands, name) ? undefined : commands[name];
  if (isHelp) return said(command === undefined ? overview() : helpOf(command));
  if (name === undefined) throw usage('no command');
  if (command === undefined) throw usage(`there is no command ${JSON.stringify(name)}`);
  return command.run(check(line, command));
}

async function said(text: string): Promise<number> {
  await print(text);
  return 0;
}

function overview(): string {
  const lines = Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(9)} ${about}`);
  return `redis-exp-lock: distributed locks on Redis\n\n${lines.join('\n')}\n\n${globalHelp}\n\nredis-exp-lock COMMAND --help says more.`;
}

function helpOf({ usage, about, details, examples }: Command): string {
  const shown = examples.map((each) => `  ${each}`).join('\n');
  return `redis-exp-lock ${usage}\n\n${about[0]!.toUpperCase()}${about.slice(1)}.\n\n${details}\n\nGlobal, anywhere before --:\n${globalHelp}\n\nExamples:\n${shown}`;
}
