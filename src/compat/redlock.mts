// The face for `import`: the same objects that `require` gets, by default and by name. By name only from there: what `default` of
// a CommonJS module is, Node and bundlers do not agree on.
export type {
  Client,
  ClientExecutionResult,
  ExecutionResult,
  ExecutionStats,
  RedlockAbortSignal,
  Settings,
} from './redlock.js';
export { ExecutionError, Lock, Redlock, Redlock as default, ResourceLockedError } from './redlock.js';
