import { UNDECLARED } from '../core/eviction/comparator.ts';
import type { Psi } from '../core/observation.ts';
import { sayEvictFor } from '../core/pod/evict-for.ts';
import { type PodView, podName } from '../core/pod/pod.ts';
import { SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import { sayBytes } from '../core/units/quantity.ts';
import type { HostFacts } from '../host/hardware.ts';
import type { SignalStatus, StatusReport, ThresholdStatus } from '../serve/status.ts';
import { sayMs } from '../words/decision.ts';
import { sayAmount, sayNames, sayUsage } from '../words/phrases.ts';
import { clean, gauge, type Paint, padEnd, sayWhen, table } from './print.ts';
import { shutdownText } from './shutdown-text.ts';

const PODS_SHOWN = 20;

/** The report for people. All names that tenants chose are escaped. */
export function statusText(report: StatusReport, paint: Paint): string {
  const parts = [
    headText(report, paint),
    signalsText(report, paint),
    `${pressureText(report, paint)}${shutdownText(report, paint)}`,
    podsText(report, paint),
    oomText(report),
    reasonsText(report),
    findingsText(report, paint),
    decisionsText(report, paint),
    configText(report, paint),
  ];
  return parts.filter((part) => part !== '').join('\n');
}

function headText({ node, atWallMs }: StatusReport, paint: Paint): string {
  const dry = node.dryRun ? paint('yellow', ' (dry run: nothing is stopped)') : '';
  const since = sayDuration(Math.round(node.observedForMs / 1000) * 1000);
  return (
    `${paint('bold', `nodewarden ${node.version}`)} on ${clean(node.name)}: mode ${node.mode}${dry}, pid ${node.pid}\n` +
    `cgroup ${node.cgroupLayout}, node ${clean(node.cgroupRoot)}; observing for ${since}, at ${sayWhen(atWallMs)}\n`
  );
}

function signalsText({ signals }: StatusReport, paint: Paint): string {
  const own = signals.filter(({ aliasOf }) => aliasOf === null);
  const shown = own.filter(({ unknown }) => unknown?.why !== 'not-applicable');
  const name = Math.max(...shown.map(({ signal }) => signal.length));
  const lines = shown.flatMap((status) => signalLines(status, name, paint));
  const absent = own.filter(({ unknown }) => unknown?.why === 'not-applicable');
  const notes = [
    ['not applicable here', absent.filter((status) => !isOff(status))],
    ['not configured', absent.filter(isOff)],
  ] as const;
  const said = notes.filter(([, of]) => of.length > 0);
  const noted = said.map(([what, of]) => paint('dim', `${what}: ${of.map(({ signal }) => signal).join(', ')}`));
  return `${[...lines, ...noted].join('\n')}\n`;
}

const isOff = ({ signal, thresholds }: SignalStatus): boolean =>
  thresholds.length === 0 && SIGNAL_FACTS[signal].sampled === 'if-configured';

function signalLines(status: SignalStatus, nameWidth: number, paint: Paint): readonly string[] {
  const { signal, available, capacity, unknown, thresholds } = status;
  const name = padEnd(signal, nameWidth);
  if (available === null || capacity === null) {
    const why = unknown === null ? 'not known' : `${clean(unknown.where)}: ${clean(unknown.detail)} (${unknown.why})`;
    return [`${name}  ${paint('yellow', `unknown: ${why}`)}`];
  }
  const marks = thresholds.flatMap(({ kind, limit }) => (limit === null ? [] : [{ kind, limit }]));
  const isHard = thresholds.some(({ isMet, kind }) => isMet && kind === 'hard');
  const isAny = thresholds.some(({ isMet, metForMs }) => isMet || metForMs !== null);
  const colour = isHard ? 'red' : isAny ? 'yellow' : 'green';
  const age = status.ageMs !== null && status.ageMs >= 1_000 ? paint('dim', `, ${sayMs(status.ageMs)} old`) : '';
  const bar = paint(colour, gauge(available, capacity, marks));
  const first = `${name}  ${bar} ${sayAmount(signal, available)} of ${sayAmount(signal, capacity)}${age}`;
  return [
    first,
    ...thresholds.map((threshold) => `${padEnd('', nameWidth)}  ${thresholdText(signal, threshold, paint)}`),
  ];
}

function thresholdText(signal: Signal, threshold: ThresholdStatus, paint: Paint): string {
  const { kind, limit, minReclaim, metForMs, graceMs, graceLeftMs, isMet } = threshold;
  const mark = kind === 'hard' ? '!' : '~';
  const reclaim = minReclaim === null || minReclaim === 0 ? '' : ` + ${sayAmount(signal, minReclaim)} min reclaim`;
  const grace = graceMs > 0 ? `, grace ${sayDuration(graceMs)}` : '';
  const twin = /^allocatableMemory.*\/twin$/.test(threshold.id) ? ' (from memory.available)' : '';
  const what = `${mark} ${kind} below ${limit === null ? 'unknown' : sayAmount(signal, limit)}${reclaim}${grace}${twin}`;
  if (metForMs === null) return isMet ? paint('yellow', `${what}: met`) : paint('dim', what);
  const left = graceLeftMs !== null && graceLeftMs > 0 ? `, ${sayMs(graceLeftMs)} of its grace period left` : '';
  const held = isMet ? `met for ${sayMs(metForMs)}` : `above it again, but counted as met for ${sayMs(metForMs)}`;
  return paint(kind === 'hard' ? 'red' : 'yellow', `${what}: ${held}${left}`);
}

function pressureText(report: StatusReport, paint: Paint): string {
  const { conditions, psi, memory, act } = report;
  const said = Object.entries(conditions).map(([name, isTrue]) => `${name} ${isTrue ? paint('red', 'yes') : 'no'}`);
  const { workingSetAvailableBytes: workingSet, reclaimableAvailableBytes: reclaimable, counted } = memory;
  const or = (bytes: number | null): string => (bytes === null ? 'unknown' : sayBytes(bytes));
  const ways = `by working set ${or(workingSet)}, by what could be freed ${or(reclaimable)}; thresholds use ${counted}`;
  return (
    `conditions  ${said.join(', ')}\n` +
    `memory      available ${ways}\n` +
    `stalls      ${(['memory', 'io', 'cpu'] as const).map((resource) => `${resource} ${psiText(psi[resource])}`).join(', ')}\n` +
    `acting      ${actText(act)}\n`
  );
}

function psiText(psi: Psi | null): string {
  if (psi === null) return 'unknown';
  return `${psi.some.avg10}%${psi.full === null ? '' : ` (all: ${psi.full.avg10}%)`}`;
}

function actText(act: StatusReport['act']): string {
  switch (act.kind) {
    case 'idle':
      return 'no';
    case 'reclaiming':
      return `reclaiming for ${act.signal}, ${sayMs(act.leftMs)} left (${act.decision})`;
    case 'evicting':
      return act.evictions
        .map((eviction) => {
          const settled = eviction.isSettled
            ? 'no longer waited for'
            : `waiting for it, ${sayMs(eviction.leftMs)} at most`;
          return `evicting ${clean(eviction.pod)} for ${clean(eviction.cause)}: ${settled} (${eviction.decision})`;
        })
        .join('; ');
  }
}

/** Which pod the kernel would kill first, all else being equal. */
function oomText({ oomScores }: StatusReport): string {
  if (oomScores.length === 0) return '';
  const said = oomScores
    .toSorted((a, b) => b.oomScoreAdj - a.oomScoreAdj)
    .slice(0, PODS_SHOWN)
    .map(({ pod, oomScoreAdj, from, others }) => {
      const notes = [from === 'unit' ? "the unit's own" : '', others > 0 ? `${others} processes differ` : ''].filter(
        Boolean,
      );
      return `${clean(pod)} ${oomScoreAdj}${notes.length > 0 ? ` (${notes.join(', ')})` : ''}`;
    });
  const more = oomScores.length > PODS_SHOWN ? [`and ${oomScores.length - PODS_SHOWN} more`] : [];
  return `oom_score_adj ${[...said, ...more].join(', ')}\n`;
}

const unsaidText = ({ unsaid }: Pick<PodView, 'unsaid'>): string =>
  unsaid === undefined ? '' : unsaid.why === 'undeclared' ? UNDECLARED : 'cannot be read in part';

function podsText({ pods }: StatusReport, paint: Paint): string {
  if (!pods.known) return `pods        ${clean(pods.why)}\n`;
  const line = (what: string, names: readonly string[]): string =>
    names.length === 0 ? '' : `${what.padEnd(11)} ${clean(sayNames(names, PODS_SHOWN))}\n`;
  const idle = `${line('not running', pods.notRunning)}${line('unobserved', pods.notObserved)}`;
  if (pods.order.length === 0) return `pods        ${paint('yellow', 'none: nothing can be evicted')}\n${idle}`;
  const amount = (value: number): string => sayUsage(pods.rankedFor, value);
  const usage = ({ usage: used, isAtLeast }: (typeof pods.order)[number]): string =>
    used === null ? '?' : `${isAtLeast ? 'at least ' : ''}${amount(used)}`;
  const rows = pods.order
    .slice(0, PODS_SHOWN)
    .map((pod, i) => [
      String(i + 1),
      clean(podName(pod)),
      pod.qos,
      pod.priority === null ? '?' : String(pod.priority),
      usage(pod),
      pod.unsaid?.requests ? '?' : pod.request === null ? '-' : amount(pod.request),
      [
        pod.isProtected ? 'protected' : '',
        pod.evictFor === undefined ? '' : `evict-for ${sayEvictFor(pod.evictFor)}`,
        pod.isTerminating ? 'terminating' : '',
        pod.isToBeStopped ? 'to be stopped' : '',
        unsaidText(pod),
      ]
        .filter(Boolean)
        .join(', '),
    ]);
  const oldestMs = Math.max(...pods.order.map(({ usageAgeMs }) => usageAgeMs ?? Number.NEGATIVE_INFINITY));
  const age = oldestMs === Number.NEGATIVE_INFINITY ? '' : `, as measured up to ${sayMs(oldestMs)} ago`;
  const more = pods.order.length > PODS_SHOWN ? `and ${pods.order.length - PODS_SHOWN} more\n` : '';
  return (
    `pods in eviction order for ${pods.rankedFor}${age}\n` +
    table(['#', 'POD', 'QOS', 'PRIORITY', 'USAGE', 'REQUEST', ''], rows, [0, 3, 4, 5]) +
    more +
    idle
  );
}

function reasonsText({ reasons }: StatusReport): string {
  return reasons.map(({ text }) => `because     ${clean(text)}\n`).join('');
}

function findingsText({ findings, warnings }: StatusReport, paint: Paint): string {
  const lines = [
    ...findings.map(({ text }) => `${paint('yellow', 'finding')}     ${clean(text)}\n`),
    ...warnings.map((text) => `${paint('yellow', 'warning')}     ${clean(text)}\n`),
  ];
  return lines.join('');
}

/** The outcomes of all others are in the log. */
const HAS_END: readonly string[] = ['evict', 'evict-over-limit', 'reclaim', 'stop-for-shutdown'];

function decisionsText({ decisions }: StatusReport, paint: Paint): string {
  if (decisions.length === 0)
    return 'decisions   none since the agent started or reloaded; `nodewarden history` shows the record\n';
  const lines = decisions.map(({ atWallMs, kind, text, outcome }) => {
    const underWay = HAS_END.includes(kind) ? `; ${paint('yellow', 'in progress')}` : '';
    const end = outcome === null ? underWay : `; ${clean(outcome.text)}`;
    return `  ${sayWhen(atWallMs)}  ${clean(text)}${end}\n`;
  });
  return `last decisions\n${lines.join('')}`;
}

function configText({ config }: StatusReport, paint: Paint): string {
  const file = config.path === null ? 'no file, all defaults' : clean(config.path);
  const { lastReload } = config;
  if (lastReload === null) return `config      ${file}, loaded ${sayWhen(config.loadedWallMs)}\n`;
  const good = lastReload.isPending ? paint('yellow', 'read, not in force yet') : 'reloaded';
  const how = lastReload.ok ? good : paint('red', 'refused');
  // A success has nothing to add.
  const text = lastReload.ok && !lastReload.isPending ? '' : `: ${clean(lastReload.text)}`;
  return `config      ${file}, ${how} ${sayWhen(lastReload.atWallMs)}${text}\n`;
}

export function hostText(facts: HostFacts): string {
  const disks = facts.disks.filter(({ mount }) => mount !== '');
  return (
    `host        ${clean(facts.hostname)}: ${clean(facts.distribution)}, kernel ${clean(facts.kernel)} ${facts.architecture}\n` +
    `machine     ${clean(facts.machine) || 'of unknown make'}${facts.isVirtual ? ' (virtual)' : ''}, ${facts.cpuCores} CPUs ${clean(facts.cpu)}\n` +
    disks
      .map(
        (disk) =>
          `disk        ${clean(disk.name)} ${disk.fileSystem} on ${clean(disk.mount)}, ${sayBytes(disk.sizeBytes)}\n`,
      )
      .join('')
  );
}
