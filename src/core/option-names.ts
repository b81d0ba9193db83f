// Advice for unknown option names: our name for an option of another lock library, or the option that was probably meant.

/** Our names for the options of other lock libraries. */
const elsewhere: Readonly<Record<string, string>> = {
  'expiry exptime ttl duration leaseTime lockTimeout LockTTL': 'use `lifetime`, in milliseconds',
  'waitTime acquireTimeout blocking_timeout': 'use `timeout`, the longest wait in milliseconds',
  'retries retryCount RetryCount': 'use `maxRetries`, a number of further attempts after the first',
  acquireAttemptsLimit: 'use `maxRetries`, a number of further attempts after the first: one less',
  'interval retryDelay retryInterval RetryInterval':
    'use `retryTimeout`, the pause between two attempts in milliseconds (`step` in a HostLock)',
  max_step: 'use `maxRetryTimeout`, in milliseconds (`maxStep` in a HostLock)',
  retryJitter: 'use `jitter`, the share of each pause that is random, from 0 to 1',
  driftFactor: 'nothing replaces it: a thousandth of each `lifetime` is never relied on, for clocks that drift',
  'automaticExtensionThreshold refreshInterval':
    'use `autoExtend`, true or false: a lock is renewed at a third of its `lifetime`, in milliseconds',
  onLockLost: 'use `lease.signal`, an AbortSignal that aborts when the lock is lost',
  identifier: 'use `owner`, a label: each token is made here, and handed over by `lease.detach()`',
  acquiredExternally: 'use `withLock.adopt(detached)` with what `lease.detach()` gave',
  client: 'use `redis`, a connected client',
  AppID: 'use `prefix`, or `owner` for a label',
  ReaderLockToken: 'use `readers` of an RWLock',
  Mode: 'use `prefer` of an RWLock',
  Context: 'use `signal`, an AbortSignal',
};

/** The maximum share of wrong letters in a misspelt name. */
const maxSlipsShare = 1 / 3;

export function adviceFor(name: string, known: readonly string[]): string {
  const other = Object.keys(elsewhere).find((names) => names.split(' ').includes(name));
  if (other !== undefined) return elsewhere[other]!;
  const near = known
    .map((each) => ({ each, slips: slipsBetween(name.toLowerCase(), each.toLowerCase()) }))
    .filter(({ each, slips }) => slips <= each.length * maxSlipsShare)
    .sort((a, b) => a.slips - b.slips)[0];
  return near === undefined ? 'no such option' : `no such option; did you mean \`${near.each}\`?`;
}

/** The number of letters left out, added, replaced, or swapped with their neighbour (optimal string alignment). */
function slipsBetween(a: string, b: string): number {
  if (a.length > 2 * b.length) return Number.POSITIVE_INFINITY;
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row[j] = Math.min(replaced, rows[i - 1]![j]! + 1, row[j - 1]! + 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwap) row[j] = Math.min(row[j]!, rows[i - 2]![j - 2]! + 1);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
