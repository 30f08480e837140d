import type { Frees, GuardReason } from '../core/guard/decision.ts';
import { goesOn, type Phase } from '../core/guard/record.ts';
import type { SettlesFor } from '../core/guard/state.ts';
import { saidOf, sayNames } from './phrases.ts';

/** What the guard's core says in codes, for people. */

/** Null: a line of its own says it. */
export function sayGuardReason(reason: GuardReason): string | null {
  const said = REASONS[reason.code];
  if (said === null) return null;
  if (reason.code === 'settling') return `decides nothing new for a while, because of ${saySettles(reason.for)}`;
  if (reason.code === 'not-drained') return `${reason.node.name}: ${sayLeft(reason.left)}`;
  const more = 'lacks' in reason ? ` (${sayWhy(reason.lacks)})` : 'detail' in reason ? ` (${reason.detail})` : '';
  const method = reason.code === 'device-contradicted' ? `: ${reason.method}` : '';
  const subject = 'node' in reason ? reason.node.name : 'fencing' in reason ? reason.fencing : '';
  return `${subject}: ${said}${method}${more}`;
}

/** Nothing: it is not known, as otherwise the node is drained. */
function sayLeft({ pods, attachments }: Frees): string {
  if (pods.length + attachments.length === 0)
    return 'which pods and volumes are still there after drainWait is not known';
  const names = [
    ...pods.map(({ namespace, name, finalizers }) => `${namespace}/${name}${sayFinalizers(finalizers)}`),
    ...attachments.map(({ volume, driver }) => `volume ${volume} (${driver})`),
  ];
  return `still there after drainWait: ${sayNames(names)}`;
}

const sayFinalizers = (names: readonly string[]): string =>
  names.length === 0 ? '' : ` (${names.length === 1 ? 'finalizer' : 'finalizers'} ${sayNames(names)})`;

const saySettles = (why: string): string => saidOf(SETTLES, why) ?? why;
const SETTLES: { readonly [F in SettlesFor]: string } = {
  start: 'its start',
  election: 'its election',
  'api-return': 'the return of the API server',
  'clock-jump': 'the jump of its clock',
};
const REASONS: { readonly [C in GuardReason['code']]: string | null } = {
  settling: '',
  'storm-began': null,
  'storm-ended': null,
  'life-after-proof': 'it lives after it was proven off',
  'device-contradicted': 'what a device said cannot be true, and it is not believed any more',
  'agent-failed': 'a fence agent failed',
  'act-failed': 'what was to be done failed, and is tried again',
  'not-told':
    'it is proven off, and could not be set out of service within drainWait: its pods and volumes are not freed',
  'still-ready':
    'it waits, because its Node is still Ready, so that Kubernetes would free nothing: is kube-controller-manager running?',
  'not-proven': 'off is not proven',
  'not-drained': '',
  'foreign-taint':
    'somebody else has set it out of service: the guard leaves that taint, and does not power it on before it is gone',
  conflict: 'somebody else wrote the record',
  'taken-over': 'a fencing of another guard is taken over',
  'own-found': 'this guard has a fencing on record here that it did not know to be stored: it goes on',
  'unreadable-record': 'the record cannot be read',
  'orphan-mark': 'it carries a mark that no open fencing stands for; unless in dry run, the guard removes it',
};

/** `isConfirmed`: a person said that the machine is off, and no device was believed. `staysOff`: as its record has it. */
export function sayPhase(phase: string, isConfirmed = false, staysOff: string | null = null): string {
  if (phase === 'left-off' && staysOff === 'node-deleted') return 'its Node was deleted: its machine is left as it is';
  if (phase === 'proven' && isConfirmed) return 'off, as a person says; no device proved it';
  if (phase === 'proving' && isConfirmed) return 'a last look before the word of a person counts';
  return saidOf(PHASES, phase) ?? phase;
}
/** What is done in it, as long as it is not known to be done. */
const PHASES: { readonly [P in Phase]: string } = {
  decided: 'a last look before anything is done',
  isolating: 'its storage is being cut off',
  'off-sent': 'power off is being sent',
  proving: 'the devices are asked for proof',
  proven: 'off is proven',
  tainted: 'out of service: Kubernetes may free its pods and volumes',
  untainting: 'no taint of the guard is to stay on it',
  'on-sent': 'power on is being sent',
  booting: 'it boots',
  failed: 'not proven off',
  stuck: 'stuck: a person must look',
  aborted: 'aborted',
  'left-off': 'left off',
  'not-back': 'not back: a person must look',
  closed: 'closed',
};

