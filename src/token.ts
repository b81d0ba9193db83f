// Who holds a lock, in Redis's words: an unguessable token, never used again once a release for it was sent. Ours end as their
// uuid begins, so that a script can tell them from those of clients whose release wakes nobody who stands in line.
import { v4 as uuid } from 'uuid';

const uuidLength = 36;
const markLength = 4;
const scratch = Buffer.alloc(uuidLength);

export function newToken(owner: string | undefined): string {
  const id = uuid();
  // Put together in a buffer: joined pieces of other strings would keep those in memory for as long as the token.
  scratch.write(id, 'latin1');
  scratch.copyWithin(uuidLength - markLength, 0, markLength);
  const marked = scratch.toString('latin1');
  return owner === undefined ? marked : `${owner}_${marked}`;
}

export function isOurs(token: string): boolean {
  return token.length >= uuidLength && token.slice(-markLength) === token.slice(-uuidLength, markLength - uuidLength);
}

/** The label before the uuid of one of our tokens. */
export function ownerOf(holder: unknown): string | null {
  const match = /^(.+)_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/s.exec(String(holder));
  return match?.[1] ?? null;
}
