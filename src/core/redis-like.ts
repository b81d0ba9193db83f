// The values of the option `redis`: clients of Redis, recognized by their shape, and our own stores.

/** node-redis 4 to 6: client, cluster, sentinel, pool. Connected and closed by its owner. */
export interface NodeRedisLike {
  eval(...args: any[]): Promise<any>;
  evalSha(...args: any[]): Promise<any>;
}

/** ioredis 5 and 6 (client, Cluster), iovalkey. Connected and closed by its owner. */
export interface IORedisLike {
  eval(...args: any[]): any;
  evalsha(...args: any[]): any;
  defineCommand(...args: any[]): any;
}

/** Valkey GLIDE (standalone, cluster). Made and closed by its owner. */
export interface GlideLike {
  customCommand(...args: any[]): Promise<any>;
  invokeScript(...args: any[]): Promise<any>;
}

/** @upstash/redis, over HTTP. HTTP brings no messages, so that waiting callers poll. */
export interface UpstashLike {
  eval(...args: any[]): Promise<any>;
  evalsha(...args: any[]): Promise<any>;
}

/** Bun's own client, RedisClient. Closed by its owner. If the client is not connected, the first lock connects it. */
export interface BunRedisLike {
  send(command: string, args: string[]): Promise<any>;
}

/** A store made by memoryStore() or sharedMemoryStore(), for the option `redis`. */
export interface EmbeddedStore {
  readonly kind: 'memory' | 'shared-memory';
  /** Closes the store for this process: later calls fail. Held locks stay until their lifetimes end. */
  close(): Promise<void>;
}

/** A value of the option `redis`; a list of them is a quorum. */
export type RedisLike = NodeRedisLike | IORedisLike | GlideLike | UpstashLike | BunRedisLike | EmbeddedStore;
