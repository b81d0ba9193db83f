// The strategy for a key with several holders, and for a change in place. Each caller has its own entry in the Redis queue, with the
// mode and the permits that decide its grant. Redis wakes a caller that can be admitted, and the caller's next attempt is granted. A lost
// wake-up costs only a delay: a caller that is not woken polls, less often the further back it is. A caller that cannot be woken is
// queued too: its entry expires after the time for which the caller says that it will be silent.
import { pollPauseMs, silenceFor } from '../queue/policy';
import { type AcquireReply, noChannel, type QueueEntry } from '../store/contract';
import { Polling } from './polling';

/** The lateness that a polling caller is allowed, beside a second pause, before its entry expires. */
const latenessMs = 100;

export class EntryPolling extends Polling {
  /** The id by which wake-ups name the caller; undefined unless it is subscribed. */
  #id: string | undefined;
  /** The shortest pause between two attempts, as the last attempt announced it. */
  #minPollMs = 0;

  override get count(): number {
    return this.hasWaited ? 1 : super.count;
  }

  override onReply(reply: AcquireReply, token: string): void {
    const { change } = this.spec;
    const ended = change?.ended();
    if (ended !== undefined) {
      this.attempts.abandon(); // H76b
      return this.fail(ended);
    }
    if (change !== undefined && reply.granted) {
      this.caller.succeed!(change.granted(reply));
      return this.stop();
    }
    const impossible = reply.granted ? undefined : reply.impossible;
    if (change !== undefined && impossible !== undefined) return this.fail(change.refused(impossible));
    if (!reply.granted && this.wasQueued) this.#waits(reply);
    super.onReply(reply, token);
  }

  protected override request(): void {
    this.attempts.make(this.isLast ? undefined : this.#entry(), undefined);
  }

  /** The entry of the caller if its attempt finds the key busy; undefined if the caller would not receive a wake-up yet. */
  #entry(): QueueEntry | undefined {
    const { ticket } = this.attempts;
    if (this.#id !== undefined) {
      const { wakeUps, minPollMs } = this.queues!;
      this.#minPollMs = minPollMs;
      return { channel: wakeUps.channel, id: this.#id, ticket, silenceMs: silenceFor(minPollMs) };
    }
    const { pauseMs } = this;
    if (pauseMs === undefined) return undefined;
    return { channel: noChannel, id: '0', ticket, silenceMs: Math.ceil(2 * pauseMs + latenessMs) };
  }

  protected override enqueue(): void {
    const { keys, mode } = this.spec;
    const { kind, permits } = mode!;
    // A reader takes nothing of what a writer releases: every other reader has room beside it. A writer takes everything.
    const takes = kind === 'counted' ? permits : kind === 'exclusive' ? Number.POSITIVE_INFINITY : 0;
    this.#id = this.queues!.wakeUps.subscribe(keys as string, takes, (isBehind) => this.wake(isBehind));
    this.wasQueued = true;
    this.attempt();
  }

  /** Sets the pause of a caller that is woken: it polls all the same, at least `retryTimeout` later. */
  #waits({ leftMs, position }: AcquireReply & { readonly granted: false }): void {
    this.hasWaited = true;
    const before = position?.before ?? 0;
    const everyMs = pollPauseMs(before, this.#minPollMs, Math.random());
    const freeMs = leftMs > 0 ? Math.min(leftMs + 1 + before, everyMs) : everyMs;
    this.busyPauseMs = Math.max(freeMs, this.spec.settings.retryTimeoutMs, 1);
  }

  protected override stop(): void {
    super.stop();
    if (this.#id !== undefined) this.queues!.wakeUps.unsubscribe(this.#id);
  }
}
