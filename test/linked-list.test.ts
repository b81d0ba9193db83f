// The list against the simplest thing that behaves the same: an array.
import { expect } from 'chai';
import fc from 'fast-check';
import { type Linked, LinkedList } from '../src/core/linked-list';

interface Member extends Linked<Member> {
  readonly name: number;
}

const operation = fc.record({ adds: fc.boolean(), name: fc.nat(9) });

describe('the linked list', () => {
  it('has its members in the order in which they were added, whatever was deleted meanwhile', () => {
    fc.assert(
      fc.property(fc.array(operation), (operations) => {
        const list = new LinkedList<Member>();
        const members: Member[] = Array.from({ length: 10 }, (_, name) => ({
          name,
          before: undefined,
          after: undefined,
        }));
        let expected: number[] = [];
        for (const { adds, name } of operations) {
          const isIn = expected.includes(name);
          if (adds && !isIn) {
            list.add(members[name]!);
            expected.push(name);
          } else if (!adds) {
            expect(list.delete(members[name]!)).to.equal(isIn);
            expected = expected.filter((each) => each !== name);
          }
          expect([...list].map((member) => member.name)).to.deep.equal(expected);
          expect(list.size).to.equal(expected.length);
          expect(list.first?.name).to.equal(expected[0]);
        }
      }),
    );
  });

  it('what was deleted leads to no other member: it keeps none of them alive', () => {
    const list = new LinkedList<Member>();
    const members: Member[] = [0, 1, 2].map((name) => ({ name, before: undefined, after: undefined }));
    for (const member of members) list.add(member);
    list.delete(members[1]!);
    expect(members[1]).to.include({ before: undefined, after: undefined });
  });
});
