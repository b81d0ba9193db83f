// Timers as every host keeps them. A host whose timers are numbers (Cloudflare Workers) has no `unref`: nothing there outlives its request
// anyway. A delay below zero, which a stall between two readings of a clock leaves, is a warning on stderr in Node.
//
// Each is the global timer of the moment, so that a test's fake clock owns it.

/** Starts a timer; it fires as soon as it can if its time is past. */
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
