// Stand-ins for what a runtime without Node's modules lacks, made of the globals of the Web and of the language.

/** An AsyncLocalStorage that remembers nothing. */
export class NoStorage {
  static bind<F>(fn: F): F {
    return fn;
  }
  getStore(): undefined {}
  run<R>(_store: unknown, fn: () => R): R {
    return fn();
  }
  enterWith(): void {}
  disable(): void {}
}

type ChannelListener = (message: unknown, name: string) => void;

/** A channel as `node:diagnostics_channel` has them. A listener that throws is reported as an uncaught exception. */
class Channel {
  readonly name: string;
  #listeners: readonly ChannelListener[] = [];

  constructor(name: string) {
    this.name = name;
  }

  get hasSubscribers(): boolean {
    return this.#listeners.length > 0;
  }

  subscribe(listener: ChannelListener): void {
    this.#listeners = [...this.#listeners, listener];
  }

  unsubscribe(listener: ChannelListener): boolean {
    const at = this.#listeners.indexOf(listener);
    this.#listeners = this.#listeners.filter((_, n) => n !== at);
    return at >= 0;
  }

  publish(message: unknown): void {
    for (const listener of this.#listeners) {
      try {
        listener(message, this.name);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  runStores<R>(message: unknown, fn: () => R): R {
    this.publish(message);
    return fn();
  }
}

const channels = new Map<string, Channel>();

export function channel(name: string): Channel {
  const known = channels.get(name) ?? new Channel(name);
  channels.set(name, known);
  return known;
}

export function tracingChannel(name: string): Record<string, Channel> {
  const parts = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'];
  return Object.fromEntries(parts.map((part) => [part, channel(`tracing:${name}:${part}`)]));
}

const roundConstants = [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6];

/** The SHA-1 of `bytes` in hexadecimal digits (FIPS 180-4). The Web has none that answers at once. */
export function sha1(bytes: Uint8Array): string {
  const padded = new Uint8Array((((bytes.length + 8) >> 6) + 1) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const words = new DataView(padded.buffer);
  words.setUint32(words.byteLength - 4, bytes.length * 8);
  const hash = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
  const schedule = new Int32Array(80);
  for (let block = 0; block < words.byteLength; block += 64) {
    let [a, b, c, d, e] = hash as [number, number, number, number, number];
    for (let t = 0; t < 80; t += 1) {
      schedule[t] =
        t < 16
          ? words.getInt32(block + 4 * t)
          : rotated(schedule[t - 3]! ^ schedule[t - 8]! ^ schedule[t - 14]! ^ schedule[t - 16]!, 1);
      const phase = Math.floor(t / 20);
      const mixed = phase === 0 ? (b & c) | (~b & d) : phase === 2 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
      const next = (rotated(a, 5) + mixed + e + roundConstants[phase]! + schedule[t]!) | 0;
      [a, b, c, d, e] = [next, a, rotated(b, 30), c, d];
    }
    [a, b, c, d, e].forEach((word, n) => {
      hash[n] = (hash[n]! + word) | 0;
    });
  }
  return hash.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function rotated(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}
