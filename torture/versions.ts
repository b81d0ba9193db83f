/** The versions that a proof was run with. */
import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import { serverBinary } from '../test/support/redis';

export async function versions(): Promise<Record<string, string>> {
  const version = execFileSync(await serverBinary(), ['--version'], { encoding: 'utf8' });
  const of = (name: string): string => require(`${name}/package.json`).version;
  return {
    node: process.versions.node,
    redis: /v=([\d.]+)/.exec(version)![1]!,
    'node-redis': of('redis'),
    ioredis: of('ioredis'),
    cores: String(cpus().length),
  };
}
