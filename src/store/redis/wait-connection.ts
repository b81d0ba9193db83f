// A connection of our own for grants that replicas must acknowledge, because WAIT covers only what its own connection wrote. At
// most one WAIT is under way. The requests that come meanwhile are written together once it is answered, with one WAIT behind
// them all, and share its answer.
//
// Invariant: nothing is written while a WAIT is under way, so its answer covers every script whose reply has come. It does not
// cover a script that was written to an earlier connection: that request is sent again, which its token makes harmless.
import { LockBackendError } from '../../core/errors';
import { describe, type Key } from '../../core/keys';
import { nextTick } from '../../core/real-timers';
import { asUnknown, givenUp, notReady, refusal, unsent } from '../backend-errors';
import { type AcquireRequest, type Moment, now } from '../contract';
import type { DedicatedClient, ScriptClient } from './client';
import { isGrant } from './commands';
import { Batch, hasOwnScript } from './pipeline/batch';
import { type BatchedCall, PendingRequest, type SendCall, withDeadline } from './pipeline/deadlines';
import type { StoreCall } from './pipeline/plain';
import { inItsSlot } from './pipeline/sender';
import { maxInBatch, maxSharedInBatch } from './pipeline/transport';

/** Requests that are written before one WAIT. A caller that gives up behind them is never sent. */
const maxPerWait = 4096;

/** A reply, and a moment just before its request was sent. */
export type SentReply = readonly [reply: unknown, sent: Moment];
export type CallAt = (sent: Moment) => StoreCall;

export class WaitConnection {
  readonly #client: DedicatedClient;
  readonly #minReplicas: number;
  readonly #maxWaitMs: number;
  readonly #batch: Batch;
  readonly #sharedBatch: Batch;
  /** The requests that are not settled yet. */
  #requests: AcknowledgedAcquire[] = [];
  /** Sends a call of a refused batch by itself. */
  readonly #deferred: (() => void)[] = [];
  /** Undefined until the connection is open. */
  #script: ScriptClient | undefined;
  #isClosed = false;
  #isRunning = false;
  #isWaiting = false;

  /** @param maxWaitMs The maximum time of one WAIT; a request may take part in several. */
  constructor(client: DedicatedClient, minReplicas: number, maxWaitMs: number, owner: ScriptClient) {
    this.#client = client;
    this.#minReplicas = minReplicas;
    this.#maxWaitMs = maxWaitMs;
    const send: SendCall = (call, handler) => this.#send(owner.clustered ? inItsSlot(call) : call, handler);
    this.#batch = new Batch(maxInBatch, owner, send, () => {});
    this.#sharedBatch = new Batch(maxSharedInBatch, owner, send, () => {});
    client.opened.then(
      (script) => {
        this.#script = script;
        this.#runSoon();
      },
      (error) => {
        this.close();
        this.#fail((keys) => refusal(error, keys));
      },
    );
  }

  /** False once the connection was lost, even if it would reconnect. */
  get isUsable(): boolean {
    return !this.#isClosed && (this.#script === undefined || this.#script.readiness() === 'ready');
  }

