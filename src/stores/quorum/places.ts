// A semaphore on a quorum: so many places, each with one holder at a node, and held by the caller that a majority names. Counting votes would
// not do: three nodes with two permits each would admit three holders. Several permits are several places, or none.
//
// So a caller names the places that it wants, and asks first which are free. Callers that choose at random seldom meet.
import { type AcquireRequest, type Mode, placesText } from '../../store';
import type { Nodes, Tally } from './nodes';

export type PlacesRequest = AcquireRequest & { readonly mode: Mode };

/** The same request for places that are free, as far as a majority knows; for others where there are not enough. */
export async function withPlaces(nodes: Nodes, request: PlacesRequest): Promise<PlacesRequest> {
  const { keys, mode, commandTimeoutMs } = request;
  const taken = await nodes.ask(
    ({ store }) => store.readPlaces(keys as string, commandTimeoutMs),
    (tally) => (tally.replies.size >= nodes.majority ? countOf(tally) : orFail(nodes, request, tally)),
  );
  // By how many nodes they are taken; in no order where by as many.
  const places = Array.from({ length: mode.most }, (_, place) => ({
    place,
    key: (taken.get(place) ?? 0) + Math.random(),
  }));
  places.sort((a, b) => a.key - b.key);
  const wanted = places.slice(0, mode.permits).map(({ place }) => place);
  return { ...request, mode: { ...mode, group: placesText(wanted.sort((a, b) => a - b)) } };
}

/** How many places are taken by so many nodes that no majority is left for another. */
export async function placesOut(nodes: Nodes, key: string, commandTimeoutMs: number): Promise<number> {
  return nodes.ask(
    ({ store }) => store.readPlaces(key, commandTimeoutMs),
    (tally) => {
      if (tally.open > 0) return undefined;
      const { size } = tally.replies;
      if (size < nodes.majority) return orFail(nodes, { keys: key }, tally);
      return [...countOf(tally).values()].filter((count) => count > size - nodes.majority).length;
    },
  );
}

function countOf({ replies }: Tally<number[][]>): ReadonlyMap<number, number> {
  const taken = new Map<number, number>();
  for (const holders of replies.values()) {
    for (const place of holders.flat()) taken.set(place, (taken.get(place) ?? 0) + 1);
  }
  return taken;
}

function orFail(nodes: Nodes, { keys }: Pick<AcquireRequest, 'keys'>, { errors }: Tally<unknown>): undefined {
  if (!nodes.isMinority(errors.length)) return undefined;
  throw nodes.noMajority(errors, keys);
}
