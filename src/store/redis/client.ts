// What a Redis client is to the store: is it ready, run this script, subscribe to this channel. Every kind of client is
// put behind this one small face in clients/; the store knows no other. Names of keys are always whole here: a prefix that
// a client would put before them is known, and left to us.

/** @internal */
export type Readiness =
  | 'ready'
  /** Connecting or reconnecting: worth a short wait. */
  | 'soon'
  /** connect() was not called, or it was closed. */
  | 'closed';

/** @internal */
export interface ScriptClient {
  /** What the client was configured to put before every key; '' for nothing. Counts as part of each lock's key. */
  readonly keyPrefix: string;
  readiness(): Readiness;
  /** What is said of a client that is 'closed'; absent: that it has to be connected. */
  readonly advice?: string | undefined;
  /** Keys by their whole names: none is put before them. */
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  eval(lua: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** Many keys of different slots cannot go in one script. */
  readonly clustered: boolean;
  /** What `maxmemory-policy` is; rejects where it may not be read. */
  evictionPolicy(): Promise<string>;
  /** The node that has a key, as far as the client knows; '' where there is but one. */
  nodeOf(key: string): string;
  /** Makes the client of a cluster ask its other nodes which one has the key, because the one that should is silent; absent where the client does that by itself. */
  readonly relocate?: ((key: string) => void) | undefined;
  /** The reply to INFO server; rejects where that is not permitted. Of a cluster, one node's. */
  serverInfo(): Promise<string>;
  /** What sends any command to each master; absent where the client cannot say which there are. */
  readonly masters?: (() => Promise<((words: readonly string[]) => Promise<unknown>)[]>) | undefined;
  /** Goes up with each new connection; absent where that cannot be known. */
  readonly generation?: (() => number) | undefined;
  /** It learns of a failover by sentinels only when its connection ends. */
  readonly missesFailovers?: boolean | undefined;
  /** A connection of our own to the node that has a key, for WAIT. @throws {TypeError} where such a client has none to give. */
  dedicate(key: string): DedicatedClient;
  /** Messages by PUBLISH, on a connection of our own; absent where such a client has none to give. */
  readonly subscribe?: Subscribe | undefined;
}

/** @internal One connection that carries no commands but ours. */
export interface DedicatedClient {
  /** Resolves when it can be used; rejects when it never could. */
  readonly opened: Promise<unknown>;
  readonly script: ScriptClient;
  /** How many replicas have everything that this connection wrote, after at most `timeoutMs`. */
  wait(replicas: number, timeoutMs: number): Promise<number>;
  /** Goes up with each new connection. */
  readonly generation: () => number;
  /** At once, even while it is still being opened. */
  close(): void;
}

/**
 * @internal Resolves once Redis has confirmed the subscription; rejects when the connection for it cannot be made. Only a confirmed
 * subscription is restored after a lost connection.
 *
 * @param onGap    Messages may have been missed: the connection was lost, and is subscribed again.
 * @param onClosed No message will come any more: the owner has closed the client.
 */
export type Subscribe = (
  channel: string,
  onMessage: (message: string) => void,
  onGap: () => void,
  onClosed?: () => void,
) => Promise<Subscription>;

/** @internal */
export interface Subscription {
  /** At once and for good; a second call does nothing. Others on the same channel stay. */
  close(): void;
}
