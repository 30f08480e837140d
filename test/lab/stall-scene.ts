// A node that thrashes: its database and its other pods under nodewarden or a peer, and who watches them.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { sleep } from '../../src/host/clock.ts';
import { createProcfs } from '../../src/host/procfs.ts';
import type { DecisionRecord } from '../../src/record/entry.ts';
import { installedAgent } from './agent.ts';
import { askStatus, clock, until } from './scene.ts';
import { type Peer, run, SLICE, type Swap, UNITS } from './stall-node.ts';
import { readSamples, type Sample, type Stall } from './stall-samples.ts';

/** `service`: lines of its unit. `priority`, `requestMiB`: of its manifest. */
export type Unit = {
  readonly name: string;
  readonly command: readonly string[];
  readonly priority?: number;
  readonly requestMiB?: number;
  readonly service?: readonly string[];
};
export type Guard = 'nodewarden' | Peer;
export type Run = {
  readonly samples: readonly Sample[];
  readonly evicted: readonly string[];
  /** When the first of them was; null: nobody was evicted. */
  readonly chosenMs: number | null;
  readonly kernelKills: number;
};

const LOAD = path.join(import.meta.dirname, 'memory-load.pl');
const WATCH = path.join(import.meta.dirname, 'stall-watch.pl');
const WATCHED = '/run/nodewarden-lab-watch';
const DATABASE_MIB = 120;
/** What perl has beside what it was told to take. */
const PERL_MIB = 6;
const MIB = 2 ** 20;
export const DB: Unit = { name: 'db', command: ['hold', String(DATABASE_MIB)], priority: 1000, requestMiB: 300 };
/**
 * `fullShare`: an emulated processor is busy with this lab and the agent for the rest of the time. `belowShare`: well above
 * what the hog leaves, so that the stall counts from its beginning for the lab and the agent alike.
 */
export const STALL = { fullShare: 0.15, forMs: 10_000, belowShare: 0.4 } as const;

export const configOf = (rules: string): string => `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenConfiguration
memoryAvailable: reclaimable
oomScoreAdj: "off"
${rules}
evictionPressureTransitionPeriod: 2s
`;
export const onStall = ({ fullShare, forMs, belowShare }: Stall): string =>
  configOf(`evictionHard: { memory.available: 3% }
evictionStall: { memory: { full: ${fullShare * 100}%, for: ${forMs / 1_000}s, belowAvailable: ${belowShare * 100}% } }`);
const later = promisify(execFile);
export const unitOf = ({ name }: Pick<Unit, 'name'>): string => `lab-${name}.service`;
const pidOf = (unit: Unit): string => run('systemctl', 'show', '-P', 'MainPID', unitOf(unit));
export const isActive = (unit: Unit): boolean => run('systemctl', 'is-active', unitOf(unit)) === 'active';
const kernelKills = (): number => Number(/^oom_kill (\d+)$/m.exec(fs.readFileSync('/proc/vmstat', 'latin1'))?.[1]);
const reserve = (): number => {
  const procfs = createProcfs();
  const own = procfs.kernelsOwn();
  procfs.close();
  if (!own.known) throw new Error(`${own.where}: ${own.detail}`);
  return own.value.reserveBytes.low;
};

function writeUnit(unit: Unit): void {
  const exec = `ExecStart=/usr/bin/perl ${LOAD} ${unit.command.join(' ')}`;
  const service = [`Slice=${SLICE}`, exec, 'OOMScoreAdjust=0', ...(unit.service ?? [])].join('\n');
  fs.writeFileSync(path.join(UNITS, unitOf(unit)), `[Unit]\nStartLimitIntervalSec=0\n[Service]\n${service}\n`);
}

const manifestOf = (unit: Unit): string => `apiVersion: v1
kind: Pod
metadata:
  name: ${unit.name}
  namespace: lab
  annotations: { nodewarden.dev/systemd-unit: ${unitOf(unit)}, nodewarden.dev/after-eviction: stay }
spec:
  priority: ${unit.priority ?? 0}
  containers: [{ name: main, resources: { requests: ${unit.requestMiB === undefined ? '{}' : `{ memory: ${unit.requestMiB}Mi }`} } }]
`;

