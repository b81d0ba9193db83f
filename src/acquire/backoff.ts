// The pauses between the attempts of a caller that polls.
import type { Settings } from '../core/options';

const defaultLongestPauseMs = 500;

/** The pauses of one wait, in order; each call of the result is the next one, in ms. */
export function pauses(settings: Settings, random: () => number = Math.random): () => number {
  const { retryTimeoutMs, retryRatio, jitter } = settings;
  // An explicit first pause may exceed the default cap.
  const longestMs = settings.maxRetryTimeoutMs ?? Math.max(defaultLongestPauseMs, retryTimeoutMs);
  let nextMs = Math.min(retryTimeoutMs, longestMs);
  return () => {
    const pauseMs = nextMs;
    nextMs = Math.min(nextMs * retryRatio, longestMs);
    return pauseMs * (1 - jitter) + pauseMs * jitter * random();
  };
}
