import { type PodTrait, type PodUid, type PodView, podName } from '../core/pod/pod.ts';
import type { UnitTimeout } from '../standalone/stop/stop-timeouts.ts';
import { sayMs } from '../words/decision.ts';
import { sayNames } from './print.ts';
import type { StopTimeouts } from './stop-timeouts.ts';

type Row = { readonly uid: PodUid; readonly toldAfterMs: number; readonly getsMs: number };
type Phase = { readonly phase: number; readonly pods: readonly Row[] };

/** Sentences that report no problem. Names are as tenants chose them: escape before printing. */
export function notesOf(
  phases: readonly Phase[],
  pods: readonly PodView[],
  { units }: Pick<StopTimeouts, 'units'>,
): readonly string[] {
  const byUid = new Map(pods.map((pod) => [pod.uid, pod]));
  const phaseOf = new Map(phases.flatMap(({ phase, pods: rows }) => rows.map(({ uid }) => [uid, phase] as const)));
  return phases.flatMap(({ phase, pods: rows }) => [
    ...rows.flatMap((row) => {
      const pod = byUid.get(row.uid);
      if (pod === undefined) return [];
      const unit = units.get(row.uid);
      return [...tieNotes(pod, row, { phase, phaseOf, byUid, unit }), ...killModeNotes(podName(pod), unit)];
    }),
  ]);
}

/** With a grace period up to this, a pod may end before traffic is routed elsewhere. */
const SHORT_SECONDS = 5;

/** beside-a-kubelet.md E11, E16: notes from what the mode knows about the pods; none in standalone. */
export function traitNotes(
  phases: readonly Phase[],
  withAgent: readonly Phase[],
  pods: readonly PodView[],
): readonly string[] {
  const byUid = new Map(pods.map((pod) => [pod.uid, pod]));
  const has = (pod: PodView | undefined, trait: PodTrait): boolean => pod?.traits?.includes(trait) === true;
  const abrupt = pods.filter((pod) => has(pod, 'serves-to-the-end') && pod.terminationGraceSeconds <= SHORT_SECONDS);
  // Within one tier: deleted pods have ended before the agent stops any.
  const early = [phases, withAgent].flatMap((tier) => {
    const at = tier.flatMap(({ phase, pods: rows }) => rows.map(({ uid }) => ({ phase, pod: byUid.get(uid) })));
    const users = at.filter(({ pod }) => has(pod, 'uses-volumes'));
    const last = Math.max(0, ...users.map(({ phase }) => phase));
    return at.flatMap(({ phase, pod }) => (pod !== undefined && has(pod, 'csi-plugin') && phase <= last ? [pod] : []));
  });
  return [
    ...abrupt.map(
      (pod) =>
        `${podName(pod)} serves, and has neither a preStop hook nor more than ${SHORT_SECONDS} s: requests that reach it while it ends fail`,
    ),
    ...early.map(
      (pod) =>
        `${podName(pod)} looks like a CSI plugin, and stops no later than pods that use volumes: they may not be unmounted; give it a higher priority`,
    ),
  ];
}

/** Processes that the agent signals and systemd does not. */
function killModeNotes(name: string, unit: UnitTimeout | undefined): readonly string[] {
  const { killMode = null } = unit ?? {};
  if (killMode !== 'process' && killMode !== 'none') return [];
  const whom = killMode === 'none' ? 'no process' : 'only the main process';
  return [`stopping ${name} signals ${whom} (KillMode=${killMode}): the remaining processes are signalled afterwards`];
}

type Plan = {
  readonly phase: number;
  readonly phaseOf: ReadonlyMap<PodUid, number>;
  readonly byUid: ReadonlyMap<PodUid, PodView>;
  readonly unit: UnitTimeout | undefined;
};

/** It has no process to signal: its time begins once systemd has its job, whatever its services wait for. */
export const isSlice = (unit: UnitTimeout | undefined): boolean => unit?.unit.endsWith('.slice') === true;

function tieNotes(pod: PodView, row: Row, { phase, phaseOf, byUid, unit }: Plan): readonly string[] {
  const { inherited, takesAlong = [], stopsAfter = [], stopsAfterUnits = [] } = pod;
  const name = podName(pod);
  const namesIn = (isMeant: (other: number) => boolean): readonly string[] =>
    stopsAfter.flatMap((uid) => {
      const other = byUid.get(uid);
      const at = phaseOf.get(uid);
      return other !== undefined && at !== undefined && isMeant(at) ? [podName(other)] : [];
    });
  const first = [...namesIn((at) => at === phase), ...stopsAfterUnits];
  const later = namesIn((at) => at > phase);
  return [
    ...(inherited === undefined
      ? []
      : [`${name} stops in phase ${phase}, with the priority of ${inherited.from}, which may stop with it`]),
    ...(takesAlong.length === 0 ? [] : [`stopping ${name} also stops ${sayNames(takesAlong)}`]),
    ...(first.length === 0
      ? []
      : [
          isSlice(unit)
            ? `the time of ${name} begins with its phase: those of its services that systemd orders after ${sayNames(first)} are asked to stop after them, at the latest 2 s before that time is over (in half of it if it is shorter than 4 s)`
            : `${name} is asked to stop after ${sayNames(first)} (systemd orders them), at most ${sayMs(row.toldAfterMs)} after its phase begins, and then gets at least ${sayMs(row.getsMs)}`,
        ]),
    ...(later.length === 0
      ? []
      : [`${name} stops before ${sayNames(later)} (in a later phase), although systemd orders it after`]),
  ];
}
