import { describe, expect, it } from 'vitest';
import { parseDocuments } from '../../../src/document/document.ts';
import { parseJsonDocument } from '../../../src/document/json.ts';
import { sayProblem } from '../../../src/document/problem.ts';
import { readEvictionScenario } from '../../../src/simulate/eviction/scenario.ts';
import { GI, MI } from '../../a.ts';

const HEAD = `apiVersion: nodewarden.dev/v1alpha1
kind: EvictionScenario
metadata: {name: s}
`;
const STEPS = 'steps: [{at: 0}]\n';

function read(text: string) {
  const [document] = parseDocuments(HEAD + text, 's.yaml', 'ours').documents;
  if (document === undefined) throw new Error('no document');
  return readEvictionScenario(document);
}
const problemsOf = (text: string): readonly string[] => read(text).problems.map(sayProblem);
function good(text: string) {
  const { scenario, problems } = read(text);
  expect(problems.map(sayProblem)).toEqual([]);
  if (scenario === null) throw new Error('no scenario');
  return scenario;
}
function podOf(pod: string) {
  const [first] = good(`pods: [${pod}]\n${STEPS}`).pods;
  if (first === undefined) throw new Error('no pod');
  return first;
}
const withSummary = (summary: string): string => `steps: [{at: 0, summary: ${summary}}]\n`;