/** Of an open fencing, as it stands now: its phase, unless it is stopped or waits. */
export function sayStands(
  { phase, isConfirmed, staysOff, isTainted, isWaiting, isUnstored = false }: Standing,
  isDry: boolean,
): string {
  const inPlace = sayStopped(phase, isDry) ?? (isWaiting ? sayWaits(phase) : null);
  if (isUnstored && !isDry) return `${UNSTORED}${sayTaintStays(phase, isTainted)}`;
  return inPlace ?? `${sayPhase(phase, isConfirmed, staysOff)}${sayTaintStays(phase, isTainted)}`;
}
type Standing = {
  readonly phase: string;
  readonly isConfirmed: boolean;
  readonly staysOff: string | null;
  readonly isTainted: boolean;
  readonly isWaiting: boolean;
  /** A guard of an earlier version does not say so. */
  readonly isUnstored?: boolean;
};
const UNSTORED = 'goes no further yet: its next step is not known to be stored, and is tried again';

/** Of a fencing that is to leave no taint: who powers its machine on by hand must know. Nothing: there is none. */
const sayTaintStays = (phase: string, isTainted: boolean): string =>
  phase === 'untainting' && isTainted ? ', and its node still carries one' : '';

/** In place of the phase, of a fencing that was under way when the dry run was loaded; null: it is not stopped. */
export const sayStopped = (phase: string, isDry: boolean): string | null =>
  isDry && goesOn(phase) ? 'in dry run it goes no further' : null;

/** In place of the phase, of a fencing that waits. */
const sayWaits = (phase: string): string =>
  saidOf(WAITS, phase) ?? 'waits: no power on is sent while somebody else has set its node out of service';
const WAITS: { readonly [phase: string]: string } = {
  decided: 'decided, and waits: no power off is sent',
  proving: 'waits: its node is not set out of service before it has a lease, and Kubernetes has marked it as not Ready',
};

/** `inTime`: as "in 50s"; null: any moment now. */
export function sayDue(phase: string, inTime: string | null): string {
  if (phase === 'failed')
    return `begins anew ${inTime === null ? '' : `${inTime} at the earliest, `}once all gates are open`;
  if (phase === 'decided') return `this try ends ${inTime ?? 'at the next look'} if it cannot begin before`;
  return inTime === null ? 'goes on at the next look' : `goes on ${inTime} at the latest`;
}

/** Why a fencing came to its phase, or what its proof lacks: a code, unless a sentence says more. */
export const sayWhy = (why: string): string => saidOf(WHY, why) ?? why;
const WHY: { readonly [code: string]: string } = {
  'too-slow': 'its devices answer too late for a proof',
  'never-on': 'one of its devices has never said on, so its off proves nothing',
  contradicted: 'one of its devices said what cannot be true, and is not believed',
  'devices-changed': 'its devices are configured otherwise by now',
  'node-deleted': 'its Node was deleted',
  'made-anew': 'a Node that was made anew with its name lives',
  'on-refused': 'a device says off, however often it was told to switch on',
  'power-unknown': 'a device does not say whether it has switched on',
  'no-lease': 'it has no lease that is renewed, so that nobody can tell whether it lives',
  'not-told': 'it could not be set out of service',
  'proof-lost': 'it was proven off, and its devices do not say so any more',
};

export const sayGuardStarts = (file: string, isDryRun: boolean): string =>
  `nodewarden guard watches the nodes of its cluster (configuration ${file})${isDryRun ? '; this is a dry run: nothing is fenced, and only its lease is written' : ''}`;
