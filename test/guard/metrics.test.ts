import { describe, expect, it } from 'vitest';
import { guardStatusText } from '../../src/cli/guard/status.ts';
import type { GuardDecision } from '../../src/core/guard/decision.ts';
import type { GuardOutcome } from '../../src/core/guard/observation.ts';
import type { Phase } from '../../src/core/guard/record.ts';
import type { Fencing, Hold } from '../../src/core/guard/state.ts';
import { createGuardCounts } from '../../src/guard/counts.ts';
import { GUARD_METRICS } from '../../src/guard/metrics.ts';
import { guardReport } from '../../src/guard/report.ts';
import { renderMetrics } from '../../src/serve/metric-rows.ts';
import { aMemory, heldBy } from '../core/guard/a-node.ts';
import { aDevice, aFencing, aLook, aRecord, DEAD, type Given, SINCE } from '../core/guard/a-turn.ts';
import { aBench } from './an-agent.ts';

const NEXT = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };
const lookAt = (given: Given = {}) => {
  const { state, observation, config } = aLook(given);
  return { observation, config, verdict: { state, decisions: [], reasons: [], next: NEXT } };
};

/** The samples of one metric, without its common start. */
async function shown(name: string, counts = createGuardCounts(), given: Given = {}): Promise<readonly string[]> {
  const report = reportOf(given);
  const text = await renderMetrics(GUARD_METRICS, { report, counts: counts.now() });
  const start = `nodewarden_guard_${name}`;
  return text.split('\n').flatMap((line) => (line.startsWith(start) ? [line.slice(start.length)] : []));
}

function reportOf(given: Given) {
  const look = lookAt(given);
  return guardReport({
    ...{
      version: '1',
      writer: 'me',
      isHolderKnown: true,
      holder: null,
      heldBack: null,
      heardMs: look.observation.atMs - 61_000,
      findings: [],
    },
    ...{ look, config: { file: '', hash: '', core: look.config }, nowMs: look.observation.atMs },
  });
}

it('a label of failure domains may have the name of what every object has', async () => {
  const labels = { constructor: 'rack-1' };
  const given = {
    config: { domainLabels: ['constructor', 'hasOwnProperty', '__proto__'] },
    memory: { of: { labels } },
  };
  const { domains } = reportOf(given);
  expect(domains.map(({ label, value, silent }) => [label, value, silent])).toEqual([
    ['constructor', 'rack-1', 1],
    ['hasOwnProperty', '', 1],
    ['__proto__', '', 1],
  ]);
});

type Stay = readonly [phase: Phase, sinceMs: number, rest?: Partial<Fencing>];
/** After these looks at one fencing; the last of them closes it. */
function countsAfter(stays: readonly Stay[], record: Parameters<typeof aRecord>[0] = { offSent: ['vm w1'] }) {
  const counts = createGuardCounts();
  const see = (fencings: readonly Fencing[], atMs: number): void =>
    counts.decided(lookAt({ atMs, state: { fencings: new Map(fencings.map((one) => [one.record.id, one])) } }));
  for (const [phase, sinceMs, rest] of stays) {
    const proof = ['proven', 'tainted'].includes(phase) ? ({ by: 'devices', level: 0 } as const) : null;
    see([aFencing(aRecord({ phase, proof, ...record }), { sinceMs: SINCE + sinceMs, ...rest })], sinceMs);
  }
  return { counts, see };
}

