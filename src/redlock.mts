// The face for `import`: the same objects that `require` gets, by default and by name.
import redlock from './redlock.js';

export default redlock.default;
export import Lock = redlock.Lock;
export import ExecutionError = redlock.ExecutionError;
export import ResourceLockedError = redlock.ResourceLockedError;

export type Client = redlock.Client;
export type ClientExecutionResult = redlock.ClientExecutionResult;
export type ExecutionResult = redlock.ExecutionResult;
export type ExecutionStats = redlock.ExecutionStats;
export type RedlockAbortSignal = redlock.RedlockAbortSignal;
export type Settings = redlock.Settings;