describe('an eviction scenario', () => {
  it('accepts any name for a pod and a container: in a scenario, they are only shown and compared', () => {
    const pod = podOf('{metadata: {name: Web_1, namespace: Team A}, spec: {containers: [{name: MAIN.x}]}}');
    expect(pod.declared).toMatchObject({ name: 'Web_1', namespace: 'Team A', containers: [{ name: 'MAIN.x' }] });
  });

  it('of one empty step has every default', () => {
    const scenario = good(STEPS);
    expect(scenario).toMatchObject({ name: 's', layout: 'nodefs-only', startWallMs: null, pods: [] });
    expect(scenario.steps).toEqual([
      {
        atMs: 0,
        stats: { kind: 'same' },
        pods: null,
        afterReclaim: null,
        memoryGrowth: null,
        killFails: [],
        reclaimFails: [],
        stopping: [],
        expect: null,
      },
    ]);
    expect(scenario.config).toMatchObject({
      pressureTransitionMs: 300_000,
      maxPodGraceSeconds: 0,
      guard: null,
      localStorageLimits: 'enforce',
    });
    expect(scenario.config.thresholds.map(({ id }) => id)).toEqual([
      'memory.available/evictionHard',
      'nodefs.available/evictionHard',
      'nodefs.inodesFree/evictionHard',
      'imagefs.available/evictionHard',
      'imagefs.inodesFree/evictionHard',
      'allocatableMemory.available/evictionHard/twin',
    ]);
  });

  it('reads the same from JSON and YAML', () => {
    const text = `{"apiVersion": "nodewarden.dev/v1alpha1", "kind": "EvictionScenario", "metadata": {"name": "s"},
      "steps": [{"at": "10s", "summary": {"node": {"memory": {"availableBytes": "1Gi"}}}},
                {"at": 9000}]}`;
    const [document] = parseJsonDocument(text, 'a.jsonl', 7).documents;
    if (document === undefined) throw new Error('no document');
    expect(readEvictionScenario(document).problems.map(sayProblem)).toEqual([
      'a.jsonl:9:24: steps[1].at: must be later than that of the step before',
    ]);
  });

  it('accepts milliseconds and durations, and requires steps in the order of time', () => {
    expect(good('steps: [{at: 0}, {at: 1500}, {at: 2s}]\n').steps.map(({ atMs }) => atMs)).toEqual([0, 1_500, 2_000]);
    expect(problemsOf('steps: [{at: 1s}, {at: 1000}, {at: soon}, {at: -1}]\n')).toEqual([
      's.yaml:4:24: steps[1].at: must be later than that of the step before',
      's.yaml:4:36: steps[2].at: expected whole milliseconds or a duration; for example 40000 or "40s"',
      's.yaml:4:48: steps[3].at: must not be before the start',
      's.yaml:4:48: steps[3].at: must be later than that of the step before',
    ]);
  });

  it('reports every unknown key of its own with the nearest valid one', () => {
    expect(
      problemsOf(
        'nodes: {}\nnode: {dedicatedImagefs: true}\nsteps: [{at: 0, sumary: {}, expect: {evict: [], oneOf: [{rankin: []}]}}]\n',
      ),
    ).toEqual([
      's.yaml:4:1: nodes: unknown key; did you mean node?',
      's.yaml:5:8: node.dedicatedImagefs: unknown key; did you mean dedicatedImageFs?',
      's.yaml:6:17: steps[0].sumary: unknown key; did you mean summary?',
      's.yaml:6:38: steps[0].expect.evict: unknown key; did you mean evicted?',
      's.yaml:6:58: steps[0].expect.oneOf[0].rankin: unknown key; did you mean ranking?',
    ]);
  });

  it('is refused without steps, with a summary and a patch, or split without a dedicated imagefs', () => {
    expect(problemsOf('')).toEqual(['s.yaml:1:1: steps: missing']);
    expect(problemsOf('steps: []\n')).toEqual(['s.yaml:4:8: steps: must have at least 1 entry']);
    expect(problemsOf('node: {splitImageFs: true}\nsteps: [{at: 0, summary: {}, summaryPatch: {}}]\n')).toEqual([
      's.yaml:4:22: node.splitImageFs: true needs dedicatedImageFs: true',
      's.yaml:5:30: steps[0].summaryPatch: cannot be combined with summary',
    ]);
  });

  it('finds one mistake more than the 20 that are reported', () => {
    const steps = Array.from({ length: 500 }, (_, i) => `- {at: ${i}, what: 1}`).join('\n');
    const problems = problemsOf(`steps:\n${steps}\n`);
    expect(problems).toHaveLength(21);
    expect(problems[19]).toMatch(/^s\.yaml:24:\d+: steps\[19\]\.what: unknown key/);
  });

  it('finds no more than that in a configuration, and nothing that the YAML parser reported', () => {
    const signals = Array.from({ length: 30 }, (_, i) => `    nothing.like.it${i}: 1Gi`).join('\n');
    expect(problemsOf(`config:\n  evictionHard:\n${signals}\n${STEPS}`)).toHaveLength(21);
    expect(problemsOf('steps: [{at: 0, killFails: yes, statsFail: no}]\n')).toEqual([]);
  });

  it('derives its layout from the two keys of its node', () => {
    expect(good(`node: {dedicatedImageFs: true}\n${STEPS}`).layout).toBe('imagefs-separate');
    expect(good(`node: {dedicatedImageFs: true, splitImageFs: true}\n${STEPS}`).layout).toBe('containerfs-separate');
  });

  it('says what a step does besides its stats', () => {
    const [first, second] = good(`steps:
- {at: 0, statsFail: true, summary: {node: {}}, killFails: true, afterReclaim: {node: {fs: null}}}
- {at: 1, pods: [], killFails: [a/b], reclaimFails: [images], afterReclaimFails: true, summaryPatch: {pods: []}}
`).steps;
    expect(first).toMatchObject({
      stats: { kind: 'failed', kept: { kind: 'whole', summary: { node: {} } } },
      killFails: 'all',
      afterReclaim: { kind: 'patch', patch: { node: { fs: null } } },
    });
    expect(second).toMatchObject({
      stats: { kind: 'patch' },
      pods: [],
      killFails: ['a/b'],
      reclaimFails: ['images'],
      afterReclaim: { kind: 'fails' },
    });
  });
});

