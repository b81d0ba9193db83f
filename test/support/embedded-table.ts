/** The table of a store without a server: what is in it, and how many times it was used. */
import type { EmbeddedStore } from '../../src/core/redis-like';
import { embeddedStore, type Table } from '../../src/store/embedded/store';

export function tableOf(handle: EmbeddedStore): Table {
  return embeddedStore(handle)!.channels as Table;
}

export function keysOf(handle: EmbeddedStore): string[] {
  return tableOf(handle).run((machine) => [...machine.rows.keys()]);
}
