// The numbered places of a semaphore on a quorum, which the member of a holder names as text.

export function placesText(places: readonly number[]): string {
  return `,${places.join(',')},`;
}

export function placesOf(text: string): number[] {
  return (text.match(/\d+/g) ?? []).map(Number);
}
