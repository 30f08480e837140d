import { hexHashOf } from '../core/hash.ts';
import type { PodUid } from '../core/pod/pod.ts';
import type { Reason } from '../core/reason.ts';
import type { Signal } from '../core/signal.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { sayBytes } from '../core/units/quantity.ts';
import type { Finding, Findings } from '../ports.ts';
import { counted } from './phrases.ts';
import { sayReason } from './reason.ts';

/** `signals`: those with this cause; at least one. */
export function signalsUnreadable(signals: readonly Signal[], cause: string): Finding {
  const all = signals.length < 2 ? signals.join('') : `${signals.slice(0, -1).join(', ')} and ${signals.at(-1)}`;
  return {
    id: `signal-unknown/${signals[0]}`,
    text: `${all} cannot be read (${cause}): no decision is based on ${signals.length < 2 ? 'it' : 'them'}`,
  };
}

/** Null: no person has to know of it. */
export function findingOfReason(reason: Reason, nameOf: (uid: PodUid) => string): Finding | null {
  const id = idOfReason(reason);
  return id === null ? null : { id, text: sayReason(reason, nameOf) };
}

const MORE_IS_TO_COME: readonly Extract<Reason, { code: 'no-candidate' }>['because'][] = ['awaited', 'manifest-unread'];

function idOfReason(reason: Reason): string | null {
  switch (reason.code) {
    case 'not-signalled':
    case 'limit-spared':
      return `${reason.code}/${reason.uid}`;
    case 'no-candidate':
      return `${MORE_IS_TO_COME.includes(reason.because) ? 'pod-awaited' : reason.code}/${reason.signal}`;
    case 'order-unproven':
      return `${reason.code}/${reason.signal}`;
    case 'pods-unknown':
      return reason.code;
    default:
      return null;
  }
}

export const PODS_UNREADABLE = 'pods-unreadable';
export function podsUnreadable(first: string, others: number, cause: string): Finding {
  const who =
    others === 0 ? `${first} cannot be fully measured` : `${first} and ${others} more cannot be fully measured`;
  return { id: PODS_UNREADABLE, text: `${who}: ${cause}` };
}

type BlockSizes = { readonly bsize: bigint; readonly frsize: bigint };
/** Node.js counts in another unit than the file system. */
export function blockSizesDiffer(path: string, { bsize, frsize }: BlockSizes): Finding {
  return {
    id: `statfs-block-size:${path}`,
    text: `${path} counts in blocks of ${frsize} bytes, but statfs reports ${bsize}: nodewarden counts in ${frsize}`,
  };
}

export const SHARED_FILES = 'shared-files';
const SHARERS_NAMED = 3;
/** `sharers`: at least one. */
export function sharedFiles(
  sharers: readonly { readonly pod: string; readonly bytes: number; readonly inodes: number }[],
): Finding {
  const named = sharers
    .slice(0, SHARERS_NAMED)
    .map(({ pod, bytes, inodes }) => `${pod} has ${sayBytes(bytes)} in ${counted(inodes, 'such file')}`);
  const more = sharers.length > SHARERS_NAMED ? `, and there are ${sharers.length - SHARERS_NAMED} more such pods` : '';
  return {
    id: SHARED_FILES,
    text: `files belong to several pods (hard links, a directory that more than one declares, or deleted files that more than one holds open), and it is not known whose they are: ${named.join(', ')}${more}. For a full disk they count for no pod: let pods share no files, or declare a shared directory for one pod only`,
  };
}

export const PRE_KILL = 'pre-kill';
export function preKillFailed(how: string): Finding {
  return { id: PRE_KILL, text: `the preKill command failed (${how}); evictions do not depend on it` };
}

/** Of every reclaim command. */
export const RECLAIM = 'reclaim/';
/** Another one for other arguments, which may be secret, while findings are shown. */
export function reclaimId(signal: Signal, [program = '', ...args]: readonly string[]): string {
  return `${RECLAIM}${signal}/${program}${args.length === 0 ? '' : `#${hexHashOf(JSON.stringify(args))}`}`;
}
/** `place`: in the list of the configuration. */
export function reclaimFailed(signal: Signal, command: readonly string[], place: number, failure: string): Finding {
  const text = `the reclaim command ${command[0] ?? ''} (reclaimCommands[${place}]) for ${signal} failed: ${failure}`;
  return { id: reclaimId(signal, command), text: escapeUnsafe(text) };
}

