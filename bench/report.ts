// RESULTS.md, made from the figures, none of which is typed by hand.
import { contenders } from './contenders';
import { type MeasuredRow, type Metric, metrics } from './measure';
import { type Goal, medianOf, type Scenario, Seen } from './scenarios';

/** Everything that is kept of a run, in plots/figures.json. */
export interface MeasuredScenario {
  readonly at: string;
  readonly rounds: number;
  readonly ms: number;
  /** The load average of a minute when it began. */
  readonly load?: number;
  readonly machine: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly rows: readonly MeasuredRow[];
}

/** The figures by Node, beginning with the Node whose figures are shown first. */
export type Book = Readonly<Record<string, readonly MeasuredScenario[]>>;

export function report(scenarios: readonly Scenario[], book: Book): string {
  const measured = scenarios.filter(({ name }) => book[name]);
  const all = measured.flatMap(({ name }) => book[name]!);
  return [
    '# Results',
    '',
    'Made by `npm run bench`. Do not edit: measure again.',
    '',
    ...unique(all.map(({ machine }) => `- Machine: ${machine}, Redis on loopback`)),
    ...unique(all.map(({ versions }) => `- Versions: ${list(versions)}`)),
    '- Rounds are interleaved, their order turned round every time, each in fresh processes after a warm-up (one after the other and in flight: of 6 s, because node-redis keeps five seconds of deadlines). Figures are medians of the rounds, ratios those of medians.',
    '- Contenders stand at the best of the settings that bench/contenders.ts names, found in each scenario by one round of each.',
    '- Commands are those that clients sent, counted by the server; ≤ where its count may hold some that scripts called.',
    '- In every round it was checked that nobody held a lock that somebody else held: by a count in the process, and across processes by comparing the times of all holders on the machine’s clock.',
    '',
    '## Goals',
    '',
    '| scenario | Node | goal | asked | seen | |',
    '|---|---|---|---|---|---|',
    ...measured.flatMap((scenario) => book[scenario.name]!.flatMap((each) => goalRows(scenario, each))),
    '',
    ...measured.flatMap((scenario) => section(scenario, book[scenario.name]!)),
  ].join('\n');
}

function goalRows({ title, goals }: Scenario, measured: MeasuredScenario): string[] {
  const node = majorOf(measured);
  return goals(new Seen(measured.rows, node)).map((goal) => {
    const asked = goal.atLeast === undefined ? `≤ ${goal.atMost}` : `≥ ${goal.atLeast}`;
    const words = [title, node, goal.text, asked, number(goal.value), reached(goal) ? 'reached' : '**not reached**'];
    return `| ${words.join(' | ')} |`;
  });
}

/** The load average of the machine, which shows other work on it: two idle cores have a load of three at most while they measure. */
const loadOf = ({ load }: MeasuredScenario): string =>
  load === undefined ? '' : `, with a load average of ${load.toFixed(1)} when it began`;

const majorOf = ({ versions }: MeasuredScenario): number => Number.parseInt(versions.Node!.slice(1), 10);

export function reached({
  value,
  atLeast = Number.NEGATIVE_INFINITY,
  atMost = Number.POSITIVE_INFINITY,
}: Goal): boolean {
  return value >= atLeast && value <= atMost; // NaN reaches nothing
}

export function section(scenario: Scenario, measured: readonly MeasuredScenario[]): string[] {
  const { title, text, limitedBy, floor, name } = scenario;
  const rows = measured[0]!.rows;
  const floors = floor ? unique(rows.map(floor)).filter((id) => rows.some((row) => row.id === id)) : [];
  return [
    `## ${title}`,
    '',
    `${text}${floors.length === 1 ? ` Speed is against ${floors[0]}.` : ''}`,
    '',
    ...(limitedBy === undefined ? [] : [`**What limits it**: ${limitedBy}`, '']),
    `![${title}](plots/${name}.svg)`,
    '',
    ...measured.flatMap((each) => [
      `On Node ${majorOf(each)}, rounds: ${each.rounds} of ${each.ms} ms, on ${each.at}${loadOf(each)}.`,
      '',
      ...table(scenario, each.rows),
      '',
    ]),
  ];
}

function table({ columns, floor }: Scenario, rows: readonly MeasuredRow[]): string[] {
  const [first, ...others] = columns;
  const heads = [
    'contender',
    metrics[first!],
    'from, to',
    ...(floor ? ['speed'] : []),
    ...others.map((each) => metrics[each]),
  ];
  const seen = new Seen(rows);
  const lines = rows.map((row) => {
    const figures = row.rounds.map((round) => round[first!]).filter((value) => value !== undefined);
    const spread = figures.length > 0 ? `${number(Math.min(...figures))} to ${number(Math.max(...figures))}` : '–';
    const cells = [
      row.id + settingOf(row) + (row.failed ? `; failed: ${row.failed}` : ''),
      cell(row, first!),
      spread,
      ...(floor ? [speed(seen, row.id, floor(row))] : []),
      ...others.map((metric) => cell(row, metric)),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return [`| ${heads.join(' | ')} |`, `|${'---|'.repeat(heads.length)}`, ...lines];
}

function cell({ rounds, atMost }: MeasuredRow, metric: Metric): string {
  const value = medianOf(rounds, metric);
  return `${metric === 'commands' && atMost ? '≤ ' : ''}${metric === 'commands' ? exact(value) : number(value)}`;
}

function speed(seen: Seen, id: string, floor: string): string {
  return number(seen.of(id, 'perSecond') / seen.of(floor, 'perSecond'));
}

/** The setting that was chosen for the contender, if it had more than one. */
function settingOf({ contender, setting: { client, retryMs } }: MeasuredRow): string {
  if ([false, true].every((contended) => contenders[contender]!.settings(contended).length === 1)) return '';
  const words = [...(client === 'none' ? [] : [client]), ...(retryMs === undefined ? [] : [`every ${retryMs} ms`])];
  return words.length === 0 ? '' : ` (${words.join(', ')})`;
}

/** Three digits, or all before the point. */
function number(value: number): string {
  if (!Number.isFinite(value)) return '–';
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : String(value.toPrecision(3));
}

const exact = (value: number): string => (Number.isFinite(value) ? value.toFixed(3) : '–');
const list = (versions: Readonly<Record<string, string>>): string =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ');
const unique = (lines: readonly string[]): string[] => [...new Set(lines)];
