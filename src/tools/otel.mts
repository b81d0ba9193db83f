// The entry for `import`: the same function that `require` gets.
export { type InstrumentOptions, instrument } from './otel.js';
