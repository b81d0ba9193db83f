/**
 * The processes of a round: they are started, killed and replaced, stopped and thawed, and ended in order at last.
 *
 * Invariant: what was done to a process, and when, is known to the models: a process that was killed promises nothing more.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { cont, exited, kill9, type NodeChild, startChild, stop } from '../test/support/processes';
import { nowMs } from './history';
import type { Address, Message, Order } from './order';

export interface Member {
  readonly name: string;
  readonly diary: string;
  readonly child: NodeChild;
  /** The way in which the process ended. */
  end: 'killed' | 'finished' | 'hangs' | undefined;
  readonly stops: { fromMs: number; toMs: number }[];
}

export interface TeamOptions {
  readonly address: Address;
  readonly size: number;
  readonly callers: number;
  /** The folder of the diaries. */
  readonly folder: string;
  readonly random: () => number;
  readonly execPath?: string | undefined;
}

/** The time for the last calls, and for what `close` waits for. */
const finishMs = 30_000;

export class Team {
  readonly members: Member[] = [];
  readonly #options: TeamOptions;

  constructor(options: TeamOptions) {
    this.#options = options;
  }

  /** The members that were not killed. */
  get alive(): readonly Member[] {
    return this.members.filter(({ end }) => end === undefined);
  }

  async start(): Promise<void> {
    await Promise.all(Array.from({ length: this.#options.size }, () => this.#startOne()));
  }

  async killAndReplace(member: Member): Promise<void> {
    member.end = 'killed';
    await kill9(member.child);
    await this.#startOne();
  }

  /** The time for which the process is stopped. */
  async stop(member: Member, ms: number): Promise<void> {
    const stopped = { fromMs: nowMs(), toMs: Number.POSITIVE_INFINITY };
    member.stops.push(stopped);
    await stop(member.child);
    await sleep(ms);
    await cont(member.child);
    stopped.toMs = nowMs();
  }

  send(member: Member, message: Message): void {
    member.child.send(message);
  }

  /** Lets each process end what it is doing, close, and exit by itself. */
  async finish(): Promise<void> {
    await Promise.all(
      this.alive.map(async (member) => {
        this.send(member, { finish: true });
        const end = member.child.receive<string>().then(async (word) => {
          await exited(member.child);
          return word === 'finished' && member.child.exitCode === 0 ? 'finished' : 'hangs';
        });
        const late = sleep(finishMs, 'hangs' as const, { ref: false });
        member.end = await Promise.race([end, late]).catch(() => 'hangs' as const);
        if (member.end === 'hangs') await kill9(member.child);
      }),
    );
  }

  async end(): Promise<void> {
    await Promise.all(this.members.map(({ child }) => kill9(child)));
  }

  async #startOne(): Promise<void> {
    const { address, callers, folder, random, execPath } = this.#options;
    const number = this.members.length;
    const name = `p${number}`;
    const diary = `${folder}/${name}.jsonl`;
    const seed = Math.floor(random() * 2 ** 32);
    const order: Order = { name, number, seed, address, diary, callers };
    const env = { NODE_NO_WARNINGS: '1' };
    const child = startChild(`${__dirname}/worker.ts`, [JSON.stringify(order)], execPath ? { execPath, env } : { env });
    this.members.push({ name, diary, child, end: undefined, stops: [] });
    await child.receive();
  }
}