describe('the metrics of a guard', () => {
  it('say how long fencings were in each phase that is over', async () => {
    const { counts, see } = countsAfter([
      ['off-sent', 0],
      ['off-sent', 0],
      ['proving', 4_000],
      ['proven', 16_000],
    ]);
    expect(await shown('phase_seconds', counts)).toEqual([
      '_sum{phase="off-sent"} 4',
      '_count{phase="off-sent"} 1',
      '_sum{phase="proving"} 12',
      '_count{phase="proving"} 1',
    ]);
    const becomes = aRecord({ phase: 'closed' });
    see([aFencing(aRecord({ phase: 'booting' }), { pending: { decision: '1', atMs: SINCE, becomes } })], 60_000);
    see([], 90_000);
    expect(await shown('phase_seconds', counts)).toContain('_sum{phase="booting"} 90');
  });
  it('leave out a phase that another process ended, or that may not have begun', async () => {
    const { counts } = countsAfter([
      ['decided', 0, { version: null }],
      ['off-sent', 1_000],
      ['proving', 4_000, { isTakenOver: true }],
    ]);
    expect(await shown('phase_seconds', counts)).toEqual([]);
  });
  it('count power-offs by their proof, each once', async () => {
    const proven = countsAfter([
      ['isolating', 0],
      ['off-sent', 1_000],
      ['proving', 4_000],
      ['proven', 9_000],
      ['tainted', 9_500],
    ]);
    expect(await shown('power_offs_total', proven.counts)).toEqual(['{result="proven"} 1', '{result="not-proven"} 0']);
    const not = countsAfter([
      ['proving', 0],
      ['failed', 90_000],
      ['stuck', 99_000],
    ]);
    expect(await shown('power_offs_total', not.counts)).toEqual(['{result="proven"} 0', '{result="not-proven"} 1']);
  });
  it('count none for a machine that was off already', async () => {
    const stays = [
      ['proving', 0],
      ['proven', 9_000],
    ] as const;
    const { counts } = countsAfter(stays, { offSent: [] });
    expect(await shown('power_offs_total', counts)).toEqual(['{result="proven"} 0', '{result="not-proven"} 0']);
  });
  it('count what was stored, not what is decided again and again while nothing can be stored', async () => {
    const counts = createGuardCounts();
    const record = aRecord({ phase: 'failed' });
    const store = { node: record.node, fencing: record.id, record, replaces: null, act: null } as const;
    const see = (decisions: readonly GuardDecision[], outcomes: readonly GuardOutcome[]): void => {
      const { observation, config, verdict } = lookAt();
      counts.decided({ ...{ observation: { ...observation, outcomes }, config }, verdict: { ...verdict, decisions } });
    };
    const ended = (of: string, kind: 'stored' | 'conflict' | 'failed'): GuardOutcome => {
      const end = kind === 'stored' ? ({ kind, version: '2' } as const) : { kind };
      return { of, fencing: record.id, atMs: 0, store: end, act: null };
    };
    const frees = { pods: [], attachments: [] };
    for (const [i, kind] of (['failed', 'conflict', 'stored'] as const).entries()) {
      see([{ id: `f${i}`, atMs: 0, kind: 'fence', gates: [], frees, isDry: false, ...store }], []);
      see([{ id: `a${i}`, atMs: 0, kind: 'advance', from: 'proving', ...store }], [ended(`f${i}`, kind)]);
      see([], [ended(`a${i}`, kind)]);
    }
    see([{ id: 'dry', atMs: 0, kind: 'fence', gates: [], frees, isDry: true, ...store }], []);
    expect(await shown('fencings_decided_total', counts)).toEqual([' 2']);
    expect(await shown('fencings_total', counts)).toContain('{result="failed"} 1');
  });
  it('count a machine that lives after its proof once', async () => {
    const counts = createGuardCounts();
    const { observation, verdict } = lookAt();
    const reason = { code: 'life-after-proof', node: aRecord().node, fencing: 'w1-1', sign: 'lease' } as const;
    for (let looks = 0; looks < 3; looks += 1)
      counts.decided({ observation, verdict: { ...verdict, reasons: [reason] } });
    expect(await shown('lives_after_proof_total', counts)).toEqual([' 1']);
  });
  it('count once a fencing whose pods or volumes outlast drainWait', async () => {
    const counts = createGuardCounts();
    expect(await shown('not_drained_total', counts)).toEqual([' 0']);
    const { observation, verdict } = lookAt();
    const left = { pods: [], attachments: [] };
    const reason = { code: 'not-drained', node: aRecord().node, fencing: 'w1-1', left } as const;
    for (let looks = 0; looks < 3; looks += 1)
      counts.decided({ observation, verdict: { ...verdict, reasons: [reason] } });
    expect(await shown('not_drained_total', counts)).toEqual([' 1']);
  });
  it('count runs of agents by what came of them, and how long they took', async () => {
    const counts = createGuardCounts();
    const { agents, method } = aBench(
      { fence_a: '[ "$action" = off ] && exit 1; echo "Status: ON"' },
      { ran: counts.ran },
    );
    await agents.status(method('fence_a'), 'dead');
    await agents.status(method('fence_a'), 'patrol');
    await agents.command(method('fence_a'), 'off', () => null);
    await agents.command(method('fence_a'), 'on', () => 'authority has ended');
    expect(await shown('agent_runs_total', counts)).toEqual([
      '{agent="fence_a",action="status",result="ok"} 2',
      '{agent="fence_a",action="off",result="malformed"} 1',
    ]);
    const times = await shown('agent_seconds', counts);
    expect(times).toContain('_count{agent="fence_a",action="status"} 2');
    expect(Number(times[0]?.split(' ')[1])).toBeGreaterThan(0);
  });
  it('say how old the answers of the devices are, and nothing where none answered', async () => {
    const said = { a: ['on@500', 'unknown@9000'], b: ['off@8500'], c: ['on@7500'] } as const;
    expect(await shown('device_answer_age_seconds', undefined, { said })).toEqual([
      '{quantile="0.5"} 2',
      '{quantile="0.9"} 9',
      '{quantile="1"} 9',
    ]);
    expect(await shown('device_answer_age_seconds', undefined, { said: { a: ['unknown@9000'] } })).toEqual([]);
  });
  it('say which failure domain a storm holds', async () => {
    const others = ['a', 'b'].map((zone) => aMemory({ ...DEAD, of: { name: zone, uid: zone, labels: { zone } } }));
    const storm = (value: string, endedMs: number | null): Hold => ({
      ...{ kind: 'domain', scope: { kind: 'domain', label: 'zone', value }, sinceMs: SINCE, endedMs },
    });
    const state = { holds: [storm('a', null), storm('b', SINCE)] };
    const look = aLook({ others });
    const given = {
      others,
      state: { ...state, nodes: new Map([...look.state.nodes].filter(([uid]) => uid !== 'uid-w1')) },
    };
    expect(await shown('domain_disrupted', undefined, given)).toEqual([
      '{label="zone",domain="a"} 1',
      '{label="zone",domain="b"} 0',
    ]);
  });

  it('count every dead node that is held, fencing and device that is not believed, not the first 100', async () => {
    const many = Array.from({ length: 130 }, (_, i) => `n${i}`);
    const others = many.map((name) => aMemory({ ...DEAD, of: { name, uid: name } }));
    const contradicted = { why: 'life-after-proof', wallMs: 0 } as const;
    const state = {
      held: new Map(
        many.map((name, i) => [name, heldBy(i < 3 ? '' : i < 10 ? 'rate max-in-flight' : 'storm cluster')]),
      ),
      fencings: new Map(many.map((id) => [id, aFencing(aRecord({ id, phase: 'stuck' }))])),
      devices: new Map(many.map((node) => [node, { ...aDevice('vm', ['on@1']), node, contradicted }])),
    };
    const nodes = new Map(others.map((one) => [one.object.uid, one]));
    const given = { state: { ...state, nodes } };
    expect(await shown('held', undefined, given)).toEqual(['{gate="rate"} 7', '{gate="storm"} 120']);
    expect(await shown('open_fencings', undefined, given)).toEqual(['{phase="stuck"} 130']);
    expect(await shown('device_contradictions', undefined, given)).toEqual([' 130']);
    expect(guardStatusText(reportOf(given), (_, text) => text)).toMatch(/\nheld +\d+ more nodes; see: /);
  });
  it('say how long the quieter of its watches has been silent', async () => {
    expect(await shown('api_age_seconds')).toContain('{path="watch"} 61');
  });
});
