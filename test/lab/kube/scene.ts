// A scene on the cluster: pods, the agent beside the kubelet, and what became of everybody.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { type DecisionRecord, joinDecisions } from '../../../src/record/entry.ts';
import { readRecord } from '../../../src/record/reading/record-file.ts';
import type { StatusReport } from '../../../src/serve/status.ts';
import { type Agent, ownAgent } from '../agent.ts';
import { askStatus, clock, until } from '../scene.ts';
import { ask, create, EVENTS, type KubeObject, list, NODE, OWNERS, remove, saysReady } from './api.ts';
import { CGROUP_ROOT, MIB, NODE_NAME, podCgroups, podsMemory, RUN, SHARE, STATIC } from './cluster.ts';
import { type Life, type Lives, type Version, watchLives } from './lives.ts';
import { PRIORITIES } from './manifests.ts';

export type Manifest = { readonly kind: string } & { readonly [field: string]: unknown };
export type KubeScene = {
  readonly name: string;
  /** How often it is played; 1 by default. `--times` makes it fewer. */
  readonly times?: number;
  /** On every containerd; by default only on the first. */
  readonly isOnAll?: true;
  /** Lines of the agent's configuration. */
  readonly config: readonly string[];
  /** The pods that may be evicted, by their label `pod`; everybody else is innocent. */
  readonly culprits: readonly string[];
  /** How many evictions are right, none of them in vain; exactly one by default. */
  readonly evictions?: { readonly least: number; readonly most: number };
  /** The kubelet evicts in it, on purpose. */
  readonly isKubeletAsked?: true;
  /** Without the agent, whatever is asked for. */
  readonly isWithoutAgent?: true;
  /** The body starts the agent itself. */
  readonly isAgentLate?: true;
  /** The agent cannot win in it: the kernel may end the culprits. */
  readonly mayKernelKill?: true;
  /** Its end is looked at by the body alone: no record is judged. */
  readonly isJudgedByBody?: true;
  readonly missing?: () => string | null;
  /** Figures for people; throws when something does not hold that `judge` does not see. */
  readonly body: (scene: Scene) => Promise<string>;
};
export type Scene = {
  readonly agent: Agent;
  readonly lives: Lives;
  readonly startMs: number;
  readonly startWallMs: number;
  readonly run: Run;
  readonly create: (...manifests: readonly Manifest[]) => Promise<void>;
  /** Waits until the pods with this label `pod` are so many, ready, and known to the agent. */
  readonly ready: (pod: string, count?: number) => Promise<readonly KubeObject[]>;
  /** The latest versions of the pods with that label `pod`. */
  readonly podsOf: (pod: string) => readonly KubeObject[];
  /** Waits until a process of the pod has gone; when that was. */
  readonly gone: (pod: KubeObject) => Promise<number>;
  readonly status: () => Promise<StatusReport>;
  readonly evictions: () => readonly DecisionRecord[];
  readonly events: () => Promise<readonly KubeObject[]>;
  /** The pods wait for these files. */
  readonly say: (file: string) => void;
  /** When so little was left first: by the lab's own sample, or by the decision, if that saw it earlier. NaN: never. */
  readonly crossedMs: (mib: number, sinceMs?: number) => number;
};
/** `index` from 0; `peer`: there is no agent. */
export type Run = { readonly index: number; readonly isPeer: boolean; readonly report: (line: string) => void };
export type Verdict = { readonly wrong: readonly string[]; readonly figures: string };

const CLEAN_DEADLINE_MS = 120_000;
const OUTCOME_DEADLINE_MS = 45_000;
/** After an eviction nobody else may follow: so long the node is watched. */
const AFTERMATH_MS = 3_000;
/** Of the kubelet that kube/up started. */
const CALM_MIB = 900;

export const victimOf = ({ decision }: DecisionRecord): string => ('victim' in decision ? decision.victim.name : '');
export const victimUid = ({ decision }: DecisionRecord): string => ('victim' in decision ? decision.victim.uid : '');
export const has = (kind: string, { outcomes }: DecisionRecord): boolean =>
  outcomes.some((outcome) => outcome.kind === kind);
