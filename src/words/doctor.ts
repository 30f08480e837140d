import type { Signal } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import { sayBytes } from '../core/units/quantity.ts';
import { NO_PSI } from './finding-own.ts';
import { ownCommand } from './own-command.ts';
import { counted, countPods, sayAmount, sayNames } from './phrases.ts';

/** What `nodewarden doctor` says. Names are as tenants chose them: escaped when they are printed. */

const NAMED = 5;
const named = (names: readonly string[]): string => sayNames(names, NAMED);
const isOrAre = (count: number): string => (count === 1 ? 'is' : 'are');

export type Verdict = { readonly blocking: number; readonly warnings: number; readonly unknown: number };
export function sayVerdict({ blocking, warnings, unknown }: Verdict): string {
  const more = [
    ...(warnings > 0 ? [counted(warnings, 'warning')] : []),
    ...(unknown > 0 ? [`${unknown} not known`] : []),
  ];
  const rest = more.length === 0 ? '' : `; ${more.join(', ')}`;
  return blocking > 0 ? `${counted(blocking, 'blocking finding')}${rest}` : `nothing in the way${rest}`;
}
/** `file` null: the one that the command takes by itself. */
export const sayNext = (file: string | null): string =>
  `next: ${ownCommand('nodewarden doctor', file)} shows what is in the way, and what to do about it`;
export const sayUnknown = (asks: string, because: string): string => `not known ${asks}: ${because}`;

// Configuration and manifests
export const configValid = (file: string | null): string => `configuration: ${file ?? 'no file, all defaults'}, valid`;
export const manifestsValid = (directory: string, pods: number): string =>
  `manifests: ${countPods(pods)} in ${directory}`;

export const requestsMore = (pod: string, capacityBytes: number): string =>
  `${pod} requests more memory than this node has (${sayBytes(capacityBytes)}): it is never above its request, and others are evicted before it`;

// Who can be evicted
export const noManifest = (directory: string): string =>
  `no manifest in ${directory} binds a pod: nothing can be evicted`;
export const allExcluded = (pods: number): string =>
  `${pods === 1 ? 'the only pod is' : `all ${countPods(pods)} are`} critical, excluded by evict-for from every resource that has a threshold, or would risk a reset of the machine: nothing can be evicted`;
/** `evictFor`: as in the annotation. */
export const othersGoFor = (pod: string, evictFor: string, requestBytes: number): string =>
  `${pod} is never evicted for memory (nodewarden.dev/evict-for: ${evictFor}): ${requestBytes === 0 ? 'it requests none, and for whatever it uses' : `for what it uses above its request of ${sayBytes(requestBytes)}`} another pod is evicted, even one within its request. Limit it to what it requests (MemoryMax= of its unit)`;
export const nothingBound = (pods: number): string =>
  `none of ${countPods(pods)} is bound to anything that exists here: nothing can be evicted`;
/** Of the pods, so many are bound to nothing, and the others may not be evicted. */
export const othersExcluded = (unbound: number, others: number): string =>
  `${countPods(unbound)} ${isOrAre(unbound)} bound to nothing that may be stopped here, and ${others === 1 ? 'the other one is' : `the other ${others} are`} critical, excluded by evict-for from every resource that has a threshold, or would risk a reset of the machine: nothing can be evicted`;
/** `others`: the number of pods that were not examined. */
export const canBeEvicted = (pods: number, running: number, others: number): string =>
  `pods: ${running} of the ${pods} that may be evicted ${isOrAre(running)} running${others > 0 ? `; ${others} more were not examined` : ''}`;
export const bindingsFound = 'bindings: all resolved';
export const unmeasured = (pod: string, cgroup: string, why: string): string =>
  `${pod} runs, but its memory cannot be read (${why}): it is not evicted. Its cgroup ${cgroup} lacks the memory controller`;
type Server = { readonly name: string; readonly pid: number; readonly device: string };
export const servesFiles = (pod: string, { name, pid, device }: Server): string =>
  `others use files through ${pod} (${name}, process ${pid}, has ${device} open): if it is evicted, they get errors, and what they have written may be lost. Set nodewarden.dev/evict-for: none, or nodewarden.dev/protect: "true" if it may go last`;
