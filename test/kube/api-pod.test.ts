import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import { apiPodOf } from '../../src/kube/api/api-pod.ts';
import { readableOf } from '../../src/kube/pods/readable-pod.ts';
import { aV1Pod, type Json, NODE } from './pod-store.ts';

const MI = 2 ** 20;
const NAMESPACES = new Set(['kube-system']);

function read(value: unknown): ApiPod {
  const pod = apiPodOf(value, NAMESPACES);
  if (!pod.known) throw new Error(pod.detail);
  return pod.value;
}
const problem = (value: unknown): string => {
  const pod = apiPodOf(value, NAMESPACES);
  return pod.known ? '' : pod.detail;
};

describe('a pod of the API', () => {
  it.each([
    ['The node was low on resource: memory. ', true],
    ['Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ', true],
    ['Pod The node had condition: [MemoryPressure]. ', false],
    ['Pod was rejected: The node had condition: [DiskPressure]. ', false],
  ])('was evicted by the kubelet, or only refused: %s', (message, isEvictedByKubelet) => {
    const pod = read(aV1Pod({ name: 'web-1', status: { phase: 'Failed', reason: 'Evicted', message } }));
    expect(pod.isEvictedByKubelet).toBe(isEvictedByKubelet);
  });

  it.each([
    ['TerminationByKubelet', 'True', Date.parse('2026-01-31T11:00:00Z')],
    ['EvictionByEvictionAPI', 'True', undefined],
    ['TerminationByKubelet', 'False', undefined],
  ])('was evicted by the kubelet when its condition %s became %s', (reason, is, evictedWallMs) => {
    const told = { type: 'DisruptionTarget', status: is, reason, lastTransitionTime: '2026-01-31T11:00:00Z' };
    const status = { phase: 'Failed', reason: 'Evicted', message: 'low', conditions: [told] };
    expect(read(aV1Pod({ name: 'web-1', status })).evictedWallMs).toBe(evictedWallMs);
  });

  it.each([
    ['EvictionByNodewarden', 'True', true],
    ['TerminationByNodewarden', 'True', true],
    ['EvictionByNodewarden', 'False', false],
    ['TerminationByKubelet', 'True', false],
  ])('is marked by this agent if its condition %s is %s', (reason, is, isMarked) => {
    const told = { type: 'DisruptionTarget', status: is, reason, lastTransitionTime: '2026-01-31T11:00:00Z' };
    const pod = read(aV1Pod({ name: 'web-1', status: { phase: 'Running', conditions: [told] } }));
    const sinceWallMs = Date.parse('2026-01-31T11:00:00Z');
    expect(pod.marked).toEqual(isMarked ? { reason, sinceWallMs } : undefined);
  });

  it('is read with what an eviction needs, and nothing secret', () => {
    const pod = read(
      aV1Pod({
        name: 'web-1',
        uid: '0f8fad5b-d9cb-469f-a165-70867728950e',
        metadata: {
          ownerReferences: [
            { kind: 'ReplicaSet', name: 'web', uid: 'rs-uid', controller: true },
            { kind: 'ConfigMap', name: 'x', uid: 'y' },
          ],
        },
        spec: {
          priority: 100,
          priorityClassName: 'system-node-critical',
          terminationGracePeriodSeconds: 60,
          restartPolicy: 'OnFailure',
          containers: [
            {
              name: 'main',
              env: [{ name: 'PASSWORD', value: 'secret-1' }],
              args: ['secret-2'],
              resources: { requests: { memory: '64Mi', cpu: '100m' }, limits: { 'ephemeral-storage': '1Gi' } },
            },
          ],
          initContainers: [{ name: 'setup' }],
          volumes: [
            { name: 'cache', emptyDir: { sizeLimit: '10Mi' } },
            { name: 'keys', secret: { secretName: 'secret-3' } },
          ],
        },
        status: {
          containerStatuses: [{ name: 'main', containerID: `cri-o://${'b'.repeat(64)}` }],
          initContainerStatuses: [{ name: 'setup', containerID: '' }],
          ephemeralContainerStatuses: [{ name: 'debug', containerID: `containerd://${'c'.repeat(64)}` }],
        },
      }),
    );
    expect(pod).toMatchObject({
      declared: {
        uid: '0f8fad5b-d9cb-469f-a165-70867728950e',
        namespace: 'default',
        name: 'web-1',
        qos: 'Burstable',
        priority: 100,
        requests: { memoryBytes: 64 * MI, ephemeralStorageBytes: 1024 * MI },
        terminationGraceSeconds: 60,
        startedAtWallMs: Date.parse('2026-01-31T10:00:00Z'),
        ownerKey: 'rs-uid',
        volumes: [{ name: 'cache', sizeLimit: { nanos: String(10n * 2n ** 20n * 10n ** 9n) } }],
        isDaemonSet: false,
        isStaticCritical: false,
        isTerminating: false,
        limitedBy: null,
      },
      object: { namespace: 'default', name: 'web-1', uid: '0f8fad5b-d9cb-469f-a165-70867728950e' },
      phase: 'Running',
      isMirror: false,
      restartPolicy: 'OnFailure',
      owner: { kind: 'ReplicaSet', name: 'web', uid: 'rs-uid' },
      deletionWallMs: null,
      containers: [
        { name: 'main', id: 'b'.repeat(64) },
        { name: 'setup', id: null },
        { name: 'debug', id: 'c'.repeat(64) },
      ],
    });
    expect(JSON.stringify(pod)).not.toContain('secret');
  });

  it('includes what a shutdown has to know about it', () => {
    const traits = (spec: Json) => read(aV1Pod({ name: 'a', spec })).declared.traits;
    const main = { name: 'main' };
    expect(traits({ containers: [main] })).toBeUndefined();
    expect(traits({ containers: [{ ...main, ports: [{ containerPort: 80 }] }] })).toEqual(['serves-to-the-end']);
    const hook = { preStop: { exec: { command: ['sleep', '5'] } } };
    expect(traits({ containers: [{ ...main, readinessProbe: {}, lifecycle: hook }] })).toBeUndefined();
    const volumes = [
      { name: 'a', persistentVolumeClaim: { claimName: 'a' } },
      { name: 'b', hostPath: { path: '/var/lib/kubelet/plugins/csi.lab' } },
    ];
    expect(traits({ containers: [main], volumes })).toEqual(['uses-volumes', 'csi-plugin']);
  });

  it('that is static has the uid of the manifest, and writes name the object', () => {
    const hash = 'd41d8cd98f00b204e9800998ecf8427e';
    const annotations = { 'kubernetes.io/config.mirror': hash, 'kubernetes.io/config.hash': hash };
    const owner = { apiVersion: 'v1', kind: 'Node', name: NODE, uid: 'n', controller: true };
    const uid = '0f8fad5b-d9cb-469f-a165-70867728950e';
    const mirror = (metadata: Json) => aV1Pod({ name: 'etcd-node-1', namespace: 'kube-system', uid, metadata });
    expect(read(mirror({ annotations, ownerReferences: [owner] }))).toMatchObject({
      declared: { uid: hash, isStaticCritical: true },
      object: { uid },
      isMirror: true,
    });
    // Anybody may write the annotations, and an owner that is another node.
    for (const ownerReferences of [undefined, [], [{ ...owner, kind: 'Pod' }], [{ ...owner, name: 'node-2' }]]) {
      expect(read(mirror({ annotations, ownerReferences }))).toMatchObject({
        declared: { uid, isStaticCritical: false },
        isMirror: false,
      });
    }
    for (const bad of ['../../etc', '', 'A'.repeat(32), undefined]) {
      const forged = { ...annotations, 'kubernetes.io/config.hash': bad };
      expect(problem(mirror({ annotations: forged, ownerReferences: [owner] }))).not.toBe('');
    }
    const nameless = { ...owner, name: undefined };
    expect(
      read(aV1Pod({ name: 'x', metadata: { annotations, ownerReferences: [nameless] }, spec: { nodeName: undefined } }))
        .isMirror,
    ).toBe(false);
  });

  it('is critical by its priority alone, not by a name or an annotation', () => {
    const critical = (spec: Json, annotations: Json = {}) =>
      read(aV1Pod({ name: 'x', spec, metadata: { annotations } })).declared.isStaticCritical;
    expect(critical({ priority: 2_000_000_000 })).toBe(true);
    expect(critical({ priority: null, priorityClassName: 'system-node-critical' })).toBe(false);
    expect(critical({}, { 'kubernetes.io/config.source': 'file' })).toBe(false);
  });

  it('is protected only in namespaces that may protect', () => {
    const metadata = { annotations: { 'nodewarden.dev/protect': 'true' } };
    expect(read(aV1Pod({ name: 'x', metadata })).declared.isProtected).toBe(false);
    expect(read(aV1Pod({ name: 'x', namespace: 'kube-system', metadata })).declared.isProtected).toBe(true);
  });

  it('may be excluded from resources only in namespaces that may protect', () => {
    const of = (evictFor: string, namespace: string) =>
      read(aV1Pod({ name: 'x', namespace, metadata: { annotations: { 'nodewarden.dev/evict-for': evictFor } } }))
        .declared;
    expect(of('disk', 'default').evictFor).toBeUndefined();
    expect(of('disk', 'kube-system').evictFor).toEqual(['disk']);
    expect(of('none', 'kube-system').evictFor).toEqual([]);
    // Read wrongly it must spare nobody.
    expect(of('dsik', 'kube-system').evictFor).toBeUndefined();
  });

  it('is of a DaemonSet only if that controls it', () => {
    const owned = (controller: boolean) =>
      read(
        aV1Pod({ name: 'x', metadata: { ownerReferences: [{ kind: 'DaemonSet', name: 'd', uid: 'u', controller }] } }),
      );
    expect(owned(true).declared.isDaemonSet).toBe(true);
    expect(owned(false)).toMatchObject({ declared: { isDaemonSet: false }, owner: null });
  });

  it('is terminating from its deletion on, and its grace period ends when the API says', () => {
    const metadata = { deletionTimestamp: '2026-01-31T10:00:30Z', deletionGracePeriodSeconds: 30 };
    const pod = read(aV1Pod({ name: 'x', metadata }));
    expect(pod.declared.isTerminating).toBe(true);
    expect(pod.deletionWallMs).toBe(Date.parse('2026-01-31T10:00:30Z'));
  });

  it('has the QoS class from the API, or the one from its requests', () => {
    const qos = (qosClass: unknown) => read(aV1Pod({ name: 'x', status: { qosClass } })).declared.qos;
    expect(qos('Guaranteed')).toBe('Guaranteed');
    expect(qos(undefined)).toBe('Burstable');
    expect(qos('Royal')).toBe('Burstable');
  });

  it('requests during a resize what the kubelet has admitted', () => {
    const pod = read(
      aV1Pod({
        name: 'x',
        spec: {
          containers: [
            { name: 'main', resources: { requests: { memory: '4Gi' } } },
            { name: 'side', resources: { requests: { memory: '1Mi' } } },
          ],
        },
        status: { containerStatuses: [{ name: 'main', allocatedResources: { memory: '64Mi' } }, { name: 'side' }] },
      }),
    );
    expect(pod.declared.requests.memoryBytes).toBe(65 * MI);
  });

  it('is read however large it is, so that no pod is immune', () => {
    const many = Array.from({ length: 300 }, (_, i) => ({ name: `c-${i}` }));
    const tolerations = many.map(({ name }) => ({ key: name }));
    expect(read(aV1Pod({ name: 'x', spec: { containers: many, initContainers: many, tolerations } }))).toBeDefined();
    const grace = (seconds: number) =>
      read(aV1Pod({ name: 'x', spec: { terminationGracePeriodSeconds: seconds } })).declared.terminationGraceSeconds;
    expect([grace(9e18), grace(-1), grace(0)]).toEqual([2 ** 31 - 1, 1, 0]);
    const metadata = { deletionTimestamp: '2200-01-01T00:00:00Z', deletionGracePeriodSeconds: 9e18 };
    expect(read(aV1Pod({ name: 'x', metadata })).declared.isTerminating).toBe(true);
  });

  it.each([
    ['no object', 7],
    ['no metadata', {}],
    ['a uid that is a path', aV1Pod({ name: 'x', uid: '../../../etc/passwd-0000000000000' })],
    ['a uid that is too long', aV1Pod({ name: 'x', uid: 'a'.repeat(300) })],
    ['an invalid name', aV1Pod({ name: 'x\n<3>y' })],
    ['an invalid namespace', aV1Pod({ name: 'x', namespace: '..' })],
    ['an invalid container', aV1Pod({ name: 'x', spec: { containers: [{ name: 'a/b' }] } })],
    ['no container', aV1Pod({ name: 'x', spec: { containers: [] } })],
    [
      'an invalid amount',
      aV1Pod({ name: 'x', spec: { containers: [{ name: 'a', resources: { requests: { memory: 'lots' } } }] } }),
    ],
    ['a priority out of range', aV1Pod({ name: 'x', spec: { priority: 1e300 } })],
  ])('with %s is refused, with the reason on one line', (_, value) => {
    expect(problem(value)).toMatch(/^[^\n]+$/);
    expect(problem(value).length).toBeLessThanOrEqual(300);
  });

  it('has no container ids that cannot be ids', () => {
    const id = (containerID: unknown) =>
      read(aV1Pod({ name: 'x', status: { containerStatuses: [{ name: 'main', containerID }] } })).containers[0]?.id;
    expect(id(`containerd://${'a'.repeat(64)}`)).toBe('a'.repeat(64));
    for (const bad of ['containerd://../../x', 'a'.repeat(64), `containerd://${'a'.repeat(64)}/..`, null])
      expect(id(bad)).toBeNull();
  });

  it.each([
    ['that runs, whatever became of the run before', { running: {} }, { terminated: { exitCode: 1 } }, undefined],
    ['that has failed', { terminated: { exitCode: 1 } }, null, 'failed'],
    ['that has failed and waits to be started again', { waiting: {} }, { terminated: { exitCode: 137 } }, 'failed'],
    [
      'that has succeeded, after it had failed',
      { terminated: { exitCode: 0 } },
      { terminated: { exitCode: 1 } },
      'succeeded',
    ],
    ['whose exit code is not shown', { terminated: {} }, null, undefined],
    ['that has not started yet', { waiting: {} }, {}, undefined],
  ])('knows a container %s', (_, state, lastState, how) => {
    const pod = aV1Pod({ name: 'x', status: { containerStatuses: [{ name: 'main', state, lastState }] } });
    expect(read(pod).containers[0]?.ended).toBe(how);
  });

  it('is known by what its containers say of their restart themselves, also if the rest cannot be read', () => {
    const rules = [{ action: 'Restart', exitCodes: { operator: 'In', values: [42] } }];
    const spec = {
      restartPolicy: 'Never',
      containers: [
        { name: 'main' },
        { name: 'loop', restartPolicy: 'Always' },
        { name: 'rules', restartPolicy: 'Never', restartPolicyRules: rules },
      ],
      initContainers: [
        { name: 'sidecar', restartPolicy: 'Always' },
        { name: 'init', restartPolicyRules: rules },
      ],
    };
    const restarts = [
      { name: 'loop', policy: 'Always' },
      { name: 'rules', policy: 'Never', hasRules: true },
      { name: 'init', hasRules: true },
    ];
    const pod = aV1Pod({ name: 'x', spec });
    expect(read(pod)).toMatchObject({ restartPolicy: 'Never', restarts });
    const unreadable = { ...spec, overhead: { memory: 'x' } };
    expect(readableOf(aV1Pod({ name: 'x', spec: unreadable }), NAMESPACES, NODE).pod).toMatchObject({
      value: { restarts },
    });
    expect(read(aV1Pod({ name: 'x' })).restarts).toBeUndefined();
  });

  it('of any shape throws nothing', () => {
    const pod = aV1Pod({ name: 'x' });
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom('metadata', 'spec', 'status', 'all'), (value, part) => {
        const parsed: unknown = JSON.parse(JSON.stringify(value));
        apiPodOf(part === 'all' ? parsed : { ...pod, [part]: parsed }, NAMESPACES);
        if (part !== 'all' && typeof parsed === 'object' && parsed !== null) {
          const inner = pod[part];
          apiPodOf({ ...pod, [part]: { ...(inner as Json), ...parsed } }, NAMESPACES);
        }
      }),
    );
    const evil: unknown = JSON.parse('{"metadata":{"__proto__":{"uid":"x"},"name":"x"},"spec":{"__proto__":null}}');
    expect(apiPodOf(evil, NAMESPACES).known).toBe(false);
    expect(({} as Json)['uid']).toBeUndefined();
  });

  it.each([
    ['True', '2026-01-01T00:00:00Z', Date.UTC(2026, 0, 1)],
    ['True', undefined, 0],
    ['False', '2026-01-01T00:00:00Z', undefined],
  ])('Ready %s since %s', (ready, lastTransitionTime, sinceMs) => {
    const conditions = [{ type: 'Other', status: 'True' }, 7, { type: 'Ready', status: ready, lastTransitionTime }];
    expect(read(aV1Pod({ name: 'a', status: { conditions } })).readySinceWallMs).toBe(sinceMs);
  });
});
