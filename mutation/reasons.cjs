// Why a mutant that survives may: by its file, a piece of its line, and perhaps its mutator or what it puts there.
'use strict';

const equivalent = 'equivalent: the same by another way';
const reasons = {
  'src/hold/validity.ts': [
    { code: 'if (exact && !isClamped) return next', to: 'false', why: equivalent },
    { code: 'last?.sent !== sent', to: 'true', why: 'equivalent: takes more memory' },
    { code: 'last?.sent !== sent', to: 'last.sent', why: 'equivalent after the first grant of a process' },
  ],
  'src/hold/extension.ts': [
    { code: 'earlier(reply.sent, overMs)', to: 'true', why: 'equivalent: the end before it is past' },
    { code: 'lifetimeMs < held.leftMs()', to: '<=', why: 'equivalent: the same end' },
    { code: 'return true;', to: 'false', why: 'equivalent: it is not read' },
  ],
  'src/hold/lease.ts': [{ code: 'configurable: true', why: 'only for those that redefine a method of all leases' }],
  'src/hold/keeper.ts': [
    { code: '#isExact = false', to: 'true', why: 'equivalent: each extension sets it' },
    { code: 'if (lifetimeMs === null ||', why: 'equivalent: what has no end is never due, and a lock has one lease' },
    { code: 'this.#isWatching = true', to: 'false', why: 'without a signal nobody waits for the end' },
    { code: 'if (this.#lease === undefined) return', to: 'false', why: 'equivalent: what is not there is not removed' },
    { code: 'this.#isRenewing = false', to: 'true', why: 'equivalent: no timer is left that would renew' },
    { code: 'leftMs / 4', to: 'leftMs * 4', why: 'only how soon a failed renewal is tried again' },
    { code: 'waitMs === wallCheckMs ? 50', to: 'false', why: 'equivalent: checks share fewer timers' },
  ],
  'src/hold/held-lock.ts': [
    { code: "if (typeof key !== 'string')", why: 'equivalent: takes more memory' },
    { code: 'undefined) this.', to: 'true', why: 'equivalent: takes more memory' },
    { code: "new HoldEnd('released'", to: '""', why: 'equivalent: it is compared with "lost" only' },
  ],
  'src/store/embedded/machine/mutex-queue.ts': [
    { code: 'live < 0 && row.queue.length === 0', to: 'true', why: equivalent },
    { code: 'live < 0 && row.queue.length === 0', to: 'live <= 0', why: equivalent },
    { code: 'entry.ticket < mine', to: 'entry.ticket <= mine', why: 'no two entries have the same ticket' },
  ],
  'src/store/embedded/machine/mutex-machine.ts': [
    { code: 'if (untilMs >= 0)', to: 'untilMs > 0', why: 'equivalent: what is held never ends at 0' },
    { code: 'row.endMs < endMs', to: '<=', why: 'equivalent: the same end' },
    { code: "return 'none'", to: '""', why: 'equivalent: it is compared with "mine" and "given" only' },
    { code: "return 'yielding'", to: '""', why: 'equivalent: it is compared with "mine" and "given" only' },
  ],
  'src/acquire/acquisition.ts': [
    { code: '#isStarting = true', to: 'false', why: equivalent },
    {
      code: 'const mayOutlast = timeoutMs! > 0',
      to: 'timeoutMs! >= 0',
      why: 'equivalent: a wait without a timeout never ends',
    },
    { code: 'if (this.#isStarting)', to: 'false', why: equivalent },
    { code: 'if (this.#isSettled) return', why: 'equivalent: what is settled is not ended again' },
  ],
  'src/acquire/polling.ts': [
    { code: 'if (queues.wakeUps.isOpen)', to: 'false', why: 'equivalent: some promises later' },
    { code: '!this.queues?.wakeUps.isOpen', to: 'this.queues.wakeUps', why: 'equivalent: only where there are queues' },
  ],
  'src/acquire/queued.ts': [
    { code: 'const mayLineUp', to: 'true', why: 'equivalent: no two lists of keys are one key' },
    { code: 'if (line.failure !== undefined)', to: 'true', why: 'equivalent: a caller has no failure at first' },
    { code: 'if (failure !== line.failure)', to: 'true', why: 'equivalent: the others have that failure already' },
  ],
  'src/queue/queue.ts': [{ code: 'const plainWakeUp', to: '{}', why: 'equivalent: what is not there is undefined' }],
  'src/acquire/attempts.ts': [
    { code: '#isUnderWay = false', to: 'true', why: 'equivalent: each attempt sets both flags' },
    { code: '#isSent = false', to: 'true', why: 'equivalent: each attempt sets both flags' },
    { code: 'if (!reply.granted && this.ticket', to: 'true', why: 'equivalent: no other reply has a position' },
  ],
};

/** The reason of a survivor; undefined where nobody has one. */
exports.reasonOf = (file, { code, mutator, replacement }) =>
  (reasons[file] ?? []).find(
    (each) =>
      code.includes(each.code) &&
      (each.mutator ?? mutator) === mutator &&
      (each.to === undefined || replacement.includes(each.to)),
  )?.why;
