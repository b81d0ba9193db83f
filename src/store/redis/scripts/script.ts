// What a Lua script is to the rest of the code: a text, its SHA-1, and a call with its keys and arguments.

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

/** A call that may be sent by itself, too. */
export interface ScriptCall extends BatchableCall {
  readonly script: Script;
}

/** A script that is one function of a batch: it reads its keys and arguments from where they begin in a longer list. */
export function inBatch(lua: string): string {
  return lua
    .replaceAll('#KEYS', 'kn')
    .replaceAll('#ARGV', 'an')
    .replaceAll('KEYS[', 'KEYS[k+')
    .replaceAll('ARGV[', 'ARGV[a+');
}
