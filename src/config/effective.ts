import type { StallSettings } from '../core/eviction/stall.ts';
import { isSignal } from '../core/signal.ts';
import { parseDuration } from '../core/units/duration.ts';
import { parseQuantity, type Quantity } from '../core/units/quantity.ts';
import { type ConfiguredThreshold, type Eviction, stallThreshold } from './eviction.ts';
import type { Fields } from './field.ts';
import { type HostSizes, withMargin } from './margin.ts';
import type { KubeletValues, NodewardenValues } from './schema.ts';
import { parseListen } from './section-rules.ts';
import { settingsOf } from './setting.ts';
import { phasesOf, type ShutdownPeriods } from './shutdown.ts';

/** The checked parts, to be combined. */
type Checked = {
  readonly file: string | null;
  readonly kind: 'NodewardenConfiguration' | 'KubeletConfiguration';
  readonly fields: Fields;
  /** The agent's own values with their defaults; a KubeletConfiguration has only the kubelet's. */
  readonly own: NodewardenValues;
  readonly imported: KubeletValues | null;
  readonly eviction: Eviction;
  readonly shutdown: ShutdownPeriods;
  readonly ignoredFields: readonly string[];
};

type SharedField = keyof KubeletValues & keyof NodewardenValues;

/** Everything that product.md section 3 configures, checked, with all defaults filled in. */
export type Effective = ReturnType<typeof effectiveOf>;

/** Texts were checked before, so one that does not parse is a broken invariant. */
export function effectiveOf(checked: Checked, sizes: HostSizes | null) {
  const { file, kind, fields, own, imported, shutdown } = checked;
  const shared = <K extends SharedField>(name: K): (NodewardenValues | KubeletValues)[K] => {
    const isImported = imported !== null && fields.get(name)?.source.kind !== 'file';
    return isImported ? imported[name] : own[name];
  };
  const mode = kind === 'KubeletConfiguration' ? 'kubelet' : own.mode;
  const values = {
    /** null = no file was named, and none exists at the default path. */
    file,
    kind,
    /** Path of the imported KubeletConfiguration, to be watched; null = none. */
    kubeletConfig: own.kubeletConfig ?? null,
    /** Fields of a KubeletConfiguration that this agent does not use, named once at debug level. */
    ignoredFields: checked.ignoredFields,
    mode,
    dryRun: own.dryRun,
    podManifests: own.podManifests,
    thresholds: thresholdsOf(checked, sizes, shared('imageGCHighThresholdPercent')),
    minReclaims: checked.eviction.minReclaims,
    mergeDefaultEvictionSettings: shared('mergeDefaultEvictionSettings'),
    // 0 stands for the default, as in the kubelet's file (kubelet-eviction.md 2.1).
    pressureTransitionMs: msOf(shared('evictionPressureTransitionPeriod')) || 300_000,
    maxPodGraceSeconds: shared('evictionMaxPodGracePeriod'),
    localStorageCapacityIsolation: shared('localStorageCapacityIsolation'),
    imageMinimumGCAgeMs: msOf(shared('imageMinimumGCAge')) || 120_000,
    imageGCHighThresholdPercent: shared('imageGCHighThresholdPercent'),
    enforceNodeAllocatable: shared('enforceNodeAllocatable'),
    systemReserved: reservedOf(shared('systemReserved')),
    kubeReserved: reservedOf(shared('kubeReserved')),
    cgroupRoot: shared('cgroupRoot') || '/',
    /** Mode kubelet: what creates the cgroups of pods, as far as neither the runtime nor the disk says. */
    cgroupDriver: shared('cgroupDriver'),
    podLogsDir: shared('podLogsDir'),
    containerRuntimeEndpoint: shared('containerRuntimeEndpoint'),
    shutdown: {
      ...shutdown,
      /** Ascending by priority; empty = off (kubelet-shutdown.md 1.2 to 1.4). */
      phases: phasesOf(shutdown),
      carryOver: own.shutdownCarryOver,
      cancelPolicy: own.shutdownCancelPolicy,
      secondTier: own.shutdownSecondTier,
      /** The kubelet's configuration enables its own graceful shutdown. */
      isKubelets:
        imported !== null &&
        (msOf(imported.shutdownGracePeriod) > 0 || imported.shutdownGracePeriodByPodPriority.length > 0),
    },
    ...ownSectionsOf(own, mode),
  } as const;
  return {
    ...values,
    /** Every field with its origin, in the order of the reference. */
    settings: settingsOf(values, own, shared, checked),
  };
}

