// Work to do when a signal aborts. Each signal has a single listener of ours, however many calls wait with that signal: Node warns
// of more than ten listeners, and walks along all of them to add or to remove one.
import { perObject } from './per-object';

/** The works of one signal. */
class AbortWorks extends Set<() => void> {
  readonly listener = (): void => {
    for (const work of this) work();
  };
}

const worksOf = perObject((_signal: AbortSignal) => new AbortWorks());

/** Calls `work` once the signal aborts, unless the returned function was called before. */
export function onAbort(signal: AbortSignal, work: () => void): () => void {
  const works = worksOf(signal); // H98
  const own = (): void => work(); // the same function may be given twice
  if (works.size === 0) signal.addEventListener('abort', works.listener);
  works.add(own);
  return () => {
    if (works.delete(own) && works.size === 0) signal.removeEventListener('abort', works.listener);
  };
}