describe('the configuration of a scenario', () => {
  it('has the names, the defaults and the errors of the kubelet, each at its place', () => {
    expect(
      problemsOf(`config:
  evictionHard: {memory.availabel: 500Mi, nodefs.available: 110%}
  evictionSoft: {memory.available: 1Gi}
  evictionMaxPodGracePeriod: long
${STEPS}`),
    ).toEqual([
      's.yaml:5:18: config.evictionHard["memory.availabel"]: unknown signal; did you mean memory.available?',
      's.yaml:5:61: config.evictionHard["nodefs.available"]: eviction percentage threshold nodefs.available must be <= 100%: 110%',
      's.yaml:6:36: config.evictionSoft["memory.available"]: grace period must be specified for the soft eviction threshold memory.available; add it to evictionSoftGracePeriod, for example "1m30s"',
      's.yaml:7:30: config.evictionMaxPodGracePeriod: expected a number, not "long"; for example 60',
    ]);
  });

  it('ignores other fields of a KubeletConfiguration, and treats null as absent', () => {
    const { config } = good(`config:
  apiVersion: something/else
  kind: KubeletConfiguration
  cgroupRoot: [not, read]
  evictionHard: null
  evictionPressureTransitionPeriod: 0s
  clusterDNS: [10.0.0.10]
${STEPS}`);
    expect(config.thresholds).toHaveLength(6);
    expect(config.pressureTransitionMs).toBe(300_000);
  });

  it('has a loop guard only if it says so', () => {
    expect(good(`config: {guard: {}}\n${STEPS}`).config.guard).toEqual({ kills: 3, windowMs: 600_000 });
    expect(good(`config: {guard: {sameOwnerKills: 2, window: 1m}}\n${STEPS}`).config.guard).toEqual({
      kills: 2,
      windowMs: 60_000,
    });
    expect(good(`config: {guard: {sameOwnerKills: 0}}\n${STEPS}`).config.guard).toBeNull();
    expect(problemsOf(`config: {guard: {sameOwnerKill: 2}}\n${STEPS}`)).toEqual([
      's.yaml:4:18: config.guard.sameOwnerKill: unknown field; did you mean sameOwnerKills?',
    ]);
  });

  it('copies memory thresholds without grace only if pods are enforced', () => {
    const ids = (config: string) => good(`config: ${config}\n${STEPS}`).config.thresholds.map(({ id }) => id);
    expect(ids('{evictionHard: {memory.available: 1Gi}, enforceNodeAllocatable: [none]}')).toEqual([
      'memory.available/evictionHard',
    ]);
    expect(
      ids('{evictionHard: {}, evictionSoft: {memory.available: 1Gi}, evictionSoftGracePeriod: {memory.available: 0s}}'),
    ).toEqual(['memory.available/evictionSoft', 'allocatableMemory.available/evictionSoft/twin']);
  });
});

