import type { Observation } from '../core/observation.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Procfs } from '../host/procfs.ts';

export type NodePressure = { readonly read: (atMs: MonoMs) => Observation['psi'] };

/** The kernel's shortest average is over 10 s. */
const PACE_MS = 1_000;

/** Stall times of the machine. Recorded and shown, never acted on. */
export function createNodePressure({ psi }: Procfs): NodePressure {
  let last: { readonly atMs: MonoMs; readonly psi: Observation['psi'] } | null = null;
  return {
    read: (atMs) => {
      if (last === null || atMs - last.atMs >= PACE_MS) {
        last = { atMs, psi: { memory: psi('memory'), io: psi('io'), cpu: psi('cpu') } };
      }
      return last.psi;
    },
  };
}
