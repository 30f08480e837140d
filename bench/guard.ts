// `npm run bench:guard`: what the guard's decisions cost: one look at 5,000 nodes, and an hour of a cluster in virtual time.
// CPU time of this process, so that what else runs on the machine counts little.
import { planOf } from '../src/core/guard/config.ts';
import { decideGuard } from '../src/core/guard/decide.ts';
import type { GuardObservation, NodeObject, NodeView } from '../src/core/guard/observation.ts';
import { initialGuardState } from '../src/core/guard/state.ts';
import { known } from '../src/core/reading.ts';
import { parseJsonDocument } from '../src/document/json.ts';
import { readGuardScenario } from '../src/simulate/guard/read.ts';
import { runGuard } from '../src/simulate/guard/run.ts';
import { DEFAULTS as config } from '../test/core/guard/a-guard-config.ts';
import { atMost, barsTable, machine, quantile, sayMachine, table, writeResult } from './result.ts';

const NODES = 5_000;
const LOOK_MS = 5_000;
const LOOKS = 240;
/** The looks before have compiled the code and filled the ages. */
const COUNTED = 120;

const objects = Array.from(
  { length: NODES },
  (_, i): NodeObject => ({
    name: `w${i}`,
    uid: `5b1c7d9e-uid-${i}`,
    key: `k${i}`,
    bootId: `boot-${i}`,
    isDeleting: false,
    isUnschedulable: false,
    labels: { 'topology.kubernetes.io/zone': `z${i % 5}`, 'kubernetes.io/hostname': `w${i}` },
    annotations: {},
    taints: [],
    conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: '', heartbeat: 'h' }],
  }),
);

/** Half of the leases are renewed between two looks, as with kubelets that renew every 10 s. */
function viewsAt(atMs: number, silent: number, silentSinceMs: number): readonly NodeView[] {
  return objects.map((object, i) => {
    const heardMs = i < silent ? Math.min(atMs, silentSinceMs) : atMs;
    return {
      object,
      lease: { renewed: `r${Math.floor((heardMs + ((i * 7_919) % 10_000)) / 10_000)}`, durationMs: 40_000 },
    };
  });
}

function observationAt(atMs: number, value: readonly NodeView[]): GuardObservation {
  const leadership = { isLeader: true, epoch: 1, sinceMs: 0, authorityUntilMs: atMs + 9_000 } as const;
  return {
    atMs,
    wallMs: 1_700_000_000_000 + atMs,
    self: { writer: 'bench', node: null, leadership, lastWriteMs: atMs, uptimeMs: atMs },
    nodes: known({ value, asOfMs: atMs }),
    records: known([]),
    kept: known({ devices: [], state: { paused: null, holds: [], past: [] } }),
    asked: new Map(),
    attachments: known({ value: new Map(), asOfMs: atMs }),
    answers: [],
    outcomes: [],
    orders: [],
  };
}

const cpuMs = (since: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1_000;
};

/** CPU milliseconds of each look, `silent` of the nodes being silent. */
function looks(silent: number): readonly number[] {
  let state = initialGuardState(0, config.settleMs);
  const took: number[] = [];
  for (let look = 1; look <= LOOKS; look += 1) {
    const atMs = look * LOOK_MS;
    const observation = observationAt(atMs, viewsAt(atMs, silent, 200_000));
    const began = process.cpuUsage();
    state = decideGuard(state, observation, config).state;
    took.push(cpuMs(began));
  }
  return took.slice(-COUNTED);
}

/** CPU seconds of an hour in which one machine dies. */
function hourOf(nodes: number): number {
  const document = {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'GuardScenario',
    metadata: { name: 'bench' },
    nodes: [{ names: `w[1-${nodes}]`, zone: 'a', pods: [{ name: 'db-{node}', statefulSet: 'db', volumes: 1 }] }],
    events: [
      { at: '10m', node: 'w1', power: 'off' },
      { at: '60m', heal: 'all' },
    ],
  };
  const [yaml] = parseJsonDocument(JSON.stringify(document), 'bench.json').documents;
  const { scenario, problems } = yaml === undefined ? { scenario: null, problems: [] } : readGuardScenario(yaml);
  if (scenario === null) throw new Error(`not a scenario: ${JSON.stringify(problems)}`);
  const began = process.cpuUsage();
  runGuard(scenario);
  return cpuMs(began) / 1_000;
}

const on = machine();
console.log(sayMachine(on));
if (planOf(config, 'w0') === null) throw new Error('the nodes have no method');
const cases = [
  { name: 'all alive', silent: 0 },
  { name: 'one dead', silent: 1 },
  { name: '3,000 silent', silent: 3_000 },
].map(({ name, silent }) => ({ name, ms: looks(silent) }));
const hours = [100, 5_000].map((nodes) => ({ nodes, cpuS: hourOf(nodes) }));
const median = (name: string): number => quantile(cases.find((one) => one.name === name)?.ms ?? [], 0.5);
const [small, large] = hours;
const bars = [
  atMost(`one look at ${NODES} nodes, all alive, median`, 5, median('all alive'), 'ms of CPU'),
  atMost(`one look at ${NODES} nodes, one dead, median`, 5, median('one dead'), 'ms of CPU'),
  atMost('a simulated hour of 100 nodes', 1, small?.cpuS ?? Number.NaN, 's of CPU'),
  atMost('a simulated hour of 5000 nodes', 20, large?.cpuS ?? Number.NaN, 's of CPU'),
];
const rows = cases.map(({ name, ms }) => [name, ...[0.5, 0.9, 1].map((q) => quantile(ms, q).toFixed(2))]);
console.log(`${table([`${NODES} nodes`, 'median ms', 'p90 ms', 'most ms'], rows)}\n\n${barsTable(bars)}`);
writeResult('guard', { on, bars, nodes: NODES, looks: cases, hours });