/** Raised if a victim could not be ended; cleared by the code that sees it end after all. */
export const survivedId = (uid: PodUid): string => `survived/${uid}`;
export function survived(uid: PodUid, pod: string, from: 'eviction' | 'stop', detail: string): Finding {
  return { id: survivedId(uid), text: `${pod} survived its ${from}: ${detail}` };
}

/** Of a victim without a process in its cgroup. */
export function sayStillCharged(path: string, bytes: number): string {
  const charged = `${sayBytes(bytes)} charged to ${escapeUnsafe(path)} are still in use by processes that left it`;
  return `no process is left in its cgroup, but ${charged}; until that ends, no pod is evicted for it that is not known to be the cause`;
}

export const resistsId = (uid: PodUid): string => `resists/${uid}`;
/** `who`: its processes, and why they still exist. */
export function resists(uid: PodUid, pod: string, who: string): Finding {
  return { id: resistsId(uid), text: `${pod} does not die: ${who}` };
}

const budgetRefusesId = (uid: PodUid): string => `budget-refuses/${uid}`;
const notTakenId = (uid: PodUid): string => `eviction-not-taken/${uid}`;
export function clearRefused(findings: Pick<Findings, 'clear'>, uid: PodUid): void {
  for (const id of [budgetRefusesId(uid), notTakenId(uid)]) findings.clear(id);
}
/** One of the two. It does not come and go if it was raised before. */
export function raiseRefused(
  findings: Pick<Findings, 'raise' | 'clear'>,
  uid: PodUid,
  pod: string,
  { text, isUnasked = false }: { readonly text: string; readonly isUnasked?: boolean },
): void {
  findings.clear(isUnasked ? budgetRefusesId(uid) : notTakenId(uid));
  findings.raise((isUnasked ? evictionNotTaken : budgetRefuses)(uid, pod, text));
}

/** `said`: by the API server. */
function budgetRefuses(uid: PodUid, pod: string, said: string): Finding {
  return {
    id: budgetRefusesId(uid),
    text: `a disruption budget refuses the eviction of ${pod} for a soft threshold: ${said}; only pods that exceed their requests are evicted instead. Add replicas or relax the budget; a hard threshold overrides it`,
  };
}

/** `said`: by the API server. */
function evictionNotTaken(uid: PodUid, pod: string, said: string): Finding {
  return {
    id: notTakenId(uid),
    text: `the API server is not known to have accepted the eviction of ${pod} for a soft threshold, or to have asked a disruption budget: ${said}; it is asked again later, and only pods that exceed their requests are evicted instead. A hard threshold overrides it`,
  };
}

export const deletionRefusedId = (uid: PodUid): string => `deletion-refused/${uid}`;
/** `said`: by the API server. */
export function deletionRefused(uid: PodUid, pod: string, said: string): Finding {
  return {
    id: deletionRefusedId(uid),
    text: `the API server refused to delete ${pod}: ${said}; as long as it does, the kubelet may start again what is killed of this pod`,
  };
}

export const unreapedId = (pod: string): string => `unreaped/${pod}`;
export function unreapedProcesses(pod: string, count: number): Finding {
  const text =
    count === 1
      ? `1 dead process of ${pod} holds its process id until its parent reaps it or ends (often process 1)`
      : `${count} dead processes of ${pod} hold their process ids until their parent reaps them or ends (often process 1)`;
  return { id: unreapedId(pod), text };
}

export const OOM_SCORES = 'oom-score-adj';
/** `others`: pods besides this one. */
export function oomScoresKept(
  pod: string,
  others: number,
  { count, why }: { readonly count: number; readonly why: string },
): Finding {
  const more = others === 0 ? '' : `, as do some of ${counted(others, 'more pod')}`;
  const what = count === 1 ? '1 process of' : `${count} processes of`;
  const keep = count === 1 ? 'keeps' : 'keep';
  return {
    id: OOM_SCORES,
    text: `${what} ${pod} ${keep} another oom_score_adj (${why})${more}: the kernel's OOM killer may choose the wrong pod`,
  };
}

export const whatFillsId = (signal: Signal): string => `what-fills/${signal}`;
/** `why`: no eviction helps; `found`: what fills it, as sentences. */
export function whatFills(signal: Signal, why: string, found: string): Finding {
  return { id: whatFillsId(signal), text: escapeUnsafe(`${signal}: ${why}. ${found}`) };
}
