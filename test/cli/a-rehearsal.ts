import { type RehearseInput, rehearseReport } from '../../src/cli/rehearse-report.ts';
import { known } from '../../src/core/reading.ts';
import type { RehearseReport } from '../../src/serve/rehearsal.ts';
import { aConfig, aPod } from '../a.ts';

export const CRITICAL = 2_000_000_000;
const phases = [
  { fromPriority: 0, periodSeconds: 20 },
  { fromPriority: CRITICAL, periodSeconds: 10 },
];
export const config = aConfig([], { phases });
export const web = aPod({ name: 'web', namespace: 'shop' });
export const ARMED = { kind: 'armed', neededMs: 30_000, grantedMs: 35_000, provenAgoMs: 0 } as const;
export const NEVER = { stops: 1, endedMs: null };
export const ended = (endedMs: number) => ({ stops: 1, endedMs, unfinishedMs: null });

export type Given = Partial<Pick<RehearseInput, 'config' | 'pods'>> & {
  /** By the pod's name. */
  readonly observed?: {
    readonly [name: string]: { stops: number; endedMs: number | null; unfinishedMs: number | null };
  };
  /** By the pod's name; systemd's default is 90 s. */
  readonly timeouts?: { readonly [name: string]: number };
  /** By the pod's name; none and `control-group`. */
  readonly stops?: {
    readonly [name: string]: { readonly commands?: number; readonly killMode?: string; readonly unit?: string };
  };
  readonly status?: Partial<RehearseInput['status']>;
  readonly findings?: RehearseInput['findings'];
};

/** A rehearsal of shop/web alone, armed, with phases of 20 s and 10 s, unless something else is given. */
export function rehearsed({
  pods = [web],
  observed = {},
  timeouts = {},
  stops = {},
  status,
  ...rest
}: Given): RehearseReport {
  return rehearseReport({
    node: { name: 'node-1', dryRun: false },
    atWallMs: 1_700_000_000_000,
    config,
    pods,
    findings: [],
    status: { lock: ARMED, stopTimeoutMs: 90_000, secondTier: true, running: null, ...status },
    observed: new Map(Object.entries(observed).map(([name, stops]) => [`uid-${name}`, stops])),
    timeouts: {
      units: new Map(
        Object.entries(timeouts).map(([name, ms]) => [
          `uid-${name}`,
          {
            unit: stops[name]?.unit ?? `${name}.service`,
            timeoutMs: known(ms),
            stopCommands: stops[name]?.commands ?? 0,
            killMode: stops[name]?.killMode ?? 'control-group',
          },
        ]),
      ),
      defaultMs: known(90_000),
      problems: [],
    },
    ...rest,
  });
}
