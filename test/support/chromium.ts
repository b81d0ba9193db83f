/**
 * A real Chromium, headless, where there is one: the first on PATH, driven by playwright-core, in a profile of its own that goes
 * with it. `npm cit` runs where there is none, too, and says so.
 */
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { BrowserContext } from 'playwright-core';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const flags = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

/** The program; undefined: there is none on PATH. */
export function findChromium(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface Browser {
  readonly context: BrowserContext;
  close(): Promise<void>;
}

/** Starts it. No content security policy is bypassed, and nothing moves. */
export async function startChromium(executablePath: string): Promise<Browser> {
  const { chromium } = await import('playwright-core');
  const profile = mkdtempSync(join(tmpdir(), 'redis-exp-lock-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    args: flags,
    viewport: { width: 1180, height: 640 },
    reducedMotion: 'reduce',
    locale: 'en-GB',
  });
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}
