import type { UnitFacts } from '../../host/systemd/unit-facts.ts';

/** What a binding refers to. */
export type Place = {
  /** Its path below the mount while it runs; whether it runs is seen from the cgroup itself. Null: unknown. */
  readonly path: string | null;
  /** What is stopped through systemd; null: its processes are signalled. */
  readonly unit: string | null;
  /** Only of a systemd-unit binding. */
  readonly facts: UnitFacts | null;
};
