// Questions that are on their way to Redis, each with a deadline of our own. All of the same patience share one timer: they
// end in the order in which they began. While nothing is on its way there is no timer; it keeps the process alive while
// somebody waits for an answer.
import type { Key } from '../keys';
import { setImmediate } from '../real-timers';
import type { Call } from '../scripts/script';
import type { Answer } from './batch';
import { refusal, silence } from './replies';

/** One question. It is answered once: by Redis, or by its own deadline. */
export class Question implements Answer {
  readonly keys: Key;
  /** Somebody waits for the answer. */
  readonly waited: boolean;
  readonly deadlineMs: number;
  next: Question | undefined;
  isAnswered = false;
  readonly #patience: Patience;
  readonly #onReply: (reply: unknown) => void;
  readonly #onError: (error: unknown) => void;

  constructor(
    keys: Key,
    timeoutMs: number,
    waited: boolean,
    onReply: (reply: unknown) => void,
    onError: (error: unknown) => void,
  ) {
    this.keys = keys;
    this.waited = waited;
    this.deadlineMs = performance.now() + timeoutMs;
    this.#onReply = onReply;
    this.#onError = onError;
    this.#patience = patienceOf(timeoutMs);
    this.#patience.begin(this);
  }

  resolve(reply: unknown): void {
    if (this.isAnswered) return;
    this.#patience.end(this);
    this.#onReply(reply);
  }

  reject(error: unknown): void {
    if (this.isAnswered) return;
    this.#patience.end(this);
    this.#onError(refusal(error, this.keys));
  }
}

/** A question by script, which may go out with others of its tick. */
export class CallQuestion extends Question {
  readonly call: Call;

  constructor(
    call: Call,
    keys: Key,
    timeoutMs: number,
    waited: boolean,
    onReply: (reply: unknown) => void,
    onError: (error: unknown) => void,
  ) {
    super(keys, timeoutMs, waited, onReply, onError);
    this.call = call;
  }
}

const mostKept = 16;
const patiences = new Map<number, Patience>();

function patienceOf(ms: number): Patience {
  let patience = patiences.get(ms);
  if (patience === undefined) {
    patience = new Patience(ms);
    patiences.set(ms, patience);
  }
  return patience;
}

const never = (): boolean => false;

class Patience {
  readonly #ms: number;
  #first: Question | undefined;
  #last: Question | undefined;
  #open = 0;
  #waited = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number) {
    this.#ms = ms;
  }

  begin(question: Question): void {
    if (this.#last === undefined) this.#first = question;
    else this.#last.next = question;
    this.#last = question;
    this.#open += 1;
    if (question.waited) this.#waited += 1;
    if (this.#timer === undefined) this.#arm(question);
    else if (question.waited && this.#waited === 1) this.#timer.ref();
  }

  end(question: Question): void {
    question.isAnswered = true;
    this.#open -= 1;
    if (question.waited) this.#waited -= 1;
    if (this.#open > 0) {
      if (question.waited && this.#waited === 0) this.#timer?.unref();
      return this.#drop(never);
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#first = this.#last = undefined;
    // Renewals have a patience of their own each time.
    if (patiences.size > mostKept) patiences.delete(this.#ms);
  }

  /** Forgets those at the front that were answered, or that `isLate` takes. A link to the next would keep that from the collector. */
  #drop(isLate: (question: Question) => boolean): void {
    for (let first = this.#first; first !== undefined && (first.isAnswered || isLate(first)); first = this.#first) {
      this.#first = first.next;
      first.next = undefined;
    }
    if (this.#first === undefined) this.#last = undefined;
  }

  #arm(first: Question): void {
    const leftMs = Math.max(first.deadlineMs - performance.now(), 0);
    this.#timer = setTimeout(this.#look, leftMs);
    if (this.#waited === 0) this.#timer.unref();
  }

  /** A timer that fires because our own event loop was blocked first lets the loop read what has arrived meanwhile. */
  readonly #look = (): void => {
    const nowMs = performance.now();
    const late: Question[] = [];
    this.#drop((question) => question.deadlineMs <= nowMs && late.push(question) > 0);
    this.#timer = undefined;
    if (this.#first !== undefined) this.#arm(this.#first);
    if (late.length > 0) setImmediate(() => this.#giveUp(late));
  };

  #giveUp(late: readonly Question[]): void {
    for (const question of late) question.reject(silence(question.keys, this.#ms));
  }
}
