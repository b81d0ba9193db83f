// The command line: read once, checked here, trusted everywhere else.

import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

const HELP = `
  npm start -- [options]

  Moves money between accounts, from several processes at once: first without a lock, then with withLock.

  --workers N    processes that transfer money, 1 to 32           (default 4)
  --accounts N   accounts they share, 2 to 1000                   (default 8)
  --seconds S    how long each of the two phases lasts, 0.2 to 60 (default 2.5)
  --svg FILE     also draw the lock's holders over time into FILE
  --page         show the locks in a browser meanwhile; in a terminal the workers go on until Ctrl-C
  --help         this text

  REDIS_URL      use this server, below a private prefix; without it a redis-server or valkey-server on PATH is started, and
                 without any, the processes share memory instead

  Exit code: 0 when withLock lost nothing and its fences were in order, 1 when not, or without a server, 2 for a wrong option.
`;

/** Resolves the options, or ends the process: 0 after --help, 2 after a wrong option, which it names. */
export function readOptions(args) {
  try {
    const { values } = parseArgs({
      args,
      options: {
        workers: { type: 'string', default: '4' },
        accounts: { type: 'string', default: '8' },
        seconds: { type: 'string', default: '2.5' },
        svg: { type: 'string' },
        page: { type: 'boolean', default: false },
        help: { type: 'boolean' },
      },
    });
    if (values.help) {
      console.log(HELP);
      process.exit(0);
    }
    return {
      workers: numberIn('--workers', values.workers, 1, 32, 'a whole number'),
      accounts: numberIn('--accounts', values.accounts, 2, 1000, 'a whole number'),
      seconds: numberIn('--seconds', values.seconds, 0.2, 60, 'a number'),
      svg: values.svg === undefined ? undefined : writable('--svg', values.svg),
      page: values.page,
    };
  } catch (error) {
    console.error(`${error.message.split('\n')[0]} (--help lists the options)`);
    process.exit(2);
  }
}

function numberIn(name, text, least, most, kind) {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  const isKind = kind === 'a number' || Number.isInteger(value);
  if (isKind && value >= least && value <= most) return value;
  throw new RangeError(`${name}: expected ${kind} from ${least} to ${most}, got '${text}'`);
}

/** Checked before the run, so that a mistyped folder does not cost one. */
function writable(name, file) {
  const folder = path.dirname(path.resolve(file));
  if (fs.existsSync(file) && fs.statSync(file).isDirectory()) throw new Error(`${name}: '${file}' is a folder`);
  if (!fs.existsSync(folder)) throw new Error(`${name}: there is no folder '${folder}'`);
  fs.accessSync(fs.existsSync(file) ? file : folder, fs.constants.W_OK);
  return file;
}