describe('the stats of a scenario', () => {
  it.each(['0', '9007199254740991', '2Gi', '1536Mi', '10k', '0.5Ki', '1e3', '"7"'])('accept %s', (number) => {
    good(withSummary(`{node: {memory: {availableBytes: ${number}}}}`));
  });

  it.each([
    ['-1', 'must not be negative, it is -1'],
    ['"-1Gi"', 'must not be negative, it is -1073741824'],
    ['1.5', 'must be a whole number, it is 1.5'],
    ['500m', 'must be a whole number, it is 0.5'],
    ['8Pi', 'must be at most 2^53 - 1, it is 9007199254740992'],
    ['.inf', 'must be at most 2^53 - 1, it is Infinity'],
    ['many', 'not an amount'],
    ['true', 'expected a number or a quantity'],
    ['[1]', 'expected a number or a quantity'],
  ])('do not accept %s for bytes', (number, said) => {
    const problems = problemsOf(withSummary(`{node: {memory: {availableBytes: ${number}}}}`));
    expect(problems).toEqual([
      expect.stringContaining(`s.yaml:4:59: steps[0].summary.node.memory.availableBytes: ${said}`),
    ]);
  });

  it('report a wrong number in a list of pods by its path', () => {
    const entry = (rest: string) => withSummary(`{pods: [{podRef: {name: a}}, ${rest}]}`);
    expect(problemsOf(entry('{podRef: {name: b}, containers: [{name: c, logs: {usedBytes: -4}}]}'))).toEqual([
      expect.stringContaining('steps[0].summary.pods[1].containers[0].logs.usedBytes: must not be negative, it is -4'),
    ]);
    expect(problemsOf(entry('{}'))).toEqual([expect.stringContaining('pods[1].podRef: missing')]);
    expect(problemsOf(entry('{podRef: {}}'))).toEqual([expect.stringContaining('podRef: must have a name or a uid')]);
    expect(problemsOf(entry('{podRef: {uid: u}, volume: [{usedBytes: 1}]}'))).toEqual([
      expect.stringContaining('pods[1].volume[0].name: missing'),
    ]);
  });

  it('are checked in patches, too, where null removes', () => {
    good('steps: [{at: 0, summaryPatch: {node: {memory: null, fs: {inodes: null}}, pods: null}}]\n');
    expect(
      problemsOf('steps: [{at: 0, summaryPatch: {node: {fs: {inodes: -1}}}, afterReclaim: {node: 4}}]\n').map((said) =>
        said.replace(/^\S+ /, ''),
      ),
    ).toEqual([
      'steps[0].summaryPatch.node.fs.inodes: must not be negative, it is -1; for example 1073741824 or "1Gi"',
      'steps[0].afterReclaim.node: expected a mapping, not the number 4',
    ]);
  });

  it.each([
    ['20000', '10000'],
    ['5', '0'],
  ])('refuse a stall of %s ms in a window of %s ms', (stalledMs, windowMs) => {
    const summary = `{node: {memoryStall: {stalledMs: ${stalledMs}, windowMs: ${windowMs}}}}`;
    expect(problemsOf(`steps: [{at: 0, summary: ${summary}}]\n`)).toEqual([
      expect.stringContaining(`stalledMs: must be a part of windowMs, it is ${stalledMs} of ${windowMs}`),
    ]);
  });

  it('need a start for absolute times, and report a wrong start once', () => {
    const summary = (time: string) => `steps: [{at: 0, summary: {node: {memory: {time: ${time}}}}}]\n`;
    for (const time of ['none', '-5', '-1m30s', '40000']) good(summary(time));
    expect(problemsOf(summary('"2026-01-31T10:00:00Z"'))).toEqual([
      expect.stringContaining('time: a time of day needs the key start, the time of day of at: 0'),
    ]);
    expect(problemsOf(summary('yesterday'))).toEqual([expect.stringContaining('or none')]);
    expect(good(`start: "2026-01-31T10:00:00+01:00"\n${summary('"2026-01-31T10:00:00Z"')}`).startWallMs).toBe(
      Date.UTC(2026, 0, 31, 9),
    );
    expect(problemsOf(`start: now\n${summary('"2026-01-31T10:00:00Z"')}`)).toEqual([
      's.yaml:4:8: start: expected a time as RFC 3339 writes it, not "now"; for example "2026-01-31T10:00:00Z"',
    ]);
  });
});

describe('an expectation of a look', () => {
  it.each([
    '{thresholdsObserved: [memory.available/soft], conditions: [], reclaiming: null, ranking: [a/b, [c/d, e/f]]}',
    '{reclaiming: {signal: [nodefs.available, containerfs.available], soft: false, resource: ephemeral-storage}}',
    '{evicted: [{pod: a/b, signal: emptydirfs.limit, annotations: {starved_resource: memory}, killFailed: true}]}',
    '{oneOf: [{evicted: []}, {nodeReclaim: [containers, images]}]}',
  ])('may be %s', (text) => {
    expect(good(`steps: [{at: 0, expect: ${text}}]\n`).steps[0]?.expect).not.toBeNull();
  });

  it.each([
    ['{thresholdsMet: [memory.available]}', 'thresholdsMet[0]: must be one of'],
    ['{conditions: [MemoryPresure]}', 'did you mean MemoryPressure?'],
    ['{reclaiming: {signal: memory, soft: 0}}', 'reclaiming.soft: expected true or false, not the number 0'],
    ['{ranking: [a/b, [c, d/e]]}', 'ranking[1][0]: expected namespace/name'],
    ['{ranking: [[]]}', 'ranking[0]: must have at least 1 entry'],
    ['{evicted: [{signal: memory.available}]}', 'evicted[0].pod: missing'],
    ['{evicted: [{pod: a/b, gracePeriodSeconds: 1.5}]}', 'gracePeriodSeconds: expected a whole number'],
    ['{evicted: null}', 'evicted: expected a list, not empty'],
    ['{oneOf: []}', 'oneOf: must have at least 1 entry'],
    ['{oneOf: [{oneOf: []}]}', 'oneOf[0].oneOf: unknown key'],
  ])('is refused as %s', (text, said) => {
    expect(problemsOf(`steps: [{at: 0, expect: ${text}}]\n`).join('\n')).toContain(said);
  });
});

