import { describe, expect, it } from 'vitest';
import { parseDocuments } from '../../../src/document/document.ts';
import { sayProblem } from '../../../src/document/problem.ts';
import { compareShutdown } from '../../../src/simulate/shutdown/expect.ts';
import { runShutdown } from '../../../src/simulate/shutdown/run.ts';
import { readShutdownScenario } from '../../../src/simulate/shutdown/scenario.ts';
import { aShutdown, byPriority, phasesOf, read, run } from '../a-shutdown.ts';

function readYaml(text: string) {
  const [yaml] = parseDocuments(text, 'reboot.yaml', 'ours').documents;
  if (yaml === undefined) throw new Error('not a document');
  return readShutdownScenario(yaml);
}

/** shutdown-scenarios.md section 5. */
const EXAMPLE = `
apiVersion: nodewarden.dev/v1alpha1
kind: ShutdownScenario
metadata: {name: reboot-with-a-slow-database}
config:
  shutdownGracePeriodByPodPriority:
  - {priority: 0,          shutdownGracePeriodSeconds: 10}
  - {priority: 1000,       shutdownGracePeriodSeconds: 30}
  - {priority: 2000000000, shutdownGracePeriodSeconds: 10}
logind: {inhibitDelayMax: 5s, overrideTakes: 200ms}
pods:
- metadata: {name: web}
  spec: {terminationGracePeriodSeconds: 30, containers: [{name: app}]}
- metadata: {name: worker}
  spec: {terminationGracePeriodSeconds: 5, containers: [{name: app}]}
- metadata: {name: db, namespace: prod}
  spec: {priority: 1000, terminationGracePeriodSeconds: 120, containers: [{name: pg}]}
- metadata: {name: report, deletionGracePeriodSeconds: 60}
  spec: {terminationGracePeriodSeconds: 60, containers: [{name: job}]}
- metadata: {name: dns, namespace: kube-system}
  spec: {priority: 2000000000, terminationGracePeriodSeconds: 30, containers: [{name: dns}]}
- metadata: {name: done}
  spec: {containers: [{name: job}]}
  status: {phase: Succeeded}
behaviour:
  default:        {stopAfter: 1.5s}
  default/web:    {stopAfter: 4s}
  default/worker: {never: true}
  prod/db:        {stopAfter: 12s, unmountAfter: 2.5s}
  default/report: {never: true, terminatingFor: 20s}
expect:
  armed: true
  inhibitDelay: 50s
  dropInSeconds: 50
  groups:
  - {priority: 0,          periodSeconds: 10, pods: [default/web, default/worker, default/report]}
  - {priority: 1000,       periodSeconds: 30, pods: [prod/db]}
  - {priority: 2000000000, periodSeconds: 10, pods: [kube-system/dns]}
  phases:
  - {priority: 0,          start: 0,     end: 10s,   endedBy: period, stillRunning: [default/report]}
  - {priority: 1000,       start: 10s,   end: 24.7s, endedBy: done}
  - {priority: 2000000000, start: 24.7s, end: 26.2s, endedBy: done}
  lockReleasedAt: 26.2s
  pods:
    default/web:    {gracePeriodSeconds: 10, stoppedAt: 4s}
    default/worker: {gracePeriodSeconds: 5, killedAt: 5s, stoppedAt: 5.1s}
    prod/db:        {gracePeriodSeconds: 30, start: 10s, stoppedAt: 22s, status: {phase: Failed, reason: Terminated}}
    default/report: {gracePeriodSeconds: 10, effectiveGracePeriodSeconds: 60, killedAt: 40s, status: null}
    default/done:   null
`;
const WEB = { metadata: { name: 'web' }, spec: { containers: [{ name: 'main' }] } };
const OTHER_WEB = { ...WEB, metadata: { name: 'web', uid: 'another' } };
const TERMINATED = {
  phase: 'Failed',
  reason: 'Terminated',
  message: 'Pod was terminated in response to imminent node shutdown.',
  disruptionTarget: true,
};

