/** Times that a test gives to what a busy machine may do late. */

/**
 * `commandTimeout` of a call that no reply can reach, so that it runs out on every machine. A call that needs its reply has a second at
 * least (test/steadiness.test.ts).
 */
export const unansweredMs = 200;
