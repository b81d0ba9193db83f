// The findings of doctor.

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  /** The finding, and the remedy. */
  readonly remedy: string;
}

export const ok = (check: string, remedy = ''): Finding => ({ check, status: 'ok', remedy });
export const warn = (check: string, remedy: string): Finding => ({ check, status: 'warn', remedy });
export const fail = (check: string, remedy: string): Finding => ({ check, status: 'fail', remedy });