describe('the example of shutdown-scenarios.md', () => {
  const { scenario } = readYaml(EXAMPLE);
  if (scenario === null || scenario.expect === null) throw new Error('the example was not read');
  const { result, reasons } = runShutdown(scenario);

  it('passes unchanged', () => {
    expect(compareShutdown(scenario.expect ?? {}, result)).toEqual([]);
  });

  it('has the result of section 6.1, key by key in that order', () => {
    const pod = (group: number, graceSeconds: number, start: number, stoppedAt: number, killedAt?: number) => ({
      group,
      gracePeriodSeconds: graceSeconds,
      effectiveGracePeriodSeconds: graceSeconds,
      start,
      sigtermAt: start,
      ...(killedAt === undefined ? {} : { killedAt }),
      stoppedAt,
      status: TERMINATED,
    });
    const said = {
      enabled: true,
      armed: true,
      inhibitDelay: 50_000,
      dropInSeconds: 50,
      readBacks: 3,
      groups: [
        { priority: 0, periodSeconds: 10, pods: ['default/web', 'default/worker', 'default/report'] },
        { priority: 1_000, periodSeconds: 30, pods: ['prod/db'] },
        { priority: 2_000_000_000, periodSeconds: 10, pods: ['kube-system/dns'] },
      ],
      phases: [
        { priority: 0, periodSeconds: 10, start: 0, end: 10_000, endedBy: 'period', stillRunning: ['default/report'] },
        { priority: 1_000, periodSeconds: 30, start: 10_000, end: 24_700, endedBy: 'done' },
        { priority: 2_000_000_000, periodSeconds: 10, start: 24_700, end: 26_200, endedBy: 'done' },
      ],
      lockReleasedAt: 26_200,
      shutdownProceedsAt: 26_200,
      refusesPods: { from: 0, until: null },
      pods: {
        'default/web': pod(0, 10, 0, 4_000),
        'default/worker': pod(0, 5, 0, 5_100, 5_000),
        'prod/db': pod(1_000, 30, 10_000, 22_000),
        'default/report': {
          ...pod(0, 10, -20_000, 40_100, 40_000),
          effectiveGracePeriodSeconds: 60,
          status: null,
        },
        'kube-system/dns': pod(2_000_000_000, 10, 24_700, 26_200),
        'default/done': null,
      },
    };
    expect(JSON.stringify(result)).toBe(JSON.stringify(said));
  });

  it('says which pods were cut, used up a phase or are killed late, and what volumes cost', () => {
    expect(reasons.map(({ text, ...facts }) => facts)).toEqual([
      { code: 'cut', pod: 'default/web', gracePeriodSeconds: 10, ownSeconds: 30 },
      { code: 'period-used-up', priority: 0, pods: ['default/report'] },
      { code: 'killed-late', pod: 'default/report', killedAt: 40_000, phaseEnd: 10_000 },
      { code: 'alive-at-release', pod: 'default/report', stoppedAt: 40_100 },
      { code: 'cut', pod: 'prod/db', gracePeriodSeconds: 30, ownSeconds: 120 },
      { code: 'volumes', pod: 'prod/db', ms: 2_700 },
      { code: 'cut', pod: 'kube-system/dns', gracePeriodSeconds: 10, ownSeconds: 30 },
    ]);
    expect(reasons[5]?.text).toBe('the phase waited 2.7s for volumes of prod/db');
  });

  it('gives the same result as an expectation pasted back', () => {
    const again = read({ ...JSON.parse(JSON.stringify(aShutdown({}))), expect: result });
    expect(again.problems).toEqual([]);
    expect(compareShutdown(again.scenario?.expect ?? {}, result)).toEqual([]);
  });
});

describe('every mistake is reported in one pass', () => {
  it('with file, line, column and path, and the nearest valid name', () => {
    const { scenario, problems } = readYaml(`
apiVersion: nodewarden.dev/v1alpha1
kind: ShutdownScenario
metadata: {name: wrong}
config: {shutdownGracePeriod: 30}
logind: {inhibitDelayMaks: 5s}
pods:
- metadata: {name: web, deletionGracePeriodSeconds: -1}
  spec: {containers: []}
behaviour:
  web: {stopAfter: 1s}
  default: {stopAfter: soon, killDelay: -1s, unmountAfter: 100us}
cancelPolicy: prompt
expect:
  armed: yes please
  phases: [{endedBy: nobody}]
`);
    expect(scenario).toBeNull();
    expect(problems.map(sayProblem)).toEqual([
      'reboot.yaml:5:31: config.shutdownGracePeriod: expected text, not the number 30; for example "30s"',
      'reboot.yaml:6:10: logind.inhibitDelayMaks: unknown key; did you mean inhibitDelayMax?',
      'reboot.yaml:8:53: pods[0].metadata.deletionGracePeriodSeconds: must be at least 0, not -1; for example 30',
      'reboot.yaml:9:22: pods[0].spec.containers: must have at least 1 entry',
      'reboot.yaml:11:3: behaviour.web: must be default, or a pod as namespace/name; for example "default/web"',
      'reboot.yaml:12:24: behaviour.default.stopAfter: expected whole milliseconds or a duration; for example 40000 or "40s"',
      'reboot.yaml:12:41: behaviour.default.killDelay: must not be negative, it is "-1s"',
      'reboot.yaml:12:60: behaviour.default.unmountAfter: must be whole milliseconds, not "100us"',
      'reboot.yaml:13:15: cancelPolicy: must be one of afterPhases, promptly, not "prompt"; did you mean promptly?',
      'reboot.yaml:15:10: expect.armed: expected true or false, not "yes please"',
      'reboot.yaml:16:22: expect.phases[0].endedBy: must be one of done, period, volumeTimeout, cancelled, not "nobody"',
    ]);
  });

  it.each([
    ['pods of one name', aShutdown({ rest: { pods: [WEB, WEB] } }), 'pods[1].metadata.uid'],
    ['pods of one name and two uids', aShutdown({ rest: { pods: [WEB, OTHER_WEB] } }), 'pods[1].metadata.name'],
    [
      'a deletion grace that is negative',
      aShutdown({ pods: { web: { metadata: { deletionGracePeriodSeconds: -1 } } } }),
      'pods[0].metadata.deletionGracePeriodSeconds',
    ],
    ['a configuration that is not a mapping', aShutdown({ rest: { config: [] } }), 'config'],
    ['a cancel before the signal', aShutdown({ rest: { cancelAt: -1 } }), 'cancelAt'],
    [
      'configuration errors beside other expectations',
      aShutdown({ rest: { expect: { configErrors: ['bothForms'], armed: true } } }),
      'expect.configErrors',
    ],
  ])('%s', (_, document, path) => {
    const { scenario, problems } = read(document);
    expect(scenario).toBeNull();
    expect(problems.map((problem) => problem.path)).toEqual([path]);
  });
});

