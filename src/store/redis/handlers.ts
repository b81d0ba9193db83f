// How the reply to a call comes back to its caller.
import type { BatchableCall, ScriptCall } from './scripts/script';

/** What happens with the reply to a call. By callbacks, because each promise on this way is paid for by every lock. */
export interface ReplyHandler {
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Monotonic ms until which the call is worth sending again; absent where the handler decides that itself. */
  readonly deadlineMs?: number;
}

/** A call, and the handler of its own reply. */
export interface BatchedCall extends ReplyHandler {
  readonly call: BatchableCall;
}

export type SendCall = (call: ScriptCall, handler: ReplyHandler) => void;
