// The operator's view of a quorum. A lock is free once a majority of the nodes has freed it. The records of processes are on
// all nodes that can be reached.
import type { LockBackendError } from '../../core/errors';
import type { Operator } from '../operator';
import type { Nodes } from './nodes';
import { placesOut } from './places';
import { inspectMajority } from './reads';

export function quorumOperator(nodes: Nodes): Operator {
  const operators = (): Operator[] => nodes.responsive.map(({ store }) => store.operator);
  return {
    isLocal: false,
    get offsetMs() {
      return nodes.all[0]!.store.serverOffsetMs;
    },
    get keys() {
      if (operators().some(({ keys }) => keys === undefined)) return undefined;
      return async function* (...args) {
        for (const each of operators()) yield* each.keys!(...args);
      } satisfies Operator['keys'];
    },
    inspect(keys, commandTimeoutMs) {
      const states = keys.map((key) => inspectMajority(nodes, key, commandTimeoutMs));
      return Promise.all(states.map((state) => state.catch((error: LockBackendError) => error)));
    },
    permitsOut: (key, commandTimeoutMs) => placesOut(nodes, key, commandTimeoutMs),
    async free(key, id, commandTimeoutMs) {
      const asked = nodes.askAll(key, ({ store }) => store.operator.free(key, id, commandTimeoutMs));
      const { replies, errors } = await asked;
      const freed = [...replies.values()].filter((each) => each).length;
      if (freed >= nodes.majority) return true;
      if (nodes.isMinority(replies.size - freed)) return false;
      throw nodes.noMajority(errors, key, true);
    },
    async register(registration, commandTimeoutMs) {
      const all = operators().map((each) => each.register(registration, commandTimeoutMs).catch(() => true));
      return (await Promise.all(all)).every((isThere) => isThere);
    },
    async processes(commandTimeoutMs) {
      const seen = await Promise.allSettled(operators().map((each) => each.processes(commandTimeoutMs)));
      const answers = seen.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
      if (answers.length === 0) throw (seen[0] as PromiseRejectedResult).reason;
      const texts = new Set(answers.flatMap((each) => each.texts));
      return { atMs: answers[0]!.atMs, texts: [...texts] };
    },
  };
}
