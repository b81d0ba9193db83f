// The interface between the store and a Redis client: readiness, scripts, subscriptions. Each kind of client is adapted to this
// interface in clients/; the store knows no other. Keys are always full names here: a prefix that a client would add is known,
// and our side adds it.
import type { Channels } from '../contract';

/** `soon`: connecting or reconnecting, which is worth a short wait. `closed`: connect() was not called, or the client was closed. */
export type Readiness = 'ready' | 'soon' | 'closed';

/** Sends any command, as its words. */
export type SendWords = (words: readonly string[]) => Promise<unknown>;

export interface ScriptClient {
  /** The prefix that the client is configured to add to every key, '' for none; it counts as part of each lock's key. */
  readonly keyPrefix: string;
  readiness(): Readiness;
  /** Advice for the error about a 'closed' client; absent: the client has to be connected. */
  readonly advice?: string | undefined;
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  eval(lua: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** True if keys of different slots cannot go in one script: for a cluster client, and once a server has refused them. */
  clustered: boolean;
  /** Sends a command without keys to any node. Resolves with the reply as JSON, whose form depends on client and protocol. */
  command(...words: string[]): Promise<string>;
  /** The node that has a key, as far as the client knows; '' if there is a single node. */
  nodeOf(key: string): string;
  /** Makes a cluster client ask its other nodes for the key's node, because the expected node is silent. Absent if the client does that by itself. */
  readonly relocate?: ((key: string) => void) | undefined;
  /** Functions that send any command to each master; absent if the client cannot list the masters. */
  readonly masters?: (() => readonly SendWords[]) | undefined;
  /** A counter that goes up with each new connection; absent if connections cannot be counted. */
  readonly generation?: (() => number) | undefined;
  /** It learns of a failover by sentinels only when its connection ends. */
  readonly missesFailovers?: boolean | undefined;
  /** Opens a connection of our own, for WAIT, to the node that has a key. @throws {TypeError} such a client has none to give. */
  dedicate(key: string): DedicatedClient;
  /**
   * Subscribes to PUBLISH messages on a connection of our own; absent if such a client has none to give. Resolves once Redis has
   * confirmed the subscription; only then is it restored after a lost connection.
   */
  readonly subscribe?: Channels['listen'] | undefined;
}

/** One connection that carries no commands but ours. */
export interface DedicatedClient {
  /** Resolves with the connection, which has `masters` and a `generation`, when it can be used; rejects if it never could. */
  readonly opened: Promise<ScriptClient>;
  /** Closes at once, even while the connection is still being opened. */
  close(): void;
}
