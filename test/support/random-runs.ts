// How often properties are tried with random values: `npm run prove:random` does it ten times as often as npm cit.

export const randomFactor = Number(process.env.RANDOM_FACTOR ?? 1);

/** @param count In npm cit, where each costs every change some seconds. */
export function randomRuns(count: number): number {
  return Math.ceil(count * randomFactor);
}