/** In mode kubelet, every hard threshold from the kubelet's file or defaults gets the margin. */
function thresholdsOf(
  { kind, imported, eviction, fields, own }: Checked,
  sizes: HostSizes | null,
  imageGcHighPercent: number,
): readonly ConfiguredThreshold[] {
  const isOwn =
    imported === null ? kind !== 'KubeletConfiguration' : fields.get('evictionHard')?.source.kind === 'file';
  const thresholds =
    isOwn || sizes === null
      ? eviction.thresholds
      : eviction.thresholds.map((threshold) => withMargin(threshold, imageGcHighPercent, sizes));
  const full = own.evictionStall?.memory.full;
  const stall = full === undefined ? [] : [stallThreshold(full, fields.originOf(['evictionStall']))];
  return [...thresholds, ...stall];
}

function ownSectionsOf(own: NodewardenValues, mode: NodewardenValues['mode']) {
  const { monitoringInterval, guard, preKill, notify } = own;
  return {
    nodefsPath: own.nodefs.path ?? (mode === 'kubelet' ? '/var/lib/kubelet' : '/var'),
    /** null = none of its own: from CRI in mode kubelet, not applicable in standalone. */
    imagefsPath: own.imagefs.path ?? null,
    containerfsPath: own.containerfs.path ?? null,
    memoryAvailable: own.memoryAvailable,
    /** null = off, as the next ones. */
    evictionStall: stallOf(own.evictionStall),
    oomScoreAdj: own.oomScoreAdj,
    monitoringInterval: {
      minMs: msOf(monitoringInterval.min),
      maxMs: msOf(monitoringInterval.max),
      cpuShare: shareOf(monitoringInterval.cpu),
    },
    reclaimCommands: own.reclaimCommands.flatMap(({ signal, command, timeout }) =>
      isSignal(signal) ? [{ signal, command, timeoutMs: msOf(timeout) }] : [],
    ),
    preKill: preKill === undefined ? null : { command: preKill.command, timeoutMs: msOf(preKill.timeout) },
    notify: notify === undefined ? null : { command: notify.command, on: notify.on, timeoutMs: msOf(notify.timeout) },
    guard: guard.sameOwnerKills === 0 ? null : { sameOwnerKills: guard.sameOwnerKills, windowMs: msOf(guard.window) },
    http: httpOf(own.http),
    socket: own.socket,
    stateDirectory: own.stateDirectory,
    runtimeDirectory: own.runtimeDirectory,
    logLevel: own.log.level,
    kubernetes: own.kubernetes ?? null,
  } as const;
}

function stallOf(section: NodewardenValues['evictionStall']): StallSettings | null {
  if (section === undefined) return null;
  const { full, for: time, belowAvailable } = section.memory;
  return { fullShare: shareOf(full), forMs: msOf(time), belowShare: shareOf(belowAvailable) };
}

function shareOf(percent: string): number {
  return Number.parseFloat(percent) / 100;
}

function httpOf(http: NodewardenValues['http']) {
  const listen = http === undefined ? null : parseListen(http.listen);
  if (http === undefined || listen === null) return null;
  return { ...listen, allowRemote: http.allowRemote, hosts: http.hosts };
}

function reservedOf(texts: { readonly [resource: string]: string | undefined }): {
  readonly [resource: string]: Quantity;
} {
  return Object.fromEntries(
    Object.entries(texts).flatMap(([resource, text]) => (text === undefined ? [] : [[resource, quantityOf(text)]])),
  );
}

function quantityOf(text: string): Quantity {
  const parsed = parseQuantity(text);
  if (!parsed.ok) throw new Error(`a checked quantity does not parse: ${text}: ${parsed.text}`);
  return parsed.quantity;
}

/** Parses a duration that has already been checked. */
export function msOf(text: string): number {
  const parsed = parseDuration(text);
  if (!parsed.ok) throw new Error(`a checked duration does not parse: ${parsed.text}`);
  return parsed.duration.ms;
}
