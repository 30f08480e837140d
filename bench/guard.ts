// `npm run bench:guard [-- --over SECONDS]`: what the guard costs: one look at 5,000 nodes, an hour of a cluster in virtual
// time, and, as root, two live guards of a fake cluster. CPU time, so that what else runs on the machine counts little.
import process from 'node:process';
import { parseArgs } from 'node:util';
import { planOf } from '../src/core/guard/config.ts';
import { decideGuard } from '../src/core/guard/decide.ts';
import type { GuardObservation, NodeObject, NodeView } from '../src/core/guard/observation.ts';
import { initialGuardState } from '../src/core/guard/state.ts';
import { known } from '../src/core/reading.ts';
import { parseJsonDocument } from '../src/document/json.ts';
import { readGuardScenario } from '../src/simulate/guard/read.ts';
import { runGuard } from '../src/simulate/guard/run.ts';
import { DEFAULTS as config } from '../test/core/guard/a-guard-config.ts';
import { DEAD_AFTER_S, type Live, measureLive } from './guard/live.ts';
import { atMost, type Bar, barsTable, machine, quantile, sayMachine, table, writeResult } from './result.ts';

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
    systemUuid: `4c4c4544-0043-3510-8052-${i}`,
    created: '',
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

/** One machine dies; or 60 % of them lose the network, all in one zone and with members of a StatefulSet. */
const DEATH = { at: '5m', node: 'w1', power: 'off' };
const STORM = { at: '5m', switchDown: { share: '60%' } };

/** CPU seconds of an hour. */
function hourOf(nodes: number, event: object): number {
  const document = {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'GuardScenario',
    metadata: { name: 'bench' },
    world: { duration: '60m' },
    nodes: [{ names: `w[1-${nodes}]`, zone: 'a', pods: [{ name: 'db-{node}', statefulSet: 'db', volumes: 1 }] }],
    events: [event],
  };
  const [yaml] = parseJsonDocument(JSON.stringify(document), 'bench.json').documents;
  const { scenario, problems } = yaml === undefined ? { scenario: null, problems: [] } : readGuardScenario(yaml);
  if (scenario === null) throw new Error(`not a scenario: ${JSON.stringify(problems)}`);
  const began = process.cpuUsage();
  runGuard(scenario);
  return cpuMs(began) / 1_000;
}

/** Of guard.md section 16, by the count of nodes. */
const LIVE = [
  { nodes: 500, rssMiB: 90, cpuPercent: 1 },
  { nodes: 5_000, rssMiB: 160, cpuPercent: 4 },
];
const DECISION_S = DEAD_AFTER_S + 20;

function liveBars({ costs, death }: Live, { rssMiB, cpuPercent }: (typeof LIVE)[number]): readonly Bar[] {
  const ofGuards = costs.flatMap((cost) => {
    const name = `${cost.guard} of ${cost.nodes} nodes`;
    return [
      atMost(`${name}, RSS`, rssMiB, cost.rssMiB, 'MiB'),
      atMost(`${name}, CPU of a core`, cpuPercent, cost.cpuShare * 100, '%'),
      atMost(`${name}, requests`, 3, cost.requestsPerS, '/s'),
    ];
  });
  return [
    ...ofGuards,
    atMost(`death to decision, ${death.nodes} nodes${sayAnew(death)}`, DECISION_S, death.toDecisionS, 's'),
    atMost(`proof to taint, ${death.nodes} nodes`, 2_000, death.proofToTaintMs, 'ms'),
  ];
}

const sayAnew = ({ begunAnew }: Live['death']): string =>
  begunAnew === 0 ? '' : `, in which the API server answered too late ${begunAnew} times`;

const { values } = parseArgs({ options: { over: { type: 'string', default: '120' } } });
const on = machine();
console.log(sayMachine(on));
if (planOf(config, 'w0') === null) throw new Error('the nodes have no method');
const cases = [
  { name: 'all alive', silent: 0 },
  { name: 'one dead', silent: 1 },
  { name: '3,000 silent', silent: 3_000 },
].map(({ name, silent }) => ({ name, ms: looks(silent) }));
const rows = cases.map(({ name, ms }) => [name, ...[0.5, 0.9, 1].map((q) => quantile(ms, q).toFixed(2))]);
console.log(table([`${NODES} nodes`, 'median ms', 'p90 ms', 'most ms'], rows));
const hours = [
  { name: '100 nodes, one dies', most: 1, cpuS: hourOf(100, DEATH) },
  { name: '5,000 nodes, one dies', most: 20, cpuS: hourOf(5_000, DEATH) },
  { name: '5,000 nodes, 3,000 fall silent', most: 20, cpuS: hourOf(5_000, STORM) },
];
const isRoot = process.getuid?.() === 0;
if (!isRoot) console.log('live guards: skipped, not root');
const lives: Live[] = [];
const barsOfLives: Bar[] = [];
for (const limits of isRoot ? LIVE : []) {
  const live = await measureLive(limits.nodes, Number(values.over) * 1_000);
  lives.push(live);
  barsOfLives.push(...liveBars(live, limits));
}
const bars = [
  ...cases.map(({ name, ms }) => atMost(`one look at 5,000 nodes, ${name}, median`, 5, quantile(ms, 0.5), 'ms of CPU')),
  ...hours.map(({ name, most, cpuS }) => atMost(`a simulated hour of ${name}`, most, cpuS, 's of CPU')),
  ...barsOfLives,
];
const costs = lives.flatMap((live) => live.costs);
console.log(
  table(
    ['nodes', 'guard', 'RSS MiB', 'RSS at start', 'CPU %', 'agents %', 'requests/s'],
    costs.map(({ nodes, guard, rssMiB, startMiB, cpuShare, agentsShare, requestsPerS }) => [
      ...[String(nodes), guard, rssMiB.toFixed(0), startMiB.toFixed(0)],
      ...[(cpuShare * 100).toFixed(2), (agentsShare * 100).toFixed(2), requestsPerS.toFixed(2)],
    ]),
  ),
);
console.log(`\n${barsTable(bars)}`);
writeResult('guard', { on, bars, nodes: NODES, looks: cases, hours, lives });
process.exit(bars.every(({ holds }) => holds === true) ? 0 : 1);
