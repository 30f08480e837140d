// Memory told honestly (product.md section 8), by the service that install.sh installed: see the script `memory`. Its last
// line gives the figures; the exit status is 0 only if all holds.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { Attribution } from '../../src/core/eviction/attribution.ts';
import { sleep } from '../../src/host/clock.ts';
import type { DecisionRecord } from '../../src/record/entry.ts';
import type { StatusReport } from '../../src/serve/status.ts';
import { installedAgent } from './agent.ts';
import { askStatus, clock, until } from './scene.ts';

type Counted = 'workingSet' | 'reclaimable';
type Scene = {
  readonly status: () => Promise<StatusReport>;
  readonly evictions: () => readonly DecisionRecord[];
  readonly isActive: (unit: string) => boolean;
  /** A service that is nobody's pod. */
  readonly stranger: (name: string, ...command: readonly string[]) => void;
  readonly start: (pod: string) => void;
};
type PodSpec = { readonly name: string; readonly requestMiB?: number; readonly command: readonly string[] };
type Check = {
  readonly name: string;
  readonly counted: Counted;
  readonly limitMiB?: number;
  readonly pods: readonly PodSpec[];
  readonly body: (scene: Scene) => Promise<string>;
};

const { values } = parseArgs({ options: { only: { type: 'string' } } });
const UNITS = '/run/systemd/system';
const LOAD = path.join(import.meta.dirname, 'memory-load.pl');
const FILE = '/var/lib/nodewarden-lab-cache';
const SWAP = '/var/lib/nodewarden-lab-swap';
const MIB = 2 ** 20;
const LIMIT_MIB = 100;
/** Where nobody may end who grows, what stays free has to be enough: with 80 MiB the guest reads its programs over and over, until the kernel kills. */
const STRANGER_LIMIT_MIB = 160;
const SWAP_MIB = 256;
/** More than the guest has free. */
const FILE_MIB = 704;
/** The formula wants to have seen refaults for 10 s. */
const READING_MS = 20_000;
const REFAULTS_MIB = 64;
/** So long the comparison may take to evict. */
const COMPARED_MS = 15_000;
const count = { passed: 0, failed: 0, skipped: 0 };

const meminfo = (name: string): number =>
  Number(new RegExp(`^${name}: +(\\d+) kB`, 'm').exec(fs.readFileSync('/proc/meminfo', 'latin1'))?.[1]) / 1024;
const vmstat = (name: string): number =>
  Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(fs.readFileSync('/proc/vmstat', 'latin1'))?.[1]);
const oomKills = (): number => vmstat('oom_kill');
/** File pages that had to be read again since they were reclaimed. */
const refaultMiB = (): number => (vmstat('workingset_refault_file') * 4096) / MIB;
const mib = (bytes: number | null): string => (bytes === null ? 'unknown' : `${Math.round(bytes / MIB)} MiB`);
const run = (command: string, ...args: readonly string[]): string => {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  } catch (error) {
    // is-active says "inactive" with status 3.
    if (command === 'systemctl' && error instanceof Error && 'stdout' in error) return String(error.stdout).trim();
    throw error;
  }
};
const unitOf = (name: string): string => `lab-${name}.service`;

function podFiles({ name, requestMiB, command }: PodSpec): { readonly unit: string; readonly manifest: string } {
  const requests = requestMiB === undefined ? '{}' : `{ memory: ${requestMiB}Mi }`;
  return {
    unit: `[Service]\nExecStart=/usr/bin/perl ${LOAD} ${command.join(' ')}\nOOMScoreAdjust=0\nLimitNOFILE=65536\n`,
    manifest: `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  namespace: lab
  annotations: { nodewarden.dev/systemd-unit: ${unitOf(name)}, nodewarden.dev/after-eviction: stay }
spec: { containers: [{ name: main, resources: { requests: ${requests} } }] }
`,
  };
}