export const allMeasured = 'memory of every running pod can be read';
export const noDirectories = (pods: readonly string[], signals: readonly Signal[]): string =>
  `${countPods(pods.length)} ${pods.length === 1 ? 'declares' : 'declare'} no directory, so usage for ${signals.join(', ')} is unknown: ${named(pods)}. ${pods.length === 1 ? 'It is' : 'They are'} evicted for a disk only while the kernel attributes writes to them`;
export const allDeclareDirectories = 'disk directories: declared by every pod';
export const inheritsPriority = (
  pod: string,
  own: number,
  { priority, from }: { readonly priority: number; readonly from: string },
): string =>
  `${pod} declares priority ${own}, but ranks with ${priority}, that of ${from}, because stopping its unit may stop that one too`;
/** `action`: `FailureAction=reboot of web.service` or the like. `afterMs`: a stop that is over sooner does not trigger it. */
export function endsMachine(
  pod: string,
  action: string,
  afterMs: number,
  evicted: 'never' | 'quickly' | 'always',
): string {
  const down = `${action}, and everything else would go down with it`;
  if (evicted === 'never')
    return `${pod} is never evicted, and not stopped in a phase of a shutdown: its end may trigger ${down}`;
  const stop = `a stop that takes ${sayDuration(afterMs)} triggers ${down}`;
  return evicted === 'quickly'
    ? `${pod} is evicted only with a short grace period, as under a hard threshold, and not stopped in a phase of a shutdown: ${stop}`
    : `${pod} is not stopped in a phase of a shutdown: its stop may have to wait for others there, and ${stop}`;
}
export const noMachineAction = 'no pod has a unit whose end is known to make systemd take the machine down';
export const noInheritance = 'unit dependencies agree with the priorities';
export const heldDown = (unit: string, pod: string, after: 'restart' | 'stay', isActing: boolean): string =>
  after === 'restart'
    ? `${unit} (${pod}) is held down by an eviction; ${isActing ? 'it is restarted once the pressure is over' : 'no agent runs that would restart it'}`
    : `${unit} (${pod}) is held down by an eviction, and stays down (nodewarden.dev/after-eviction: stay)`;
export const nobodyHeld = 'no unit is held down by an eviction';
export const oomScores = (pods: readonly { readonly pod: string; readonly scores: readonly number[] }[]): string =>
  `oom_score_adj: ${sayNames(
    pods.map(({ pod, scores }) => `${pod} ${scores.join(' and ')}`),
    NAMED,
  )}`;
export const scoresOff = 'oom_score_adj: left as it is (oomScoreAdj: off)';
export const cannotLowerScores = (pods: readonly string[]): string =>
  `process 1 lacks CAP_SYS_RESOURCE, so the kernel refuses a lower oom_score_adj to ${named(pods)}: its OOM killer may choose ${pods.length === 1 ? 'it' : 'them'} first`;

// The agent
export const agentRuns = (version: string, mode: string, pid: number): string =>
  `agent: ${version} running in mode ${mode}, pid ${pid}`;
export const agentNotRunning = (socket: string): string =>
  `nodewarden is not running (nothing listens on ${socket}): nothing is monitored or evicted`;
export const agentFailed = (result: string, exitStatus: number): string =>
  `the last start of nodewarden.service failed (${result}, exit status ${exitStatus})`;
export const notInstalled = 'nodewarden.service is not installed: nothing starts the agent at boot';
export const notEnabled = (state: string): string => `nodewarden.service is ${state}: it does not start at boot`;
export const isEnabled = 'nodewarden.service starts at boot';
export const otherVersion = (agent: string, own: string): string =>
  `the running agent is ${agent}, this command is ${own}`;
export const dryRun = (by: 'configuration' | 'option'): string =>
  by === 'configuration'
    ? 'dryRun is true in the configuration: decisions are recorded, and nothing is evicted'
    : 'the running agent is in a dry run (--dry-run, or dryRun as it was when it read the configuration): decisions are recorded, and nothing is evicted';
export const notDryYet = 'dryRun is true in the configuration, but not in that of the running agent, which evicts';
export const noOtherFindings = 'the agent has nothing else to report';
export const placesFine = 'state and record directories: safe to use';
export const misplaced = (path: string, kind: string, expected: string): string =>
  `${path} is a ${kind}, not a ${expected}: the agent cannot use it`;
export const recordFull = (path: string, free: number, what: 'bytes' | 'inodes'): string =>
  `the file system of ${path} has ${what === 'bytes' ? sayBytes(free) : counted(free, 'inode')} left: the record may find no room`;
