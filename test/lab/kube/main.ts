// Mode kubelet beside a real kubelet, on the cluster that kube/up made. The last line counts; the exit status is 0 only if
// all holds.
//   --times N  at most   --only TEXT   --keep DIR  what was seen of each run   --report FILE  the tables
//   --peer  without the agent: what a scene says then   --runtime new  those alone that are played on every containerd
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { clock } from '../scene.ts';
import { admissionScenes } from './admission.ts';
import { awayScenes } from './away.ts';
import { besideScenes } from './beside.ts';
import { budgetScenes } from './budget.ts';
import { isRunning, startPart } from './cluster.ts';
import { crashScenes } from './crash.ts';
import { crowdScenes } from './crowd.ts';
import { deletedScenes } from './deleted.ts';
import { imageScenes } from './images.ts';
import { OWNERS_HEAD, ownerScenes } from './owners.ts';
import { type KubeScene, playScene, type Verdict } from './scene.ts';
import { volumeScenes } from './volumes.ts';
import { watchScenes } from './watch.ts';

const { values } = parseArgs({
  options: {
    times: { type: 'string', default: '1000' },
    only: { type: 'string', default: '' },
    keep: { type: 'string' },
    report: { type: 'string' },
    peer: { type: 'boolean', default: false },
    runtime: { type: 'string', default: 'old' },
  },
});
/** A new area is a file here, and a line below. */
const SCENES: readonly KubeScene[] = [
  ...ownerScenes,
  ...imageScenes,
  ...budgetScenes,
  ...awayScenes,
  ...crashScenes,
  ...deletedScenes,
  ...besideScenes,
  ...crowdScenes,
  ...volumeScenes,
  ...watchScenes,
  ...admissionScenes,
];
const total = { passed: 0, failed: 0, skipped: 0, runs: 0 };
const table: string[] = [];
const MOST_SHOWN = 4;

/** One that has seen an API server come back with an older truth may exit, as newer ones do. In a cluster it is started again. */
function reviveScheduler(): void {
  if (isRunning('scheduler')) return;
  console.log('        the scheduler had ended, and is started again');
  startPart('scheduler');
}

async function playOnce(scene: KubeScene, index: number): Promise<Verdict> {
  const keep = (log: string): void => {
    if (values.keep === undefined) return;
    fs.mkdirSync(values.keep, { recursive: true });
    fs.writeFileSync(path.join(values.keep, `${`${scene.name} ${index}`.replace(/[^a-z0-9]+/gi, '-')}.log`), log);
  };
  try {
    reviveScheduler();
    return await playScene(scene, { index, isPeer: values.peer, report: (line) => void table.push(line) }, keep);
  } catch (error) {
    return { wrong: [error instanceof Error ? (error.stack ?? error.message) : String(error)], figures: '' };
  }
}

async function play(scene: KubeScene): Promise<void> {
  const missing = scene.missing?.() ?? null;
  if (missing !== null) {
    console.log(`skipped ${scene.name}: ${missing}`);
    total.skipped += 1;
    return;
  }
  const startMs = clock.monoMs();
  const runs = Math.min(Number(values.times), scene.times ?? 1);
  const verdicts: Verdict[] = [];
  for (let index = 0; index < runs; index++) verdicts.push(await playOnce(scene, index));
  const good = verdicts.filter(({ wrong }) => wrong.length === 0).length;
  total.runs += runs;
  total[good === runs ? 'passed' : 'failed'] += 1;
  const seconds = ((clock.monoMs() - startMs) / 1000).toFixed(0);
  console.log(`${good === runs ? 'ok     ' : 'FAILED '} ${scene.name}: ${good} of ${runs} hold (${seconds} s)`);
  const figures = [...new Set(verdicts.map((verdict) => verdict.figures).filter(Boolean))];
  for (const line of figures.slice(0, MOST_SHOWN)) console.log(`        ${line}`);
  const counts = new Map<string, number>();
  for (const { wrong } of verdicts) for (const sentence of wrong) counts.set(sentence, (counts.get(sentence) ?? 0) + 1);
  for (const [sentence, count] of [...counts].slice(0, 3 * MOST_SHOWN))
    console.log(`        ${sentence}${count > 1 ? ` (${count})` : ''}`);
}

for (const scene of SCENES) {
  if (scene.name.includes(values.only) && (values.runtime === 'old' || scene.isOnAll === true)) await play(scene);
}
const lines = [...(table.some((line) => line.startsWith('| Deployment')) ? OWNERS_HEAD : []), ...table];
for (const line of lines) console.log(line);
if (values.report !== undefined) fs.writeFileSync(values.report, `${lines.join('\n')}\n`);
console.log(`${total.runs} runs`);
console.log(`kubelet: ${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exit(total.failed === 0 ? 0 : 1);
