// The attempts of redlock's `acquire`. With a single client, the call waits in the queue during its pauses. With several clients, each
// attempt asks every client.
import type { Key } from '../../core/keys';
import type { Lease } from '../../hold/lease';
import { redisExpLock } from '../../with-lock';
import { SeveralKeysCall } from '../several';
import { commandTimeoutMs, connectIfLazy } from '../stores';
import { type Attempt, ExecutionError, type RedlockSettings, VotingAttempts } from './attempts';
import type { Ballot, Client, ExecutionStats } from './ballot';
import { Electorate, type ValueCall, type VotedGrant } from './electorate';
import { askObserved, isObserved } from './held';
import { ClientCalls, owner, QueuedCall } from './queued';

type Given = Partial<RedlockSettings> | undefined;

/** @internal A grant by value, or a lease that the queue granted. */
export interface RedlockAcquisition {
  readonly attempts: Promise<ExecutionStats>[];
  readonly result: VotedGrant | Lease;
  readonly call: ValueCall;
}

/** The base class that makes the attempts of `acquire`. */
export abstract class Asking extends VotingAttempts {
  /** @internal */
  protected readonly _electorate: Electorate;
  /** The calls that wait for one key of a single client; undefined if there are several clients. */
  readonly #calls: ClientCalls | undefined;

  constructor(clients: Iterable<Client>, settings: Partial<RedlockSettings>) {
    super(clients, settings);
    this._electorate = new Electorate(this.clients);
    const [redis] = this.clients;
    if (this.clients.size === 1)
      this.#calls = new ClientCalls(redisExpLock({ redis: redis!, owner, commandTimeout: commandTimeoutMs }));
  }

  /** @internal */
  protected get _isAlone(): boolean {
    return this.#calls !== undefined;
  }

  /** @internal @throws {ExecutionError} no majority in any attempt. Nothing is held. */
  protected async _ask(resources: string[], keys: Key, duration: number, given: Given): Promise<RedlockAcquisition> {
    const calls = this.#calls;
    if (calls === undefined) return this.#askAll(resources, keys, duration, given);
    const call = this._electorate.call(keys, duration);
    // Nearly every lock is granted at once, so the first attempt prepares nothing for a wait.
    if (calls.queued.size > 0 || isObserved()) return this.#askAlone(calls, call, resources, keys, duration, given);
    const first = await this._attemptAlone(resources, () => call.ask());
    if (typeof first.result !== 'number') return { attempts: [first.stats], result: first.result, call };
    return this.#askAlone(calls, call, resources, keys, duration, given, first);
  }

  async #askAlone(
    calls: ClientCalls,
    call: ValueCall,
    resources: string[],
    keys: Key,
    duration: number,
    given: Given,
    made?: Attempt<VotedGrant | Lease>,
  ): Promise<RedlockAcquisition> {
    const key = typeof keys === 'string' ? resources[0]! : undefined;
    let waiting: QueuedCall | SeveralKeysCall | undefined = key === undefined ? undefined : calls.behind(key, duration);
    const ask = (): Promise<VotedGrant | Lease | 0> =>
      key !== undefined && isObserved() ? askObserved(calls, key, duration) : call.ask();
    const attempt = async (): Promise<Attempt<VotedGrant | Lease>> => {
      if (waiting?.isKnownBusy) return this._refused(this._busy(resources));
      waiting?.requests();
      return this._attemptAlone(resources, ask);
    };
    const pause = (ms: number): Promise<VotedGrant | Lease | undefined> => {
      waiting ??=
        key === undefined
          ? new SeveralKeysCall(this._electorate.store, keys as readonly string[], () => call.ask())
          : new QueuedCall(calls, key, duration);
      return waiting.pause(ms);
    };
    try {
      const { attempts, result } = await this._repeat(given, attempt, pause, made);
      if (typeof result === 'function') call.retract();
      return { attempts, result, call };
    } catch (error) {
      call.retract();
      // redlock releases after a failed acquire, and reports that there was nothing to release.
      if (error instanceof ExecutionError) this._tell(this._busy(resources).error);
      throw error;
    } finally {
      if (waiting !== undefined) await waiting.leave();
    }
  }

  async #askAll(resources: string[], keys: Key, duration: number, given: Given): Promise<RedlockAcquisition> {
    this._electorate.uses(duration);
    const call = this._electorate.call(keys, duration);
    for (const client of this.clients) connectIfLazy(client);
    await this._electorate.ready();
    try {
      const ask = (ballot: Ballot): Promise<VotedGrant | 0> => call.ask(ballot);
      const { attempts, result } = await this._repeat(given, () => this._attempt(resources, ask));
      return { attempts, result, call };
    } catch (error) {
      call.retract();
      if (error instanceof ExecutionError) {
        await error.attempts.at(-1);
        const value = { keys, token: call.token };
        await (await this._attempt(resources, (ballot) => this._electorate.release(value, 0, ballot))).stats;
      }
      throw error;
    }
  }
}