describe('a configuration', () => {
  it.each([
    [{ shutdownGracePeriod: '10s', shutdownGracePeriodCriticalPods: '11s' }, ['criticalExceedsTotal']],
    [{ shutdownGracePeriod: '999ms' }, ['totalBelowOneSecond']],
    [{ shutdownGracePeriod: '-5s' }, ['criticalExceedsTotal', 'totalBelowOneSecond']],
    [{ shutdownGracePeriod: '30s', shutdownGracePeriodCriticalPods: '500ms' }, ['criticalBelowOneSecond']],
    [{ ...byPriority([[0, 10]]), shutdownGracePeriod: '30s' }, ['bothForms']],
  ])('that the kubelet rejects is a result: %j', (config, codes) => {
    expect(run(aShutdown({ config })).result).toEqual({ configErrors: codes });
  });

  it.each([{}, { shutdownGracePeriod: '0s' }, { shutdownGracePeriodByPodPriority: [] }])(
    'without time is off: %j',
    (config) => {
      expect(run(aShutdown({ config, pods: { web: {} } })).result).toEqual({ enabled: false });
    },
  );

  it('with a phase of negative time is accepted: the phase ends at once, and the sum is reduced by it', () => {
    const { result, reasons } = run(
      aShutdown({
        config: byPriority([
          [0, -10],
          [1_000, 20],
        ]),
        pods: { web: { does: { never: true } }, db: { priority: 1_000, does: { never: true } } },
      }),
    );
    expect(result.inhibitDelay).toBe(10_000);
    expect(phasesOf(result)).toEqual(['0 0-0 period, running web', '1000 0-20000 period, running db']);
    expect(result.pods?.['default/web']).toMatchObject({ gracePeriodSeconds: -10, effectiveGracePeriodSeconds: 1 });
    // logind goes on when what it granted is used up.
    expect(result).toMatchObject({ lockReleasedAt: 20_000, shutdownProceedsAt: 10_000 });
    expect(reasons[0]).toMatchObject({ code: 'warning', text: expect.stringContaining('nodewarden refuses it') });
  });

  it('is warned about as in config check, with its position', () => {
    const { scenario } = readYaml(`apiVersion: nodewarden.dev/v1alpha1
kind: ShutdownScenario
metadata: {name: no-time-for-critical-pods}
config:
  shutdownGracePeriod: 30s
`);
    expect(scenario?.warnings).toEqual([
      'reboot.yaml:5: shutdownGracePeriod: critical pods get 0 s of it, and the shutdown does not wait for them; add shutdownGracePeriodCriticalPods: 10s',
    ]);
  });

  it('reports a behaviour for a pod that does not exist', () => {
    const { reasons } = run(aShutdown({ rest: { behaviour: { 'default/wbe': {} } } }));
    expect(reasons).toEqual([{ code: 'warning', text: 'behaviour: there is no pod default/wbe' }]);
  });
});

describe('a behaviour', () => {
  const killedOf = (own: object, fallback: object, grace = 5) => {
    const document = aShutdown({ pods: { web: { grace } } });
    const { result } = run({ ...document, behaviour: { default: fallback, 'default/web': own } });
    const { killedAt, stoppedAt } = result.pods?.['default/web'] ?? {};
    return { killedAt, stoppedAt };
  };

  it('falls back to default field by field', () => {
    expect(killedOf({ killDelay: 300 }, { never: true, killDelay: 700 })).toEqual({
      killedAt: 5_000,
      stoppedAt: 5_300,
    });
  });

  it('of a pod replaces stopAfter and never together', () => {
    expect(killedOf({ stopAfter: 1_000 }, { never: true })).toEqual({ killedAt: undefined, stoppedAt: 1_000 });
    expect(killedOf({ never: true }, { stopAfter: 1_000 })).toEqual({ killedAt: 5_000, stoppedAt: 5_100 });
  });

  it('of a container without stopAfter never ends on SIGTERM', () => {
    expect(killedOf({ containers: { main: {} } }, { stopAfter: 1_000 })).toEqual({ killedAt: 5_000, stoppedAt: 5_100 });
  });

  it('with terminatingFor changes nothing for a pod that is not being deleted', () => {
    expect(killedOf({ stopAfter: 1_000, terminatingFor: '10s' }, {})).toEqual({
      killedAt: undefined,
      stoppedAt: 1_000,
    });
  });
});
