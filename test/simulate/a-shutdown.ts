import { expect } from 'vitest';
import { parseJsonDocument } from '../../src/document/json.ts';
import type { ShutdownResult } from '../../src/simulate/shutdown/result.ts';
import { runShutdown } from '../../src/simulate/shutdown/run.ts';
import { readShutdownScenario } from '../../src/simulate/shutdown/scenario.ts';

type Json = { readonly [key: string]: unknown };
type APod = {
  readonly priority?: number;
  /** Its own grace; 30 where absent. */
  readonly grace?: number;
  readonly metadata?: Json;
  readonly spec?: Json;
  readonly containers?: readonly Json[];
  readonly phase?: string;
  /** Its entry in `behaviour`. */
  readonly does?: Json;
};
export type AShutdown = {
  readonly config?: Json;
  /** By name, all in the namespace default. */
  readonly pods?: { readonly [name: string]: APod };
  readonly rest?: Json;
};

/** Priority 0: 20 s, from 2,000,000,000 on: 10 s (kubelet-shutdown.md section 13). */
export const THIRTY_TEN = { shutdownGracePeriod: '30s', shutdownGracePeriodCriticalPods: '10s' };

export function byPriority(periods: readonly (readonly [number, number])[]): Json {
  const list = periods.map(([priority, seconds]) => ({ priority, shutdownGracePeriodSeconds: seconds }));
  return { shutdownGracePeriodByPodPriority: list };
}

/** A scenario document; every pod has one container, main. */
export function aShutdown({ config = THIRTY_TEN, pods = {}, rest = {} }: AShutdown): Json {
  const names = Object.entries(pods);
  return {
    apiVersion: 'nodewarden.dev/v1alpha1',
    kind: 'ShutdownScenario',
    metadata: { name: 'test' },
    config,
    pods: names.map(([name, { priority, grace = 30, metadata, spec, containers = [{ name: 'main' }], phase }]) => ({
      metadata: { name, ...metadata },
      spec: {
        terminationGracePeriodSeconds: grace,
        containers,
        ...(priority === undefined ? {} : { priority }),
        ...spec,
      },
      status: { phase: phase ?? 'Running' },
    })),
    behaviour: Object.fromEntries(names.map(([name, { does = {} }]) => [`default/${name}`, does])),
    ...rest,
  };
}

export function read(document: Json) {
  const [yaml] = parseJsonDocument(JSON.stringify(document), 'test.json').documents;
  if (yaml === undefined) throw new Error('not a document');
  return readShutdownScenario(yaml);
}

export function run(document: Json) {
  const { scenario, problems } = read(document);
  expect(problems).toEqual([]);
  if (scenario === null) throw new Error('a scenario without problems was not read');
  return { scenario, ...runShutdown(scenario) };
}

/** `priority start-end endedBy, still running`, one for each phase. */
export function phasesOf({ phases = [] }: ShutdownResult): readonly string[] {
  return phases.map(({ priority, start, end, endedBy, stillRunning = [], volumesPending = [] }) => {
    const running = stillRunning.length === 0 ? '' : `, running ${stillRunning.join(' ')}`;
    const volumes = volumesPending.length === 0 ? '' : `, volumes ${volumesPending.join(' ')}`;
    return `${priority} ${start}-${end} ${endedBy}${running}${volumes}`.replaceAll('default/', '');
  });
}