/** One sample of now. */
async function availableMiB(): Promise<number> {
  await later('/usr/bin/perl', [WATCH, WATCHED, '0.05', 'leave']);
  const [sample] = readSamples(WATCHED, reserve());
  const procfs = createProcfs();
  const total = procfs.memTotalBytes();
  const facts = procfs.meminfo();
  procfs.close();
  if (sample === undefined || !total.known || !facts.known) throw new Error('nothing is known of the memory');
  const { anonBytes, shmemBytes, swapFreeBytes } = facts.value;
  // Free swap in which nothing is yet is more than what is taken: the formula does not go below nothing.
  const unused = [anonBytes, shmemBytes].reduce(
    (left, of) => left - (of.known ? of.value : 0),
    swapFreeBytes.known ? swapFreeBytes.value : 0,
  );
  return (sample.availableShare * total.value + Math.max(0, unused)) / MIB;
}

/** Who takes so much that this share of the memory is left. */
export async function takes(name: string, verb: readonly string[], leftShare: number): Promise<Unit> {
  const procfs = createProcfs();
  const total = procfs.memTotalBytes();
  procfs.close();
  if (!total.known) throw new Error(total.detail);
  const mib = Math.floor((await availableMiB()) - (leftShare * total.value) / MIB - PERL_MIB);
  const [first = '', ...rest] = verb;
  return { name, command: [first, String(mib), ...rest] };
}

/** Watches until one of the units is dead, or for so long. `end`: of the first then. */
export async function watched(
  units: readonly Unit[],
  forSeconds: number,
  end: 'kill' | 'leave',
): Promise<readonly Sample[]> {
  await later('/usr/bin/perl', [WATCH, WATCHED, String(forSeconds), end, ...units.map(pidOf)]);
  return readSamples(WATCHED, reserve());
}

/** `guard`: nodewarden, or what is started in its place. `pods`: those that are there before it. */
export async function play(
  swap: Swap,
  guard: Guard,
  { pods, config }: { readonly pods: readonly Unit[]; readonly config: string },
  body: () => Promise<readonly Sample[]>,
): Promise<Run> {
  const agent = installedAgent();
  const closers: (() => unknown)[] = [];
  fs.writeFileSync('/proc/sys/vm/drop_caches', '3');
  swap.on();
  try {
    fs.writeFileSync(agent.places.configFile, config);
    if (guard !== 'nodewarden') {
      closers.push(guard.off);
      guard.on();
    }
    start(pods, guard);
    await sleep(clock, 5_000);
    if (guard === 'nodewarden') await agent.start();
    const before = kernelKills();
    const samples = await body();
    // Its outcome is recorded, and what it holds given back.
    await sleep(clock, 3_000);
    const evictions = guard === 'nodewarden' ? evictionsNow() : [];
    const evicted = evictions.map(({ decision }) =>
      decision.kind === 'evict' ? `${decision.victim.name} for ${decision.threshold.signal}` : decision.kind,
    );
    const chosenMs = evictions[0]?.decision.atMs ?? null;
    return { samples, evicted, chosenMs, kernelKills: kernelKills() - before };
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n${agent.log().slice(-4_000)}`);
  } finally {
    run('systemctl', 'stop', 'lab-*.service');
    run('systemctl', 'reset-failed');
    await agent.close();
    for (const close of closers) close();
    for (const file of fs.readdirSync(UNITS)) if (/^lab-.*\.service$/.test(file)) fs.rmSync(path.join(UNITS, file));
    swap.off();
  }
}

function evictionsNow(): readonly DecisionRecord[] {
  const history = run('nodewarden', 'history', '-o', 'json', '--evictions');
  const { decisions }: { readonly decisions: readonly DecisionRecord[] } = JSON.parse(history);
  return decisions
    .filter(({ outcomes }) => outcomes.every(({ kind }) => kind !== 'dropped'))
    .sort((a, b) => a.decision.atMs - b.decision.atMs);
}

/** All at once: an emulated machine takes seconds for each call of systemd. */
export function start(units: readonly Unit[], guard: Guard): void {
  for (const unit of units) {
    writeUnit(unit);
    if (guard === 'nodewarden') fs.writeFileSync(`/etc/nodewarden/pods.d/${unit.name}.yaml`, manifestOf(unit));
  }
  run('systemctl', 'daemon-reload');
  run('systemctl', 'start', ...units.map(unitOf));
}

/** Its usage is known: an emulated machine may take half a minute until then. */
export async function untilKnown(units: readonly Unit[]): Promise<void> {
  await until(`the agent knows ${units.map(({ name }) => name).join(', ')}`, async () => {
    await sleep(clock, 1_000);
    // It may be too busy, on such a machine, to answer in time.
    const pods = await askStatus('/run/nodewarden/nodewarden.sock').then(
      (status) => status.pods,
      () => null,
    );
    if (pods === null) return null;
    const known = new Set(pods.known ? pods.order.filter(({ usage }) => usage !== null).map(({ name }) => name) : []);
    return units.every(({ name }) => known.has(name)) || null;
  });
}
