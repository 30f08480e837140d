import { type Reading, unknown } from '../core/reading.ts';
import type { Systemd, UnitFacts } from '../host/systemd.ts';
import type { Clock, Findings } from '../ports.ts';
import type { StoppedPod } from './stops-file.ts';
import type { StopsMemory } from './stops-memory.ts';

export type TellNeeds = {
  readonly clock: Clock;
  readonly systemd: Systemd;
  readonly findings: Findings;
  readonly memory: StopsMemory;
};
/** A pod whose stop is asked of systemd; what is written of it is what was known last. */
type UnitPod = StoppedPod & { readonly unit: string };
type Telling = { readonly pod: UnitPod; readonly answer: (isAsked: boolean) => void };
/** False: its processes are to be signalled. */
export type TellUnit = (pod: UnitPod) => Promise<boolean>;

/** systemd answers within milliseconds; what it said last serves where it does not. */
const FACTS_MS = 1_000;
/** Somebody has told it already. */
const IS_STOPPING = 'deactivating';

/**
 * Tells the units of a group to stop: those that are given in one turn are asked for their state, remembered, and then
 * queued in one go and in their order, so that systemd has all of them before it begins with the first.
 */
export function createTellUnits(needs: TellNeeds): TellUnit {
  const { clock } = needs;
  let group: readonly Telling[] = [];
  let last: Promise<void> = Promise.resolve();
  return (pod) =>
    new Promise((answer) => {
      group = [...group, { pod, answer }];
      if (group.length > 1) return;
      clock.after(0, () => {
        const whole = group;
        group = [];
        last = last.then(() => tellAll(needs, whole));
      });
    });
}

async function tellAll(needs: TellNeeds, group: readonly Telling[]): Promise<void> {
  const { systemd, memory } = needs;
  const [state, ...facts] = await Promise.all([
    inTime(needs, systemd.systemState()),
    ...group.map(({ pod }) => inTime(needs, systemd.unit(pod.unit))),
  ]);
  // systemd's jobs for the pods then wait for ours (second tier): StopUnit would wait with them until the grace is over.
  const ask = state.known && state.value === 'stopping' ? signalUnit : stopUnit;
  const found = group.map(({ pod, answer }, i) => {
    const now = asNow(pod, facts[i]);
    const isDown = now.activeState === 'inactive' || now.activeState === 'failed';
    // What is left of a unit that is down: systemd would not tell it.
    const by = now.activeState === IS_STOPPING ? 'others' : isDown ? 'signals' : 'systemd';
    return { pod: asFirstNoted(memory, now), by, answer } as const;
  });
  memory.note(found.map(({ pod, by }) => ({ ...pod, stage: by === 'systemd' ? 'noted' : 'told' })));
  for (const { by, answer } of found) if (by !== 'systemd') answer(by === 'others');
  const asked = found.filter(({ by }) => by === 'systemd');
  const answers = await Promise.all(asked.map(({ pod }) => ask(needs, pod.unit)));
  memory.told(asked.map(({ pod }) => pod.decision));
  for (const [i, { answer }] of asked.entries()) answer(answers[i] ?? false);
}

function asNow(pod: UnitPod, facts: Reading<UnitFacts> | undefined): UnitPod {
  if (facts === undefined || !facts.known) return pod;
  const { invocationId, activeState } = facts.value;
  return { ...pod, invocationId, activeState };
}

/** Of a run that was told before, or of an earlier run of ours that died over it: how it was before that. */
function asFirstNoted(memory: StopsMemory, pod: UnitPod): UnitPod {
  const isSameRun = ({ uid, invocationId }: StoppedPod): boolean =>
    uid === pod.uid && invocationId !== '' && invocationId === pod.invocationId;
  const before = memory.all().find((other) => other.decision === pod.decision || isSameRun(other));
  if (before === undefined) return pod;
  const { invocationId, activeState } = before;
  return { ...pod, invocationId, activeState };
}

function inTime<T>({ clock }: TellNeeds, asked: Promise<Reading<T>>): Promise<Reading<T>> {
  return new Promise((resolve) => {
    const late = unknown('timed-out', 'systemd', `no answer within ${FACTS_MS} ms`);
    const cancel = clock.after(FACTS_MS, () => resolve(late));
    void asked.then((reading) => {
      cancel();
      resolve(reading);
    });
  });
}

async function signalUnit({ systemd }: Pick<TellNeeds, 'systemd'>, unit: string): Promise<boolean> {
  return (await systemd.signalStop(unit)).known;
}

/** Resolves when the job is queued. A unit that systemd cannot be asked to stop is a finding. */
export async function stopUnit(
  { systemd, findings }: Pick<TellNeeds, 'systemd' | 'findings'>,
  unit: string,
): Promise<boolean> {
  const stopped = await systemd.stop(unit);
  const id = `stop-unit/${unit}`;
  const text = `systemd could not be asked to stop ${unit} (${stopped.known ? '' : stopped.detail}): its processes were signalled; Restart= may bring it back`;
  if (stopped.known) findings.clear(id);
  else findings.raise({ id, text });
  return stopped.known;
}