export const isOver = ({ outcomes }: DecisionRecord): boolean => outcomes.length > 0;
export const podLabel = (pod: KubeObject): string => pod.metadata.labels?.['pod'] ?? '';
export const isReady = (pod: KubeObject): boolean => pod.metadata.deletionTimestamp === undefined && saysReady(pod);
export const restarts = (pod: KubeObject): number => pod['status'].containerStatuses?.[0]?.restartCount ?? 0;
const isStarted = (pod: KubeObject): boolean => pod['status'].containerStatuses?.[0]?.state?.running !== undefined;
const isEvictedByKubelet = (pod: KubeObject): boolean =>
  pod['status'].phase === 'Failed' && pod['status'].reason === 'Evicted';

/** Plays a scene on a clean node, judges it, and leaves a clean node, whatever happens. */
export async function playScene(scene: KubeScene, run: Run, keep: (log: string) => void): Promise<Verdict> {
  await cleanNode();
  for (const priority of PRIORITIES) await create(priority).catch(() => undefined); // It is there already.
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-kube-'));
  const lives = watchLives();
  const agent = ownAgent(directory);
  const isAgentHere = !run.isPeer && scene.isWithoutAgent !== true;
  const wrong: string[] = [];
  let figures = '';
  try {
    writeConfiguration(agent, scene.config);
    const played = createScene(agent, lives, run, isAgentHere);
    if (isAgentHere && scene.isAgentLate !== true) await agent.start();
    figures = await scene.body(played).catch((error: Error) => {
      wrong.push(error.message);
      return '';
    });
    await sleep(clock, AFTERMATH_MS);
    wrong.push(...(await judge(scene, played, isAgentHere)));
    keep(await sayAll(played, isAgentHere));
  } finally {
    await agent.close().catch((error: Error) => wrong.push(error.message.slice(0, 1_000)));
    lives.close();
    for (const made of [directory, agent.places.runtimeDirectory]) fs.rmSync(made, { recursive: true, force: true });
    await cleanNode();
  }
  return { wrong, figures };
}

function createScene(agent: Agent, lives: Lives, run: Run, isAgentHere: boolean): Scene {
  const startWallMs = clock.wallMs();
  const startMs = clock.monoMs();
  const podsOf = (pod: string): readonly KubeObject[] => lives.pods().filter((one) => podLabel(one) === pod);
  const knows = async (uids: readonly (string | undefined)[]): Promise<boolean> => {
    if (!isAgentHere || !agent.isRunning()) return true;
    const { pods } = await askStatus(agent.places.socket);
    return pods.known && uids.every((uid) => pods.order.some((row) => row.uid === uid));
  };
  return {
    agent,
    lives,
    startMs,
    startWallMs,
    run,
    create: async (...manifests) => {
      for (const manifest of manifests) await create(manifest);
    },
    ready: (pod, count = 1) =>
      until(`${count} of ${pod} are ready, and the agent knows them`, async () => {
        const there = podsOf(pod).filter(isReady);
        if (there.length !== count) return null;
        return (await knows(there.map(({ metadata }) => metadata.uid))) ? there : null;
      }),
    podsOf,
    gone: async ({ metadata }) =>
      until(
        `${metadata.name} ends`,
        () => lives.lives().find(({ uid, goneMs }) => uid === metadata.uid && goneMs)?.goneMs ?? null,
      ),
    status: () => askStatus(agent.places.socket),
    evictions: () => evictionsOf(agent),
    events: async () =>
      (await ask(EVENTS))['items'].filter(
        ({ metadata }: KubeObject) => Date.parse(metadata.creationTimestamp ?? '') >= startWallMs - 1_000,
      ),
    say: (file) => fs.writeFileSync(path.join(SHARE, file), ''),
    crossedMs: (mib, sinceMs = startMs) => {
      const seen = isAgentHere
        ? evictionsOf(agent).flatMap(({ decision }) => (decision.kind === 'evict' ? [decision.threshold.sinceMs] : []))
        : [];
      const sampled = lives.crossedMs(mib * MIB, sinceMs);
      const all = [...seen.filter((ms) => ms >= sinceMs), ...(sampled === null ? [] : [sampled])];
      return all.length === 0 ? Number.NaN : Math.min(...all);
    },
  };
}

export function evictionsOf(agent: Agent): readonly DecisionRecord[] {
  if (!fs.existsSync(path.join(agent.places.stateDirectory, 'record.jsonl'))) return [];
  return joinDecisions(readRecord(agent.places.stateDirectory).entries).filter(
    ({ decision }) => decision.kind === 'evict' || decision.kind === 'evict-over-limit',
  );
}

