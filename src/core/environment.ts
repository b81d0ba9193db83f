// The environment of the process, where it may be read: Deno refuses without a permission, and a lock needs none of it.

/** A variable of the environment; undefined where it is not set, or may not be read. */
export function environmentVariable(name: string): string | undefined {
  try {
    return process.env[name];
  } catch {
    return undefined;
  }
}
