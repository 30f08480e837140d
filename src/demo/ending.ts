import { saidPriority } from '../core/pod/pod.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import { bytesUp, sayBytes } from '../core/units/quantity.ts';
import { sayLimit } from '../words/phrases.ts';
import { DEMO_PODS, LEAK_PER_REQUEST_BYTES, LEAKER, NODE_MEMORY_BYTES, uidOf } from './load.ts';
import { type Measured, podName } from './story.ts';

export type Innocent = { readonly name: string; readonly pid: number | null; readonly isAlive: boolean };
/** What a witness other than the agent saw; in virtual time, the world itself. */
export type Witness = {
  readonly kind: 'real' | 'simulated';
  readonly innocents: readonly Innocent[];
  readonly kernelOomKills: Reading<number>;
  readonly requestsServed: number;
  /** When the victim's parent noticed its end, and the signal; null: it did not, or there is no parent. */
  readonly death: { readonly atMs: MonoMs; readonly signal: string | null } | null;
  readonly leakerPid: number | null;
};
export type Ending = { readonly isProven: boolean; readonly lines: readonly string[] };

/** The summary: what was measured and how, and whether the story holds. Its last line names `kind`. */
export function endingOf(measured: Measured, witness: Witness): Ending {
  const first = measured.evictions[0];
  const failures = failuresOf(measured, witness);
  if (first === undefined)
    return { isProven: false, lines: ['', `not proven: ${failures.join('; ')} (${witness.kind})`] };
  const { threshold, victim } = first;
  const after = measured.availableNow;
  const limit = sayLimit(threshold.signal, threshold.limit);
  const pid = witness.leakerPid === null ? '' : `, pid ${witness.leakerPid}`;
  const recoveredBytes = after === null ? null : after - threshold.available;
  const recovered = recoveredBytes === null ? 'unknown' : sayBytes(recoveredBytes);
  const kept = `${witness.requestsServed} requests served, ${sayBytes(LEAK_PER_REQUEST_BYTES)} kept of each`;
  const reacted = witness.kind === 'real' ? `SIGKILL after ${saySpan(threshold.sinceMs, measured.stopBeganMs)}, ` : '';
  const facts: readonly (readonly [string, string])[] = [
    ['victim', `${podName(victim.uid)} (${victim.qos}, priority ${saidPriority(victim) ?? 'unknown'}${pid}; ${kept})`],
    ['signal', `${threshold.signal}, ${threshold.isHard ? 'hard' : 'soft'} threshold`],
    ['observed', `${sayBytes(threshold.available)} available of ${sayBytes(NODE_MEMORY_BYTES)}, threshold ${limit}`],
    ...sayTimes(measured, witness).map((line, i): readonly [string, string] => [i === 0 ? 'reaction' : '', line]),
    [
      'recovered',
      `${recovered}: ${sayBytes(threshold.available)} -> ${after === null ? '?' : sayBytes(after)} available`,
    ],
    ['OOM killer', witness.kernelOomKills.known ? `${witness.kernelOomKills.value} kills by the kernel` : 'unknown'],
    ['innocents', witness.innocents.map(sayInnocent).join(', ')],
  ];
  const sentence =
    failures.length > 0
      ? `not proven: ${failures.join('; ')}`
      : `ok: ${podName(victim.uid)} evicted, ${threshold.signal} ${sayBytes(threshold.available)} < ${limit}, ${reacted}${recovered} recovered, ${witness.innocents.length} innocents alive`;
  const lines = [
    '',
    ...facts.map(([name, value]) => `  ${name.padEnd(10)}  ${value}`),
    '',
    `${sentence} (${witness.kind})`,
  ];
  return { isProven: failures.length === 0, lines };
}

function failuresOf(measured: Measured, { innocents, kernelOomKills }: Witness): readonly string[] {
  const failures: string[] = [];
  const victims = measured.evictions.map(({ victim }) => podName(victim.uid));
  if (victims.length !== 1 || victims[0] !== podName(uidOf(LEAKER))) {
    failures.push(`expected only ${podName(uidOf(LEAKER))} to be evicted; evicted: ${victims.join(', ') || 'none'}`);
  }
  if (measured.outcome?.kind !== 'ended')
    failures.push(`the victim did not end (${measured.outcome?.kind ?? 'no outcome'})`);
  const first = measured.evictions[0];
  const isBack =
    first !== undefined && measured.availableNow !== null && measured.availableNow >= bytesUp(first.threshold.limit);
  if (!isBack || measured.backMs === null) failures.push('memory did not recover');
  if (!kernelOomKills.known) failures.push(`kernel OOM kills are unknown: ${kernelOomKills.detail}`);
  else if (kernelOomKills.value > 0) failures.push(`the kernel OOM killer killed ${kernelOomKills.value}`);
  for (const { name, isAlive } of innocents) if (!isAlive) failures.push(`${name} no longer responds`);
  if (innocents.length !== DEMO_PODS.length - 1) failures.push('not all of the other pods were running');
  return failures;
}

/**
 * All spans start at the first look that saw the threshold met; the previous look bounds how much earlier it was
 * crossed.
 */
function sayTimes(measured: Measured, { kind, death }: Witness): readonly string[] {
  const since = measured.evictions[0]?.threshold.sinceMs ?? null;
  // In virtual time, a look, a decision and a kill take no time.
  if (since === null || kind === 'simulated') return [];
  const isProof = measured.outcome?.kind === 'ended';
  const before =
    measured.unmetLookMs === null
      ? []
      : [`crossed at most ${saySpan(measured.unmetLookMs, since)} before the sample that detected it`];
  const died =
    death === null
      ? []
      : [
          `${saySpan(since, death.atMs)} until its parent saw it die${death.signal === null ? ' on its own' : ` of ${death.signal}`}`,
        ];
  return [
    `${saySpan(since, measured.stopBeganMs)} from the sample that detected it to SIGKILL`,
    ...before,
    ...died,
    `${saySpan(since, isProof ? measured.outcome.atMs : null)} until its cgroup was proven empty`,
    `${saySpan(since, measured.backMs)} to the first sample with memory above the threshold again`,
  ];
}

function saySpan(fromMs: MonoMs, toMs: MonoMs | null): string {
  return toMs === null ? 'unknown' : `${Math.max(0, toMs - fromMs).toFixed(1)} ms`;
}

function sayInnocent({ name, pid, isAlive }: Innocent): string {
  const state = isAlive ? 'alive' : 'GONE';
  return pid === null ? `${name} ${state}` : `${name} (pid ${pid}) ${state}`;
}