function writeConfiguration(agent: Agent, config: readonly string[]): void {
  const { places } = agent;
  const isSet = (field: string): boolean => config.some((line) => line.startsWith(`${field}:`));
  const lines = [
    'apiVersion: nodewarden.dev/v1alpha1',
    'kind: NodewardenConfiguration',
    'mode: kubelet',
    `cgroupRoot: ${CGROUP_ROOT}`,
    'cgroupDriver: cgroupfs',
    `containerRuntimeEndpoint: unix://${path.join(RUN, 'containerd.sock')}`,
    `stateDirectory: ${places.stateDirectory}`,
    `runtimeDirectory: ${places.runtimeDirectory}`,
    `socket: ${places.socket}`,
    `nodefs: { path: ${path.join(RUN, 'kubelet')} }`,
    ...(isSet('evictionPressureTransitionPeriod') ? [] : ['evictionPressureTransitionPeriod: 5s']),
    ...(isSet('kubernetes')
      ? []
      : [`kubernetes: { kubeconfig: ${path.join(RUN, 'nodewarden.conf')}, nodeName: ${NODE_NAME} }`]),
    ...config,
  ];
  fs.writeFileSync(places.configFile, `${lines.join('\n')}\n`, { mode: 0o644 });
}

async function judge(scene: KubeScene, played: Scene, isAgentHere: boolean): Promise<readonly string[]> {
  const wrong: string[] = [];
  const { lives, agent } = played;
  const versions = lives.versions();
  wrong.push(...innocentsHurt(versions, lives, isAgentHere ? played.evictions() : []));
  if (lives.kernelOomKills() > 0 && scene.mayKernelKill !== true)
    wrong.push(`the kernel killed ${lives.kernelOomKills()} times`);
  if (scene.isKubeletAsked !== true) {
    const evicted = new Set(versions.filter(({ pod }) => isEvictedByKubelet(pod)).map(({ pod }) => pod.metadata.name));
    if (evicted.size > 0) wrong.push(`the kubelet evicted ${[...evicted].join(', ')}`);
  }
  wrong.push(
    ...fs
      .readdirSync(SHARE)
      .filter((name) => name.endsWith('.twice'))
      .map((name) => `two at once: ${name}`),
  );
  if (scene.isJudgedByBody === true) return wrong;
  if (!isAgentHere) return [...wrong, ...(scene.isWithoutAgent === true ? [] : ['there was no agent'])];
  if (!agent.isRunning()) wrong.push('the agent ended by itself');
  await until('every eviction has an end', () => played.evictions().every(isOver) || null, OUTCOME_DEADLINE_MS).catch(
    (error: Error) => wrong.push(error.message),
  );
  const evictions = played.evictions();
  const labels = new Map(versions.map(({ pod }) => [pod.metadata.uid, podLabel(pod)]));
  for (const record of evictions) {
    const label = labels.get(victimUid(record)) ?? victimOf(record);
    if (!scene.culprits.includes(label)) wrong.push(`the innocent ${victimOf(record)} was chosen`);
    if (has('survived', record)) wrong.push(`${victimOf(record)} survived: ${JSON.stringify(record.outcomes.at(-1))}`);
  }
  const done = evictions.filter((record) => !has('dropped', record));
  const { least, most } = scene.evictions ?? { least: 1, most: 1 };
  if (done.length < least || done.length > most) {
    const wanted = least === most ? String(least) : `${least} to ${most}`;
    wrong.push(`evictions: ${done.length} (${done.map(victimOf).join(', ')}), not ${wanted}`);
  }
  return wrong;
}

/** Those that nobody may touch: neither deleted, nor restarted, nor without their process for a moment. */
function innocentsHurt(
  versions: readonly Version[],
  lives: Lives,
  evictions: readonly DecisionRecord[],
): readonly string[] {
  const decidedMs = Math.min(...evictions.map(({ decision }) => decision.atMs));
  const startedMs = (uid: string): number =>
    versions.find(({ pod }) => pod.metadata.uid === uid && isStarted(pod))?.atMs ?? Infinity;
  // On a busy machine the kubelet gives up on a start and starts the container anew.
  const isStartRepeated = ({ uid, goneMs }: Life): boolean =>
    goneMs !== null && goneMs < startedMs(uid) && goneMs < decidedMs;
  const innocents = new Map(
    versions
      .filter(({ pod }) => pod.metadata.labels?.['innocent'] === 'yes')
      .map(({ pod }) => [pod.metadata.uid ?? '', pod.metadata.name]),
  );
  const wrong: string[] = [];
  for (const [uid, name] of innocents) {
    if (versions.some(({ pod }) => pod.metadata.uid === uid && pod.metadata.deletionTimestamp !== undefined)) {
      wrong.push(`the innocent ${name} was deleted`);
    }
    if (lives.lives().some((life) => life.uid === uid && life.goneMs !== null && !isStartRepeated(life)))
      wrong.push(`the innocent ${name} died`);
  }
  return wrong;
}

