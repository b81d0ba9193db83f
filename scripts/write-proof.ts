// `npm run proof`: writes docs/proof.md from proof/*.json, which the proofs themselves have written. A test sees to it that the page is what
// this makes of them.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(__dirname, '..');
const thousands = (n: number): string => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
const count = (n: number, one: string, many = `${one}s`): string => `${thousands(n)} ${n === 1 ? one : many}`;
const table = (head: readonly string[], rows: readonly (readonly unknown[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

/** The figures that a proof has written; undefined if the proof was never run to its end. */
function read(name: string): any {
  const file = join(root, 'proof', `${name}.json`);
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
}

const versions = (of: Record<string, string>): string =>
  Object.entries(of)
    .map(([name, version]) => (name === 'cores' ? `${version} cores` : `${name} ${version}`))
    .join(', ');

function tests(proof: any): string {
  const { folders, files, tests } = proof;
  const rows = folders.map((each: any) => [`test/${each.folder}`, each.files, thousands(each.tests), each.about]);
  return `${count(tests, 'test')} in ${count(files, 'file')}, counted by the test runner, run by \`npm cit\` on every change.

${table(['where', 'files', 'tests', 'what'], rows)}`;
}

function steady({ command, minutes, load, runs, failed, slow, versions: of }: any): string {
  const ran = runs.map(({ passed, failed, skipped, seconds }: any, n: number) => [
    n + 1,
    ...[passed, failed, skipped, seconds].map(thousands),
  ]);
  const rows = failed.map((each: any) => [each.file, each.test, `${each.failed} of ${runs.length}`, each.said]);
  const long = slow.slice(0, 10).map(({ file, test, maxMs }: any) => [file, test, Math.round(maxMs / 1000)]);
  return `\`${command}\`, ${minutes} minutes, ${versions(of)}: the whole suite ${count(runs.length, 'time')} in a row, beside ${count(load, 'busy loop')}.
${count(rows.length, 'test')} ever failed.

${table(['run', 'passed', 'failed', 'skipped', 's'], ran)}${rows.length === 0 ? '' : `\n\n${table(['file', 'test', 'failed', 'said'], rows)}`}${
  long.length === 0 ? '' : `\n\nThe slowest, each in its slowest run:\n\n${table(['file', 'test', 's'], long)}`
}`;
}

function torture(proof: any): string {
  const stores = Object.entries<any>(proof.stores);
  const rows = stores.map(([store, { rounds, operations, grants, faults, excused }]) => [
    store,
    ...[rounds, operations, total(grants), total(faults), total(excused)].map(thousands),
  ]);
  return `\`${proof.command}\`, ${proof.minutes} minutes, seed ${proof.seed}, ${versions(proof.versions)}: ${count(proof.violations, 'broken promise')}.

${table(['store', 'rounds', 'operations', 'grants', 'faults', 'excused'], rows)}

Excused: what docs/safety.md does not promise, such as a second grant after a failover; each is counted, and has its fault.`;
}

/** Sums counts by kind; a single count is its own total. */
function total(counts: number | Record<string, number> = 0): number {
  return typeof counts === 'number' ? counts : Object.values(counts).reduce((sum, one) => sum + one, 0);
}

function breaks(proof: any): string {
  const rows = proof.breaks.map(({ name, file, caughtBy, seconds }: any) => [name, `\`${file}\``, caughtBy, seconds]);
  return `\`${proof.command}\`: the sources are broken on purpose, and each break must be caught for its own reason, while the unbroken copy passes.
${proof.caught} of ${proof.breaks.length} were caught.

${table(['break', 'where', 'caught by', 'after s'], rows)}`;
}

function protections({ command, protections: taken, without, minutes, versions: of }: any): string {
  const hazards = new Set(taken.map(({ hazard }: any) => hazard));
  const rows = without.map(({ hazard, why }: any) => [hazard, why]);
  return `\`${command}\`, ${minutes} minutes, ${versions(of)}: what protects from each hazard is taken out of the sources, one change at a time, and a
test that names the hazard must fail, while all of them pass on the unbroken copy. ${count(taken.length, 'change')} for ${count(hazards.size, 'hazard')}, each seen; the changes are in
test/protections/, and what each test said is in proof/protections.json.${rows.length === 0 ? '' : `\n\n${table(['hazard', 'why nothing is taken out'], rows)}`}`;
}

/** The counterexamples of Spin, in words. */
const counterexamples: readonly (readonly [RegExp, string])[] = [
  [/validity/, 'two valid holders'],
  [/gone/, 'a token that was released for good is granted the lock'],
  [/acceptance cycle/, 'a process waits for ever'],
  [/seen/, 'a fence that does not rise'],
];

function model(proof: any): string {
  const row = ({ name, bounds, states, depth, verdict, found }: any) => [
    name,
    bounds ?? '2 + 1 rounds, 1 fault, 1 crash',
    thousands(states),
    depth,
    verdict === 'holds' ? 'holds' : `refuted: ${counterexamples.find(([pattern]) => pattern.test(found))![1]}`,
  ];
  const seconds = proof.runs.reduce((sum: number, run: any) => sum + run.seconds, 0);
  return `\`npm run model\`: ${proof.version} searches every state of \`model/mutex.pml\` for two processes, in ${Math.ceil(seconds / 60)} minutes. The model is
the protocol of [docs/protocol.md](protocol.md): queue, hand-off, confirmation, lost replies, late requests, expiry. Each variant leaves one rule
out and must be refuted; the search ends at the first counterexample.

${table(['checked', 'bounds', 'states', 'depth', 'verdict'], proof.runs.map(row))}`;
}

function mutation({ lua, files }: any): string {
  const killed = lua.filter((each: any) => each.killedBy).length;
  const survivors = lua.filter((each: any) => !each.killedBy);
  const left = survivors.map(
    ({ script, why, reason }: any) => `- \`${script}.lua\`, ${why}: ${reason ?? 'no test notices it'}`,
  );
  const rows = files.map(({ file, notRun, mutants, killed, hung, score, seconds }: any) =>
    notRun
      ? [`\`${file}\``, notRun, '', '', '', '']
      : [`\`${file}\``, mutants, killed, hung ?? '', `${score} %`, seconds],
  );
  const reasons = files.flatMap(({ file, survivors = [] }: any) => {
    const byReason = new Map<string, number>();
    for (const { reason = 'no reason is written down' } of survivors)
      byReason.set(reason, (byReason.get(reason) ?? 0) + 1);
    return [...byReason].map(([reason, many]) => [`\`${file}\``, many, reason]);
  });
  return `\`npm run mutate\`. **The Lua scripts**: ${killed} of ${count(lua.length, 'mutant')} written by hand (\`mutation/lua-mutants.cjs\`) are killed,
${Math.floor((1000 * killed) / lua.length) / 10} %.${left.length > 0 ? ` Survivors:\n\n${left.join('\n')}` : ''}

**The files that carry safety**, by Stryker, against tests of each by itself (over a store that loses replies, or
that answers what the test says), the contract suite on the memory store and, for the queue and the machine, the simulation. The tests are first
run twice in one process without mutants: what fails is left out. Of the mutants killed, "hung" are those whose test did not end in time.

${table(['file', 'mutants', 'killed', 'hung', 'score', 's'], rows)}${
  reasons.length === 0
    ? ''
    : `\n\nThose that survive (\`proof/mutation.json\` has each with its line), and why they may (\`mutation/reasons.cjs\`):\n
${table(['file', 'survive', 'because'], reasons)}`
}`;
}

function compare({ faults, libraries, outcomes }: any): string {
  const names = Object.keys(faults).filter((name) => !faults[name].figure);
  const failed = (library: string) => names.filter((name) => outcomes[name][library].holds === false).length;
  const naive = failed('naive');
  const ours = failed('redis-exp-lock');
  return `\`npm run compare\` plays ${count(Object.keys(faults).length, 'fault')} to ${count(Object.keys(libraries).length, 'lock')}: ${names.length} that do harm, the others measured only. The naive lock
fails ${naive} of ${names.length}, this library ${ours}. [docs/compare.md](compare.md) has every cell.`;
}

function slowPaths({ command, minutes, passed, skipped, leftOut, shortCuts }: any): string {
  return `\`${command}\`, ${minutes} minutes: the contract suite at the places of \`npm cit\`, and the comparison of the scripts with their executable
specification, in a copy of the sources without any short cut. ${count(passed, 'test')} passed, ${thousands(skipped)} were skipped; ${count(leftOut.length, 'group')} of tests,
of what short cuts save and of short cuts themselves, were left out. ${count(shortCuts.length, 'short cut')} were off:

${shortCuts.map((name: string) => `- ${name}`).join('\n')}`;
}

function shimsMixed({ acquisitions, processes, contenders, scenarios }: any): string {
  const rows = Object.entries<any>(scenarios).map(
    ([name, { servers, served, faults, lost, stalls, silent, seconds }]) => [
      name,
      servers,
      ...[served, faults, lost, stalls, silent, seconds].map(thousands),
    ],
  );
  return `\`SHIM_ACQUISITIONS=${acquisitions} npm run test:shims-mixed\`: ${contenders} contenders in ${processes} processes, half of which use the package that the shim
replaces, want the same lock. Each notes when it held it, on one clock. A fault is somebody inside while another's lock is valid.

${table(['lock', 'servers', 'acquisitions', 'faults', 'lost', 'stalls', 'silent', 's'], rows)}

Stalls: the machine was paused for longer than a lock lasts, so that its next holder came in before the last one knew of the end. Silent:
releases that a server did not answer in time.`;
}

function worlds(proof: any): string {
  const sum = (name: string): number => proof.worlds.reduce((all: number, each: any) => all + each[name], 0);
  const rows = proof.worlds.map(({ name, worlds, grants }: any) => [name, thousands(worlds), thousands(grants)]);
  return `\`npm run prove:worlds\`: ${count(sum('worlds'), 'world')}, each from its own seed, in ${Math.ceil(sum('seconds') / 60)} minutes: no two holders but those who may share, fences in
order, everybody gets on. Each of the variants that somebody might think good enough breaks a promise in the ordinary run.

${table(['what goes wrong', 'worlds', 'grants'], rows)}`;
}

function quorum(proof: any): string {
  const { servers, seconds, mutex, read, write, timeouts, failures, lost, faults, longestWaitMs } = proof;
  return `\`PROVE_SECONDS=${seconds} npm run prove:quorum\`: ${servers} real servers, of which one after the other is killed and restarted empty, stopped, or killed for
a while: ${count(faults, 'fault')}, ${count(mutex, 'grant')} of a mutex, ${thousands(read)} of readers and ${thousands(write)} of writers. No two held what excludes the other, fences rose, all
waits ended: the longest after ${thousands(longestWaitMs)} ms; ${thousands(timeouts)} timed out, ${count(failures, 'attempt')} found no majority, ${count(lost, 'lock')} ended before the release.`;
}

const missing = (command: string): string => `Not run yet: \`${command}\`.`;
const section = (title: string, proof: any, render: (proof: any) => string, command: string): string =>
  `## ${title}\n\n${proof === undefined ? missing(command) : render(proof)}`;

/** The whole page, from the proofs as they are now. */
export function page(): string {
  return `${[
    `# How it is tested

Every figure on this page was written by a run: the runs write \`proof/*.json\` in the repository, and \`npm run proof\` makes this page of it.`,
    section('Tests', read('tests'), tests, 'npm run proof:count'),
    `Among them: one contract suite that every client and store runs; a random comparison of each Lua script with its executable specification in
TypeScript; a simulation of the waiting protocol in thousands of worlds; a fault proxy that loses, delays, repeats and cuts on a real connection; real
processes that are stopped and killed. [docs/hazards.md](hazards.md) lists the faults by number and the tests that cover each.`,
    section('The same again and again', read('steady'), steady, 'npm run test:steady -- --runs 10 --load 2'),
    section('Torture', read('torture'), torture, 'npm run torture'),
    section('Deliberate breaks', read('breaks'), breaks, 'npm run breaks'),
    section('Every hazard without its protection', read('protections'), protections, 'npm run protections'),
    section('A model', read('model'), model, 'npm run model'),
    section('Mutation', read('mutation'), mutation, 'npm run mutate'),
    section('Without short cuts', read('slow-paths'), slowPaths, 'npm run test:slow-paths'),
    section('A quorum in simulated worlds', read('worlds'), worlds, 'npm run prove:worlds'),
    section('A quorum of real servers', read('quorum'), quorum, 'PROVE_SECONDS=600 npm run prove:quorum'),
    section('Shims beside their peers', read('shims-mixed'), shimsMixed, 'npm run test:shims-mixed'),
    section('Other libraries', read('compare'), compare, 'npm run compare'),
    `## What is not tested

- **Machines apart.** Every process and server of these runs is on one host. Networks are a proxy that loses, delays and cuts; clocks that
  differ are simulated.
- **Managed services, Windows, macOS.** Linux on x64, and one version of Redis, in every run.
- **Weeks.** The longest run is the torture above. Leaks are searched for in runs of minutes.
- **The model is small.** Two processes, three or four acquisitions, a lifetime of three ticks. It has no renewal, no several keys, no
  hand-off within a process, no polling callers, no clocks of different rates; readers, writers, permits and quorum have the simulation and torture only.
- **Mutation is partial.** A file without figures above was not mutated; one with figures may have met the quick tests only, so that more survive.
  In the contract suite on memory no reply is lost: of that, only the tests of each file by itself show mutants anything. Mutants of the scripts are chosen by hand, not enumerated.
- **Other libraries on several servers.** Each is compared with one server, which is what most programs have.
- **Your code.** Nothing here stops a program that ignores \`lease.signal\`, or a resource that ignores the fence ([docs/safety.md](safety.md)).`,
  ].join('\n\n')}\n`;
}

if (require.main === module) writeFileSync(join(root, 'docs', 'proof.md'), page());
