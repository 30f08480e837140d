import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sayProblem } from '../../src/document/problem.ts';
import { type Manifest, parseManifest } from '../../src/standalone/manifests/manifest.ts';

const problemsOf = (text: string): readonly string[] => parseManifest(text, 'm.yaml').problems.map(sayProblem);
function only({ pods, problems }: Manifest) {
  expect(problems.map(sayProblem)).toEqual([]);
  const [pod] = pods;
  if (pod === undefined) throw new Error('no pod');
  return pod;
}
const pod = (annotations: string, spec = 'containers: [{ name: a }]', name = 'web'): string =>
  `apiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, annotations: ${annotations} }\nspec: { ${spec} }\n`;
const CGROUP = '{ nodewarden.dev/cgroup: a/b }';

describe('a manifest', () => {
  it('with few fields gets every default of the API', () => {
    expect(only(parseManifest(pod(CGROUP), 'm.yaml'))).toMatchObject({
      target: { kind: 'cgroup', path: '/a/b' },
      disk: [],
      scratch: [],
      afterEviction: 'restart',
      declared: {
        uid: expect.stringMatching(/^[0-9a-f-]{36}$/),
        namespace: 'default',
        name: 'web',
        qos: 'BestEffort',
        priority: 0,
        requests: { memoryBytes: 0, ephemeralStorageBytes: 0 },
        podLevelMemoryRequest: null,
        ephemeralStorageLimit: null,
        containers: [{ name: 'a', kind: 'app' }],
        tolerations: [],
        terminationGraceSeconds: 30,
        isStaticCritical: false,
        isProtected: false,
        isTerminating: false,
        ownerKey: null,
      },
    });
  });

  it('declares a grace period only if one is written, even one of the default length', () => {
    const of = (more: string) =>
      only(parseManifest(pod(CGROUP, `containers: [{ name: a }]${more}`), 'm.yaml')).declared;
    expect(of('')).toMatchObject({ terminationGraceSeconds: 30, isGraceDefault: true });
    expect(of(', terminationGracePeriodSeconds: null')).toMatchObject({ isGraceDefault: true });
    expect(of(', terminationGracePeriodSeconds: 30').isGraceDefault).toBeUndefined();
  });

  it.each([
    ['requests: {memory: 300m}', 'requests.memory: 300m is 0.3 bytes (m is a thousandth); was Mi or Gi meant?'],
    ['limits: {memory: .5}', 'limits.memory: 0.5 is 0.5 bytes; was Mi or Gi meant?'],
    ['requests: {memory: 300}', 'requests.memory: 300 is 300 bytes; was Mi or Gi meant?'],
    ['requests: {memory: 300k, cpu: 300m, ephemeral-storage: 1Ki}', null],
    ['requests: {memory: 0}', null],
  ])('is valid with %s, which may be doubtful', (resources, said) => {
    const { doubts } = only(
      parseManifest(pod(CGROUP, `containers: [{ name: a, resources: {${resources}} }]`), 'm.yaml'),
    );
    expect(doubts.map(sayProblem)).toEqual(
      said === null ? [] : [expect.stringMatching(/^m\.yaml:4:\d+: spec\.containers\[0\]\.resources\./)],
    );
    if (said !== null) expect(doubts.map(sayProblem).join()).toContain(said);
  });

  it('may be a List, a PodList or several documents', () => {
    const item = (name: string): string =>
      `{ kind: Pod, metadata: { name: ${name}, annotations: { nodewarden.dev/cgroup: ${name} } }, spec: { containers: [{ name: a }] } }`;
    const text = `---\napiVersion: v1\nkind: List\nitems: [${item('one')}, ${item('two')}]\n---\napiVersion: v1\nkind: PodList\nitems: [${item('three').replace('kind: Pod,', '')}]\n---\n${pod(CGROUP)}`;
    const { pods, problems } = parseManifest(text, 'm.yaml');
    expect(problems).toEqual([]);
    expect(pods.map(({ declared }) => declared.name)).toEqual(['one', 'two', 'three', 'web']);
  });

  it('knows two priority classes, and requires a number for every other', () => {
    const of = (spec: string) => parseManifest(pod(CGROUP, `containers: [{ name: a }], ${spec}`), 'm.yaml');
    expect(only(of('priorityClassName: system-node-critical')).declared).toMatchObject({
      priority: 2_000_001_000,
      isStaticCritical: true,
    });
    expect(only(of('priorityClassName: high, priority: 7')).declared.priority).toBe(7);
    expect(of('priorityClassName: high').problems).toMatchObject([{ path: 'spec.priorityClassName' }]);
  });

  it('may contain all other fields of a Pod', () => {
    only(parseManifest(pod(CGROUP, 'containers: [{ name: a, image: x, env: [] }], hostNetwork: true'), 'm.yaml'));
  });

  it('reports all mistakes in one pass, each with its position', () => {
    const text = `apiVersion: v1
kind: Pod
metadata:
  name: Web_1
  annotations:
    nodewarden.dev/systemd-units: web.service
    nodewarden.dev/cgroup: ../x
    nodewarden.dev/protect: yes
spec:
  priority: 1.5
  containers:
  - name: a
    resources: { requests: { memory: 64Mib } }
---
apiVersion: v1
kind: Deployment
`;
    expect(problemsOf(text)).toEqual([
      'm.yaml:4:9: metadata.name: must be a DNS name: at most 253 of a-z, 0-9, - and .; for example "web"',
      'm.yaml:6:5: metadata.annotations["nodewarden.dev/systemd-units"]: unknown annotation; did you mean nodewarden.dev/systemd-unit?',
      'm.yaml:7:28: metadata.annotations["nodewarden.dev/cgroup"]: must not contain . or ..: "../x"',
      'm.yaml:8:29: metadata.annotations["nodewarden.dev/protect"]: expected text, not the boolean true; for example "true"',
      'm.yaml:10:13: spec.priority: expected a whole number, not the number 1.5; for example 1000',
      'm.yaml:13:38: spec.containers[0].resources.requests.memory: not an amount; for example "64Mi"',
      'm.yaml:16:7: kind: must be Pod, or List with items',
    ]);
  });

  it.each([
    ['binds the pod to nothing', '{}'],
    ['exactly one binding is allowed', '{ nodewarden.dev/cgroup: a, nodewarden.dev/podman: b }'],
    ['not the full name of a systemd unit', '{ nodewarden.dev/systemd-unit: web }'],
    ['only services, slices and scopes', '{ nodewarden.dev/systemd-unit: web.socket }'],
    ['a template', '{ nodewarden.dev/systemd-unit: web@.service }'],
    ['not the full name of a systemd unit', '{ nodewarden.dev/systemd-unit: "../x.service" }'],
    ['the node itself cannot be a pod', '{ nodewarden.dev/cgroup: / }'],
    ['not the name or id of a Podman', '{ nodewarden.dev/podman: --all }'],
    ['must be absolute paths', '{ nodewarden.dev/cgroup: a, nodewarden.dev/disk: "/srv,var/log" }'],
    ['must not contain ..', '{ nodewarden.dev/cgroup: a, nodewarden.dev/disk: /srv/../etc }'],
    ['must be "true" or "false"', '{ nodewarden.dev/cgroup: a, nodewarden.dev/protect: "1" }'],
    ['must be none, or some of memory, disk, pids', '{ nodewarden.dev/cgroup: a, nodewarden.dev/evict-for: swap }'],
    ['separated by commas, not "memory disk"', '{ nodewarden.dev/cgroup: a, nodewarden.dev/evict-for: memory disk }'],
    ['not "none,pids"', '{ nodewarden.dev/cgroup: a, nodewarden.dev/evict-for: "none,pids" }'],
    ['not ""', '{ nodewarden.dev/cgroup: a, nodewarden.dev/evict-for: "" }'],
    ['is restarted', '{ nodewarden.dev/cgroup: a, nodewarden.dev/after-eviction: stay }'],
    ['must be restart or stay', '{ nodewarden.dev/systemd-unit: a.service, nodewarden.dev/after-eviction: no-more }'],
  ])('is refused because it %s', (expected, annotations) => {
    expect(problemsOf(pod(annotations))).toEqual([expect.stringContaining(expected)]);
  });

  it.each([
    [
      'must not be more than the limit',
      'containers: [{ name: a, resources: { requests: { memory: 2 }, limits: { memory: 1 } } }]',
    ],
    ['must not be negative', 'containers: [{ name: a, resources: { requests: { memory: -1 } } }]'],
    ['another container is also called a', 'containers: [{ name: a }, { name: a }]'],
    ['must have at least 1 entry', 'containers: []'],
    ['must be at least 0', 'containers: [{ name: a }], terminationGracePeriodSeconds: -1'],
  ])('is refused if the API server would refuse it: %s', (expected, spec) => {
    expect(problemsOf(pod(CGROUP, spec))).toEqual([expect.stringContaining(expected)]);
  });

  it.each([
    ['memory', ['memory']],
    ['" pids , memory"', ['memory', 'pids']],
    ['none', []],
    ['" none "', []],
  ])('with evict-for %s may be evicted for %j', (value, evictFor) => {
    const { pods, problems } = parseManifest(
      pod(`{ nodewarden.dev/cgroup: a, nodewarden.dev/evict-for: ${value} }`),
      'm',
    );
    expect(problems).toEqual([]);
    expect(pods[0]?.declared.evictFor).toEqual(evictFor);
  });

  it('has each name once', () => {
    expect(problemsOf(`${pod(CGROUP)}---\n${pod('{ nodewarden.dev/cgroup: c }')}`)).toEqual([
      expect.stringMatching(/^m\.yaml:8:62: .*another pod of this file also has the name default\/web$/),
    ]);
  });

  it('passes if it is one of the examples', () => {
    const names = readdirSync('config/pods.d');
    const found = names.map((name) => parseManifest(readFileSync(`config/pods.d/${name}`, 'utf8'), name));
    expect(found.flatMap(({ problems }) => problems.map(sayProblem))).toEqual([]);
    expect(found.flatMap(({ pods }) => pods.map(({ target }) => target.kind)).sort()).toEqual([
      'cgroup',
      'cgroup',
      'podman',
      'unit',
    ]);
  });
});
