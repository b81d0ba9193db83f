/** The program of a newer Node; undefined where this platform has none, or it is not installed. Node 26 comes with integrations/. */
export function node(major: 22 | 24 | 26): string | undefined;
export function bun(): string | undefined;
export function deno(): string | undefined;
/** A Node that has SQLite, for shared memory: this one where it has; undefined where there is none. */
export function nodeWithSqlite(): string | undefined;
/** Installs them where there are any for this platform and one is missing. A failure is printed, and does not fail the caller. */
export function install(): void;
/** Starts to install Node 24 alone, as the lock file has it. Resolves when it is there, or why it is not was printed. */
export function installNode(): Promise<void>;
