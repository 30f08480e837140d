import { describe, expect, it } from 'vitest';
import { toCoreConfig } from '../../src/config/core-config.ts';
import { effective } from './a-config.ts';

function core(text: string) {
  return toCoreConfig(effective(text), 4);
}

describe('toCoreConfig', () => {
  it('gives the core exactly what it knows, including defaults', () => {
    const { thresholds, ...rest } = core('');
    expect(rest).toEqual({
      pressureTransitionMs: 300_000,
      maxPodGraceSeconds: 0,
      pace: { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: 4 },
      guard: { kills: 3, windowMs: 600_000 },
      localStorageLimits: 'enforce',
      isLive: true,
      reclaimSignals: [],
      reclaimMs: {},
      phases: [],
      shutdownCancel: 'promptly',
      shutdownCarryOver: false,
    });
    expect(thresholds.map(({ id }) => id)).toEqual([
      'memory.available/evictionHard',
      'nodefs.available/evictionHard',
      'nodefs.inodesFree/evictionHard',
      'imagefs.available/evictionHard',
      'imagefs.inodesFree/evictionHard',
      'allocatableMemory.available/evictionHard/twin',
    ]);
    expect(thresholds[0]).toEqual({
      id: 'memory.available/evictionHard',
      signal: 'memory.available',
      value: { kind: 'quantity', amount: { nanos: '104857600000000000', format: 'binary', text: '100Mi' } },
      graceMs: 0,
      minReclaim: null,
    });
  });

  it('copies every memory threshold without grace for the cgroup of all pods, even beside an explicit one', () => {
    const text = [
      'evictionHard: {memory.available: 100Mi, allocatableMemory.available: 50Mi}',
      'evictionSoft: {memory.available: 1Gi}',
      'evictionSoftGracePeriod: {memory.available: 0s}',
    ].join('\n');
    expect(core(text).thresholds.map(({ id }) => id)).toEqual([
      'memory.available/evictionHard',
      'allocatableMemory.available/evictionHard',
      'memory.available/evictionSoft',
      'allocatableMemory.available/evictionHard/twin',
      'allocatableMemory.available/evictionSoft/twin',
    ]);
    expect(core(`enforceNodeAllocatable: [none]\n${text}`).thresholds).toHaveLength(3);
  });

  it('applies a minimum reclaim to the hard and the soft threshold of its signal, and to the twin', () => {
    const text = [
      'evictionHard: {memory.available: 100Mi}',
      'evictionSoft: {memory.available: 1Gi, pid.available: 10%}',
      'evictionSoftGracePeriod: {memory.available: 1m, pid.available: 1m}',
      'evictionMinimumReclaim: {memory.available: 150%}',
    ].join('\n');
    const reclaims = core(text).thresholds.map(({ id, minReclaim }) => [id, minReclaim]);
    const half = { kind: 'fraction', fraction: 1.5 };
    expect(reclaims).toEqual([
      ['memory.available/evictionHard', half],
      ['memory.available/evictionSoft', half],
      ['pid.available/evictionSoft', null],
      ['allocatableMemory.available/evictionHard/twin', half],
    ]);
  });

  it('lists each signal with a reclaim command once, and the time of all its commands', () => {
    const command = (signal: string) => `{signal: ${signal}, command: [/bin/true], timeout: 20m}`;
    const text = `reclaimCommands: [${['nodefs.available', 'nodefs.available', 'imagefs.available'].map(command).join()}]`;
    expect(core(text)).toMatchObject({
      reclaimSignals: ['nodefs.available', 'imagefs.available'],
      reclaimMs: { 'nodefs.available': 2_400_000, 'imagefs.available': 1_200_000 },
    });
  });

  it('has a runtime that can free disk space only in mode kubelet', () => {
    expect(core('')).not.toHaveProperty('hasRuntime');
    expect(core('mode: kubelet\nkubernetes: {kubeconfig: /k}').hasRuntime).toBe(true);
  });

  it('switches the loop guard and the local limits off', () => {
    const off = core('guard: {sameOwnerKills: 0}\nlocalStorageCapacityIsolation: false');
    expect([off.guard, off.localStorageLimits]).toEqual([null, 'off']);
  });

  it('builds shutdown phases from the two durations, each rounded down, and from the list, sorted', () => {
    expect(core('shutdownGracePeriod: 30.9s\nshutdownGracePeriodCriticalPods: 10.5s').phases).toEqual([
      { fromPriority: 0, periodSeconds: 20 },
      { fromPriority: 2_000_000_000, periodSeconds: 10 },
    ]);
    const list =
      'shutdownGracePeriodByPodPriority: [{priority: 9, shutdownGracePeriodSeconds: 1}, {priority: -1, shutdownGracePeriodSeconds: 2}]';
    expect(core(list).phases).toEqual([
      { fromPriority: -1, periodSeconds: 2 },
      { fromPriority: 9, periodSeconds: 1 },
    ]);
  });
});
