// Work to do when a signal aborts. Each signal has a single listener of ours, however many calls wait with that signal: Node warns
// of more than ten listeners, and walks along all of them to add or to remove one.

interface SignalListener {
  readonly works: Set<() => void>;
  readonly call: () => void;
}

const listeners = new WeakMap<AbortSignal, SignalListener>();

/** Calls `work` once the signal aborts, unless the returned function was called before. */
export function onAbort(signal: AbortSignal, work: () => void): () => void {
  const listener = listeners.get(signal) ?? listen(signal); // H98
  const own = (): void => work(); // the same function may be given twice
  listener.works.add(own);
  return () => {
    if (!listener.works.delete(own) || listener.works.size > 0) return;
    signal.removeEventListener('abort', listener.call);
    listeners.delete(signal);
  };
}

function listen(signal: AbortSignal): SignalListener {
  const works = new Set<() => void>();
  const call = (): void => {
    for (const work of works) work();
  };
  const listener = { works, call };
  listeners.set(signal, listener);
  signal.addEventListener('abort', listener.call);
  return listener;
}
