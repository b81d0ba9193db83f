// The last step to the client. A script goes by its SHA once the server has its text; if the server has forgotten the text, it
// is sent again.
//
// A server may keep its shards behind one endpoint, for clients that know no slots. It refuses the first call that uses the fence
// counter of a plain server (CROSSSLOT), which proves that nothing ran. From then on the client counts as one of a cluster, and
// the call goes again at once with the fence counter of its slot.

import { systemClock } from '../../../core/clock';
import { fenceKey, fenceKeyBeside, slotOf } from '../../../core/keys';
import { codeOf, isNoScript } from '../../backend-errors';
import type { Readiness, ScriptClient } from '../client';
import type { ScriptCall } from '../scripts/script';
import type { ReplyHandler, SendCall } from './deadlines';

/** Errors of a moving slot that the client leaves to us; and the pause before the call is sent again. */
const movingErrors = new Set<string | undefined>(['TRYAGAIN', 'CLUSTERDOWN', 'MOVED', 'ASK']);
const movingPauseMs = 20;
/** The interval at which a connecting client is checked. */
const readinessPollMs = 5;

/** The way of a single call to a client. */
export function senderTo(client: ScriptClient): SendCall {
  /** False for a client that nobody redirects: a slot of another node is out of its reach. */
  const isOfCluster = client.clustered;
  /** SHAs of the scripts whose text this server has had. */
  const known = new Set<string>();

  function send(asked: ScriptCall, handler: ReplyHandler): void {
    const call = client.clustered ? inItsSlot(asked) : asked;
    const { script, keys, args } = call;
    try {
      if (!known.has(script.sha)) return sendText(call, handler); // S13
      client.evalsha(script.sha, keys, args).then(
        (reply) => handler.resolve(reply),
        (error) => {
          if (!isNoScript(error)) return refused(error, call, handler); // H53
          known.delete(script.sha);
          send(call, handler);
        },
      );
    } catch (error) {
      handler.reject(error); // a client that throws instead of rejecting
    }
  }

  function sendText(call: ScriptCall, handler: ReplyHandler): void {
    const { script, keys, args } = call;
    client.eval(script.lua, keys, args).then(
      (reply) => {
        known.add(script.sha);
        handler.resolve(reply);
      },
      (error) => refused(error, call, handler),
    );
  }

  /** Sends the call again while its slot moves in a cluster: its keys are divided between two nodes, or its node died. Nothing ran. */
  function refused(error: unknown, call: ScriptCall, handler: ReplyHandler): void {
    const { deadlineMs = 0 } = handler;
    const code = codeOf(String((error as Error).message));
    if (!isOfCluster) {
      if (code === 'MOVED') return handler.reject(noClusterClient(error as Error)); // H57d
      if (code === 'CROSSSLOT') {
        client.clustered = true; // H96d
        if (isApartFromFence(call)) return send(inItsSlot(call), handler); // H96
      }
    }
    const isMoving = client.clustered && movingErrors.has(code);
    if (!isMoving || performance.now() + movingPauseMs >= deadlineMs) return handler.reject(error);
    systemClock.setIdleAlarm(() => send(call, handler), movingPauseMs); // H56
  }

  return send;
}

/** True if the fence counter of a plain server is the only key in another slot. */
function isApartFromFence({ keys }: ScriptCall): boolean {
  const others = keys.filter((key) => key !== fenceKey);
  return others.length < keys.length && new Set(others.map(slotOf)).size === 1;
}

/** The call with the fence counter of its slot, which a cluster needs, in place of that of a plain server. */
export function inItsSlot(call: ScriptCall): ScriptCall {
  if (!call.keys.includes(fenceKey)) return call;
  const beside = fenceKeyBeside(call.keys[0]!);
  return { ...call, keys: call.keys.map((key) => (key === fenceKey ? beside : key)) };
}

/** The error for a client that does not know the cluster, and so cannot find the node of the lock. */
function noClusterClient(cause: Error): Error {
  const advice = 'use a cluster client (node-redis createCluster, ioredis Cluster, GlideClusterClient)';
  return new Error(
    `CROSSSLOT this server is a node of a Redis Cluster, and the client is not one for clusters: ${advice}`,
    { cause },
  );
}

/** Waits for a client that is connecting, at most `ms`; then says what it is. */
export async function readyWithin(client: ScriptClient, ms: number): Promise<Readiness> {
  const endMs = performance.now() + ms;
  while (client.readiness() === 'soon' && performance.now() < endMs) {
    await new Promise<void>((resolve) => systemClock.setAlarm(resolve, readinessPollMs));
  }
  return client.readiness();
}
