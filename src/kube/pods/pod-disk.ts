import type { DiskWalk, WalkedDirectory } from '../../core/pod/disk-walk.ts';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { DiskWalker, WalkedDisk } from '../../host/disk/disk-walk.ts';
import type { BoundPod } from '../../ports.ts';
import { isPodUid } from './cgroup-paths.ts';
import type { LivePod } from './live-pods.ts';
import { shortId } from './pod-containers.ts';

/** What a container has written into its root file system; null: the runtime does not report it. */
type Layer = { readonly bytes: number | null; readonly inodes: number | null };
export type Layers = ReadonlyMap<string, Layer>;
type PodDiskNeeds = {
  readonly walker: Pick<DiskWalker, 'walk'>;
  /** The kubelet's root directory, without a slash at its end. */
  readonly kubeletRoot: string;
  readonly podLogsDir: string;
  /** The layers of all running containers, by id, as reported by the runtime; never rejects. */
  readonly layers: () => Promise<Reading<Layers>>;
};

/** A namespace, a pod or a container (beside-a-kubelet.md H1). */
const DNS_NAME = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;
const PLUGIN = 'kubernetes.io~';
/** kubelet-eviction.md 5.8: what counts besides emptyDirs. Secrets, projected volumes and claims do not. */
const OTHER_VOLUMES = ['configmap', 'git-repo'];
/** A walk takes 64 directories; further ones are counted with the directory that contains them. */
const MAX_EACH = 30;

type Places = {
  readonly logs: string | null;
  /** The containers' directories below `logs`. */
  readonly logsOf: ReadonlyMap<string, string>;
  readonly emptyDirs: string;
  /** The emptyDirs' directories below `emptyDirs`. */
  readonly emptyDirOf: ReadonlyMap<string, string>;
  readonly others: readonly string[];
};
const NO_LAYERS = unknown('not-asked', 'writable layers', 'the runtime has not answered yet');

/**
 * A pod's disk usage (D10), counted as in the kubelet: its containers' logs, emptyDirs on a disk and other local volumes, and
 * the writable layers. An emptyDir on a file system of its own is memory: its size limit applies, but it is not disk usage.
 * Without the layers, the figures mean "at least". Its hosts file is not counted.
 */
export function createKubePodDisk({ walker, kubeletRoot, podLogsDir, layers }: PodDiskNeeds) {
  function placesOf({ declared, containers }: LivePod): Places | null {
    const { uid, namespace, name } = declared;
    if (!isPodUid(uid)) return null;
    const isNamed = DNS_NAME.test(namespace) && DNS_NAME.test(name);
    const logs = isNamed ? `${podLogsDir}/${namespace}_${name}_${uid}` : null;
    const running = containers.flatMap((container) => (container.name === null ? [] : [container.name]));
    const volumes = `${kubeletRoot}/pods/${uid}/volumes`;
    const emptyDirs = `${volumes}/${PLUGIN}empty-dir`;
    return {
      logs,
      logsOf: new Map(logs === null ? [] : inside(logs, running)),
      emptyDirs,
      emptyDirOf: new Map(
        inside(
          emptyDirs,
          declared.volumes.map((volume) => volume.name),
        ),
      ),
      others: OTHER_VOLUMES.map((kind) => `${volumes}/${PLUGIN}${kind}`),
    };
  }

  return async (pod: LivePod, soFar: Parameters<BoundPod['disk']>[0]): ReturnType<BoundPod['disk']> => {
    const places = placesOf(pod);
    if (places === null) return unknown('malformed', `disk of ${pod.declared.name}`, 'its uid names no directory');
    const { logs, logsOf, emptyDirs, emptyDirOf, others } = places;
    const paths = [...(logs === null ? [] : [logs]), emptyDirs, ...others, ...logsOf.values(), ...emptyDirOf.values()];
    const [walked, layered] = await Promise.all([
      walker.walk(paths, (least) => soFar(diskOf(pod, places, least, NO_LAYERS))),
      layers(),
    ]);
    return walked.known ? known(diskOf(pod, places, walked.value, layered)) : walked;
  };
}

