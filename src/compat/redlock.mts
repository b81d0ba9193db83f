// The entry for `import`: the same objects that `require` gets, by default and by name. They are imported by name, because Node and
// bundlers disagree about the `default` of a CommonJS module.
export type {
  Client,
  ClientExecutionResult,
  ExecutionResult,
  ExecutionStats,
  RedlockAbortSignal,
  Settings,
} from './redlock.js';
export { ExecutionError, Lock, Redlock, Redlock as default, ResourceLockedError } from './redlock.js';
