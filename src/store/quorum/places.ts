// A semaphore on a quorum has numbered places. At a node each place has one holder; its holder in the quorum is the caller that
// a majority names. Counting votes would not be enough: three nodes with two permits each would admit three holders. Several
// permits are several places, or none.
//
// A caller names the places that it wants, and first reads which are free. Callers of one process read together and choose
// different places; those that find too few do not vote. Callers of different processes choose at random, and seldom meet.
import { nextTick } from '../../core/real-timers';
import { placesText } from '../permit-places';
import type { Nodes, Tally } from './nodes';
import type { RoundRequest } from './round';

/** A read that is sent once all callers that share its reply have come. */
interface SharedRead {
  /** The free places, best first; a caller that chooses some removes them. */
  readonly free: Promise<number[]>;
  isSent: boolean;
}

export class Places {
  readonly #nodes: Nodes;
  /** The reads by key: the one that is not sent yet, or the last one. */
  readonly #reads = new Map<string, SharedRead>();

  constructor(nodes: Nodes) {
    this.#nodes = nodes;
  }

  /**
   * The same request with free places, as far as a majority knows them; undefined if there are not enough. A caller that wants
   * a single permit is not queued: it is seldom first at a majority just when a place is free there. A caller that wants
   * several permits is queued: otherwise single-permit callers would starve it.
   */
  async choose(request: RoundRequest): Promise<RoundRequest | undefined> {
    const { keys, commandTimeoutMs } = request;
    const mode = request.mode!;
    const { permits, total } = mode;
    const free = await this.#ask(keys as string, total, commandTimeoutMs);
    const isQueued = permits > 1 && request.queueAs !== undefined;
    if (free.length < permits && !isQueued) return undefined;
    const wanted = free.splice(0, permits);
    for (let place = 0; wanted.length < permits; place++) if (!wanted.includes(place)) wanted.push(place);
    const group = placesText(wanted.sort((a, b) => a - b));
    return { ...request, queueAs: isQueued ? request.queueAs : undefined, mode: { ...mode, group } };
  }

  /** The free places. At most one read is under way: an earlier read would not know the permits just released for a new caller. */
  #ask(key: string, total: number, commandTimeoutMs: number): Promise<number[]> {
    const what = `${total} ${commandTimeoutMs} ${key}`;
    const last = this.#reads.get(what);
    if (last !== undefined && !last.isSent) return last.free;
    const before = last === undefined ? new Promise<void>((resolve) => nextTick(resolve)) : last.free;
    const send = (): Promise<number[]> => {
      read.isSent = true;
      return freePlaces(this.#nodes, key, total, commandTimeoutMs).finally(() => {
        if (this.#reads.get(what) === read) this.#reads.delete(what);
      });
    };
    const read: SharedRead = { isSent: false, free: before.then(send, send) };
    this.#reads.set(what, read);
    return read.free;
  }
}

/** The places that a majority can still grant. Places that fewer nodes know as taken come first; equal ones come in random order. */
async function freePlaces(nodes: Nodes, key: string, total: number, timeoutMs: number): Promise<number[]> {
  const tally = await nodes.ask(
    key,
    ({ store }) => store.readPlaces(key, timeoutMs),
    (seen) => (seen.replies.size >= nodes.majority || nodes.isMinority(seen.errors.length) ? seen : undefined),
  );
  const taken = takenPlaces(nodes, key, tally);
  const places = Array.from({ length: total }, (_, place) => ({ place, count: taken.get(place) ?? 0 }));
  return places
    .filter(({ count }) => !nodes.isMinority(count)) // H67b
    .map(({ place, count }) => ({ place, key: count + Math.random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ place }) => place);
}

/** The number of places that are taken at too many nodes for another caller to get a majority. */
export async function placesOut(nodes: Nodes, key: string, commandTimeoutMs: number): Promise<number> {
  const tally = await nodes.askAll(key, ({ store }) => store.readPlaces(key, commandTimeoutMs));
  const counts = [...takenPlaces(nodes, key, tally).values()];
  return counts.filter((count) => count > tally.replies.size - nodes.majority).length;
}

/** The number of nodes at which each place is taken. @throws {LockBackendError} a minority has replied. */
function takenPlaces(nodes: Nodes, key: string, { replies, errors }: Tally<number[][]>): ReadonlyMap<number, number> {
  if (replies.size < nodes.majority) throw nodes.noMajority(errors, key);
  const taken = new Map<number, number>();
  for (const holders of replies.values()) {
    for (const place of holders.flat()) taken.set(place, (taken.get(place) ?? 0) + 1);
  }
  return taken;
}
