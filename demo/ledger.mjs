// The proof that the records of a phase give. Nothing is estimated: every write carries the version of the account it had read
// and the version it made, and every transfer how many had been written when it read, and its own place among them.

/** Reports the fate of the money, of the updates and of the fences. */
export function audit({ transfers, before, after, seconds }) {
  const updates = before.map(() => new Map()); // by account, then by the version made
  for (const update of transfers.flatMap((transfer) => transfer.updates)) {
    updates[update.account].set(update.made, update);
  }
  const inOrder = transfers.toSorted((a, b) => a.place - b.place);
  return {
    done: transfers.length,
    perSecond: transfers.length / seconds,
    moneyBefore: sum(before),
    moneyAfter: sum(after),
    interrupted: transfers.filter(({ seen, place }) => place !== seen + 1).length,
    lost: sum(updates.map(countLost)),
    wrong: updates.filter((made, account) => before[account] + sumOfDeltas(made) !== after[account]).length,
    accounts: before.length,
    highestFence: inOrder.reduce((highest, { fence }) => Math.max(highest, fence), 0),
    outOfOrder: inOrder.filter(({ fence }, place) => place > 0 && fence <= inOrder[place - 1].fence).length,
  };
}

/**
 * An update is lost when the balance no longer contains it: a process that had read an older version wrote over it. Going
 * back from the last write to the version it had read, to the one *that* had read, and so on, meets every update that
 * survived; the others are lost.
 */
function countLost(made) {
  let survived = 0;
  for (let version = made.size; version > 0; version = made.get(version).read) survived++;
  return made.size - survived;
}

const sumOfDeltas = (made) => sum([...made.values()].map(({ delta }) => delta));

/**
 * The holders of the lock over time, from each one's first act to its last, and which requests had to wait: those made while another process
 * else still held it. Holds come back in the order of their beginning.
 */
export function auditHolds(transfers) {
  const holds = transfers.toSorted((a, b) => a.got - b.got);
  const waits = [];
  const handOvers = [];
  const overlaps = [];
  let freeSince = Number.NEGATIVE_INFINITY; // the latest end of all holds before this one
  for (const { asked, got, ended } of holds) {
    if (got < freeSince) overlaps.push(freeSince - got);
    if (asked < freeSince) waits.push(got - asked);
    if (asked < freeSince && freeSince <= got) handOvers.push(got - freeSince);
    freeSince = Math.max(freeSince, ended);
  }
  return {
    holds,
    overlaps: overlaps.length,
    longestOverlap: longest(overlaps),
    waited: waits.length,
    medianWait: median(waits),
    longestWait: longest(waits),
    medianHandOver: median(handOvers),
  };
}

const bounds = [1, 5, 10, 50, 100, 500, 1000, 5000, Number.POSITIVE_INFINITY];
const longestBar = 16;

/** Counts the times (ms) up to each bound and above the one before, with a bar for each; empty bounds at both ends are left out. */
export function histogram(times) {
  const rows = bounds.map((most, index) => {
    const above = bounds[index - 1] ?? 0;
    const count = times.filter((ms) => ms <= most && (ms > above || index === 0)).length;
    return { label: most === Number.POSITIVE_INFINITY ? `> ${above} ms` : `≤ ${most} ms`, count };
  });
  const highest = longest(rows.map(({ count }) => count));
  const first = rows.findIndex(({ count }) => count > 0);
  const last = rows.findLastIndex(({ count }) => count > 0);
  const shown = first < 0 ? [] : rows.slice(first, last + 1);
  const width = longest(shown.map(({ label }) => label.length));
  return shown.map(({ label, count }) => ({
    label: label.padStart(width),
    count,
    bar: '▇'.repeat(count === 0 ? 0 : Math.max(1, Math.round((count / highest) * longestBar))).padEnd(longestBar),
  }));
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

const longest = (times) => times.reduce((one, other) => Math.max(one, other), 0);

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}
