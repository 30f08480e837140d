import { actionWithin, HARD_GRACE_SECONDS } from '../core/pod/grace.ts';
import { oomScoreAdj } from '../core/pod/oom-score.ts';
import { podName } from '../core/pod/pod.ts';
import type { Unknown } from '../core/reading.ts';
import { leftBecause } from '../core/shutdown/plan.ts';
import { fileSystemOf, isDisk } from '../core/signal.ts';
import * as say from '../words/doctor.ts';
import { OOM_SCORES } from '../words/finding-eviction.ts';
import { bindingId, HELD_IN_DRY_RUN, isOverlap, MANIFESTS, sayLinkedDisk } from '../words/finding-standalone.ts';
import {
  agentSays,
  type Check,
  fine,
  found,
  foundOr,
  foundOrUnknown,
  isTaken,
  isWhole,
  NO_SIZE,
  NOT_APPLICABLE,
  notHereOrUnknown,
  type Result,
  unknownBecause,
} from './check.ts';
import { manifestFindings } from './checks-configuration.ts';
import type { Facts, FoundPod, PodsFacts } from './facts.ts';
import { nameOf } from './look-pods.ts';
import { evictedForIt, mayBeEvicted, nobodyToEvict } from './who-may-go.ts';

type OfPods = (pods: PodsFacts, facts: Facts) => Result | readonly Result[];
/** Not applicable in mode kubelet, which has no manifests. */
const ofManifests =
  (judge: OfPods) =>
  (facts: Facts): readonly Result[] =>
    facts.pods.known ? [judge(facts.pods.value, facts)].flat() : [notHereOrUnknown(facts.pods)];
/** The same; nothing is fine of all pods if not all were examined, which another check says. */
const ofPods = (judge: OfPods) =>
  ofManifests((pods, facts) => [judge(pods, facts)].flat().filter(({ kind }) => kind !== 'fine' || isWhole(pods)));

const CHECK = 'nodewarden config check';
const BINDINGS = ['binding/'];
const SCRATCH = ['scratch-refused/', 'scratch-unsafe/', 'scratch/'];
const runs = ({ memoryBytes }: FoundPod): boolean => memoryBytes !== null;

function evictable({ pods, declared, findings, unread, units }: PodsFacts, { effective }: Facts): Result {
  const ifNobody = (text: string): Result => (unread[0] === undefined ? found({ text }) : unknownBecause(unread[0]));
  if (findings.some(({ id }) => id === MANIFESTS)) return NOT_APPLICABLE;
  const directory = effective.known ? effective.value.podManifests : 'the manifests directory';
  const signals = effective.known ? effective.value.thresholds.map(({ signal }) => signal) : [];
  const nobody = nobodyToEvict(declared, signals, directory);
  if (nobody !== null) return ifNobody(nobody);
  const unbound = new Set(findings.filter((finding) => isTaken(finding, BINDINGS)).map(({ id }) => id));
  if (unbound.size >= declared.length) return ifNobody(say.nothingBound(declared.length));
  const bound = declared.filter((pod) => !unbound.has(bindingId(podName(pod))));
  if (nobodyToEvict(bound, signals, directory) !== null)
    return ifNobody(say.othersExcluded(unbound.size, bound.length));
  if (!units.known) return unknownBecause(units);
  if (unread.length > 0) return NOT_APPLICABLE;
  const open = pods.filter((pod) => mayBeEvicted(pod.bound.declared, signals) && !unbound.has(bindingId(nameOf(pod))));
  return fine(say.canBeEvicted(open.length, open.filter(runs).length, declared.length - pods.length));
}

function directories({ pods: all, findings, hung }: PodsFacts, { effective }: Facts): Result | readonly Result[] {
  // What is bound to nothing uses nothing.
  const pods = all.filter((pod) => !findings.some(({ id }) => id === bindingId(nameOf(pod))));
  const thresholds = effective.known ? effective.value.thresholds : [];
  const signals = [...new Set(thresholds.map(({ signal }) => signal))].filter(
    // Without a path of its own it is not applicable.
    (signal) => isDisk(signal) && (fileSystemOf(signal) === 'nodefs' || hasImagefs(effective)),
  );
  if (signals.length === 0 || pods.length === 0) return foundOrUnknown([], hung, NOT_APPLICABLE);
  const linked = pods.flatMap((pod) =>
    (pod.linkedDisks.known ? pod.linkedDisks.value : []).map((one) => ({
      text: `${nameOf(pod)}: ${sayLinkedDisk(one)}`,
      mend: CHECK,
    })),
  );
  const unread = [...hung, ...pods.flatMap(({ linkedDisks }) => (linkedDisks.known ? [] : [linkedDisks]))];
  const without = pods.filter(
    ({ bound: { directories: own = [], scratch = [] } }) => own.length + scratch.length === 0,
  );
  const unit = without.flatMap((pod) => pod.unit ?? []);
  const text = say.noDirectories(without.map(nameOf), signals);
  const missing = without.length === 0 ? [] : [unit.length === 0 ? { text, mend: CHECK } : { text, fill: { unit } }];
  return foundOrUnknown([...missing, ...linked], unread, fine(say.allDeclareDirectories));
}
const hasImagefs = (effective: Facts['effective']): boolean => effective.known && effective.value.imagefsPath !== null;

