// The entry for `import`: the same objects that `require` gets.
export {
  currentLease,
  InjectLock,
  type KeyOf,
  type LockDynamicModule,
  Locked,
  LockModule,
  type LockModuleAsyncOptions,
  Once,
} from './nestjs.js';
