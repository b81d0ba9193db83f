// What the option `redis` takes: clients of Redis, recognized by their shape, and our own stores.

/** node-redis 4 to 6: client, cluster, sentinel, pool. Connected, and closed, by its owner. */
export interface NodeRedisLike {
  eval(...args: any[]): Promise<any>;
  evalSha(...args: any[]): Promise<any>;
}

/** ioredis 5 and 6 (client, Cluster), iovalkey. Connected, and closed, by its owner. */
export interface IORedisLike {
  eval(...args: any[]): any;
  evalsha(...args: any[]): any;
  defineCommand(...args: any[]): any;
}

/** Valkey GLIDE (standalone, cluster). Made, and closed, by its owner. */
export interface GlideLike {
  customCommand(...args: any[]): Promise<any>;
  invokeScript(...args: any[]): Promise<any>;
}

/** @upstash/redis, over HTTP. No message comes that way: waiting polls. */
export interface UpstashLike {
  eval(...args: any[]): Promise<any>;
  evalsha(...args: any[]): Promise<any>;
}

/** Bun's own client, RedisClient. Closed by its owner; if it was not connected, its first lock connects it. */
export interface BunRedisLike {
  send(command: string, args: string[]): Promise<any>;
}

/** A client of Redis. */
export type ClientLike = NodeRedisLike | IORedisLike | GlideLike | UpstashLike | BunRedisLike;

/** Made by memoryStore() and sharedMemoryStore(); goes into the option `redis`. */
export interface EmbeddedStore {
  readonly kind: 'memory' | 'shared-memory';
  /** Ends its use by this process: what is asked of it later fails. Locks that are held stay until their lifetimes end. */
  close(): Promise<void>;
}

/** What the option `redis` takes, alone or, as a quorum, several of them. */
export type RedisLike = ClientLike | EmbeddedStore;