function lowerScores({ pods }: PodsFacts, { effective, host }: Facts): Result {
  const { mayLowerOomScores, sizes } = host;
  if (effective.known && effective.value.oomScoreAdj === 'off') return NOT_APPLICABLE;
  const { memoryBytes } = sizes;
  if (memoryBytes === null) return pods.length === 0 ? NOT_APPLICABLE : unknownBecause(NO_SIZE);
  const low = pods.filter(({ bound: { declared } }) => oomScoreAdj(declared, memoryBytes) < 0);
  if (low.length === 0) return NOT_APPLICABLE;
  if (!mayLowerOomScores.known) return unknownBecause(mayLowerOomScores);
  return mayLowerOomScores.value ? NOT_APPLICABLE : found({ text: say.cannotLowerScores(low.map(nameOf)) });
}

export const PODS = {
  'nothing-to-evict': {
    weight: 'blocking',
    asks: 'whether there is a pod to evict',
    mend: 'ls -l <manifests>',
    judge: ofManifests(evictable),
  },
  'evict-for-unbounded': {
    weight: 'warning',
    asks: 'whether others are evicted for a pod that is not',
    mend: 'systemctl show -P MemoryMax <unit>',
    judge: ofPods(({ pods, declared }, { effective }) => {
      if (!effective.known) return NOT_APPLICABLE;
      const signals = effective.value.thresholds.map(({ signal }) => signal);
      const unread: Unknown[] = [];
      const all = pods.flatMap(({ bound, unit, limitBytes }) => {
        const judged = (bytes: number | null | undefined) => evictedForIt(bound.declared, declared, signals, bytes);
        if (limitBytes?.known === false) {
          // Not needed for a pod that is itself evicted, whatever its limit.
          if (judged(null) !== null) unread.push(limitBytes);
          return [];
        }
        const text = judged(limitBytes?.value);
        if (text === null) return [];
        return [unit === null ? { text, mend: CHECK } : { text, fill: { unit } }];
      });
      return foundOrUnknown(all, unread, NOT_APPLICABLE);
    }),
  },
  'serves-files': {
    weight: 'warning',
    asks: 'whether others use files through a pod that may be evicted',
    mend: 'findmnt',
    judge: ofPods(({ pods }, { effective }) => {
      if (!effective.known) return NOT_APPLICABLE;
      const signals = effective.value.thresholds.map(({ signal }) => signal);
      const open = pods.filter(({ bound: { declared } }) => mayBeEvicted(declared, signals) && !declared.isProtected);
      const all = open.flatMap((pod) => {
        const server = pod.served.known ? pod.served.value : null;
        return server === null ? [] : [{ text: say.servesFiles(nameOf(pod), server) }];
      });
      const unread = open.flatMap(({ served }) => (served.known ? [] : [served]));
      return foundOrUnknown(all, unread, NOT_APPLICABLE);
    }),
  },
  'binding-unresolved': {
    weight: 'warning',
    asks: 'whether every pod is bound to something that exists',
    mend: 'systemctl list-units --type=service,scope,slice',
    takes: BINDINGS,
    judge: ofPods(({ pods, units }, facts) => {
      const all = manifestFindings(facts, BINDINGS).map((one) => (isOverlap(one.text) ? { ...one, mend: CHECK } : one));
      if (all.length > 0 || pods.length === 0) return foundOr(all, NOT_APPLICABLE);
      return units.known || facts.agent.status.known ? fine(say.bindingsFound) : unknownBecause(units);
    }),
  },
  'scratch-unsafe': {
    weight: 'warning',
    asks: 'whether scratch directories would be emptied',
    mend: CHECK,
    takes: SCRATCH,
    judge: ofPods(({ scratch, pods, hung }, facts) => {
      const isScratch = (path: string): boolean => pods.some(({ bound }) => bound.scratch?.includes(path));
      const unread =
        scratch.known || facts.agent.status.known ? hung.filter(({ where }) => isScratch(where)) : [scratch];
      return foundOrUnknown(manifestFindings(facts, SCRATCH), unread, NOT_APPLICABLE);
    }),
  },
  'pod-unmeasured': {
    weight: 'warning',
    asks: 'whether the memory of every running pod can be read',
    mend: 'systemctl set-property <unit> MemoryAccounting=yes',
    judge: ofPods(({ pods, units }) => {
      if (!units.known) return unknownBecause(units);
      if (!pods.some(runs)) return NOT_APPLICABLE;
      const blind = pods.flatMap((pod) => {
        const { memoryBytes, bound, unit } = pod;
        if (memoryBytes === null || memoryBytes.known || !bound.cgroup.known) return [];
        const { path } = bound.cgroup.value;
        const text = say.unmeasured(nameOf(pod), path, memoryBytes.detail);
        return [
          unit === null ? { text, mend: 'systemd-cgls <cgroup>', fill: { cgroup: path } } : { text, fill: { unit } },
        ];
      });
      return foundOr(blind, fine(say.allMeasured));
    }),
  },
  'disk-usage-unknown': {
    weight: 'warning',
    asks: 'whether the disk usage of every pod is known',
    mend: 'systemctl show -P StateDirectory -P LogsDirectory -P CacheDirectory <unit>',
    judge: ofPods(directories),
  },
  'priority-inherited': {
    weight: 'warning',
    asks: 'whether unit dependencies contradict the priorities',
    mend: 'systemctl list-dependencies --reverse <unit>',
    judge: ofPods(({ pods, units }) => {
      if (pods.every(({ unit }) => unit === null)) return NOT_APPLICABLE;
      if (!units.known) return unknownBecause(units);
      const all = pods.flatMap((pod) => {
        const { declared } = pod.bound;
        if (declared.inherited === undefined) return [];
        const text = say.inheritsPriority(nameOf(pod), declared.priority, declared.inherited);
        return [pod.unit === null ? { text } : { text, fill: { unit: pod.unit } }];
      });
      return foundOr(all, fine(say.noInheritance));
    }),
  },
  'machine-action': {
    weight: 'warning',
    asks: "whether a pod's end makes systemd take the machine down",
    mend: 'systemctl show -p FailureAction,SuccessAction,JobTimeoutAction,JobTimeoutUSec,JobRunningTimeoutUSec,OnFailure,OnFailureJobMode,OnSuccess,OnSuccessJobMode <unit>',
    judge: ofPods(({ pods, units }, { shutdown }) => {
      if (pods.every(({ unit }) => unit === null)) return NOT_APPLICABLE;
      if (!units.known) return unknownBecause(units);
      const all = pods.flatMap((pod) => {
        const { endsMachine } = pod.bound.declared;
        const action = leftBecause(pod.bound.declared, shutdown.phases);
        if (endsMachine === undefined || action === null) return [];
        const isWithin = (seconds: number): boolean => actionWithin(endsMachine, seconds) !== null;
        const isEnough = isWithin(pod.bound.declared.terminationGraceSeconds);
        const evicted = isWithin(HARD_GRACE_SECONDS) ? 'never' : isEnough ? 'quickly' : 'always';
        const text = say.endsMachine(nameOf(pod), action, endsMachine.afterMs, evicted);
        return [{ text, fill: { unit: action.slice(action.lastIndexOf(' ') + 1) } }];
      });
      return foundOr(all, fine(say.noMachineAction));
    }),
  },
  'unit-held-down': {
    weight: 'warning',
    asks: 'whether an eviction holds a unit down',
    mend: 'nodewarden <command>',
    takes: [HELD_IN_DRY_RUN],
    judge: ofManifests(({ held }, facts) => {
      if (!held.known) return unknownBecause(held);
      const { status, isRunning } = facts.agent;
      const isActing = status.known ? !status.value.node.dryRun : isRunning !== false;
      const inDryRun = agentSays(facts, [HELD_IN_DRY_RUN]);
      const own = held.value.filter(({ after }) => after === 'stay' || inDryRun.length === 0);
      // While its condition lasts, an agent that acts stops it again, whoever started it.
      const fill = { command: status.known && isActing ? 'status' : 'release-held' };
      const texts = own.map(({ unit, pod, after }) => ({ text: say.heldDown(unit, pod, after, isActing) }));
      return foundOr(
        [...inDryRun, ...texts].map(({ text }) => ({ text, fill })),
        fine(say.nobodyHeld),
      );
    }),
  },
  'oom-score-adj': {
    weight: 'warning',
    asks: 'whether the pods have their oom_score_adj',
    mend: 'nodewarden status',
    takes: [OOM_SCORES],
    judge: ofPods(({ pods }, facts) => {
      if (facts.effective.known && facts.effective.value.oomScoreAdj === 'off') return fine(say.scoresOff);
      const unread = pods.flatMap(({ oomScores }) => (oomScores.known ? [] : [oomScores]));
      const scores = pods.flatMap((pod) => {
        const carried = pod.oomScores.known ? pod.oomScores.value : [];
        return carried.length === 0 ? [] : [{ pod: nameOf(pod), scores: carried }];
      });
      const orElse = scores.length === 0 ? NOT_APPLICABLE : fine(say.oomScores(scores));
      return foundOrUnknown(agentSays(facts, [OOM_SCORES]), unread, orElse);
    }),
  },
  'cap-sys-resource': {
    weight: 'warning',
    asks: 'whether oom_score_adj can be lowered',
    mend: 'grep CapEff /proc/1/status',
    judge: ofPods(lowerScores),
  },
} satisfies { readonly [code: string]: Check };
