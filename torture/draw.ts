/** Draws one of these, by its weight. */
export function draw<T extends { readonly weight: number }>(from: readonly T[], random: () => number): T {
  let left = random() * from.reduce((sum, { weight }) => sum + weight, 0);
  for (const each of from) {
    left -= each.weight;
    if (left < 0) return each;
  }
  return from.at(-1)!;
}
