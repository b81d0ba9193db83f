// Tokens as they are made. What callers and listeners see of them is in contract/acquire.test.ts.
import { expect } from 'chai';
import sinon from 'sinon';
import { newNonce, newToken } from '../src/core/token';

describe('tokens', () => {
  afterEach(() => sinon.restore());

  it('H11: neither Math.random nor a clock is asked for one, and no two are the same', () => {
    const asked = [sinon.spy(Math, 'random'), sinon.spy(Date, 'now'), sinon.spy(performance, 'now')];
    const made = 600; // more than the random bytes that are asked for at a time are enough for
    // Without the digits that mark a token as ours, or say which kind of uuid it is.
    const tokens = Array.from({ length: made }, () => newToken(undefined).slice(4, 14) + newToken('me').slice(-17, -4));
    const nonces = Array.from({ length: made }, newNonce);
    for (const spy of asked) expect(spy.callCount).to.equal(0);
    for (const all of [tokens, nonces]) expect(new Set(all).size).to.equal(made);
  });
});