/** The pods as units, those after the first not yet started; removes all of it. */
async function withScene({ counted, limitMiB = LIMIT_MIB, pods, body }: Check): Promise<string> {
  const agent = installedAgent();
  const strangers: string[] = [];
  for (const pod of pods) {
    const { unit, manifest } = podFiles(pod);
    fs.writeFileSync(path.join(UNITS, unitOf(pod.name)), unit);
    fs.writeFileSync(path.join(agent.places.manifests, `${pod.name}.yaml`), manifest);
  }
  fs.writeFileSync(
    agent.places.configFile,
    `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenConfiguration
memoryAvailable: ${counted}
evictionHard: { memory.available: "${limitMiB}Mi" }
evictionPressureTransitionPeriod: 2s
`,
  );
  run('systemctl', 'daemon-reload');
  fs.writeFileSync('/proc/sys/vm/drop_caches', '3');
  const killsBefore = oomKills();
  try {
    const [first] = pods;
    if (first !== undefined) run('systemctl', 'start', unitOf(first.name));
    await sleep(clock, 1_000);
    await agent.start();
    const figures = await body({
      status: () => askStatus(agent.places.socket),
      evictions: () => {
        const history = run('nodewarden', 'history', '-o', 'json', '--evictions');
        const { decisions }: { readonly decisions: readonly DecisionRecord[] } = JSON.parse(history);
        return decisions.filter(({ outcomes }) => outcomes.every(({ kind }) => kind !== 'dropped'));
      },
      isActive: (name) => run('systemctl', 'is-active', unitOf(name)) === 'active',
      stranger: (name, ...command) => {
        strangers.push(unitOf(name));
        run('systemd-run', '--quiet', `--unit=${unitOf(name)}`, '/usr/bin/perl', LOAD, ...command);
      },
      start: (name) => void run('systemctl', 'start', unitOf(name)),
    });
    assert.equal(oomKills() - killsBefore, 0, 'the kernel killed nobody');
    return figures;
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n${agent.log().slice(-4_000)}`);
  } finally {
    run('systemctl', 'stop', ...strangers, ...pods.map(({ name }) => unitOf(name)));
    run('systemctl', 'reset-failed');
    await agent.close();
    for (const { name } of pods) fs.rmSync(path.join(UNITS, unitOf(name)));
    run('systemctl', 'daemon-reload');
  }
}

const podOf = ({ decision }: DecisionRecord): string => ('victim' in decision ? decision.victim.name : '');
const untilEvicted = (scene: Scene): Promise<unknown> =>
  until('an eviction ends', () => scene.evictions().some(({ outcomes }) => outcomes.length > 0) || null, 90_000);
function growthOf(record: DecisionRecord | undefined): Attribution {
  assert(record?.decision.kind === 'evict', 'it was evicted for a threshold');
  const { growth } = record.decision;
  assert(growth?.known, `who grew is known: ${JSON.stringify(growth)}`);
  return growth.value;
}

const DB: PodSpec = { name: 'db', requestMiB: 300, command: ['hold', '120'] };
const READER: PodSpec = { name: 'reader', command: ['read', FILE] };
const HOG: PodSpec = { name: 'hog', command: ['grow', '2048', '200'] };

/** The least that both formulas said was available, while the reader reads. */
async function leastWhileReading(scene: Scene, forMs: number, isOver: (status: StatusReport) => boolean) {
  let [workingSet, reclaimable, activeMiB] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0];
  const endMs = clock.monoMs() + forMs;
  while (clock.monoMs() < endMs) {
    const status = await scene.status();
    workingSet = Math.min(workingSet, status.memory.workingSetAvailableBytes ?? Number.POSITIVE_INFINITY);
    reclaimable = Math.min(reclaimable, status.memory.reclaimableAvailableBytes ?? Number.POSITIVE_INFINITY);
    activeMiB = Math.max(activeMiB, meminfo('Active\\(file\\)'));
    if (isOver(status)) break;
    await sleep(clock, 500);
  }
  return `least available by working set ${mib(workingSet)}, by reclaimable ${mib(reclaimable)}; active file pages up to ${Math.round(activeMiB)} MiB`;
}

const reading = (counted: Counted): Check => ({
  name:
    counted === 'reclaimable'
      ? 'a reader of the page cache evicts nobody under reclaimable'
      : 'for comparison, the same reader under workingSet',
  counted,
  pods: [DB, READER],
  body: async (scene) => {
    scene.start('reader');
    // Only from then on the cache is one that is used and does not fit.
    const before = refaultMiB();
    await until('pages are read again', () => refaultMiB() > before + REFAULTS_MIB || null, 120_000);
    const isEvicting = ({ act, decisions }: StatusReport): boolean => act.kind === 'evicting' || decisions.length > 0;
    const compared = counted === 'workingSet';
    const least = await leastWhileReading(
      scene,
      compared ? COMPARED_MS : READING_MS,
      (status) => isEvicting(status) && compared,
    );
    const evicted = scene.evictions().map(podOf);
    const figures = `${least}; ${Math.round(refaultMiB() - before)} MiB read again`;
    if (compared) return `evicted: ${evicted.join(', ') || 'nobody'}; ${figures}`;
    assert.deepEqual(evicted, [], 'nobody was evicted');
    for (const { name } of [DB, READER]) assert(scene.isActive(name), `${name} runs`);
    return figures;
  },
});

const hogging = (swapMiB: number): Check => ({
  name: 'under reclaimable, a hog of anonymous memory beside the reader is evicted before the kernel kills, and no other pod',
  counted: 'reclaimable',
  pods: [DB, READER, HOG],
  body: async (scene) => {
    scene.start('reader');
    scene.start('hog');
    let leastSwapMiB = swapMiB;
    await until(
      'the hog ends',
      () => {
        leastSwapMiB = Math.min(leastSwapMiB, meminfo('SwapFree'));
        return !scene.isActive('hog') || null;
      },
      90_000,
    );
    await untilEvicted(scene);
    await sleep(clock, 1_500);
    const [record, ...others] = scene.evictions();
    assert.deepEqual([record === undefined ? '' : podOf(record), others.map(podOf)], ['hog', []]);
    for (const { name } of [DB, READER]) assert(scene.isActive(name), `${name} runs`);
    assert.equal(growthOf(record).culprit, null, 'the growth was in pods');
    if (swapMiB > 0) assert(leastSwapMiB < swapMiB / 2, `${leastSwapMiB} MiB of swap were still free`);
    const [outcome] = record?.outcomes ?? [];
    const gave = outcome?.kind === 'ended' && outcome.releasedBytes.known ? outcome.releasedBytes.value : null;
    const swap = swapMiB === 0 ? '' : `, least free swap ${Math.round(leastSwapMiB)} of ${swapMiB} MiB`;
    return `gave back ${mib(gave)} ${Math.round((outcome?.atMs ?? 0) - (record?.decision.atMs ?? 0))} ms after the decision${swap}`;
  },
});

const SMALL: PodSpec = { name: 'db', requestMiB: 300, command: ['hold', '60'] };
const saidBy = ({ culprit, totalBytes, overMs }: Attribution): string =>
  `${culprit?.where} took ${mib(culprit?.bytes ?? null)} of ${mib(totalBytes)} in ${(overMs / 1000).toFixed(1)} s`;

const serviceGrows: Check = {
  name: 'a service that is not a pod grows: the decision names it, and so does the finding once no candidate is left',
  // The root's working set holds no kernel memory: on so small a machine the kernel kills before it says so.
  counted: 'reclaimable',
  limitMiB: STRANGER_LIMIT_MIB,
  pods: [SMALL],
  body: async (scene) => {
    const free = await scene.status();
    const available = free.memory.reclaimableAvailableBytes ?? 0;
    // Past the threshold also with the pod gone, but not far.
    scene.stranger('backup', 'grow', String(Math.round(available / MIB) - STRANGER_LIMIT_MIB + 60 + 20), '200');
    await untilEvicted(scene);
    const [record] = scene.evictions();
    const growth = growthOf(record);
    assert.equal(growth.culprit?.where, `system.slice/${unitOf('backup')}`);
    const finding = await until('a finding', async () => {
      const { findings } = await scene.status();
      return findings.find(({ id }) => id === 'no-candidate/memory.available') ?? null;
    });
    assert.match(finding.text, /not in pods: system\.slice\/lab-backup\.service took /);
    assert.match(run('nodewarden', 'history', '--evictions'), /growth +most of the growth .*lab-backup\.service/);
    return `${saidBy(growth)}; then: ${finding.text}`;
  },
};

const pipesFill: Check = {
  name: 'a pod that fills pipes is evicted before the kernel kills',
  counted: 'reclaimable',
  pods: [DB, { name: 'pipes', command: ['pipes', '2048', '50'] }],
  body: async (scene) => {
    scene.start('pipes');
    await untilEvicted(scene);
    assert.deepEqual(scene.evictions().map(podOf), ['pipes']);
    assert(scene.isActive(DB.name), `${DB.name} runs`);
    const { memory } = await scene.status();
    return `afterwards ${mib(memory.reclaimableAvailableBytes)} are available`;
  },
};

const kernelGrows: Check = {
  name: 'the kernel’s own memory grows: the decision names which part',
  counted: 'reclaimable',
  pods: [SMALL],
  body: async (scene) => {
    const available = (await scene.status()).memory.reclaimableAvailableBytes ?? 0;
    scene.stranger('messages', 'messages', String(Math.round(available / MIB) - LIMIT_MIB + 30));
    await untilEvicted(scene);
    const growth = growthOf(scene.evictions()[0]);
    assert.equal(growth.culprit?.where, 'kernel: slab');
    return saidBy(growth);
  },
};

async function judge(check: Check, where: string): Promise<void> {
  const name = `${where}: ${check.name}`;
  if (values.only !== undefined && !name.includes(values.only)) return;
  const startMs = clock.monoMs();
  const seconds = (): string => `${((clock.monoMs() - startMs) / 1000).toFixed(1)} s`;
  try {
    const figures = await withScene(check);
    count.passed += 1;
    console.log(`ok      ${name} (${seconds()})\n        ${figures}`);
  } catch (error) {
    count.failed += 1;
    console.log(`FAILED  ${name} (${seconds()})\n        ${error instanceof Error ? error.message : error}`);
  }
}

console.log(
  `memory ${Math.round(meminfo('MemTotal'))} MiB, kernel ${run('uname', '-r')}, a file of ${FILE_MIB} MiB is read`,
);
run('dd', 'if=/dev/urandom', `of=${FILE}.part`, 'bs=1M', 'count=16');
run('sh', '-c', `for i in $(seq ${FILE_MIB / 16}); do cat ${FILE}.part; done > ${FILE}; rm ${FILE}.part; sync`);
for (const swapMiB of [0, SWAP_MIB]) {
  if (swapMiB > 0) {
    run('dd', 'if=/dev/zero', `of=${SWAP}`, 'bs=1M', `count=${swapMiB}`);
    fs.chmodSync(SWAP, 0o600);
    run('mkswap', SWAP);
    run('swapon', SWAP);
  }
  const where = swapMiB === 0 ? 'without swap' : 'with swap';
  if (swapMiB === 0) for (const check of [serviceGrows, kernelGrows, pipesFill]) await judge(check, where);
  for (const check of [hogging(swapMiB), reading('reclaimable'), reading('workingSet')]) await judge(check, where);
}
console.log(`memory, the installed service: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exitCode = count.failed === 0 ? 0 : 1;
