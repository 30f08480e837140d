import { describe, expect, it } from 'vitest';
import { sayProblem } from '../../src/document/problem.ts';
import { parseManifest } from '../../src/standalone/manifests/manifest.ts';

type Parts = {
  readonly top?: string;
  readonly metadata?: string;
  readonly annotations?: string;
  readonly spec?: string;
};

function doubtsOf({ top = '', metadata = '', annotations = '', spec = 'containers: [{ name: a }]' }: Parts) {
  const text = `apiVersion: v1
kind: Pod
${top}
metadata:
  name: web
  ${metadata}
  annotations:
    nodewarden.dev/cgroup: web
    ${annotations}
spec: { ${spec} }
`;
  const { pods, problems } = parseManifest(text, 'm.yaml');
  expect(problems.map(sayProblem)).toEqual([]);
  return pods.flatMap(({ doubts }) => doubts.map(sayProblem));
}
const inContainer = (fields: string): Parts => ({ spec: `containers: [{ name: a, ${fields} }]` });
const beside = (fields: string): Parts => ({ spec: `containers: [{ name: a }], ${fields}` });

describe('a manifest with a name that nothing reads', () => {
  it.each<[string, Parts, string]>([
    [
      'a misspelt priority',
      beside('prioritty: 1000'),
      '10:36: spec.prioritty: unknown field, without effect; did you mean priority?',
    ],
    ['another case', beside('Priority: 1000'), 'spec.Priority: unknown field, without effect; did you mean priority?'],
    [
      'a misspelt grace period',
      beside('terminationGracePeriodSecond: 5'),
      'spec.terminationGracePeriodSecond: unknown field, without effect; did you mean terminationGracePeriodSeconds?',
    ],
    ['a field of something else', beside('replicas: 3'), 'spec.replicas: unknown field, without effect'],
    [
      'a priority in the metadata',
      { metadata: 'priority: 1000' },
      '6:3: metadata.priority: unknown field, without effect here; did you mean spec.priority?',
    ],
    [
      'annotations in the spec',
      beside('annotations: { nodewarden.dev/protect: "true" }'),
      'spec.annotations: unknown field, without effect here; did you mean metadata.annotations?',
    ],
    [
      'an annotation outside of them',
      { metadata: 'nodewarden.dev/protect: "true"' },
      'metadata["nodewarden.dev/protect"]: unknown field, without effect here; did you mean metadata.annotations?',
    ],
    [
      'a priority at the top',
      { top: 'priority: 1000' },
      'priority: unknown field, without effect here; did you mean spec.priority?',
    ],
    [
      'requests outside of resources',
      inContainer('requests: { memory: 200Mi }'),
      'spec.containers[0].requests: unknown field, without effect here; did you mean resources.requests?',
    ],
    [
      'misspelt resources',
      inContainer('resource: { requests: { memory: 200Mi } }'),
      'spec.containers[0].resource: unknown field, without effect; did you mean resources?',
    ],
    [
      'misspelt requests',
      inContainer('resources: { request: { memory: 200Mi } }'),
      'spec.containers[0].resources.request: unknown field, without effect; did you mean requests?',
    ],
    [
      'a request outside of requests',
      inContainer('resources: { memory: 200Mi }'),
      'spec.containers[0].resources.memory: unknown field, without effect here; did you mean resources.requests.memory?',
    ],
    [
      'a misspelt resource',
      inContainer('resources: { requests: { Memory: 200Mi } }'),
      'spec.containers[0].resources.requests.Memory: unknown resource, without effect; did you mean memory?',
    ],
    [
      'a resource that no pod has',
      inContainer('resources: { limits: { disk: 2Gi } }'),
      'spec.containers[0].resources.limits.disk: unknown resource, without effect; valid are cpu, memory, ephemeral-storage',
    ],
    ['a priority without a value', beside('priority: '), '10:36: spec.priority: empty, so it counts as absent'],
    [
      'a request without a value',
      inContainer('resources: { requests: { memory: } }'),
      'spec.containers[0].resources.requests.memory: empty, so it counts as absent',
    ],
    [
      'a label in place of an annotation',
      { metadata: 'labels: { nodewarden.dev/evict-for: none }' },
      'metadata.labels["nodewarden.dev/evict-for"]: a label has no effect; did you mean an annotation, in metadata.annotations?',
    ],
  ])('is valid, but doubtful: %s', (_, parts, said) => {
    expect(doubtsOf(parts)).toEqual([expect.stringMatching(/^m\.yaml:\d+:\d+: /)]);
    expect(doubtsOf(parts)[0]?.endsWith(said)).toBe(true);
  });

  it.each([
    ['Nodewarden.dev/evict-for', 'evict-for'],
    ['nodewarden/evict-for', 'evict-for'],
    ['nodewarden.io/protect', 'protect'],
    ['nodewaden.dev/protect', 'protect'],
    ['protect', 'protect'],
    ['evictFor', 'evict-for'],
  ])('is valid, but doubtful, with the annotation %s', (name, meant) => {
    const [doubt, ...others] = doubtsOf({ annotations: `${name}: "none"` });
    expect(doubt).toContain(`unknown annotation, without effect; did you mean nodewarden.dev/${meant}?`);
    expect(others).toEqual([]);
  });

  it('names the annotations there are if none is near', () => {
    expect(doubtsOf({ annotations: 'nodewarden.io/keep: "true"' })[0]).toContain(
      'valid are nodewarden.dev/systemd-unit, ',
    );
  });
});

describe('a manifest without a doubt', () => {
  it.each<[string, Parts]>([
    [
      'has fields of the API that are not read',
      {
        top: 'status: { phase: Running }',
        metadata: 'creationTimestamp: null\n  labels: { app: web, disk: ssd, example.com/protect: "true" }',
        annotations: 'example.com/protect: "true"\n    kubectl.kubernetes.io/restartedAt: now\n    owner: me',
        spec: `hostNetwork: true, dnsPolicy: Default, volumes: [{ name: v, emptyDir: {} }], nodeSelector: { a: b },
          topologySpreadConstraints: [], serviceAccountName: web, restartPolicy: Always, securityContext: { runAsUser: 1 },
          overhead: { memory: 64Mi }, resources: { limits: { memory: 4Gi } }, initContainers: [{ name: i, image: x }],
          containers: [{ name: a, image: x, env: [{ name: A, value: b }], ports: [{ containerPort: 80 }], args: [x],
            livenessProbe: { httpGet: { port: 80, nodewarden: x } }, volumeMounts: [], workingDir: /, stdin: true,
            resources: { claims: [], requests: { memory: 1Gi, cpu: 1, ephemeral-storage: 1Gi, hugepages-2Mi: 2Mi, nvidia.com/gpu: 1 } } }]`,
      },
    ],
    ['has none of them', {}],
  ])('%s', (_, parts) => {
    expect(doubtsOf(parts)).toEqual([]);
  });
});