/** Everything that tells why a scene did not hold. */
async function sayAll(played: Scene, isAgentHere: boolean): Promise<string> {
  const { lives, startMs } = played;
  const at = (ms: number): string => `${((ms - startMs) / 1000).toFixed(3)} s`;
  const say = ({ atMs, type, pod }: Version): string => {
    const { phase, reason, containerStatuses } = pod['status'];
    const state = JSON.stringify(containerStatuses?.[0]?.state ?? {});
    const ending =
      pod.metadata.deletionTimestamp === undefined ? '' : ` terminating(${pod.metadata.deletionGracePeriodSeconds})`;
    return `${at(atMs)} ${type} ${pod.metadata.name} ${pod.metadata.uid} ${phase} ${reason ?? ''}${ending} ${state}`;
  };
  const events = await played.events().catch(() => []);
  return [
    'pods by the API server:',
    ...lives.versions().map(say),
    'processes:',
    ...lives
      .lives()
      .map(({ uid, pid, bornMs, goneMs }) => `${uid} ${pid} ${at(bornMs)} to ${goneMs === null ? 'now' : at(goneMs)}`),
    'events:',
    ...events.map(
      (event) =>
        `${event['lastTimestamp'] ?? event['eventTime']} ${event['source']?.component ?? event['reportingComponent']} ${event['involvedObject'].name} ${event['reason']}: ${event['message']}`,
    ),
    'record:',
    ...(isAgentHere ? played.evictions().map((record) => JSON.stringify(record)) : []),
    "the agent's log:",
    fs.existsSync(path.join(path.dirname(played.agent.places.configFile), 'agent.log')) ? played.agent.log() : '',
  ].join('\n');
}

/** No pod of a scene is left, no file they waited for, no mark on the node, and memory enough. */
export async function cleanNode(): Promise<void> {
  await until(
    'the API server answers',
    () =>
      ask('/version').then(
        () => true,
        () => null,
      ),
    CLEAN_DEADLINE_MS,
  );
  for (const name of fs.readdirSync(STATIC)) fs.rmSync(path.join(STATIC, name));
  await until(
    'no owner is left',
    async () => {
      const owners = (await Promise.all(OWNERS.map(list))).flat();
      for (const { kind, metadata } of owners) await remove(kind, metadata.name);
      return owners.length === 0 || null;
    },
    CLEAN_DEADLINE_MS,
  );
  await until(
    'no pod is left',
    async () => {
      const pods = await list('Pod');
      for (const { metadata } of pods) await remove('Pod', metadata.name, 0);
      return (pods.length === 0 && podCgroups().length === 0) || null;
    },
    CLEAN_DEADLINE_MS,
  );
  // Their names are those of decisions, which begin anew with each state.
  await ask(EVENTS, { method: 'DELETE' });
  for (const name of fs.readdirSync(SHARE)) fs.rmSync(path.join(SHARE, name), { recursive: true });
  const { metadata, spec } = await ask(NODE);
  const taints = (spec.taints ?? []).filter(({ key }: { key: string }) => !key.startsWith('nodewarden.dev/'));
  if (taints.length !== (spec.taints ?? []).length || spec.unschedulable === true) {
    const body = { metadata: { resourceVersion: metadata.resourceVersion }, spec: { taints, unschedulable: null } };
    await ask(NODE, { method: 'PATCH', body, type: 'application/merge-patch+json' }).catch(() => undefined);
  }
  await until(
    'the node is calm',
    async () => (isCalm(await ask(NODE)) && podsMemory().availableBytes > CALM_MIB * MIB) || null,
    CLEAN_DEADLINE_MS,
  );
}

const isCalm = (node: KubeObject): boolean =>
  node['status'].conditions.every(
    ({ type, status }: { type: string; status: string }) =>
      type.startsWith('Nodewarden') || status === (type === 'Ready' ? 'True' : 'False'),
  ) && !(node['spec'].taints ?? []).some(({ key }: { key: string }) => key.startsWith('node.kubernetes.io/'));
