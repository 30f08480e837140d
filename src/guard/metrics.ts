import { tally } from '../core/group-by.ts';
import { type MetricRows, one, type Sample, seconds } from '../serve/metric-rows.ts';
import type { GuardCounts } from './counts.ts';
import type { GuardReport } from './shown.ts';

type Report = { readonly report: GuardReport; readonly counts: GuardCounts };

/** guard.md section 11. Of a standby those of its own; what is not known has no sample. */
export const GUARD_METRICS: MetricRows<Report> = {
  nodewarden_guard_build_info: {
    help: 'The running guard; always 1.',
    type: 'gauge',
    labels: ['version', 'dry_run'],
    samples: ({ report: { version, dryRun } }) => one(1, { version, dry_run: String(dryRun) }),
  },
  nodewarden_guard_leader: {
    help: 'Whether this guard leads.',
    type: 'gauge',
    labels: [],
    samples: ({ report }) => one(Number(report.leader.isLeader)),
  },
  nodewarden_guard_authority_seconds: {
    help: 'How much longer this guard may act without another renewal of its lease.',
    type: 'gauge',
    labels: [],
    samples: ({ report }) => one(seconds(report.leader.authorityMs)),
  },
  nodewarden_guard_settling: {
    help: 'Whether it decides nothing new for a while: after start, election, return of the API server or a clock jump.',
    type: 'gauge',
    labels: [],
    samples: ({ report }) => one(Number(report.settling !== null)),
  },
  nodewarden_guard_paused: {
    help: 'Whether a person paused it.',
    type: 'gauge',
    labels: [],
    samples: ({ report }) => one(Number(report.paused !== null)),
  },
  nodewarden_guard_nodes: {
    help: 'Nodes, by health.',
    type: 'gauge',
    labels: ['class'],
    samples: ({ report }) => Object.entries(report.nodes).map(([name, value]) => ({ labels: { class: name }, value })),
  },
  nodewarden_guard_held: {
    help: 'Dead nodes that are not fenced, by the gate that holds them.',
    type: 'gauge',
    labels: ['gate'],
    samples: ({ report }) => byLabel('gate', report.totals.held),
  },
  nodewarden_guard_storms: {
    help: 'Storms that hold fencings, cool-downs included, by kind.',
    type: 'gauge',
    labels: ['kind'],
    samples: ({ report }) =>
      counted(
        'kind',
        report.storms.map(({ kind }) => kind),
      ),
  },
  nodewarden_guard_open_fencings: {
    help: 'Fencings that are not over, by phase.',
    type: 'gauge',
    labels: ['phase'],
    samples: ({ report }) => byLabel('phase', report.totals.fencings),
  },
  nodewarden_guard_oldest_phase_seconds: {
    help: 'How long the oldest fencing of the phase has been in it, of at most 100.',
    type: 'gauge',
    labels: ['phase'],
    samples: ({ report: { fencings } }) =>
      [...new Set(fencings.map(({ phase }) => phase))].map((phase) => ({
        labels: { phase },
        value: Math.max(...fencings.map((one) => (one.phase === phase ? one.phaseMs : 0))) / 1_000,
      })),
  },
  nodewarden_guard_open_fencing_seconds: {
    help: 'How long each fencing that is not over has been in its phase; at most 100 of them.',
    type: 'gauge',
    labels: ['node', 'phase'],
    samples: ({ report: { fencings } }) =>
      fencings.map(({ node, phase, phaseMs }) => ({ labels: { node, phase }, value: phaseMs / 1_000 })),
  },
  nodewarden_guard_left_off: {
    help: 'Machines that are left off, by the reason, of at most 100 open fencings; with node-deleted, left on or off as they were.',
    type: 'gauge',
    labels: ['because'],
    samples: ({ report: { fencings } }) =>
      counted(
        'because',
        fencings.flatMap(({ phase, staysOff }) => (phase === 'left-off' ? [staysOff ?? 'unknown'] : [])),
      ),
  },
  nodewarden_guard_out_of_service_taints: {
    help: 'Nodes with an out-of-service taint, by who set it.',
    type: 'gauge',
    labels: ['owner'],
    samples: ({ report: { taints } }) => [
      ...one(taints.guard, { owner: 'guard' }),
      ...one(taints.other, { owner: 'other' }),
    ],
  },
  nodewarden_guard_living_out_of_service_nodes: {
    help: "Nodes with the guard's out-of-service taint that show life; it takes the taint away at once.",
    type: 'gauge',
    labels: [],
    samples: ({ report: { taints } }) => one(taints.living),
  },
  nodewarden_guard_domain_silent_nodes: {
    help: 'Silent nodes of a failure domain; domains without one are left out.',
    type: 'gauge',
    labels: ['label', 'domain'],
    samples: ({ report: { domains } }) =>
      domains.map(({ label, value, silent }) => ({ labels: { label, domain: value }, value: silent })),
  },
  nodewarden_guard_domain_disrupted: {
    help: 'Whether a storm of this failure domain holds fencings; domains without a silent node are left out.',
    type: 'gauge',
    labels: ['label', 'domain'],
    samples: ({ report: { domains } }) =>
      domains.map(({ label, value, isDisrupted }) => ({
        labels: { label, domain: value },
        value: Number(isDisrupted),
      })),
  },
  nodewarden_guard_devices: {
    help: 'Devices, by what they said last; unknown: no answer.',
    type: 'gauge',
    labels: ['says'],
    samples: ({ report: { devices } }) => Object.entries(devices).map(([says, value]) => ({ labels: { says }, value })),
  },
  nodewarden_guard_device_contradictions: {
    help: 'Devices that said what cannot be true, and are not believed.',
    type: 'gauge',
    labels: [],
    samples: ({ report }) => one(report.totals.contradicted),
  },
  nodewarden_guard_device_answer_age_seconds: {
    help: 'Time since devices last said on or off to this guard.',
    type: 'gauge',
    labels: ['quantile'],
    samples: ({ report: { answerAges } }) =>
      answerAges === null
        ? []
        : [
            ...one(answerAges.medianMs / 1_000, { quantile: '0.5' }),
            ...one(answerAges.p90Ms / 1_000, { quantile: '0.9' }),
            ...one(answerAges.oldestMs / 1_000, { quantile: '1' }),
          ],
  },
  nodewarden_guard_api_age_seconds: {
    help: 'Time since the last answered list of leases, the last word of a watch, and the last own write.',
    type: 'gauge',
    labels: ['path'],
    samples: ({ report: { api } }) => [
      ...one(seconds(api.readMs), { path: 'read' }),
      ...one(seconds(api.heardMs), { path: 'watch' }),
      ...one(seconds(api.writeMs), { path: 'write' }),
    ],
  },
  nodewarden_guard_findings: {
    help: 'Problems that need attention; see: nodewarden guard status.',
    type: 'gauge',
    labels: [],
    samples: ({ report }) => one(report.findings.length),
  },
  nodewarden_guard_fencings_decided_total: {
    help: 'Fencings that were decided, in dry run too.',
    type: 'counter',
    labels: [],
    samples: ({ counts }) => one(counts.decided),
  },
  nodewarden_guard_fencings_total: {
    help: 'Fencings that came to this point.',
    type: 'counter',
    labels: ['result'],
    samples: ({ counts }) => Object.entries(counts.fencings).map(([result, value]) => ({ labels: { result }, value })),
  },
  nodewarden_guard_power_offs_total: {
    help: 'Fencings that sent an off, by whether their machine was proven off by its devices.',
    type: 'counter',
    labels: ['result'],
    samples: ({ counts }) => Object.entries(counts.powerOffs).map(([result, value]) => ({ labels: { result }, value })),
  },
  nodewarden_guard_phase_seconds: {
    help: 'How long fencings were in a phase, of those that have left it.',
    type: 'summary',
    labels: ['phase'],
    summed: ({ counts }) => counts.phases,
  },
  nodewarden_guard_agent_runs_total: {
    help: 'Runs of fence agents: ok, or why nothing is known from them.',
    type: 'counter',
    labels: ['agent', 'action', 'result'],
    samples: ({ counts }) =>
      counts.agentRuns.map(({ agent, action, result, count }) => ({ labels: { agent, action, result }, value: count })),
  },
  nodewarden_guard_agent_seconds: {
    help: 'How long runs of fence agents took.',
    type: 'summary',
    labels: ['agent', 'action'],
    summed: ({ counts }) => counts.agentTimes,
  },
  nodewarden_guard_lives_after_proof_total: {
    help: 'Machines that showed life though they were proven off.',
    type: 'counter',
    labels: [],
    samples: ({ counts }) => one(counts.livesAfterProof),
  },
  nodewarden_guard_not_drained_total: {
    help: 'Fencings whose pods or volumes were not known to be gone after drainWait.',
    type: 'counter',
    labels: [],
    samples: ({ counts }) => one(counts.notDrained),
  },
  nodewarden_guard_holds_total: {
    help: 'Times at which a dead node was held, or by another gate than before.',
    type: 'counter',
    labels: [],
    samples: ({ counts }) => one(counts.holds),
  },
};

const byLabel = (label: string, counts: { readonly [name: string]: number }): readonly Sample[] =>
  Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }));

const counted = (label: string, values: readonly string[]): readonly Sample[] => byLabel(label, tally(values));
