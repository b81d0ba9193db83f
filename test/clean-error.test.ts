// The errors of others, without our tokens.
import { expect } from 'chai';
import { cleanError, cleanText } from '../src/store/clean-error';

const token = '2b1c7a0e-9f1d-4c3b-8a55-0123456789ab';

describe('the error of a client', () => {
  class ReplyError extends Error {
    command = { name: 'evalsha', args: ['sha', '1', 'key', token] };
    override name = 'ReplyError';
  }

  it('keeps class, name, message, code, address and stack; the command goes', () => {
    const error = Object.assign(new ReplyError('NOAUTH no'), { code: 'X', port: 6379, [Symbol('args')]: [token] });
    const clean = cleanError(error) as any;
    expect(clean).to.be.instanceOf(ReplyError);
    expect(clean).to.include({ name: 'ReplyError', message: 'NOAUTH no', code: 'X', port: 6379 });
    expect(clean.stack).to.equal(error.stack);
    expect(Reflect.ownKeys(clean)).to.have.members(['stack', 'message', 'name', 'code', 'port']);
  });

  it('errors inside of it are kept, and as clean, also where they lead back', () => {
    const inner = new ReplyError(`no ${token}`);
    const error = new AggregateError([inner, new ReplyError('b')], 'all', { cause: inner });
    inner.cause = error;
    const clean = cleanError(error) as any;
    expect(clean.errors.map(({ message }: Error) => message)).to.deep.equal(['no <token>', 'b']);
    expect(clean.cause).to.equal(clean.errors[0]);
    expect(clean.cause.cause).to.equal(clean);
    expect(clean.cause).not.to.have.property('command');
  });

  it('texts lose tokens, whole, cut off, behind a label, and all that Redis lists of what it was sent', () => {
    expect(cleanText(`got me_${token}, ${token.slice(0, 15)}`)).to.equal('got me_<token>, <token>');
    expect(cleanText(`ERR unknown command 'X', with args beginning with: 'a' '${token.slice(0, 5)}`)).to.equal(
      "ERR unknown command 'X', with args beginning with: …",
    );
  });

  it('what is no error becomes its text; what has none, its type', () => {
    expect(cleanError(`no ${token}`)).to.equal('no <token>');
    expect(cleanError(Symbol(token))).to.equal('Symbol(<token>)');
    expect(cleanError({ toString: () => Object.create(null) })).to.equal('object');
    const evil = new Error('x');
    Object.defineProperty(evil, 'command', {
      get() {
        throw evil;
      },
    });
    expect((cleanError(evil) as Error).message).to.equal('x');
  });
});
