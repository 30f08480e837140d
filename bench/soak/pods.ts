import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../src/host/clock.ts';
import { startWorkload, type Workload } from '../../src/host/process/workload.ts';
import { clock, type Scene, until } from '../../test/lab/scene.ts';

/** What a pod of the soak declares, and holds while nothing happens. */
export type Role = {
  readonly role: string;
  readonly priority: number;
  /** 0: BestEffort. */
  readonly requestMiB: number;
  readonly isGuaranteed?: true;
  readonly isProtected?: true;
  readonly restMiB: number;
  readonly graceSeconds: number;
};
export type SoakPod = Role & {
  readonly name: string;
  readonly workload: Workload;
  readonly startedMs: number;
  readonly tell: (command: string) => void;
  /** It has not done yet what it was told; false once it has ended. */
  readonly isBusy: () => boolean;
};

const BURSTABLE = [0, 0, 0, 0, 100, 100, 1000].map(
  (priority, i): Role => ({ role: `web${i}`, priority, requestMiB: 48, restMiB: 20, graceSeconds: 1 + (i % 3) }),
);
const BEST_EFFORT = [100, 100, 100].map(
  (priority, i): Role => ({ role: `batch${i}`, priority, requestMiB: 0, restMiB: 6, graceSeconds: 2 }),
);
/** Besides the anchor of the scene. Who rests within its request comes after whoever grew. */
export const ROLES: readonly Role[] = [
  ...BURSTABLE,
  ...BEST_EFFORT,
  { role: 'cache', priority: 0, requestMiB: 64, isGuaranteed: true, restMiB: 30, graceSeconds: 1 },
  { role: 'db', priority: 100, requestMiB: 64, isGuaranteed: true, restMiB: 30, graceSeconds: 1 },
  { role: 'kept', priority: 0, requestMiB: 48, isProtected: true, restMiB: 20, graceSeconds: 1 },
  { role: 'core', priority: 2_000_000_000, requestMiB: 48, restMiB: 20, graceSeconds: 1 },
];
const START_DEADLINE_MS = 30_000;

export type Pods = {
  readonly all: () => readonly SoakPod[];
  /** A new process in the pod's cgroup, which its directory is emptied for. */
  readonly restart: (pod: SoakPod) => Promise<void>;
  /** Another pod of the same role: name, manifest, cgroup and directory are new, the old ones are gone. */
  readonly replace: (pod: SoakPod) => Promise<void>;
  /** How many cgroups of ours there are below the node, in every hierarchy. */
  readonly cgroups: () => number;
  readonly close: () => void;
};

export async function openPods(scene: Scene, loadFile: string): Promise<Pods> {
  const parents = scene.cgroups('anchor').map((directory) => path.dirname(directory));
  const pods = new Map<string, SoakPod>();
  let made = 0;
  const cgroupsOf = (name: string): readonly string[] => parents.map((parent) => path.join(parent, name));
  const manifestOf = (name: string): string => path.join(scene.agent.places.manifests, `${name}.yaml`);

  const start = async (role: Role, name: string): Promise<void> => {
    let pending = 0;
    const workload = startWorkload({
      argv: [...CALM, '/usr/bin/perl', loadFile],
      join: cgroupsOf(name),
      monoMs: clock.monoMs,
      line: (text) => {
        if (text === 'done') pending -= 1;
      },
    });
    if (typeof workload === 'string') throw new Error(workload);
    const tell = (command: string): void => {
      pending += 1;
      workload.write(command);
    };
    const isBusy = (): boolean => pending > 0 && workload.isAlive();
    pods.set(name, { ...role, name, workload, startedMs: clock.monoMs(), tell, isBusy });
    tell(`memory ${role.restMiB} 500`);
    await until(`${name} is at rest`, () => !isBusy() || null, START_DEADLINE_MS);
  };
  const add = async (role: Role): Promise<void> => {
    made += 1;
    const name = `${role.role}-${made}`;
    for (const directory of cgroupsOf(name)) fs.mkdirSync(directory);
    fs.mkdirSync(scene.directory(name));
    fs.writeFileSync(manifestOf(name), manifest(role, name, scene.directory(name)), { mode: 0o644 });
    await start(role, name);
  };
  const end = async ({ name, workload }: SoakPod): Promise<void> => {
    workload.kill('SIGKILL');
    await until(`${name} has ended`, () => workload.ended());
    pods.delete(name);
  };
  for (const role of ROLES) await add(role);
  return {
    all: () => [...pods.values()],
    restart: async (pod) => {
      await end(pod);
      for (const file of fs.readdirSync(scene.directory(pod.name)))
        fs.rmSync(path.join(scene.directory(pod.name), file));
      await start(pod, pod.name);
    },
    replace: async (pod) => {
      await end(pod);
      fs.rmSync(manifestOf(pod.name));
      for (const directory of cgroupsOf(pod.name)) await removeCgroup(directory);
      fs.rmSync(scene.directory(pod.name), { recursive: true });
      await add(pod);
    },
    cgroups: () => parents.map(directoriesBelow).reduce((sum, count) => sum + count, 0),
    close: () => {
      for (const { workload } of pods.values()) workload.kill('SIGKILL');
    },
  };
}

// Other measurements run beside a soak. In a pid namespace of its own the dead are reaped by the kernel; with a fixed
// threshold glibc gives every MiB back at once.
const CALM = [
  '/usr/bin/nice',
  '-n',
  '19',
  '/usr/bin/unshare',
  '--pid',
  '--fork',
  '--kill-child',
  '/usr/bin/env',
  'MALLOC_MMAP_THRESHOLD_=131072',
];

function manifest(role: Role, name: string, directory: string): string {
  const amount = `{ memory: ${role.requestMiB}Mi${role.isGuaranteed ? ', cpu: 100m' : ''} }`;
  const limits = role.isGuaranteed ? `, limits: ${amount}` : '';
  const resources = role.requestMiB === 0 ? '{}' : `{ requests: ${amount}${limits} }`;
  return `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  namespace: soak
  annotations:
    nodewarden.dev/cgroup: ${name}
    nodewarden.dev/disk: ${directory}
    nodewarden.dev/protect: "${role.isProtected === true}"
spec:
  priority: ${role.priority}
  terminationGracePeriodSeconds: ${role.graceSeconds}
  containers:
    - name: main
      resources: ${resources}
`;
}

/** The dead keep it busy for some milliseconds. */
async function removeCgroup(directory: string): Promise<void> {
  for (let round = 0; round < 250; round++) {
    try {
      fs.rmdirSync(directory);
      return;
    } catch {
      await sleep(clock, 20);
    }
  }
  throw new Error(`${directory} could not be removed`);
}

function directoriesBelow(parent: string): number {
  const below = fs.readdirSync(parent, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return below.reduce((sum, { name }) => sum + 1 + directoriesBelow(path.join(parent, name)), 0);
}
