// The text beside a lock, in a key of its own.
import { companionOf } from '../../core/keys';
import { newsOf, type Values } from '../values';
import type { Transport } from './pipeline/transport';
import * as scripts from './scripts/generated';
import { integers, strangeReply } from './scripts/script';

export function redisValues(transport: Transport): Values {
  return {
    async read(key, commandTimeoutMs) {
      const call = scripts.readValue(companionOf(key, 'value'));
      const reply = await transport.requestAlone(call, key, commandTimeoutMs);
      return reply === null ? null : String(reply);
    },
    async write({ key, token, text, ttlMs, channel = '', commandTimeoutMs }) {
      const value = companionOf(key, 'value');
      const call = scripts.writeValue(key, value, token, text, 'PX', ttlMs, channel, `${newsOf} ${key}`);
      // Alone: a text may be long, and others would wait for it.
      const reply = await transport.requestAlone(call, key, commandTimeoutMs);
      return integers(reply, 1, key)[0] === 1;
    },
    async readHolder(key, commandTimeoutMs) {
      const call = scripts.readHolder(key, companionOf(key, 'value'));
      const reply = await transport.requestAlone(call, key, commandTimeoutMs);
      if (!Array.isArray(reply) || reply.length !== 3) throw strangeReply(reply, key);
      const [token, leftMs, text] = reply as [unknown, number, unknown];
      if (token === null || !Number.isSafeInteger(leftMs)) return null;
      const left = leftMs < 0 ? Number.POSITIVE_INFINITY : leftMs;
      return { token: String(token), leftMs: left, text: text === null ? null : String(text) };
    },
  };
}