  /** The reply to the script, once enough replicas have its writes. @throws {LockBackendError} too few have them, or that is not known. */
  acquire(request: AcquireRequest, callAt: CallAt): Promise<SentReply> {
    return new Promise((resolve, reject) => {
      this.#requests.push(new AcknowledgedAcquire(request, callAt, resolve, reject));
      this.#runSoon();
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#client.close();
  }

  #runSoon(): void {
    if (this.#script === undefined) return;
    if (this.#isRunning) return; // H99
    this.#isRunning = true;
    nextTick(() => void this.#run());
  }

  async #run(): Promise<void> {
    while (this.#requests.length > 0) {
      if (this.#script!.readiness() === 'ready') await this.#writeAndWait();
      else this.#fail((keys) => notReady(keys, 'soon'));
    }
    this.#isRunning = false;
  }

  async #writeAndWait(): Promise<void> {
    try {
      this.#write();
      const [first] = this.#requests;
      if (first === undefined) return;
      this.#isWaiting = true;
      const [send] = this.#script!.masters!();
      const waited = send!(['WAIT', String(this.#minReplicas), String(this.#waitMs())]);
      this.#onAnswer(Number(await withDeadline(waited, first.request.keys, this.#patienceMs(), false)));
    } catch (error) {
      const { cause = error, redisCode } = error as LockBackendError;
      this.#fail((keys) => refusal(cause, keys));
      if (redisCode === undefined) this.close(); // broken, or silent
    } finally {
      this.#isWaiting = false;
    }
  }

  #write(): void {
    const sent = now();
    const generation = this.#script!.generation!();
    for (const send of this.#deferred.splice(0)) send();
    const unwritten = this.#requests.filter((each) => each.generation !== generation);
    for (const each of unwritten.slice(0, maxPerWait)) {
      if (!each.begin(sent, generation, this.#maxWaitMs)) continue;
      (hasOwnScript(each.call) ? this.#batch : this.#sharedBatch).add(each);
    }
    this.#requests = this.#requests.filter(({ pending }) => !pending.isSettled);
    this.#batch.flushAll();
    this.#sharedBatch.flushAll();
  }

  /** Sends a script as text, never by its SHA: after a NOSCRIPT the WAIT would have gone ahead of the write. */
  readonly #send: SendCall = (call, handler) => {
    // The calls of a refused batch go one by one: before the next WAIT, not behind this one.
    if (this.#isWaiting) return void this.#deferred.push(() => this.#send(call, handler)); // H59g
    const { script, keys, args } = call;
    const client = this.#script!;
    const reply = client.eval(script.lua, keys, args); // H59e
    reply.then(
      (value) => handler.resolve(value),
      (error) => handler.reject(error),
    );
  };

  /** The time until the first of the requests has waited long enough. */
  #waitMs(): number {
    const untilMs = this.#requests.reduce((min, each) => Math.min(min, each.waitsUntilMs), Number.POSITIVE_INFINITY);
    return Math.max(Math.ceil(Math.min(untilMs - performance.now(), this.#maxWaitMs)), 1);
  }

  /** The time after which a WAIT without an answer has outlasted every caller. */
  #patienceMs(): number {
    return this.#requests.reduce((max, { request }) => Math.max(max, request.commandTimeoutMs), 0);
  }

  #onAnswer(replicas: number): void {
    const generation = this.#script!.generation!();
    for (const each of this.#requests) {
      const isOfThisConnection = each.generation === generation; // H59f
      const isAcknowledged = isOfThisConnection && replicas >= this.#minReplicas; // H59d H92b
      if (each.grant === undefined) continue;
      if (isAcknowledged) each.pending.resolve(each.grant);
      else if (isOfThisConnection && performance.now() >= each.waitsUntilMs) each.fail(tooFew(replicas, each.request));
    }
    this.#requests = this.#requests.filter(({ pending }) => !pending.isSettled);
  }

  #fail(errorFor: (keys: Key) => LockBackendError): void {
    this.#deferred.length = 0;
    for (const each of this.#requests.splice(0)) each.fail(errorFor(each.request.keys));
  }
}

/** A request until it is settled: by a reply that is no grant, by an answer of WAIT, or by its deadline. */
class AcknowledgedAcquire implements BatchedCall {
  readonly request: AcquireRequest;
  call!: StoreCall;
  /** The generation of the connection that it was written to last. */
  generation: number | undefined;
  /** Monotonic ms until which it waits for replicas: half of its time, and at least one WAIT. */
  waitsUntilMs: number;
  readonly pending: PendingRequest;
  /** The reply, if it is a grant. */
  grant: unknown;
  readonly #callAt: CallAt;
  #sent: Moment | undefined;

  constructor(
    request: AcquireRequest,
    callAt: CallAt,
    onReply: (reply: SentReply) => void,
    onError: (error: LockBackendError) => void,
  ) {
    const { keys, commandTimeoutMs } = request;
    this.request = request;
    this.waitsUntilMs = performance.now() + commandTimeoutMs / 2;
    this.#callAt = callAt;
    this.pending = new PendingRequest(
      undefined,
      keys,
      commandTimeoutMs,
      true,
      (reply) => onReply([reply, this.#sent!]),
      (error) => onError(this.#sent === undefined ? unsent(error) : error),
    );
    this.pending.onSent();
  }

  /** Prepares the call; false if the caller has given up. */
  begin(sent: Moment, generation: number, maxWaitMs: number): boolean {
    if (!this.pending.isSettled && !this.request.begin()) this.fail(givenUp(this.request.keys)); // H99b
    if (this.pending.isSettled) return false;
    this.call = this.#callAt(sent);
    this.generation = generation;
    this.waitsUntilMs = Math.max(this.waitsUntilMs, sent.monoMs + maxWaitMs);
    this.#sent = sent;
    this.grant = undefined;
    return true;
  }

  resolve(reply: unknown): void {
    if (isGrant(reply)) this.grant = reply;
    else this.pending.resolve(reply);
  }

  reject(error: unknown): void {
    this.pending.reject(error);
  }

  fail(error: LockBackendError): void {
    this.pending.reject(this.#sent === undefined ? error : asUnknown(error));
  }
}

function tooFew(replicas: number, { keys, minReplicas, commandTimeoutMs }: AcquireRequest): LockBackendError {
  const message = `${replicas} of ${minReplicas} replicas have the lock ${describe(keys)} after ${commandTimeoutMs / 2} ms`;
  return new LockBackendError(message, { key: keys, redisCode: 'NOREPLICAS' });
}
