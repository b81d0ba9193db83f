// docs/compare.md, written from proof/compare.json.
import type { Outcome } from './faults';

export interface Comparison {
  readonly faults: Readonly<Record<string, { title: string; how: string; figure: boolean }>>;
  readonly libraries: Readonly<
    Record<string, { version: string; source: string; settings: string; promises: Record<string, string> }>
  >;
  readonly outcomes: Readonly<Record<string, Readonly<Record<string, Outcome>>>>;
}

const word = ({ holds }: Outcome, isPromised: boolean, isFigure: boolean): string => {
  if (isFigure) return '';
  if (!isPromised) return 'not promised: ';
  return holds === undefined ? '' : holds ? 'holds: ' : '**fails**: ';
};

export function pageOf({ faults, libraries, outcomes }: Comparison): string {
  const names = Object.keys(libraries);
  const version = (name: string) => (libraries[name]!.version ? ` ${libraries[name]!.version}` : '');
  const link = (name: string) => `[${name}](${libraries[name]!.source})${version(name)}`;
  const sections = Object.entries(faults).map(([fault, { title, how, figure }]) => {
    const rows = names.map((name) => {
      const outcome = outcomes[fault]![name]!;
      const promise = libraries[name]!.promises[fault];
      const seen = `${word(outcome, promise !== undefined || name === 'naive', figure)}${outcome.text}`;
      return `| ${name} | ${seen} | ${promise ?? ''} |`;
    });
    return [
      `## ${title}`,
      '',
      `${how}. \`--fault ${fault}\``,
      '',
      '| library | seen | where it is promised |',
      '|---|---|---|',
      ...rows,
      '',
    ];
  });
  return [
    '# The same faults for other libraries',
    '',
    'Written by `npm run compare` in the repository, which plays each fault with real processes and a real Redis. One cell again:',
    '`npm run compare -- --fault X --library Y`. Every lock has a lifetime of 2 s. Each library is used with one server, the client and the settings',
    'that its documentation recommends; `compare/adapters/` has them. Figures in ms move with the machine. "Not promised" means that its documentation',
    'says nothing of it: then what was seen is no fault of the library. The naive lock is there to show that a fault does harm.',
    '',
    '| library | settings |',
    '|---|---|',
    ...names.map((name) => `| ${link(name)} | ${libraries[name]!.settings} |`),
    '',
    ...sections.flat(),
  ]
    .join('\n')
    .trimEnd()
    .concat('\n');
}
