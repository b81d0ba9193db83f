// A Lua script for the rest of the code: a text, its SHA-1, and a call with its keys and arguments.

export interface Script {
  readonly name: string;
  readonly sha: string;
  readonly lua: string;
}

/** A call that may be sent as a part of a batch. */
export interface BatchableCall {
  readonly script: { readonly name: string };
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** A call that may also be sent by itself. */
export interface ScriptCall extends BatchableCall {
  readonly script: Script;
}

/** The script as a function in a batch: it reads its keys and arguments from an offset in a longer list. */
export function inBatch(lua: string): string {
  return lua
    .replaceAll('#KEYS', 'kn')
    .replaceAll('#ARGV', 'an')
    .replaceAll('KEYS[', 'KEYS[k+')
    .replaceAll('ARGV[', 'ARGV[a+');
}
