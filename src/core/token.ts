// Tokens, which name holders in Redis. A token cannot be guessed, and is never used again once a release for it was sent. Our
// tokens end with the first letters of their uuid, so that a script can tell them from tokens of clients that know no queue.
import { v4 as uuid } from 'uuid';
import { fillRandom, sha1 } from './runtime';

const uuidLength = 36;
const markLength = 4;
/** Random bytes for 256 tokens. Generating 16 at a time would take a seventh of the time of a lock in memory. */
const pool = new Uint8Array(4096); // S29
let used = pool.length;
const bytes = new Uint8Array(16);
const random = { random: bytes };
const text = codesOf('00000000-0000-0000-0000-000000000000');
/** The position of each byte's two digits in the text. */
const places = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
const digits = codesOf('0123456789abcdef');
const letters = codesOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_');
const nonceLength = 22;
const nonce = new Array<number>(nonceLength).fill(0);

export function newToken(owner: string | undefined): string {
  if (used + bytes.length > pool.length) refill();
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = pool[used + i]!;
  used += bytes.length;
  uuid(random, bytes);
  // Made of its characters: a token joined from pieces of other strings would keep those strings in memory.
  for (let i = 0; i < bytes.length; i += 1) {
    text[places[i]!] = digits[bytes[i]! >> 4]!;
    text[places[i]! + 1] = digits[bytes[i]! & 15]!;
  }
  for (let i = 0; i < markLength; i += 1) text[uuidLength - markLength + i] = text[i]!;
  const marked = String.fromCharCode.apply(null, text); // copyWithin and a spread cost a tenth of a lock in memory
  return owner === undefined ? marked : `${owner}_${marked}`;
}

/** A nonce of 132 random bits as 22 characters: letters, digits, `-` and `_`. */
export function newNonce(): string {
  for (let i = 0; i < nonceLength; i += 1) {
    if (used === pool.length) refill();
    nonce[i] = letters[pool[used]! & 63]!;
    used += 1;
  }
  return String.fromCharCode(...nonce);
}

function refill(): void {
  fillRandom(pool); // H11
  used = 0;
}

function codesOf(characters: string): number[] {
  return Array.from(characters, (each) => each.charCodeAt(0));
}

export function isOurs(token: string): boolean {
  return token.length >= uuidLength && token.slice(-markLength) === token.slice(-uuidLength, markLength - uuidLength);
}

/** The label before the uuid of one of our tokens. */
export function ownerOf(holder: unknown): string | null {
  const match = /^(.+)_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/s.exec(String(holder));
  return match?.[1] ?? null;
}

/** The hash that names a holder to others. The token cannot be told from it. */
export function hashOf(token: string): string {
  return sha1(token);
}

/** The id of a holder: the first 8 digits of the hash. */
export function idOf(token: string): string {
  return hashOf(token).slice(0, 8);
}
