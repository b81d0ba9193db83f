// The send window of one client: the requests that may be in flight at once. Further requests wait for room, those for held locks
// first. Without it, a burst of a hundred thousand requests outlives its own deadlines: each is released and made again, so that more
// load makes more load, and renewals come too late behind all of them.
//
// A waiting request has no deadline of its own while Redis answers others. Room is given back by each reply and by each deadline, so
// whenever requests wait, at least one other is in flight or about to be sent.
import { type Alarm, clearAlarm, systemClock } from '../../../core/clock';
import type { Key } from '../../../core/keys';
import { type Linked, LinkedList } from '../../../core/linked-list';
import { setImmediate } from '../../../core/real-timers';
import { silence, unsent } from '../../backend-errors';

/** Requests in flight: enough full batches for a distant server, and less than a tenth of a second of work for one nearby. */
const maxInFlight = 4096;
/** Requests in flight up to which the next one need not wait for others of its tick. */
const maxQuiet = 8;

interface WaitingRequest extends Linked<WaitingRequest> {
  readonly admit: () => void;
}

export class SendWindow {
  #inFlight = 0;
  /** Requests that were given room and have not been sent yet. */
  #admitted = 0;
  /** Renewals and releases. */
  readonly #ofHolders = new LinkedList<WaitingRequest>();
  readonly #others = new LinkedList<WaitingRequest>();
  /** Monotonic ms of the last reply while requests waited. */
  #answeredMs = 0;

  get hasRoom(): boolean {
    return this.#inFlight < maxInFlight && !this.#isAwaited; // H99e
  }

  get isQuiet(): boolean {
    return this.#inFlight <= maxQuiet;
  }

  get #isAwaited(): boolean {
    return this.#ofHolders.size + this.#others.size > 0;
  }

  /** Counts a request that is sent now. */
  sent(): void {
    this.#inFlight += 1;
  }

  /** Gives back the room of a request that was settled: by a reply, or by its deadline. */
  settled(isAnswered: boolean): void {
    this.#inFlight -= 1;
    if (!this.#isAwaited) return;
    if (isAnswered) this.#answeredMs = performance.now();
    this.#admit();
  }

  /** Waits for room. @throws {LockBackendError} Redis answered no request for `timeoutMs`. The request was not sent. */
  room(keys: Key, timeoutMs: number, isOfHolder: boolean): Promise<void> {
    const list = isOfHolder ? this.#ofHolders : this.#others; // H99f
    const admitted = new Promise<void>((resolve, reject) => {
      let alarm: Alarm | undefined;
      let sinceMs = performance.now();
      const watch = (): void => {
        alarm = systemClock.setAlarmAt(() => setImmediate(onTime), sinceMs + timeoutMs);
      };
      // After a blocked event loop, timers run before the replies that have arrived are read.
      const onTime = (): void => {
        if (alarm === undefined) return;
        if (this.#answeredMs <= sinceMs) return onSilence(); // H99g
        sinceMs = this.#answeredMs;
        watch();
      };
      const onSilence = (): void => {
        list.delete(waiting);
        reject(unsent(silence(keys, timeoutMs)));
      };
      const admit = (): void => {
        clearAlarm(alarm);
        alarm = undefined;
        resolve();
      };
      const waiting: WaitingRequest = { admit, before: undefined, after: undefined };
      list.add(waiting);
      watch();
    });
    return admitted.then(() => {
      this.#admitted -= 1;
    });
  }

  /** Gives room to as many waiting requests as there is room for. */
  #admit(): void {
    while (this.#isAwaited && this.#inFlight + this.#admitted < maxInFlight) {
      const list = this.#ofHolders.size > 0 ? this.#ofHolders : this.#others;
      const first = list.first!;
      list.delete(first);
      // A request whose caller has given up meanwhile is not sent, and gives no room back.
      if (this.#admitted === 0) setImmediate(() => this.#admit()); // H99h
      this.#admitted += 1;
      first.admit();
    }
  }
}
