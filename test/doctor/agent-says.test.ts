import { beforeEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import type { Facts } from '../../src/doctor/facts.ts';
import { lookAround } from '../../src/doctor/look.ts';
import { NO_CONFIG } from '../../src/doctor/look-host.ts';
import { CHECKS, doctorReport } from '../../src/doctor/report.ts';
import type { Finding } from '../../src/ports.ts';
import { type StatusReport, statusReport } from '../../src/serve/status.ts';
import { heldInDryRun } from '../../src/words/finding-standalone.ts';
import { aConfig, anObservation, GI } from '../a.ts';
import { clock } from '../host/test-cgroup.ts';
import { aContext, aVerdict } from '../serve/a-report.ts';
import { aDoctor, KUBE, saidOf } from './a-doctor.ts';

const HERE = { atWallMs: 0, node: 'node-1', version: '0.1.0', nodeVersion: '20.20.2' };
const LATE = unknown('timed-out', 'the API server', 'no answer within 6 s');
const NO_MANIFESTS = unknown('not-applicable', 'manifests', 'mode kubelet has none');
const besideKubelet = (kube: Facts['kube']) => (): Partial<Facts> => ({ kube, pods: NO_MANIFESTS });

/** One of each kind that a check reports under its own code. */
const ALL: readonly Finding[] = [...new Set(Object.values(CHECKS).flatMap(({ takes = [] }) => takes))].map((id) => ({
  id: id.endsWith('/') ? `${id}x` : id,
  text: `the agent says ${id}`,
}));

describe('what the running agent has found', () => {
  const doctor = aDoctor();
  let facts: Facts;
  beforeEach(async () => {
    doctor.configure('evictionHard: { memory.available: 100Mi, pid.available: 10% }');
    doctor.manifest('web', { cgroup: 'nodewarden-test-absent' });
    const parts = { observation: anObservation(0, {}), verdict: aVerdict(initialState('boot')), config: aConfig([]) };
    await doctor.serve({ answer: () => statusReport({ ...parts, context: aContext({ findings: ALL }) }) });
    facts = await lookAround(doctor.path('config.yaml'), clock);
  });

  it.each<{ readonly besides: string; readonly of: (facts: Facts) => Partial<Facts> }>([
    { besides: 'a file without phases', of: () => ({}) },
    { besides: 'pods that were not read in time', of: () => ({ pods: LATE }) },
    {
      besides: 'a configuration that cannot be read',
      of: () => ({ effective: NO_CONFIG, pods: NO_CONFIG, kube: NO_CONFIG, disks: NO_CONFIG }),
    },
    { besides: 'a kubelet, where doctor finds all in order', of: besideKubelet(known(KUBE)) },
    { besides: 'a kubelet, where the API server is away', of: besideKubelet(known({ ...KUBE, node: LATE })) },
    { besides: 'a kubelet, of which nothing was read', of: besideKubelet(LATE) },
  ])('is reported beside $besides, each once, with its weight', ({ of }) => {
    const report = doctorReport({ ...facts, ...of(facts) }, HERE);
    const told = ALL.map(({ text }) => report.findings.filter((one) => one.text === text));
    expect(told.map((same) => same.length)).toEqual(ALL.map(() => 1));
    for (const { code, kind } of told.flat()) {
      expect(kind).toBe(CHECKS[code]?.weight);
      expect(saidOf(report, code).length).toBeGreaterThan(0);
      expect(report.fine.map((one) => one.code)).not.toContain(code);
    }
    expect(report.findings.filter(({ code }) => code === 'agent-finding')).toEqual([]);
  });

  it('is not foretold: of a threshold that is met, only the values are said', async () => {
    doctor.configure('evictionHard: { memory.available: 99%, pid.available: 10% }');
    const said = saidOf(doctorReport(await lookAround(doctor.path('config.yaml'), clock), HERE), 'threshold-met');
    expect(said.map(({ text }) => text)).toEqual([
      expect.stringMatching(/memory\.available is already below .* is available now$/),
    ]);
  });

  it('is said once, in its own words, of what doctor finds as well', () => {
    const missing = unknown('unreadable', '/kubeconfig', 'it names no server');
    const away = doctorReport({ ...facts, ...besideKubelet(known({ ...KUBE, node: LATE }))() }, HERE);
    expect(saidOf(away, 'api-unreachable').map(({ text }) => text)).toEqual([
      'the agent says api-away',
      'the agent says api-refused',
    ]);
    const unusable = doctorReport({ ...facts, ...besideKubelet(known({ ...KUBE, credentials: missing }))() }, HERE);
    expect(saidOf(unusable, 'kubeconfig-unusable').map(({ text }) => text)).toEqual(['the agent says api-credentials']);
  });
});

describe('a unit that is held down', () => {
  const doctor = aDoctor();
  const parts = { observation: anObservation(0, {}), verdict: aVerdict(initialState('boot')), config: aConfig([]) };
  const unit = { unit: 'web.service', pod: 'default/web', qos: 'BestEffort', tolerations: [], conditions: [] } as const;
  const rest = { isStaticCritical: false, invocationId: '', asked: null, level: 0, dueMs: null } as const;
  const IN_DRY_RUN = heldInDryRun([unit]);

  it.each([
    ['an agent that acts', false, 'it is restarted once the pressure is over', 'status'],
    ['a dry run, which says so', true, IN_DRY_RUN.text, 'release-held'],
    ['no agent', null, 'no agent runs that would restart it', 'release-held'],
  ])('is said to come back only by who starts it: %s', async (_, dryRun, says, command) => {
    doctor.configure('evictionHard: { memory.available: 100Mi, pid.available: 10% }');
    const of = statusReport({ ...parts, context: aContext({ findings: dryRun === true ? [IN_DRY_RUN] : [] }) });
    await doctor.serve({ answer: () => ({ ...of, node: { ...of.node, dryRun: dryRun === true } }) });
    const facts = await lookAround(doctor.path('config.yaml'), clock);
    if (!facts.pods.known) throw new Error('no pods');
    const pods = known({ ...facts.pods.value, held: known([{ ...unit, ...rest, after: 'restart' } as const]) });
    const none = { ...facts.agent, isRunning: false, status: unknown('absent', 'the socket', 'nothing listens') };
    const report = doctorReport({ ...facts, pods, agent: dryRun === null ? none : facts.agent }, HERE);
    expect(saidOf(report, 'unit-held-down')).toMatchObject([
      { text: expect.stringContaining(says), mend: expect.stringContaining(`nodewarden ${command} `) },
    ]);
    expect(saidOf(report, 'agent-finding')).toEqual([]);
  });
});

describe('whether the shutdown is armed', () => {
  const doctor = aDoctor();
  const parts = { observation: anObservation(0, {}), verdict: aVerdict(initialState('boot')), config: aConfig([]) };
  const told = async (status: (of: StatusReport) => StatusReport, ...more: readonly string[]) => {
    const phases = ['shutdownGracePeriod: 30s', 'shutdownGracePeriodCriticalPods: 10s'];
    doctor.configure('evictionHard: { memory.available: 100Mi, pid.available: 10% }', ...phases, ...more);
    await doctor.serve({ answer: () => status(statusReport({ ...parts, context: aContext({ findings: [] }) })) });
    const facts = await lookAround(doctor.path('config.yaml'), clock);
    const short = { ...facts.shutdown, grantedMs: known(5_000), delay: known(null) };
    const isDown = { ...facts.agent, isRunning: false, status: unknown('absent', 'the socket', 'nothing listens') };
    const of = (one: Facts) => doctorReport({ ...one, shutdown: short }, HERE);
    return { running: of(facts), down: of({ ...facts, agent: isDown }) };
  };
  const withLock = (lock: StatusReport['shutdown']['lock']) => (of: StatusReport) => ({
    ...of,
    shutdown: { ...of.shutdown, lock },
  });
  const atStart = { code: 'shutdown-delay-capped', text: expect.stringContaining('when it starts') };

  it('is reported by the lock of the agent, also without a finding of it', async () => {
    const why = 'logind grants 5s, but all phases need 30s: /etc/systemd/logind.conf.d/a.conf';
    const lock = { kind: 'not-armed', neededMs: 30_000, grantedMs: 5_000, isHeld: true, why } as const;
    const { running, down } = await told(withLock(lock));
    expect(saidOf(running, 'shutdown-not-armed')).toMatchObject([{ text: `the shutdown is not armed: ${why}` }]);
    expect(running.fine).not.toContainEqual(atStart);
    expect(down.fine).toContainEqual(atStart);
  });

  it('is not promised of a dry run, which never raises the delay', async () => {
    const dry = (of: StatusReport) => ({ ...withLock({ kind: 'off' })(of), node: { ...of.node, dryRun: true } });
    expect((await told(dry)).running.fine).not.toContainEqual(atStart);
    expect((await told(dry, 'dryRun: true')).down.fine).not.toContainEqual(atStart);
  });
});

describe('disks of which only the agent knows where they are', () => {
  const doctor = aDoctor();
  const SIGNAL = 'imagefs.available';
  const configure = (): void => {
    const kubernetes = `kubernetes: { kubeconfig: ${doctor.path('none')}, nodeName: node-1 }`;
    doctor.configure('mode: kubelet', kubernetes, `evictionHard: { ${SIGNAL}: 10% }`);
  };
  const judged = async (availableBytes: number) => {
    configure();
    const value = { kind: 'fraction', fraction: 0.1 } as const;
    const threshold = { id: `${SIGNAL}/evictionHard`, signal: SIGNAL, value, graceMs: 0, minReclaim: null } as const;
    const sample = { [SIGNAL]: { available: availableBytes, capacity: 100 * GI } };
    const parts = { verdict: aVerdict(initialState('boot')), config: aConfig([threshold]) };
    const report = statusReport({ ...parts, observation: anObservation(0, sample), context: aContext({}) });
    await doctor.serve({ answer: () => report });
    const told = doctorReport(await lookAround(doctor.path('config.yaml'), clock), HERE);
    return {
      said: saidOf(told, 'unfreeable-files'),
      fine: told.fine.filter(({ code }) => code === 'unfreeable-files'),
    };
  };

  const near = { text: `${SIGNAL} is 15 GiB, near its threshold of 10 GiB` };
  it.each([
    { availableBytes: 15 * GI, expected: { said: [near], fine: [] } },
    { availableBytes: 90 * GI, expected: { said: [], fine: [{ text: 'disks: not near a threshold' }] } },
  ])('are judged by its figures: $availableBytes bytes', async ({ availableBytes, expected }) => {
    expect(await judged(availableBytes)).toMatchObject(expected);
  });

  it('are not said to be in order by nobody', async () => {
    configure();
    const told = doctorReport(await lookAround(doctor.path('config.yaml'), clock), HERE);
    expect(saidOf(told, 'unfreeable-files')).toMatchObject([
      { kind: 'unknown', text: expect.stringContaining('only the running agent asks the container runtime') },
    ]);
    expect(told.fine.map(({ code }) => code)).not.toContain('unfreeable-files');
  });
});
