import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { watchKubeletLock } from '../../src/daemon/beside-kubelet.ts';
import type { InhibitorStatus } from '../../src/ports.ts';
import { anObservation } from '../a.ts';
import { createVirtualClock } from '../virtual-node.ts';

const LOCK = { kind: 'armed', neededMs: 1, grantedMs: 1, provenMs: 0 } as const;
const STATUS: InhibitorStatus = {
  ...{ lock: LOCK, isPreparing: false, type: null, scheduled: null, isKubeletArmed: false },
};

describe("the kubelet's own shutdown lock", () => {
  const watched = (isConfigured: boolean) => {
    const clock = createVirtualClock(0);
    const raised = new Map<string, string>();
    const findings = {
      raise: ({ id, text }: { id: string; text: string }) => void raised.set(id, text),
      clear: (id: string) => void raised.delete(id),
    };
    const see = watchKubeletLock({ clock, findings, isConfigured: () => isConfigured });
    const pass = (ms: number) => clock.run(clock.monoMs() + ms, async () => undefined, new AbortController().signal);
    return { see, raised, pass };
  };
  const look = (rest = {}) => anObservation(0, {}, rest);

  it('is reported as missing if its configuration promises it, once it had time to take it', async () => {
    const { see, raised, pass } = watched(true);
    see(look(), STATUS);
    await pass(119_000);
    see(look(), STATUS);
    expect([...raised]).toEqual([]);
    await pass(1_000);
    see(look(), STATUS);
    expect(raised.get('kubelet-not-armed')).toContain('logind lists no lock of it');
    see(look(), { ...STATUS, isKubeletArmed: true });
    expect([...raised]).toEqual([]);
  });

  it.each([
    ['nobody promised it', false, STATUS],
    ['nobody knows', true, { ...STATUS, isKubeletArmed: null }],
  ])('is not reported as missing if %s', async (_, isConfigured, status) => {
    const { see, raised, pass } = watched(isConfigured);
    see(look(), status);
    await pass(600_000);
    see(look(), status);
    expect([...raised]).toEqual([]);
  });

  it('is reported as released too early while pods still run, until the shutdown is cancelled', () => {
    const { see, raised } = watched(true);
    const shutdownEvents = [{ kind: 'kubelet-released' }];
    see(look({ shutdownEvents, unconfirmed: known({ pods: [], volumes: [] }) }), STATUS);
    expect([...raised]).toEqual([]);
    see(look({ shutdownEvents, unconfirmed: known({ pods: ['shop/web (u)'], volumes: [] }) }), STATUS);
    expect(raised.get('kubelet-let-go')).toContain('shop/web');
    see(look(), { ...STATUS, isPreparing: true });
    expect([...raised.keys()]).toEqual(['kubelet-let-go']);
    see(look(), STATUS);
    expect([...raised]).toEqual([]);
  });
});
