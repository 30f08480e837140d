// `npm run bench:soak [-- --virtual-hours 24 --real-minutes 2 --seed N]`: random pressure for a long time, in virtual time and, as
// root, on real cgroups. Every ranking and victim is derived again from the record. `--real-minutes 120` is the long one;
// 0 leaves a part out. What is known is in bench/results after every minute; `--report` prints it, `--result` names it.
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type Bar, barsTable, type Machine, machine, readResult, sayMachine, writeResult } from './result.ts';
import { barsOfReal, barsOfVirtual, slopeMiB } from './soak/bars.ts';
import { type RealSoak, soakReally } from './soak/real.ts';
import { soakVirtually, type VirtualSoak } from './soak/virtual.ts';

type Result = {
  readonly bars: readonly Bar[];
  readonly virtual?: (VirtualSoak & { readonly on: Machine }) | undefined;
  readonly real?: RealSoak | undefined;
};

const VIRTUAL_PODS = 200;
const { values } = parseArgs({
  options: {
    'virtual-hours': { type: 'string', default: '24' },
    'real-minutes': { type: 'string', default: '2' },
    dist: { type: 'string', default: path.join(import.meta.dirname, '../dist') },
    seed: { type: 'string', default: String(process.pid) },
    result: { type: 'string', default: 'soak' },
    report: { type: 'boolean' },
  },
});
const seed = Number(values.seed);
const minutes = Number(values['real-minutes']);
const hours = Number(values['virtual-hours']);

const barsOf = ({ virtual, real }: Omit<Result, 'bars'>): readonly Bar[] => [
  ...(virtual === undefined ? [] : barsOfVirtual(virtual)),
  ...(real === undefined ? [] : barsOfReal(real)),
];

/** Each part by itself: one that is not run stays as it was measured. */
function keep(part: Omit<Result, 'bars'>): void {
  const parts = { ...readResult<Result>(values.result), ...part };
  writeResult(values.result, { ...parts, bars: barsOf(parts) });
}

const tallied = (counts: { readonly [kind: string]: number }): string =>
  Object.entries(counts)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ');

function sayVirtual(soak: VirtualSoak & { readonly on: Machine }): string {
  return `virtual, ${soak.hours} h, seed ${soak.seed}, in ${soak.wallSeconds} s (${sayMachine(soak.on)})
  ${soak.looks} looks, ${soak.arrivals} pods came and ${soak.departures} went, ${soak.reloads} reloads
  decisions: ${tallied(soak.decisions)}; outcomes: ${tallied(soak.outcomes)}
  ${soak.replayed} derived again, ${soak.withHistory} of them with somebody passed over because of what was before
  at most ${soak.mostTimers} timers and ${soak.mostStateChars} characters of state; record ${Math.round(soak.recordBytes / 1e6)} MB
  heap at each tenth: ${soak.heapMiB.join(', ')} MiB`;
}

function sayReal(soak: RealSoak): string {
  const first = soak.samples[0];
  const last = soak.samples.at(-1);
  const loads = soak.samples.map(({ load }) => load);
  const said = (one: typeof first): string =>
    one === undefined ? '-' : `RSS ${Math.round(one.rssKiB / 102.4) / 10} MiB, ${one.descriptors} descriptors`;
  const of = soak.isDone ? '' : `, so far of ${soak.minutesAsked}`;
  return `real, ${soak.minutes} minutes${of}, seed ${soak.seed} (${sayMachine(soak.on)}; load ${Math.min(...loads)} to ${Math.max(...loads)} meanwhile)
  events: ${tallied(soak.events)}; ${soak.reloads} reloads, ${soak.replacedPods} pods replaced, ${soak.asks} questions
  decisions: ${tallied(soak.decisions)}; outcomes: ${tallied(soak.outcomes)}
  ${soak.replayed} derived again; ${soak.expectedVictims} victims were who alone had grown
  first ${said(first)}; last ${said(last)}; ${slopeMiB(soak.samples).toFixed(2)} MiB/h; ${last?.cpuSeconds} s of CPU
  state directory ${first?.stateBytes} to ${last?.stateBytes} bytes`;
}

function report(): readonly string[] {
  const result = readResult<Result>(values.result);
  if (result === null) throw new Error(`there is no result ${values.result}`);
  const { virtual, real } = result;
  if (virtual !== undefined) console.log(sayVirtual(virtual));
  if (real !== undefined) console.log(sayReal(real));
  // As judged today: the result may be older.
  const bars = barsOf(result);
  console.log(barsTable(bars));
  const problems = [...(virtual?.problems ?? []), ...(real?.problems ?? [])];
  for (const problem of problems) console.log(`PROBLEM  ${problem}`);
  return [...problems, ...bars.filter(({ holds }) => holds === false).map(({ name }) => name)];
}

if (values.report !== true) {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  // What an earlier run left of a part says nothing of this one.
  keep({ ...(hours > 0 ? { virtual: undefined } : {}), ...(minutes > 0 ? { real: undefined } : {}) });
  if (hours > 0) {
    const on = machine();
    keep({ virtual: { on, ...(await soakVirtually({ hours, seed, pods: VIRTUAL_PODS })) } });
  }
  if (minutes > 0 && process.getuid?.() !== 0) console.log('skipped the real part: only root can make cgroups');
  else if (minutes > 0) {
    const order = { minutes, seed, dist: values.dist, keep: (soFar: RealSoak) => keep({ real: soFar }) };
    keep({ real: await soakReally(order, stop.signal) });
  }
}
process.exitCode = report().length === 0 ? 0 : 1;
