// The environment of the process. Deno refuses to read it without a permission, and a lock needs no variable.

/** A variable of the environment; undefined if it is not set or may not be read. */
export function environmentVariable(name: string): string | undefined {
  try {
    return process.env[name];
  } catch {
    return undefined;
  }
}
