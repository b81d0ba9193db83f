// Timers that work on every host. A host whose timers are numbers (Cloudflare Workers) has no `unref`, and needs none: nothing there
// outlives its request. A stall between two readings of a clock can leave a negative delay, of which Node warns on stderr.
//
// Each call uses the present global timer, so that a test's fake clock controls it.

/** Starts a timer. If its time is past, it fires as soon as it can. */
export function startTimer(work: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(work, Math.max(ms, 0)); // H93c
}

/** Starts a timer that does not keep the process alive. */
export function startIdleTimer(work: () => void, ms: number): NodeJS.Timeout {
  return idle(startTimer(work, ms));
}

/** Lets the process end before a timer fires. */
export function idle(timer: NodeJS.Timeout): NodeJS.Timeout {
  timer.unref?.(); // H90
  return timer;
}
