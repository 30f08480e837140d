// `npx tsx bench/heap.ts [--looks N]`, as root: the heap after that many looks of the agent's own parts at the real files of a
// node, on a clock that does not wait: 2 ms of the agent take as long as a look does.
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createAnnouncer } from '../src/act/announce.ts';
import { loadConfig } from '../src/config/load.ts';
import { openParts } from '../src/daemon/compose.ts';
import { runLoop } from '../src/daemon/loop.ts';
import { createObservedLooks } from '../src/daemon/observed-look.ts';
import { findCgroupMounts } from '../src/host/cgroup/cgroup-mounts.ts';
import { createClock, readBootId } from '../src/host/clock.ts';
import { createCommandRunner } from '../src/host/systemd/transient.ts';
import { createOomWatch } from '../src/observe/oom-kills.ts';
import type { Clock } from '../src/ports.ts';
import { createRecorder } from '../src/record/writing/recorder.ts';
import { openShutdown } from '../src/shutdown/open.ts';
import { createStandalone } from '../src/standalone/open.ts';
import { availableMiB, type Scene, withScene } from '../test/lab/scene.ts';
import { atMost, barsTable, machine, sayMachine, table, writeResult } from './result.ts';

const MIB = 1024 * 1024;
const PODS = 10;
const THRESHOLD_MIB = 100;
/** Near enough for looks 2 ms apart, with what a process brings along left as room. */
const MARGIN_MIB = 8;

type Sample = { readonly looks: number; readonly heapMiB: number; readonly rssMiB: number; readonly usPerLook: number };

const { values } = parseArgs({ options: { looks: { type: 'string', default: '1000000' } } });
const looks = Number(values.looks);

/** Time passes only when nothing else is to be done: the next timer is always due. */
function hastyClock(): Clock & { readonly close: () => void } {
  const real = createClock();
  const wallStartMs = real.wallMs();
  const startMs = real.monoMs();
  let nowMs = startMs;
  let isClosed = false;
  const timers = new Set<{ readonly atMs: number; readonly run: () => void }>();
  const turn = (): void => {
    if (isClosed) return;
    let first: { readonly atMs: number; readonly run: () => void } | null = null;
    for (const timer of timers) if (first === null || timer.atMs < first.atMs) first = timer;
    if (first !== null) {
      timers.delete(first);
      nowMs = Math.max(nowMs, first.atMs);
      first.run();
    }
    setImmediate(turn);
  };
  setImmediate(turn);
  return {
    monoMs: () => nowMs,
    wallMs: () => wallStartMs + nowMs - startMs,
    after: (ms, run) => {
      const timer = { atMs: nowMs + Math.max(0, ms), run };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    close: () => {
      isClosed = true;
    },
  };
}

function collectGarbage(): void {
  setFlagsFromString('--expose_gc');
  runInNewContext('gc')();
}

async function look(scene: Scene, directory: string): Promise<readonly Sample[]> {
  const configFile = path.join(directory, 'heap.yaml');
  const { places } = scene.agent;
  const text = fs
    .readFileSync(places.configFile, 'utf8')
    .replaceAll(places.stateDirectory, path.join(directory, 'state'))
    .replaceAll(places.runtimeDirectory, path.join(directory, 'run'))
    .replace('dryRun: true', 'dryRun: false');
  fs.writeFileSync(configFile, text, { mode: 0o600 });
  const { effective } = loadConfig(configFile);
  const mounts = findCgroupMounts();
  const bootId = readBootId();
  if (effective === null || !mounts.known || !bootId.known) throw new Error('no configuration or no cgroups');
  const clock = hastyClock();
  const shutdown = openShutdown(clock, effective.runtimeDirectory);
  const host = { clock, mounts: mounts.value, bootId: bootId.value, log: 'none', onEntry: undefined } as const;
  const parts = openParts(
    {
      ...host,
      openRecorder: createRecorder,
      oomWatch: createOomWatch(mounts.value, clock),
      openMode: createStandalone(),
      shutdown,
      show: () => undefined,
      run: createCommandRunner({ systemd: shutdown.systemd, clock }),
      notifier: { follow: () => undefined },
    },
    effective,
    () => effective,
  );
  const { inbox, observer, recorder, log, findings, state } = parts;
  const node = () => ({ name: '', version: '', pid: 0, mode: effective.mode, dryRun: false }) as never;
  const desk = createObservedLooks({
    clock,
    wake: inbox.wake,
    node,
    config: parts.core,
    podsNow: observer.podsNow,
  });
  const tell = createAnnouncer({ log, findings });
  const end = new AbortController();
  const samples: Sample[] = [];
  const real = createClock();
  let done = 0;
  let before = state;
  let sinceMs = real.monoMs();
  await runLoop(
    state,
    {
      // Without a glance: every look is a whole one.
      observer: { look: (want, arrived) => observer.look(desk.wanted(want), arrived), reread: observer.reread },
      recorder,
      inbox,
      config: parts.core,
      begin: parts.actor.begin,
      publish: (observation, verdict) => {
        tell(observation, verdict);
        parts.oomKills(observation.atMs, verdict.state);
        desk.seen({ observation, verdict, before });
        before = verdict.state;
        if (++done % (looks / 10) !== 0) return;
        const usPerLook = (1000 * (real.monoMs() - sinceMs)) / (looks / 10);
        collectGarbage();
        const { heapUsed, rss } = process.memoryUsage();
        samples.push({ looks: done, heapMiB: heapUsed / MIB, rssMiB: rss / MIB, usPerLook });
        sinceMs = real.monoMs();
        if (done >= looks) end.abort();
      },
    },
    end.signal,
  );
  desk.close();
  await parts.close(true);
  await shutdown.close();
  clock.close();
  return samples;
}

const on = machine();
console.log(sayMachine(on));
const pods = Array.from({ length: PODS }, (_, i) => ({ name: `pod-${i}`, requestMiB: 16 }));
const config = [
  `evictionHard: { memory.available: ${THRESHOLD_MIB}Mi, pid.available: "10%", nodefs.available: 1% }`,
  'monitoringInterval: { min: 2ms, max: 10s, cpu: 100% }',
  // The agent of the scene looks on.
  'dryRun: true',
];
await withScene({ pods, config, memoryMiB: 512 }, false, async (scene) => {
  for (const { name } of pods.slice(1)) await scene.play(name, 'memory 4');
  await scene.play('pod-0', `memory ${Math.floor((await availableMiB(scene)) - THRESHOLD_MIB - MARGIN_MIB)}`);
  const directory = path.dirname(scene.agent.places.configFile);
  const samples = await look(scene, directory);
  const rows = samples.map(({ looks, heapMiB, rssMiB, usPerLook }) => [
    String(looks),
    heapMiB.toFixed(2),
    rssMiB.toFixed(1),
    usPerLook.toFixed(0),
  ]);
  console.log(table(['looks', 'heap MiB', 'RSS MiB', 'µs a look'], rows));
  const growth = (samples.at(-1)?.heapMiB ?? Number.NaN) / (samples[0]?.heapMiB ?? Number.NaN) - 1;
  console.log(
    `the heap ${growth < 0 ? 'shrank' : 'grew'} by ${(100 * Math.abs(growth)).toFixed(1)} % from a tenth to the end`,
  );
  const bars = [atMost(`heap after ${looks} looks beside that after a tenth`, 5, 100 * growth, '% more')];
  console.log(`\n${barsTable(bars)}`);
  writeResult('heap', { on, bars, pods: PODS, looks, samples, growth });
});
