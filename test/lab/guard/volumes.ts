// Volumes of a CSI driver of the lab: real PersistentVolumes, claims and VolumeAttachments, without anything behind them.
import { ask, type KubeObject, MERGE, watch } from '../kube/api.ts';

const DRIVER = 'lab.csi';
const ATTACHMENTS = '/apis/storage.k8s.io/v1/volumeattachments';
const VOLUMES = '/api/v1/persistentvolumes';
const CLAIMS = '/api/v1/namespaces/default/persistentvolumeclaims';

/** As the kubelet names it in `volumesInUse`. */
export const nameInUse = (volume: string): string => `kubernetes.io/csi/${DRIVER}^${volume}`;

export type Volumes = {
  readonly isAttached: (node: string, volume: string) => boolean;
  /** Of the node, whatever their status. */
  readonly attachedTo: (node: string) => readonly string[];
  readonly close: () => void;
};

/** The attacher of the driver: it confirms whatever Kubernetes wants to be attached. */
export function csiAttacher(): Volumes {
  const attachments = new Map<string, { readonly node: string; readonly volume: string; isAttached: boolean }>();
  const end = watch(ATTACHMENTS, (type, { metadata: { name }, spec, status }) => {
    if (type === 'DELETED') return void attachments.delete(name);
    const isAttached = status?.attached === true;
    attachments.set(name, { node: spec.nodeName, volume: spec.source.persistentVolumeName, isAttached });
    if (isAttached || spec.attacher !== DRIVER) return;
    const body = { status: { attached: true } };
    ask(`${ATTACHMENTS}/${name}/status`, { method: 'PATCH', type: MERGE, body }).catch(() => undefined);
  });
  const all = () => [...attachments.values()];
  return {
    isAttached: (node, volume) => all().some((one) => one.node === node && one.volume === volume && one.isAttached),
    attachedTo: (node) => all().flatMap((one) => (one.node === node ? [one.volume] : [])),
    close: end,
  };
}

const csi = (volumeHandle: string): object => ({ csi: { driver: DRIVER, volumeHandle } });

/** For the claim of that name. `source`: absent, of the driver. */
export async function aVolume(name: string, claim: string, source: object = csi(name)): Promise<void> {
  const spec = {
    capacity: { storage: '1Gi' },
    accessModes: ['ReadWriteOnce'],
    storageClassName: '',
    persistentVolumeReclaimPolicy: 'Retain',
    claimRef: { namespace: 'default', name: claim },
    ...source,
  };
  const volume = { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name }, spec };
  await ask(VOLUMES, { method: 'POST', body: volume });
}

/** The volumes that a pod has claimed; null: one is not bound yet. */
export async function volumesOf(pod: KubeObject): Promise<readonly string[] | null> {
  const names: string[] = [];
  for (const { persistentVolumeClaim } of pod['spec'].volumes ?? []) {
    if (persistentVolumeClaim === undefined) continue;
    const claim = await ask(`${CLAIMS}/${persistentVolumeClaim.claimName}`);
    const volume = claim['spec'].volumeName;
    if (typeof volume !== 'string' || claim['status'].phase !== 'Bound') return null;
    names.push(volume);
  }
  return names;
}

/** Nothing of an earlier scene is left. */
export async function cleanVolumes(): Promise<void> {
  for (const place of [ATTACHMENTS, CLAIMS, VOLUMES]) {
    for (const { metadata } of (await ask(place))['items']) {
      // The finalizers wait for what is not there any more.
      const body = { metadata: { finalizers: null } };
      await ask(`${place}/${metadata.name}`, { method: 'DELETE' }).catch(() => undefined);
      await ask(`${place}/${metadata.name}`, { method: 'PATCH', type: MERGE, body }).catch(() => undefined);
    }
  }
}
