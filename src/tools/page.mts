// The entry for `import`: the same function that `require` gets.
export { type LockPage, lockPage, type PageOptions } from './page.js';
