import type { PodUid } from '../core/pod/pod.ts';
import { type Reading, unknown, valueOrNull } from '../core/reading.ts';
import { directoryHangs } from '../host/disk/hung-disk.ts';
import { busUp, openSystemBus } from '../host/systemd/bus.ts';
import { createSystemd } from '../host/systemd/systemd.ts';
import type { Clock, Findings } from '../ports.ts';
import { createManifestFiles } from '../standalone/manifests/manifest-files.ts';
import { type UnitTimeout, unitTimeout } from '../standalone/stop/stop-timeouts.ts';

export type StopTimeouts = {
  /** The timeouts of pods that are bound to a unit. */
  readonly units: ReadonlyMap<PodUid, UnitTimeout>;
  /** The default for units that set no timeout of their own. */
  readonly defaultMs: Reading<number>;
  /** Sentences about manifests that could not be read. */
  readonly problems: readonly string[];
};

const NOBODY_ASKED = unknown('not-asked', 'DefaultTimeoutStopUSec', 'no pod is bound to a unit');

/** Beside a kubelet, no pod is a unit, and no manifest is read. */
export const NO_UNITS: StopTimeouts = { units: new Map(), defaultMs: NOBODY_ASKED, problems: [] };

/** Reads the manifests as the daemon does, and queries systemd about the units that they name. */
export async function stopTimeouts(podManifests: string, clock: Clock): Promise<StopTimeouts> {
  const hangs = await directoryHangs(podManifests);
  if (hangs !== null) return { ...NO_UNITS, problems: [`${podManifests}: ${hangs.detail}`] };
  const problems: string[] = [];
  const findings: Findings = {
    raise: ({ text }) => void problems.push(text),
    clear: () => undefined,
    all: () => [],
  };
  const files = createManifestFiles({ podManifests, findings, clock });
  await files.read();
  const bound = (valueOrNull(files.pods()) ?? []).flatMap(({ declared: { uid }, target }) =>
    target.kind === 'unit' ? [{ uid, unit: target.unit }] : [],
  );
  if (bound.length === 0) return { ...NO_UNITS, problems };
  const bus = openSystemBus(clock);
  try {
    const systemd = createSystemd(bus);
    await busUp(systemd, clock);
    const defaultMs = await systemd.defaultStopTimeoutMs();
    const units = new Map<PodUid, UnitTimeout>();
    for (const { uid, unit } of bound) units.set(uid, await unitTimeout(systemd, unit));
    return { units, defaultMs, problems };
  } finally {
    bus.close();
  }
}
