import type { PodUid } from '../core/pod/pod.ts';
import { type Reading, unknown, valueOrNull } from '../core/reading.ts';
import { openSystemBus, type SystemBus } from '../host/bus.ts';
import { createSystemd } from '../host/systemd.ts';
import type { Clock, Findings } from '../ports.ts';
import { createManifestFiles } from '../standalone/manifest-files.ts';

/** What systemd gives the stop of a unit; infinity: it never kills. */
export type UnitTimeout = {
  readonly unit: string;
  readonly timeoutMs: Reading<number>;
  /** The number of its ExecStop= commands; 0 if unknown. */
  readonly stopCommands: number;
  /** KillMode=; null: not known, or it has none. */
  readonly killMode: string | null;
};
export type StopTimeouts = {
  /** Of pods that are bound to a unit. */
  readonly units: ReadonlyMap<PodUid, UnitTimeout>;
  /** The default for units that set no timeout of their own. */
  readonly defaultMs: Reading<number>;
  /** Sentences about manifests that could not be read. */
  readonly problems: readonly string[];
};

const BUS_MS = 2_000;
const NOBODY_ASKED = unknown('not-asked', 'DefaultTimeoutStopUSec', 'no pod is bound to a unit');

/** Reads the manifests as the daemon does, and asks systemd about the units that they name. */
export async function stopTimeouts(podManifests: string, clock: Clock): Promise<StopTimeouts> {
  const problems: string[] = [];
  const findings: Findings = {
    raise: ({ text }) => void problems.push(text),
    clear: () => undefined,
    all: () => [],
  };
  const files = createManifestFiles({ podManifests, findings, clock });
  files.read();
  const bound = files
    .pods()
    .flatMap(({ declared: { uid }, target }) => (target.kind === 'unit' ? [{ uid, unit: target.unit }] : []));
  if (bound.length === 0) return { units: new Map(), defaultMs: NOBODY_ASKED, problems };
  const bus = openSystemBus(clock);
  try {
    await busUp(bus, clock);
    const systemd = createSystemd(bus);
    const defaultMs = await systemd.defaultStopTimeoutMs();
    const units = new Map<PodUid, UnitTimeout>();
    for (const { uid, unit } of bound) {
      const timeoutMs = await systemd.stopTimeoutMs(unit);
      const commands = unit.endsWith('.service') ? valueOrNull(await systemd.stopCommands(unit)) : 0;
      const killMode = unit.endsWith('.slice') ? null : valueOrNull(await systemd.killMode(unit));
      units.set(uid, { unit, timeoutMs, stopCommands: commands ?? 0, killMode });
    }
    return { units, defaultMs, problems };
  } finally {
    bus.close();
  }
}

/** Or until it has had enough time: after that, every call reports why the bus is away. */
function busUp(bus: SystemBus, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    if (bus.state() === 'up') return resolve();
    const cancel = clock.after(BUS_MS, resolve);
    bus.whenUp(() => {
      cancel();
      resolve();
    });
  });
}
