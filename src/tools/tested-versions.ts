// The versions of servers, runtimes and clients that the library is tested with. README.md shows this table.

/** The way in which a version is tested: `npm test`; `npm run integrations`; or the contract suite on that server or Node, by hand. */
export type TestedBy = 'npm test' | 'npm run integrations' | 'by hand';

interface Support {
  readonly tested: Readonly<Partial<Record<TestedBy, readonly string[]>>>;
  /** The first version that should work; absent: none but those that are tested. */
  readonly from?: string;
  /** The first version that is not expected to work. */
  readonly before?: string;
}

export const support: Readonly<Record<string, Support>> = {
  Redis: { tested: { 'npm test': ['7.0'], 'by hand': ['8.0'] }, from: '6.2' },
  Valkey: { tested: { 'by hand': ['8.0', '8.1'] }, from: '7.2' },
  Redict: { tested: { 'by hand': ['7.3'] } },
  Node: { tested: { 'npm test': ['20'], 'npm run integrations': ['22', '24', '26'] }, from: '20' },
  Bun: { tested: { 'npm run integrations': ['1.4'] }, from: '1.2' },
  Deno: { tested: { 'npm run integrations': ['2.9'] }, from: '2' },
  redis: { tested: { 'npm test': ['6'], 'npm run integrations': ['4', '5'] }, from: '4', before: '7' },
  ioredis: { tested: { 'npm test': ['6'], 'npm run integrations': ['5'] }, from: '5', before: '7' },
  iovalkey: { tested: { 'npm run integrations': ['0.3'] }, from: '0.3', before: '1' },
  '@valkey/valkey-glide': { tested: { 'npm run integrations': ['2'] }, from: '2', before: '3' },
  '@upstash/redis': { tested: { 'npm run integrations': ['1.39'] }, from: '1.20', before: '2' },
};

/** How well a version is known: "tested", "expected to work" or "not tested". */
export function supportOf(name: string, version: string): string {
  const { tested = {}, from, before } = support[name] ?? {};
  const versions = Object.values(tested).flat();
  if (versions.some((each) => `${version}.`.startsWith(`${each}.`))) return 'tested';
  const isExpected =
    from !== undefined && !isBefore(version, from) && (before === undefined || isBefore(version, before));
  return isExpected ? 'expected to work' : 'not tested';
}

export function isBefore(version: string, other: string): boolean {
  return version.localeCompare(other, 'en', { numeric: true }) < 0;
}