function inside(directory: string, names: readonly string[]): readonly (readonly [string, string])[] {
  const valid = [...new Set(names)].filter((name) => DNS_NAME.test(name));
  return valid.slice(0, MAX_EACH).map((name) => [name, `${directory}/${name}`] as const);
}

function diskOf(pod: LivePod, places: Places, walked: WalkedDisk, layered: Reading<Layers>): DiskWalk {
  const rows = new Map(walked.directories.map((row) => [row.path, row]));
  const rowsOf = (paths: Iterable<string>): readonly WalkedDirectory[] =>
    [...paths].flatMap((path) => rows.get(path) ?? []);
  const emptyDirs = rows.get(places.emptyDirs);
  const onDisk = rowsOf(places.emptyDirOf.values()).filter(({ device }) => device === emptyDirs?.device);
  const logs = [...rowsOf(places.logsOf.values()), ...inner(rows.get(places.logs ?? ''))];
  const volumes = [...onDisk, ...inner(emptyDirs), ...rowsOf(places.others).flatMap(inner)];
  const written = pod.containers.map(({ id }) => layerOf(id, layered));
  const rootfsBytes = written.map(({ bytes }) => bytes);
  const rootfsInodes = written.map(({ inodes }) => inodes);
  const areLayersKnown = [...rootfsBytes, ...rootfsInodes].every(({ known: isKnown }) => isKnown);
  const isWhole = walked.isComplete && places.logs !== null && areLayersKnown;
  return {
    pod: {
      logsBytes: total(logs, 'bytes'),
      logsInodes: total(logs, 'inodes'),
      volumesBytes: total(volumes, 'bytes'),
      volumesInodes: total(volumes, 'inodes'),
      rootfsBytes: knownSum(rootfsBytes),
      rootfsInodes: knownSum(rootfsInodes),
      ...(isWhole ? {} : { isAtLeast: true }),
    },
    containers: pod.containers.map(({ id, name }) => ({
      name: name ?? shortId(id),
      logsBytes: bytesAt(rows, places.logsOf.get(name ?? ''), `logs of ${name ?? id}`),
      rootfsBytes: layerOf(id, layered).bytes,
    })),
    volumes: pod.declared.volumes.map(({ name }) => ({
      name,
      usedBytes: bytesAt(rows, places.emptyDirOf.get(name), `volume ${name}`),
    })),
  };
}

/** The content of a directory, without the directory itself, which the kubelet does not count. */
function inner(row: WalkedDirectory | undefined): readonly WalkedDirectory[] {
  return row === undefined ? [] : [{ ...row, bytes: row.bytes - row.ownBytes, inodes: row.inodes - 1 }];
}

const total = (rows: readonly WalkedDirectory[], of: 'bytes' | 'inodes'): number =>
  rows.reduce((sum, row) => sum + row[of], 0);

/** The sum of the known parts: a lower bound. */
const knownSum = (readings: readonly Reading<number>[]): number =>
  readings.reduce((sum, reading) => sum + (reading.known ? reading.value : 0), 0);

function bytesAt(rows: ReadonlyMap<string, WalkedDirectory>, path: string | undefined, what: string): Reading<number> {
  const row = path === undefined ? undefined : rows.get(path);
  return row === undefined ? unknown('absent', path ?? what, 'it was not measured') : known(row.bytes);
}

function layerOf(id: string, layered: Reading<Layers>): { readonly [of in keyof Layer]: Reading<number> } {
  if (!layered.known) return { bytes: layered, inodes: layered };
  const layer = layered.value.get(id) ?? { bytes: null, inodes: null };
  const orUnknown = (count: number | null): Reading<number> =>
    count === null ? unknown('absent', `writable layer of ${id}`, 'the runtime does not say') : known(count);
  return { bytes: orUnknown(layer.bytes), inodes: orUnknown(layer.inodes) };
}
