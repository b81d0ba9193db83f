// Finds the Redis server that tests and demo run against; started as a program, sees to it that there is one.
//
// Three readers: `pretest` runs it, tests and demo call `findBinary()`, and redis-memory-server loads it as its
// `configProvider` while it is being installed. So nothing but Node is needed here at load time, and loading never throws.
const { spawnSync } = require('node:child_process');
const { accessSync, constants, existsSync, mkdirSync, rmSync, statSync, symlinkSync } = require('node:fs');
const { delimiter, join, resolve } = require('node:path');

const CACHE = resolve(__dirname, '../node_modules/.cache/redis-binary');
const FROM_APT = join(CACHE, 'redis-server');
const COMPILED = join(CACHE, 'stable', 'redis-server'); // where redis-memory-server puts it below its downloadDir

/**
 * The path of a redis-server or valkey-server; undefined when this machine has none yet.
 *
 * @throws {Error} REDISMS_SYSTEM_BINARY is set, but is not an executable file.
 */
function findBinary() {
  const given = process.env.REDISMS_SYSTEM_BINARY;
  if (!given) return onPath('redis-server') ?? onPath('valkey-server') ?? [FROM_APT, COMPILED].find(isExecutable);
  if (!isExecutable(given)) throw new Error(`REDISMS_SYSTEM_BINARY: expected an executable file, got ${given}`);
  return resolve(given);
}

/** The configuration for redis-memory-server: a server to use, or the permission to do without one until `pretest`. */
function memoryServerConfig() {
  const systemBinary = process.env.REDISMS_SYSTEM_BINARY || findBinary();
  return systemBinary ? { systemBinary } : { disablePostinstall: '1', downloadDir: CACHE };
}

async function main() {
  const binary = findBinary() ?? installWithApt() ?? (await compile());
  const version = versionOf(binary);
  if (!version) throw new Error(`${binary} does not run; set REDISMS_SYSTEM_BINARY to a redis-server that does`);
  console.log(`redis-binary: ${binary}, ${version}`);
}

/**
 * Debian's redis-tools holds the server too: it is the same binary as redis-check-rdb and goes by the name it is called
 * by. The redis-server package would add a service, and start it.
 */
function installWithApt() {
  if (!existsSync('/etc/debian_version') || process.getuid() !== 0 || !onPath('apt-get')) return undefined;
  console.log(
    'redis-binary: no redis-server here; installing the package redis-tools with apt-get (starts no service)',
  );
  const install = ['install', '-y', '--no-install-recommends', 'redis-tools'];
  const installed = aptGet(install) || (aptGet(['update']) && aptGet(install));
  const server = onPath('redis-check-rdb');
  if (!installed || !server) return undefined;

  mkdirSync(CACHE, { recursive: true });
  rmSync(FROM_APT, { force: true });
  symlinkSync(server, FROM_APT);
  if (versionOf(FROM_APT)) return FROM_APT;
  rmSync(FROM_APT);
  return undefined;
}

function aptGet(args) {
  const { status } = spawnSync('apt-get', ['-o', 'DPkg::Lock::Timeout=60', ...args], {
    stdio: 'ignore',
    timeout: 300_000,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  return status === 0;
}

async function compile() {
  console.log('redis-binary: no redis-server here; downloading and compiling one, which takes about two minutes');
  // By default, redis-memory-server does not check the certificate of what it downloads. npm sets '' for "do not".
  process.env.npm_config_strict_ssl ??= 'true';
  try {
    const { default: RedisBinary } = require('redis-memory-server/lib/util/RedisBinary');
    return await RedisBinary.getPath({ downloadDir: CACHE, version: 'stable', systemBinary: '' });
  } catch (error) {
    const reason = String(error?.message ?? error).split('\n', 1)[0];
    throw new Error(
      `no server could be made; install redis-server or valkey-server, or set REDISMS_SYSTEM_BINARY to one (${reason})`,
    );
  }
}

function versionOf(binary) {
  const { stdout } = spawnSync(binary, ['--version'], { encoding: 'utf8', timeout: 10_000 });
  return /^\w+ server v=\S+/.exec(stdout ?? '')?.[0];
}

/** The name and version of the server that tests run against, such as "Redis server v=7.0.15"; undefined when there is none. */
function serverVersion() {
  try {
    const binary = findBinary();
    return binary && versionOf(binary);
  } catch {
    return undefined;
  }
}

function onPath(name) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return folders.map((folder) => resolve(folder, name)).find(isExecutable);
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

module.exports = { ...memoryServerConfig(), findBinary, serverVersion };

if (require.main === module) {
  main().catch((error) => {
    console.error(`redis-binary: ${error.message}`);
    process.exit(1);
  });
}