export const recordRoom = (path: string, free: number): string => `record: ${sayBytes(free)} free at ${path}`;

// The host
export const cgroups = (layout: string, hasPids: boolean): string =>
  `cgroup ${layout}: memory${hasPids ? ' and pids' : ''} controller`;
export const noPids = 'there is no pids controller: threads of pods are not counted, and pids.max limits nothing';
/** `beyond`: what counts as available, and no process can get. */
export const agentBeforeKernel = (beyond: string): string =>
  `memory.available meets its thresholds before the kernel's OOM killer acts; no process can get ${beyond}`;
/** `isAll`: no other pod has a cgroup now. */
export const sharedLimit = (cgroup: string, bytes: number, pods: readonly string[], isAll: boolean): string =>
  `the kernel's OOM killer may act in ${cgroup} before memory.available meets its threshold, since the cgroup is limited to ${sayBytes(bytes)} of memory, which ${countPods(pods.length)} share: ${named(pods)}. The kernel then chooses among them, and nodewarden does not. ${isAll ? `Set cgroupRoot: ${cgroup}` : 'Give each of them a limit of its own'}, or remove that limit`;
export const psiOn = 'pressure stall information (PSI) is on';
export const psiOff = `stalls are not shown, and evictionStall would have no effect: ${NO_PSI}`;
export const otherDaemon = (name: string, pid: number, within: string | null): string =>
  `${name} runs here too (process ${pid}${within === null ? '' : ` of ${within}, which may run other programs as well`}): it may kill another process before nodewarden evicts a pod, and without a record of why`;
export const noOtherDaemon = 'no other out-of-memory daemon runs';
export const kubeletBeside =
  "a kubelet runs here, and nodewarden is in mode standalone: both would act on the same memory, and the kubelet's pods count as usage outside all pods";
export const noKubelet = 'no process named kubelet runs here';
type Share = { readonly where: string; readonly bytes: number };
const share = ({ where, bytes }: Share): string => `${where} ${sayBytes(bytes)}`;
export const memoryOutside = (users: readonly Share[], outsideBytes: number, capacityBytes: number): string =>
  `${sayBytes(outsideBytes)} of ${sayBytes(capacityBytes)} of memory is used outside all pods, where nothing can be evicted: ${sayNames(users.map(share), NAMED)}`;
export const largestOutside = (users: readonly Share[]): string =>
  users.length === 0
    ? 'no memory is used outside pods'
    : `largest memory users outside pods: ${sayNames(users.map(share), 3)}`;
export const nearThreshold = (signal: Signal, available: number, limit: number): string =>
  `${signal} is ${sayAmount(signal, available)}, near its threshold of ${sayAmount(signal, limit)}`;
export const disksFine = 'disks: not near a threshold';
export const noIdleMemory = 'no large amount of memory is held without a process';

// Shutdown
export const shutdownArmed = (neededMs: number, grantedMs: number): string =>
  `shutdown: armed for ${sayDuration(neededMs)}, logind grants ${sayDuration(grantedMs)}`;
export const delayCapped = (path: string, delayMs: number, neededMs: number): string =>
  `${path} sets InhibitDelayMaxSec to ${sayDuration(delayMs)}, but all phases need ${sayDuration(neededMs)}: they shrink, unless the agent can override it`;
export const delayFits = (neededMs: number): string =>
  `logind's delay leaves room for all phases (${sayDuration(neededMs)})`;
export const delayAtStart = (grantedMs: number, neededMs: number): string =>
  `logind grants ${sayDuration(grantedMs)}; the agent raises it to the ${sayDuration(neededMs)} of the phases when it starts`;
export const stopTimeoutShort = (unit: string, pod: string, killedMs: number, getsSeconds: number): string =>
  `systemd kills ${unit} (${pod}) ${sayDuration(killedMs)} after it is asked to stop (TimeoutStopSec=), although its phase leaves it ${getsSeconds}s`;
export const stopTimeoutsFit = 'TimeoutStopSec of every unit leaves it the time of its phase';
export const agentStopShort = (leftMs: number, totalMs: number): string =>
  `if logind gives no signal, systemd leaves the agent ${sayDuration(leftMs)} for phases of ${sayDuration(totalMs)}: they shrink (TimeoutStopSec= of nodewarden.service)`;
export const agentStopFits = 'TimeoutStopSec of nodewarden.service leaves room for all phases';
