import type { Decision } from '../../src/core/decision.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { known } from '../../src/core/reading.ts';
import type { State } from '../../src/core/state/state.ts';
import type { Verdict } from '../../src/core/verdict.ts';
import { createCounters } from '../../src/daemon/counters.ts';
import type { ShutdownContext } from '../../src/serve/shutdown-status.ts';
import type { StatusContext } from '../../src/serve/status.ts';
import { MI } from '../a.ts';

/** Nobody holds a lock or watches logind. */
export const NO_SHUTDOWN: ShutdownContext = {
  nowMs: 0,
  inhibitor: { lock: { kind: 'off' }, isPreparing: false, type: null, scheduled: null, isKubeletArmed: null },
  stopTimeoutMs: null,
  last: null,
  secondTier: false,
  isCancelIgnored: false,
};

export function aVerdict(state: State, rest: Partial<Verdict> = {}): Verdict {
  return { state, decisions: [], reasons: [], next: { afterMs: 2, pods: null }, intentWaitMs: 5, ...rest };
}

/** A standalone node named "node-1" that has observed since 1970 and decided nothing. */
export function aContext(rest: Partial<StatusContext> = {}): StatusContext {
  return {
    node: {
      name: 'node-1',
      version: '0.1.0',
      pid: 42,
      mode: 'standalone',
      dryRun: false,
      cgroupLayout: 'v2',
      cgroupRoot: '/',
      sinceWallMs: 1_700_000_000_000,
      observedForMs: 10_000,
    },
    memory: { counted: 'workingSet', workingSet: known(92 * MI), reclaimable: known(120 * MI) },
    counts: createCounters(1_700_000_000_000).now(),
    findings: [],
    recent: [],
    configFile: {
      path: '/etc/nodewarden/config.yaml',
      podManifests: '/etc/nodewarden/pods.d',
      loadedWallMs: 1_700_000_000_000,
      lastReload: null,
    },
    warnings: [],
    shutdown: NO_SHUTDOWN,
    ...rest,
  };
}

/** shop/web goes for memory, chosen over shop/db by its usage over request. */
export function anEviction(id: string, rest: { readonly podName?: string } = {}): Extract<Decision, { kind: 'evict' }> {
  const name = rest.podName ?? 'web';
  const limit = { nanos: `${100 * MI}000000000`, format: 'binary', text: '100Mi' } as const;
  return {
    id,
    atMs: 1_000,
    kind: 'evict',
    threshold: {
      id: 'memory.available/evictionHard',
      signal: 'memory.available',
      isHard: true,
      limit,
      target: limit,
      available: 92 * MI,
      sinceMs: 900,
    },
    victim: { uid: 'uid-web', namespace: 'shop', name, qos: 'Burstable', priority: 0 },
    ranking: [
      {
        uid: 'uid-web',
        values: [
          { by: 'over-request', value: known(true) },
          { by: 'priority', value: known(0) },
          { by: 'usage-over-request', value: known(300 * MI) },
          { by: 'name', value: known(`shop/${name}`) },
        ],
        decidedBy: 'usage-over-request',
      },
      {
        uid: 'uid-db',
        values: [
          { by: 'over-request', value: known(true) },
          { by: 'priority', value: known(0) },
          { by: 'usage-over-request', value: known(10 * MI) },
          { by: 'name', value: known('shop/db') },
        ],
        decidedBy: null,
      },
    ],
    graceSeconds: 1,
    message: 'The node was low on resource: memory. Threshold quantity: 100Mi, available: 92Mi. ',
    annotations: {},
    differences: ['D12'],
  };
}

export function ended(of: string): Outcome {
  return { of, atMs: 1_038, kind: 'ended', via: 'sigkill', releasedBytes: known(290 * MI) };
}