describe('a pod of a scenario', () => {
  it('may have everything that the API returns', () => {
    const { declared, ref } = podOf(`{
      apiVersion: v1, kind: Pod,
      metadata: {name: web, namespace: prod, uid: 1-2, creationTimestamp: "2026-01-31T10:00:00Z", labels: {a: b},
        managedFields: [{manager: kubelet}], annotations: null, generateName: web-,
        ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: rs-1, controller: true, blockOwnerDeletion: true}]},
      spec: {nodeName: n, tolerations: null, initContainers: null, overhead: null, resources: null, priority: null, containers: [
        {name: app, image: x, env: [{name: A}], resizePolicy: [{resourceName: cpu}],
         resources: {requests: {memory: 1Gi, cpu: null}, limits: null, claims: [{name: gpu}]}}]},
      status: {phase: Running, resize: Proposed, containerStatuses: [{name: app, allocatedResources: {memory: 1Gi}, resources: {}}]}}`);
    expect(ref).toBe('prod/web');
    expect(declared).toMatchObject({
      uid: '1-2',
      requests: { memoryBytes: GI },
      startedAtWallMs: Date.UTC(2026, 0, 31, 10),
      ownerKey: 'rs-1',
      isDaemonSet: false,
      isStaticCritical: false,
      terminationGraceSeconds: 30,
    });
  });

  it('has the defaults of the API: requests from limits, pod-level requests, a grace period', () => {
    const { declared } = podOf(`{metadata: {name: a}, spec: {
      resources: {limits: {memory: 1Gi}},
      containers: [{name: a, resources: {limits: {memory: 256Mi}}}],
      initContainers: [{name: s, restartPolicy: Always, resources: {requests: {memory: 64Mi}}}]}}`);
    expect(declared.requests.memoryBytes).toBe(320 * MI);
    expect(declared.containers.map(({ name, kind }) => `${name} ${kind}`)).toEqual(['a app', 's sidecar']);
  });

  it.each([
    ['annotations: {kubernetes.io/config.mirror: x}', true],
    ['annotations: {kubernetes.io/config.source: file}', true],
    ['annotations: {kubernetes.io/config.source: api}', false],
    ['labels: {}', false],
  ])('with %s is static: %s', (metadata, isStaticCritical) => {
    const { declared } = podOf(`{metadata: {name: a, ${metadata}}, spec: {containers: [{name: a}]}}`);
    expect(declared.isStaticCritical).toBe(isStaticCritical);
  });

  it('may be evicted for the resources that its own document names', () => {
    const of = (evictFor: string) =>
      podOf(
        `{metadata: {name: a, annotations: {nodewarden.dev/evict-for: "${evictFor}"}}, spec: {containers: [{name: a}]}}`,
      );
    expect(of('disk,memory').declared.evictFor).toEqual(['memory', 'disk']);
    expect(of('none').declared.evictFor).toEqual([]);
  });

  it('is protected and part of a DaemonSet by its own document', () => {
    const pod = podOf(`{metadata: {name: a, annotations: {nodewarden.dev/protect: "true"},
      ownerReferences: [{kind: DaemonSet, name: d, controller: true}]}, spec: {containers: [{name: a}]}}`);
    expect(pod.declared).toMatchObject({ isProtected: true, isDaemonSet: true, ownerKey: 'default/DaemonSet/d' });
    const other = podOf(`{metadata: {name: a, annotations: {nodewarden.dev/protect: "false"},
      ownerReferences: [{kind: ConfigMap, name: c, uid: u}]}, spec: {containers: [{name: a}]}}`);
    expect(other.declared).toMatchObject({ isProtected: false, isDaemonSet: false, ownerKey: null });
  });

  it("counts the volumes on the node's disk, and limits every emptyDir", () => {
    const { declared, localVolumes } = podOf(`{metadata: {name: a}, spec: {containers: [{name: a}], volumes: [
      {name: bare}, {name: dir, emptyDir: {sizeLimit: 1Gi}}, {name: ram, emptyDir: {medium: Memory, sizeLimit: 1Mi}},
      {name: host, hostPath: {path: /}}, {name: cm, configMap: {name: x}}, {name: git, gitRepo: {repository: x}},
      {name: secret, secret: {secretName: x}}, {name: pvc, persistentVolumeClaim: {claimName: x}}, {name: null-dir, emptyDir: null, secret: {}}]}}`);
    expect(localVolumes).toEqual(['bare', 'dir', 'host', 'cm', 'git']);
    expect(declared.volumes.map(({ name, sizeLimit }) => `${name} ${sizeLimit?.text}`)).toEqual([
      'bare undefined',
      'dir 1Gi',
      'ram 1Mi',
    ]);
  });

  it('is also read from a List and a PodList, and is no candidate once it has ended', () => {
    const item = (name: string, phase = 'Running') =>
      `{metadata: {name: ${name}}, spec: {containers: [{name: a}]}, status: {phase: ${phase}}}`;
    const items = `items: [${item('a')}, ${item('b', 'Succeeded')}, ${item('c', 'Failed')}, ${item('d', 'Pending')}]`;
    for (const kind of ['List', 'PodList']) {
      expect(good(`pods: {kind: ${kind}, ${items}}\n${STEPS}`).pods.map(({ ref }) => ref)).toEqual([
        'default/a',
        'default/d',
      ]);
    }
  });

  it('is refused at its position without name or containers, with a negative request, a duplicate uid or another kind', () => {
    const pods = (list: string) => problemsOf(`pods: [${list}]\n${STEPS}`).map((said) => said.replace(/^\S+ /, ''));
    const spec = 'spec: {containers: [{name: a}]}';
    expect(pods(`{metadata: {}, spec: {containers: []}}`)).toEqual([
      expect.stringContaining('pods[0].metadata.name: missing'),
      expect.stringContaining('pods[0].spec.containers: must have at least 1 entry'),
    ]);
    expect(
      pods('{metadata: {name: a}, spec: {containers: [{name: a, resources: {requests: {memory: -1Gi}}}]}}'),
    ).toEqual([
      'pods[0].spec.containers[0].resources.requests.memory: must not be negative, it is -1Gi; for example "64Mi"',
    ]);
    expect(pods(`{metadata: {name: a}, ${spec}}, {metadata: {name: a}, ${spec}}`)).toEqual([
      'pods[1].metadata.uid: another active pod, default/a, has it too',
    ]);
    expect(pods(`{metadata: {name: a}, ${spec}}, {metadata: {name: a}, ${spec}, status: {phase: Failed}}`)).toEqual([]);
    expect(pods('{kind: Service, metadata: {name: a}}')).toEqual(['pods[0].kind: must be Pod, not "Service"']);
    expect(pods('4')).toEqual(['pods[0]: expected a v1 Pod, not the number 4']);
    expect(problemsOf(`pods: {items: []}\n${STEPS}`)).toEqual([
      's.yaml:4:7: pods: expected a list of v1 Pods, or {kind: List, items: [...]}, not a mapping',
    ]);
  });
});
