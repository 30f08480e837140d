import type { Clock, Findings, Log } from '../../ports.ts';
import {
  CORDON_KEPT,
  cordonKept,
  OUT_OF_SERVICE,
  OUT_OF_SERVICE_TAINT,
  outOfService,
} from '../../words/finding-kube.ts';
import type { ApiWrites } from '../api/api-writes.ts';
import { isMarkVoid, NOTHING_OF_OURS, type OwnNode, type Uncordoned } from '../api/own-node.ts';
import { type NotDone, reportWrite } from '../api/write-failure.ts';
import { CORDONED_BY, readMark, SHUTDOWN_TAINTS } from '../api/write-rules.ts';

type TakeBackNeeds = {
  readonly clock: Clock;
  readonly writes: Pick<ApiWrites, 'verify' | 'uncordon' | 'dropVoidMark'>;
  readonly isUp: () => boolean;
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
  readonly log: Log;
  readonly nodeName: string;
  readonly bootId: string;
};
/** Cordon and taint of a shutdown that is over. */
type UndoCordon = {
  /** Nothing is taken back while it is true. */
  readonly setShuttingDown: (isShuttingDown: boolean) => void;
  /** Calls `run` once, when the node is ready and nothing is left to take back. */
  readonly whenDone: (run: () => void) => void;
  readonly close: () => void;
};

const AGAIN_MS = 5_000;
/** The interval for what only others can change, or an earlier write that is carried out late. */
const WATCH_MS = 60_000;
/** An agent that was restarted during a shutdown knows of it by then. */
const OVER_MS = 30_000;

/**
 * After a boot, a cancelled shutdown or a soft-reboot: waits for the kubelet to be ready, and removes what has our mark
 * (beside-a-kubelet.md E21, E22). Removes nothing that others have set.
 */
export function createUndoCordon(needs: TakeBackNeeds): UndoCordon {
  const { clock, writes, findings } = needs;
  const waiting: (() => void)[] = [];
  let isShuttingDown = false;
  let staysSinceMs = clock.monoMs();
  let isDone = false;
  let isClosed = false;
  let isLooking = false;
  let cancel = (): void => undefined;

  /** Delay until the next check. */
  async function look(): Promise<number> {
    const node = needs.isUp() ? await writes.verify() : null;
    const againMs = isDone ? WATCH_MS : AGAIN_MS;
    if (node?.kind !== 'node') return againMs;
    tellOutOfService(node);
    // At once: a cordon that somebody sets later would look like ours.
    if (isMarkVoid(node)) await writes.dropVoidMark();
    if (isShuttingDown || !isReady(node)) return againMs;
    const mark = readMark(node.annotations[CORDONED_BY]);
    const isOfThisBoot = mark !== null && mark.bootId === needs.bootId;
    // A taint alone does not say of which boot it is.
    const mayLast = isOfThisBoot || (mark === null && hasOurTaint(node));
    if (mayLast && clock.monoMs() - staysSinceMs < OVER_MS) return AGAIN_MS;
    const isOurs = mark !== null || hasOurTaint(node);
    const said: Uncordoned | NotDone = isOurs ? await writes.uncordon(isOfThisBoot ? [mark] : []) : NOTHING_OF_OURS;
    if (!tellUncordoned(said)) return said.kind === 'autoscaler' || said.kind === 'forbidden' ? WATCH_MS : AGAIN_MS;
    if (isShuttingDown) return AGAIN_MS;
    isDone = true;
    for (const run of waiting.splice(0)) run();
    // A cordon that got no answer in time may still be carried out.
    return WATCH_MS;
  }

  /** Whether nothing of ours is left. */
  function tellUncordoned(said: Uncordoned | NotDone): boolean {
    if (said.kind === 'autoscaler') {
      findings.raise(cordonKept());
      return false;
    }
    findings.clear(CORDON_KEPT);
    if (said.kind !== 'done' && said.kind !== 'nothing-of-ours') {
      reportWrite(findings, 'patch nodes', said);
      return false;
    }
    reportWrite(findings, said.kind === 'done' ? 'patch nodes' : null, null);
    if (said.kind === 'done' && said.uncordoned) {
      needs.log.info({ event: 'cordon' }, `the node ${needs.nodeName} was uncordoned: the shutdown is over`);
    }
    return true;
  }

  /** E24. */
  function tellOutOfService({ taints }: OwnNode): void {
    const taint = taints.find(({ key }) => key === OUT_OF_SERVICE_TAINT);
    if (taint === undefined) findings.clear(OUT_OF_SERVICE);
    else findings.raise(outOfService(needs.nodeName, String(taint['value'] ?? '')));
  }

  async function run(): Promise<void> {
    if (isLooking) return;
    isLooking = true;
    const againMs = await look();
    isLooking = false;
    cancel();
    if (!isClosed) cancel = clock.after(againMs, () => void run());
  }
  cancel = clock.after(0, () => void run());

  return {
    setShuttingDown: (now) => {
      if (isShuttingDown && !now) staysSinceMs = clock.monoMs();
      if (isShuttingDown !== now) isDone = false;
      isShuttingDown = now;
      if (!isDone && !isClosed) {
        cancel();
        cancel = clock.after(0, () => void run());
      }
    },
    whenDone: (told) => {
      if (isDone) told();
      else waiting.push(told);
    },
    close: () => {
      isClosed = true;
      cancel();
    },
  };
}

const hasOurTaint = ({ taints }: OwnNode): boolean =>
  taints.some(({ key }) => SHUTDOWN_TAINTS.some((ours) => ours === key));

function isReady({ conditions }: OwnNode): boolean {
  return conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
}
