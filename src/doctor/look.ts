import { toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import { loadLastGood } from '../config/last-good.ts';
import { DEFAULT_CONFIG_FILE } from '../config/load.ts';
import type { HostSizes } from '../config/margin.ts';
import { DEFAULT_PATHS } from '../config/schema.ts';
import { ifKnown, known, type Reading, type Unknown, unknown, valueOrNull } from '../core/reading.ts';
import { neededTotalMs } from '../core/shutdown/plan.ts';
import { distrustOwn, misplaced } from '../daemon/own-files.ts';
import { findCgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { readBootId, within } from '../host/clock.ts';
import { openFileSystem } from '../host/disk/statfs.ts';
import { listDirectory } from '../host/files.ts';
import { readSharedMemory } from '../host/memory/shared-memory.ts';
import { hasSysResource } from '../host/own/capabilities.ts';
import { findKubelet } from '../host/process/kubelet-process.ts';
import { findOomDaemons } from '../host/process/oom-daemons.ts';
import { busUp, openSystemBus } from '../host/systemd/bus.ts';
import { createLogind } from '../host/systemd/logind.ts';
import { createLogindDropIn } from '../host/systemd/logind-drop-in.ts';
import { createSystemd, type Systemd } from '../host/systemd/systemd.ts';
import type { Clock } from '../ports.ts';
import { askDaemon } from '../serve/ask.ts';
import { isReport, type StatusReport } from '../serve/status.ts';
import { manifestsHang } from '../standalone/manifests/check-manifests.ts';
import { NO_SIZE } from './check.ts';
import type {
  AgentFacts,
  Facts,
  HostFacts,
  KubeFacts,
  PlaceFacts,
  PodsFacts,
  ServiceFacts,
  ShutdownFacts,
} from './facts.ts';
import {
  type Here,
  type LoadedHere,
  loadHere,
  nothingHere,
  unreadSizes,
  warningsHere,
  withThen,
} from './loaded-here.ts';
import { lookAtDisks } from './look-disks.ts';
import { memoryUsers, NO_CONFIG } from './look-host.ts';
import { lookAtPods } from './look-pods.ts';

/** The limit for each part, because many consecutive answers may each be slow. */
const PART_MS = 6_000;
/** A file that hangs is known by then, unless others before it are slow, or this machine is. */
const MANIFESTS_MS = 3_000;
/** Memory that no process holds is reported from this share of the node's memory. */
const SHARED = 1 / 10;

const late = (where: string) => unknown('timed-out', where, `no answer within ${PART_MS / 1_000} s`);

/** Reads everything once, all parts concurrently. Changes nothing, never rejects, and takes a few seconds at most. */
export async function lookAround(configFile: string | null, clock: Clock): Promise<Facts> {
  const bus = openSystemBus(clock);
  const systemd = createSystemd(bus);
  try {
    const loaded = await loadHere(configFile, clock);
    const effective = loaded.effective ?? loadLastGood(configFile)?.loaded.effective ?? null;
    // Without a socket there is nothing to wait for.
    if (bus.state() === 'connecting') await busUp(systemd, clock);
    const mounts = findCgroupMounts();
    const bootId = readBootId();
    const needs = { clock, systemd, effective };
    const [agent, here, pods, shutdown, places, disks, host, kube] = await Promise.all([
      lookAtAgent(socketIn(effective, configFile), systemd, clock),
      lookAtWarnings(loaded, clock),
      lookAtStandalone(needs, loaded.hung, mounts, bootId),
      lookAtShutdown(needs, createLogind(bus, clock)),
      lookAtPlaces(effective, loaded.hung, clock),
      effective === null
        ? NO_CONFIG
        : within(clock, PART_MS, lookAtDisks(effective, loaded.hung, clock).then(known), () => late('the disks')),
      lookAtHost(loaded.sizes, clock),
      lookBesideKubelet(needs, loaded.sizes, valueOrNull(bootId) ?? ''),
    ]);
    const memory =
      effective === null || !mounts.known
        ? effective === null
          ? NO_CONFIG
          : unknown('not-applicable', 'the memory controller', 'there is none')
        : memoryUsers({ clock, mounts: mounts.value, effective }, pods);
    const said = here.warnings.map(({ then, ...warning }) =>
      agent.isRunning === false ? { ...warning, text: withThen({ ...warning, then }) } : warning,
    );
    return {
      named: configFile === DEFAULT_CONFIG_FILE ? null : configFile,
      problems: loaded.problems,
      warnings: [...loaded.warnings, ...said],
      unread: here.unread,
      effective: effective === null ? NO_CONFIG : known(effective),
      agent,
      host: { ...host, mounts, bootId, memory },
      pods,
      shutdown,
      places,
      disks,
      kube,
    };
  } finally {
    bus.close();
  }
}

/** Without a configuration the service may listen on the usual socket, or on another one that its configuration names. */
function socketIn(effective: Effective | null, configFile: string | null): AgentSocket {
  if (effective !== null) return { path: effective.socket, isGuess: false };
  const isService = configFile === null || configFile === DEFAULT_CONFIG_FILE;
  return { path: isService ? DEFAULT_PATHS.socket : null, isGuess: true };
}

/** Nothing for an invalid configuration. */
async function lookAtWarnings({ effective, hung, sizes }: LoadedHere, clock: Clock): Promise<Here> {
  if (effective === null) return { warnings: [], unread: [] };
  const { warnings, unread } = await within(clock, PART_MS, warningsHere(effective, hung, clock), () =>
    nothingHere(late('the paths and signals')),
  );
  return { warnings, unread: [...unread, ...unreadSizes(effective, sizes)] };
}

type Needs = { readonly clock: Clock; readonly systemd: Systemd; readonly effective: Effective | null };

async function lookAtStandalone(
  { clock, systemd, effective }: Needs,
  hung: LoadedHere['hung'],
  mounts: Facts['host']['mounts'],
  bootId: Reading<string>,
): Promise<Reading<PodsFacts>> {
  if (effective === null) return NO_CONFIG;
  if (effective.mode !== 'standalone') return unknown('not-applicable', 'manifests', 'mode kubelet has none');
  if (!mounts.known) return mounts;
  const hangs = hung.get(effective.podManifests);
  if (hangs !== undefined) return hangs;
  const [file] = (await manifestsHang(effective.podManifests, MANIFESTS_MS)).values();
  if (file !== undefined) return file;
  const looked = lookAtPods({ clock, effective, mounts: mounts.value, systemd, bootId });
  return within(clock, PART_MS, looked.then(known), () => late('the units of the pods'));
}

/** Loads the Kubernetes client only if it is needed. */
async function lookBesideKubelet(
  { clock, effective }: Needs,
  sizes: HostSizes,
  bootId: string,
): Promise<Reading<KubeFacts>> {
  if (effective === null) return NO_CONFIG;
  if (effective.mode !== 'kubelet') return unknown('not-applicable', 'the API server', 'mode standalone has none');
  const { lookAtKube } = await import('./look-kube.ts');
  const looked = lookAtKube({ clock, effective, bootId, sizes });
  return within(clock, PART_MS, looked.then(known), () => late('the API server'));
}

async function lookAtShutdown(
  { effective, systemd }: Needs,
  logind: ReturnType<typeof createLogind>,
): Promise<ShutdownFacts> {
  const core = effective === null ? null : toCoreConfig(effective, 1);
  const [grantedMs, agentStopMs] = await Promise.all([logind.inhibitDelayMaxMs(), systemd.stopTimeoutMs(SERVICE)]);
  return {
    phases: core?.phases ?? [],
    neededMs: core === null ? 0 : neededTotalMs(core),
    grantedMs,
    delay: effective === null ? NO_CONFIG : createLogindDropIn(effective.runtimeDirectory).winner(),
    agentStopMs,
  };
}

async function lookAtPlaces(effective: Effective | null, hung: LoadedHere['hung'], clock: Clock): Promise<PlaceFacts> {
  if (effective === null) return { distrusted: NO_CONFIG, misplaced: [], recordPath: '', recordFree: NO_CONFIG };
  const { stateDirectory } = effective;
  const why = hung.get(stateDirectory);
  if (why !== undefined) return { distrusted: why, misplaced: [], recordPath: stateDirectory, recordFree: why };
  const disk = await openFileSystem(stateDirectory, clock).sample();
  // A directory that this user may not list can still be fine for the agent, which is root.
  const unlisted = [effective.runtimeDirectory, stateDirectory]
    .map((directory) => listDirectory(directory, Number.POSITIVE_INFINITY))
    .find((listed): listed is Unknown => !listed.known && listed.why === 'unreadable' && process.getuid?.() !== 0);
  return {
    distrusted: unlisted ?? known(distrustOwn(effective)),
    misplaced: misplaced(effective),
    recordPath: stateDirectory,
    recordFree: disk.known
      ? known({ bytes: disk.value.bytesAvailable, inodes: disk.value.inodes === 0 ? null : disk.value.inodesFree })
      : disk,
  };
}

async function lookAtHost(sizes: HostSizes, clock: Clock): Promise<Omit<HostFacts, 'mounts' | 'bootId' | 'memory'>> {
  const { memoryBytes } = sizes;
  const [oomDaemons, kubelet, sharedMemory] = await Promise.all([
    within(clock, PART_MS, findOomDaemons(clock), () => late('/proc')),
    within(clock, PART_MS, findKubelet(clock), () => late('/proc')),
    memoryBytes === null
      ? NO_SIZE
      : within(clock, PART_MS, readSharedMemory(memoryBytes * SHARED), () => late('tmpfs')),
  ]);
  return { sizes, oomDaemons, kubelet, sharedMemory, mayLowerOomScores: hasSysResource(1) };
}

const SERVICE = 'nodewarden.service';
/** A running agent answers after its current look at the latest. */
const ANSWER_MS = 3_000;

/** `path` null: nothing is known about it. `isGuess`: the agent may listen elsewhere. */
type AgentSocket = { readonly path: string | null; readonly isGuess: boolean };

/** The status that the agent reports, and its service in systemd. */
async function lookAtAgent(socket: AgentSocket, systemd: Systemd, clock: Clock): Promise<AgentFacts> {
  const [said, service] = await Promise.all([answerOf(socket, clock), serviceFacts(systemd)]);
  return { ...said, service };
}

async function answerOf({ path, isGuess }: AgentSocket, clock: Clock): Promise<Omit<AgentFacts, 'service'>> {
  if (path === null) return { status: unknown('unreadable', 'the configuration', NO_SOCKET), isRunning: null };
  const asked = await askDaemon(path, { ask: 'status' }, clock, { answerMs: ANSWER_MS });
  if (asked.kind === 'answer') return { status: statusIn(asked.answer, path), isRunning: true };
  if (asked.kind === 'failed') return { status: unknown('unreadable', path, asked.detail), isRunning: null };
  if (!isGuess) return { status: unknown('absent', path, asked.detail), isRunning: false };
  return {
    status: unknown('unreadable', 'the configuration', `${NO_SOCKET}; nothing listens on ${path}`),
    isRunning: null,
  };
}

const NO_SOCKET = 'without it, the socket of the agent is not known';

function statusIn(answer: unknown, socket: string): Reading<StatusReport> {
  return isReport(answer) ? known(answer) : unknown('malformed', socket, 'it runs another version');
}

async function serviceFacts(systemd: Systemd): Promise<Reading<ServiceFacts>> {
  const [unit, unitFileState, end] = await Promise.all([
    systemd.unit(SERVICE),
    systemd.unitFileState(SERVICE),
    systemd.serviceEnd(SERVICE),
  ]);
  return ifKnown(unit, ({ loadState, activeState }) =>
    ifKnown(unitFileState, (state) =>
      ifKnown(end, ({ result, exitStatus }) =>
        known({ loadState, activeState, unitFileState: state, result, exitStatus }),
      ),
    ),
  );
}
