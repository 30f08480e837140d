import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  containerIdOfName,
  isPodUid,
  podOfPath,
  QOS_CLASSES,
  qosPath,
  uidOfName,
} from '../../src/kube/pods/cgroup-paths.ts';
import { podPath } from './a-kubelet-tree.ts';

const UID = '12345678-9abc-4def-8123-456789abcdef';
const SLICED = '12345678_9abc_4def_8123_456789abcdef';
const STATIC = '0123456789abcdef0123456789abcdef';
const ID = 'a1'.repeat(32);
const DRIVERS = ['cgroupfs', 'systemd'] as const;

describe('the cgroup of a pod', () => {
  it.each([
    ['cgroupfs', '/', 'Guaranteed', UID, `/kubepods/pod${UID}`],
    ['cgroupfs', '/', 'Burstable', UID, `/kubepods/burstable/pod${UID}`],
    ['cgroupfs', '/', 'BestEffort', UID, `/kubepods/besteffort/pod${UID}`],
    ['cgroupfs', '/kubelet', 'Burstable', STATIC, `/kubelet/kubepods/burstable/pod${STATIC}`],
    ['systemd', '/', 'Guaranteed', UID, `/kubepods.slice/kubepods-pod${SLICED}.slice`],
    [
      'systemd',
      '/',
      'Burstable',
      UID,
      `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${SLICED}.slice`,
    ],
    [
      'systemd',
      '/',
      'BestEffort',
      STATIC,
      `/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod${STATIC}.slice`,
    ],
    [
      'systemd',
      '/kubelet/',
      'Burstable',
      UID,
      `/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod${SLICED}.slice`,
    ],
    [
      'systemd',
      '/foo-bar',
      'Guaranteed',
      UID,
      `/foo_bar.slice/foo_bar-kubepods.slice/foo_bar-kubepods-pod${SLICED}.slice`,
    ],
  ] as const)('with %s below %s of class %s and uid %s is %s', (driver, root, qos, uid, path) => {
    expect(podPath(driver, root, qos, uid)).toBe(path);
    expect(podOfPath(root, path)).toEqual({ driver, qos, uid, containerId: null });
  });

  it.each(['', '..', `../${STATIC}`, `${UID}/x`, 'a'.repeat(300), `${STATIC}\0`, UID.toUpperCase(), `${UID}\n`])(
    'has no uid such as %j',
    (uid) => {
      expect(isPodUid(uid)).toBe(false);
    },
  );

  it.each([
    ['cgroupfs', `pod${SLICED}`],
    ['cgroupfs', `pod${UID}.slice`],
    ['cgroupfs', 'burstable'],
    ['cgroupfs', 'pod..'],
    ['systemd', `kubepods-pod${UID}.slice`],
    ['systemd', `kubepods-burstable-pod${SLICED}.slice`],
    ['systemd', 'kubepods-burstable.slice'],
    ['systemd', `kubepods-pod${SLICED}.scope`],
  ] as const)('with %s is not %s beside the classes', (driver, name) => {
    expect(uidOfName(driver, qosPath(driver, '/', 'Guaranteed'), name)).toBeNull();
  });

  it('can be read back from its path, whatever the root, and so can a container in it', () => {
    const part = fc.stringMatching(/^[a-z][a-z0-9-]{0,8}$/);
    const hex = fc.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    const uid = fc.oneof(hex, fc.stringMatching(/^[0-9a-f]{32}$/));
    fc.assert(
      fc.property(
        fc.constantFrom(...DRIVERS),
        fc.array(part, { maxLength: 3 }).map((parts) => `/${parts.join('/')}`),
        fc.constantFrom(...QOS_CLASSES),
        uid,
        (driver, root, qos, of) => {
          const path = podPath(driver, root, qos, of);
          expect(podOfPath(root, path)).toEqual({ driver, qos, uid: of, containerId: null });
          expect(podOfPath(root, `${path}/${ID}/init`)).toMatchObject({ uid: of, containerId: ID });
        },
      ),
    );
  });

  it('is found in no path that consists of other names', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(podOfPath('/', text)).toBeNull();
        expect(podOfPath('/', `/kubepods/burstable/pod${text}`)).toBeNull();
      }),
    );
    expect(podOfPath('/', `/kubepods/pod${UID}x`)).toBeNull();
    expect(podOfPath('/', '/system.slice/ssh.service')).toBeNull();
    expect(podOfPath('/other', `/kubepods/pod${UID}`)).toBeNull();
  });
});

describe('the cgroups of a real kubelet', () => {
  const [, ...paths] = readFileSync(new URL('captured/kubepods-cgroupfs.txt', import.meta.url), 'utf8')
    .trim()
    .split('\n');

  it('are classes, pods, and what is in pods, and nothing else', () => {
    const root = '/nodewarden-lab/kube-scenes';
    const classes = QOS_CLASSES.map((qos) => qosPath('cgroupfs', root, qos));
    for (const path of paths) {
      const of = podOfPath(root, path);
      expect(of === null, path).toBe(classes.includes(path));
      if (of === null) continue;
      const pod = podPath('cgroupfs', root, of.qos, of.uid);
      expect(path).toBe(of.containerId === null ? pod : `${pod}/${of.containerId}`);
    }
    expect(paths.filter((path) => podOfPath(root, path)?.containerId === null).length).toBeGreaterThan(1);
  });
});

describe('the cgroup of a container', () => {
  it.each([
    [ID, ID],
    [`cri-containerd-${ID}.scope`, ID],
    [`crio-${ID}.scope`, ID],
    [`docker-${ID}.scope`, ID],
    [`crio-${ID}`, ID],
    [`crio-conmon-${ID}.scope`, null],
    [`crio-conmon-${ID}`, null],
    [`${ID}.scope`, null],
    [`libpod-${ID}.scope`, null],
    [`cri-containerd-${ID.slice(1)}.scope`, null],
    [`x/${ID}`, null],
    [`${ID}\n`, null],
    ['', null],
  ])('named %j has the ID %s', (name, id) => {
    expect(containerIdOfName(name)).toBe(id);
  });
});
