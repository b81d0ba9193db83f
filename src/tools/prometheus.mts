// The entry for `import`: the same function that `require` gets.
export { collect } from './prometheus.js';
