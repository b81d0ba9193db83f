// What a Lua script is to the rest of the code: a text, its SHA-1, and a call with its keys and arguments.

export interface Script {
  readonly name: string;
  readonly sha: string;
  readonly lua: string;
}

export interface ScriptCall {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}
