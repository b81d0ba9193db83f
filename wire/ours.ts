// This library as an implementation of the wire: `npm run wire -- tsx wire/ours.ts`. Reads a call a line, and answers with a reply a
// line. docs/wire.md describes both.
import { createInterface } from 'node:readline';
import { createClient } from 'redis';
import { codeOf } from '../src/store/backend-errors';
import type { AcquireRequest, Mode as OwnMode } from '../src/store/contract';
import {
  acquireCall,
  acquireReply,
  extendCall,
  extendReply,
  releaseCall,
  releaseReply,
} from '../src/store/redis/commands';
import { sendTogether } from '../src/store/redis/pipeline/batch';
import { ServerClock } from '../src/store/redis/server-clock';
import type { Call, Mode, Reply } from './vector';

const client = createClient({ url: process.env.REDIS_URL! });
const kinds = { reader: 'shared', writer: 'exclusive', permits: 'counted' } as const;
const sent = { monoMs: 0, wallMs: 0 };

async function main(): Promise<void> {
  await client.connect();
  for await (const line of createInterface({ input: process.stdin })) {
    const call = JSON.parse(line) as Call;
    const reply = await perform(call).catch((error) => ({
      error: codeOf(String(error.message)) ?? String(error.message),
    }));
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  }
  client.destroy();
}

async function perform(call: Call): Promise<Reply> {
  const keys = call.keys.length === 1 ? call.keys[0]! : call.keys;
  const mode = call.mode && modeOf(call.mode);
  const common = { keys, token: call.token, commandTimeoutMs: 1000 };
  const held = mode && { mode, fence: undefined as unknown as number };
  if (call.do === 'release') {
    const request = { ...common, ticket: Number(call.ticket), yieldMs: call.yield, held };
    return { result: releaseReply(await send(releaseCall(request)), keys) };
  }
  if (call.do === 'extend') {
    const { exact } = call;
    const request = { ...common, lifetimeMs: Number(call.lifetime), exact, validUntilMs: 0, begin: () => true, held };
    return {
      result: extendReply(await send(extendCall(request, Number(call.notAfter))), request, sent, new ServerClock())
        .outcome,
    };
  }
  const queueAs = call.place && { ...call.place, ticket: Number(call.place.ticket) };
  const terms = { lifetimeMs: Number(call.lifetime), fences: call.fences, minReplicas: 0, begin: () => true };
  const request: AcquireRequest = { ...common, ...terms, queueAs, pauseMs: call.pause, mode };
  const clock = new ServerClock();
  const asked = await send(acquireCall(request, Number(call.notAfter), clock));
  const reply = acquireReply(asked, request, sent, clock);
  if (reply === undefined) return { error: 'late' };
  if (reply.granted) return { granted: true, fence: reply.fence };
  const { ticket, before } = reply.position ?? {};
  return { granted: false, ...(ticket !== undefined && { ticket, before: before! }) };
}

function modeOf({ kind, most, ...mode }: Mode): OwnMode {
  return { ...mode, kind: kinds[kind], total: most, step: 0 };
}

function send(call: Parameters<typeof sendTogether>[0][number]['call']): Promise<unknown> {
  return new Promise((resolve, reject) => {
    sendTogether([{ call, resolve, reject }], ({ script, keys, args }, handler) => {
      client.eval(script.lua, { keys: [...keys], arguments: [...args] }).then(handler.resolve, handler.reject);
    });
  });
}

void main();
