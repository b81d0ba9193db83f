// Drizzle: a write that only the latest holder of the lock can make. A holder that stood still for longer than its lifetime comes back
// with an old fence, and its write changes nothing.
import { and, eq, lt } from 'drizzle-orm';
import type { SQLJsDatabase } from 'drizzle-orm/sql-js';
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import type redisExpLock from 'redis-exp-lock';

export const accounts = sqliteTable('accounts', {
  id: text('id').primaryKey(),
  balance: integer('balance').notNull(),
  fence: integer('fence').notNull().default(0),
});

/** @returns Whether it was written. */
export function setBalance(database: SQLJsDatabase, lease: redisExpLock.Lease, id: string, balance: number): boolean {
  const written = database
    .update(accounts)
    .set({ balance, fence: lease.fence })
    .where(and(eq(accounts.id, id), lt(accounts.fence, lease.fence)))
    .returning({ id: accounts.id })
    .all();
  return written.length === 1;
}
