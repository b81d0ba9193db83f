/** A line that loses, delays and doubles some of the requests and replies that it carries. */
import {
  type Action,
  close,
  cutReplyAfter,
  delayReply,
  delayRequest,
  duplicateRequest,
  type FaultProxy,
  fallSilent,
  type Removable,
} from '../test/support/fault-proxy';
import { commandTimeoutMs } from './order';

export interface LossyLine {
  disturb(random: () => number): void;
  heal(): void;
}

/** Shares of all script calls. */
const each = 0.0015;

export function lossyLine(proxy: FaultProxy): LossyLine {
  let rule: Removable | undefined;
  return {
    disturb(random) {
      const actions: readonly (() => Action)[] = [
        () => fallSilent(100, 'before'),
        () => fallSilent(100),
        () => ({ request: (link) => link.destroy() }),
        () => ({ reply: (link) => link.destroy() }),
        () => close(),
        () => cutReplyAfter(Math.floor(random() * 20)),
        () => duplicateRequest(),
        () => duplicateRequest(),
        () => delayReply(random() * 30),
        () => delayReply(random() * commandTimeoutMs),
        () => delayReply(random() * commandTimeoutMs),
        () => delayRequest(random() * 30),
        () => delayRequest(random() * 600),
      ];
      rule = proxy.onCommand(({ name }) => {
        if (name !== 'EVAL' && name !== 'EVALSHA') return undefined;
        return actions[Math.floor(random() / each)]?.();
      });
    },
    heal() {
      rule?.remove();
      proxy.heal();
    },
  };
}
