/** H13 to H26: a lock is held, renewed, lost and released. */
import { drop, operand, piece, value, when, write } from '../support/alteration';
import type { Protection } from './protection';

export const held: readonly Protection[] = [
  {
    hazard: 'H13',
    without: 'an extension brings a missing key back',
    changes: [
      write(
        'H13',
        `    redis.call('SET', KEYS[i], ARGV[1])
    later[i] = true`,
      ),
    ],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H13',
    without: 'an extension does not look whose the key is',
    changes: [when('H13b', false)],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H13',
    without: 'an extension is sent after the local end',
    changes: [drop('H13c'), value('H13d', '() => true')],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H13',
    without: 'Redis runs an extension whenever it gets it',
    changes: [when('H13e', false)],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H13',
    without: 'an extension to any number is sent',
    changes: [drop('H13f')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H13',
    without: 'an extension that is confirmed after the loss keeps the key alive for nobody',
    changes: [drop('H13g')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H13',
    without: 'renewals of one tick do not look whose the keys are',
    changes: [operand('H13h', 2, true)],
    test: 'redis/plain.test.ts',
  },
  {
    hazard: 'H13',
    without: 'renewals of one tick run however late it is',
    changes: [operand('H13h', 3, true)],
    test: 'redis/plain.test.ts',
  },
  {
    hazard: 'H13',
    without: 'a table in memory runs an extension however late it is',
    changes: [drop('H13i')],
    test: 'embedded/mutex-machine.test.ts',
  },
  {
    hazard: 'H14',
    without: 'a renewal that failed is not repeated',
    changes: [drop('H14')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H14',
    without: 'a renewal that failed is a loss, although there is time left',
    changes: [
      piece(
        'H14b',
        /^/,
        `      if (!exact) held.lose('unreachable');
`,
      ),
    ],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H14',
    without: 'a lock that is renewed has no deadline of its own: it is lost when Redis says so',
    changes: [piece('H14c', ';', ' && !this.#keeper?.isEndless;')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H15',
    without: 'a renewal is due two seconds before the end, however short the lifetime is',
    changes: [value('H15', 'leftMs - 2000'), value('H15b', 'Math.max(spareMs, 0)')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H15',
    without: 'where less is left than a renewal gives, the next is due at once',
    changes: [value('H15b', 'Math.max(spareMs, 0)')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H15',
    without: 'a pause shorter than a step of the grid is none',
    changes: [piece('H15c', 'pauseMs / 2, ', '')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H16',
    without: 'the answer to a renewal starts the next timer, whatever has become of the lock',
    changes: [when('H16', 'held.isLost'), drop('H16c')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H16',
    without: 'the timer of the next renewal, and of the watch over the end, runs on after the release',
    changes: [drop('H16b')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H17',
    without: 'a renewal may take as long as any command',
    changes: [piece('H17', ', halfMs', '')],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H17',
    without: 'the deadline of a command is left to the client',
    changes: [drop('H17b')],
    test: 'redis/client-states.test.ts',
  },
  {
    hazard: 'H18',
    without: 'the monotonic clock alone counts',
    changes: [value('H18', 'monoMs + validMs - clock.nowMs()')],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H18',
    without: 'the wall clock counts only when the monotonic one is over',
    changes: [piece('H18b', ', wallCheckMs', '')],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H18',
    without: 'a holder asks what its timers have noticed',
    changes: [piece('H18c', 'held.check()', 'true'), drop('H18d')],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H19',
    without: 'what the server’s clock was known to be, it is for ever',
    changes: [when('H19', true)],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H19',
    without: 'the client’s wall clock says until when a request is good',
    changes: [piece('H19b', 'this.offsetMs', 'Date.now() - performance.now()')],
    test: 'process/late-request.test.ts',
  },
  {
    hazard: 'H20',
    without: 'a release whose failure nobody awaits is an unhandled rejection',
    changes: [drop('H20')],
    test: 'process/stalls.test.ts',
  },
  {
    hazard: 'H20',
    without: 'a renewal that failed is an unhandled rejection',
    changes: [piece('H20b', /=> (.*),$/, '=> { $1; throw error; },')],
    test: 'process/stalls.test.ts',
  },
  {
    hazard: 'H20',
    without: 'a late grant whose release fails is an unhandled rejection',
    changes: [piece('H20c', '.catch(() => {})', '')],
    test: 'attempts.test.ts',
  },
  {
    hazard: 'H21',
    without: 'a job is renewed for as long as it runs',
    changes: [operand('H21', 1, false)],
    test: 'redis/renewal.test.ts',
  },
  {
    hazard: 'H21',
    without: 'the end after `maxHold` is called a stall when it is noticed late',
    changes: [piece('H21b', 'isRenewed ? this.#isRenewing : this.#aborter', 'isRenewed || this.#aborter')],
    test: 'held-lock.test.ts',
  },
  {
    hazard: 'H22',
    without: 'each release is a request',
    changes: [drop('H22')],
    test: 'contract/release.test.ts',
  },
  {
    hazard: 'H22',
    without: 'an extension that is confirmed after the release counts',
    changes: [when('H22b', 'held.isLost')],
    test: 'contract/release.test.ts',
  },
  {
    hazard: 'H23',
    without: 'what our own release may have freed is a loss',
    changes: [operand('H23', 3, true)],
    test: 'redis/late-extension.test.ts',
  },
  {
    hazard: 'H24',
    without: 'the error of the release comes before the function’s own',
    changes: [piece('H24', 'Quietly', '')],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H24',
    without: 'the error of the release comes before the result',
    changes: [piece('H24b', 'Quietly', '')],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H24',
    without: 'a release that failed is over',
    changes: [drop('H24c')],
    test: 'contract/release.test.ts',
  },
  {
    hazard: 'H24',
    without: 'a release that failed, and that no caller can repeat, is left to the lifetime',
    changes: [drop('H24d')],
    test: 'redis/loss.test.ts',
  },
  {
    hazard: 'H25',
    without: 'a release deletes the key, whose ever it is',
    changes: [operand('H25', 3, true)],
    test: 'contract/release.test.ts',
  },
  {
    hazard: 'H25',
    without: 'releases of one tick delete the keys, whose ever they are',
    changes: [operand('H25b', 1, true)],
    test: 'redis/plain.test.ts',
  },
  {
    hazard: 'H26',
    without: 'all callers on the same terms have one token',
    changes: [
      piece(
        'H26',
        'newToken(owner)',
        '((all) => all.get(settings) ?? all.set(settings, newToken(owner)).get(settings))(((newToken as any).all ??= new WeakMap()))',
      ),
    ],
    test: 'contract/acquire.test.ts',
  },
  {
    hazard: 'H26',
    without: 'a lock object has one identity: what its callers ask is about its last lock',
    changes: [piece('H26b', 'takenHere(this) ?? ', ''), piece('H26c', 'takenHere(this) ?? ', '')],
    test: 'contract/lock.test.ts',
  },
];
