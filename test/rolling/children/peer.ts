// A process of either build that enters, in some roles, and is stopped or killed there. argv: the paths of the build as JSON, the urls of one Redis and
// of the nodes of a quorum. In: `{ enter: role, key, lifetime }`, `{ job: mode, key, lifetime }` or `{ leave: key }`. Out: 'ready'; `{ key, fence }` when it is in;
// `{ lost: key }`; `{ left: key, kept }`.
import { createClient } from 'redis';
import { type Held, type Role, roles } from '../roles';
import { loaded } from '../versions';

export interface Order {
  readonly enter?: Role;
  readonly job?: 'at-most-once' | 'until-success';
  readonly leave?: boolean;
  readonly key: string;
  readonly lifetime: number;
}

async function main(): Promise<void> {
  const [paths, ...urls] = process.argv.slice(2) as [string, ...string[]];
  const build = loaded(JSON.parse(paths));
  const clients = urls.map((url) => createClient({ url }));
  for (const client of clients) client.on('error', () => {});
  await Promise.all(clients.map((client) => client.connect()));
  const place = { redis: clients[0], nodes: clients.slice(1) } as any;
  const held = new Map<string, Held>();

  async function obey({ enter, job, leave, key, lifetime }: Order): Promise<void> {
    if (leave) {
      process.send!({ left: key, kept: await held.get(key)!.leave() });
    } else if (job !== undefined) {
      const withLock = build.library({ redis: place.redis, lifetime });
      await withLock.once(key, { every: 10 * 365 * 86_400_000, mode: job }, () => {
        process.send!({ key });
        return new Promise(() => {});
      });
    } else {
      const mine = await roles[enter!](build, place, { key, lifetime });
      held.set(key, mine);
      mine.signal?.addEventListener('abort', () => process.send!({ lost: key }));
      process.send!({ key, fence: mine.fence });
    }
  }

  process.on('message', (order: Order) => void obey(order));
  process.send!('ready');
}

void main();
