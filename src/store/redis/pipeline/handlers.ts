// The way of a reply back to the caller of its call.
import type { BatchableCall, ScriptCall } from '../scripts/script';

/** The callbacks for the reply to a call: a promise would cost every lock. */
export interface ReplyHandler {
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Monotonic ms until which the call may be sent again; absent if the handler decides that itself. */
  readonly deadlineMs?: number;
}

/** A call and the handler of its reply. */
export interface BatchedCall extends ReplyHandler {
  readonly call: BatchableCall;
  /** Called when the call is sent, with the monotonic ms. */
  onSent?(nowMs: number): void;
}

export type SendCall = (call: ScriptCall, handler: ReplyHandler) => void;
