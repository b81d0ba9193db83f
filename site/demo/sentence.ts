import type { Happening } from './round';

/** An event as the log says it. */
export function sentence({ worker, kind, balance, fence, storedFence }: Happening): string {
  switch (kind) {
    case 'waits':
      return `${worker} asks for the lock.`;
    case 'granted':
      return `${worker} holds the lock, with the fence ${fence}, and reads the balance ${balance}.`;
    case 'paused':
      return `${worker} is stopped in front of its write.`;
    case 'lost':
      return `The lifetime of ${worker}’s lock is over. Its signal fires, but ${worker} does not run.`;
    case 'resumed':
      return `${worker} runs again, and its next step is the write.`;
    case 'wrote':
      return `${worker} writes ${balance}.`;
    case 'refused':
      return `${worker}’s write is refused: its fence ${fence} is smaller than the stored ${storedFence}.`;
    case 'overwrote':
      return `${worker} writes ${balance} over what newer holders wrote.`;
    case 'released':
      return `${worker} releases the lock.`;
    case 'expired':
      return `${worker}’s release resolves to false: the lock was no longer its own.`;
  }
}
